//! An engine on a free port and a client for it.
#![allow(dead_code)]

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use pointsman_engine::{EngineHandle, EngineOptions, spawn};
use serde_json::Value;
use tokio::net::TcpListener;

pub(crate) struct Server {
    pub(crate) handle: EngineHandle,
    pub(crate) client: Client<HttpConnector, Full<Bytes>>,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// Payloads of the `data:` lines.
    pub(crate) fn data(&self) -> Vec<&str> {
        self.body.lines().filter_map(|l| l.strip_prefix("data: ")).collect()
    }

    pub(crate) fn cached(&self) -> u64 {
        self.json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect("details are on")
    }
}

/// Instant answers unless the test sets latencies.
pub(crate) fn options() -> EngineOptions {
    EngineOptions {
        model: "tiny".into(),
        profile: Some(pointsman_engine::StepModel::None),
        seed: Some(1),
        pod_name: None,
        pod_namespace: None,
        ..EngineOptions::default()
    }
}

pub(crate) async fn start(options: EngineOptions) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let handle = spawn(options, listener).expect("valid options");
    Server { handle, client: Client::builder(TokioExecutor::new()).build_http() }
}

impl Server {
    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.handle.addr()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(Bytes::from(body.to_owned()))).expect("a valid request")
    }

    pub(crate) async fn open(&self, path: &str, body: &str) -> Response<Incoming> {
        self.client.request(self.request(Method::POST, path, &[], body)).await.expect("an answer")
    }

    pub(crate) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let call = async {
            let response = self.client.request(self.request(method, path, headers, body)).await.expect("an answer");
            let (head, body) = response.into_parts();
            let body = body.collect().await.expect("a whole body").to_bytes();
            Answer { status: head.status, headers: head.headers, body: String::from_utf8(body.to_vec()).expect("text") }
        };
        tokio::time::timeout(Duration::from_secs(20), call).await.expect("an answer in time")
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.send(Method::POST, path, &[], body).await
    }

    /// Value of a series of the metrics page whose labels contain `part`.
    pub(crate) async fn metric(&self, name: &str, part: &str) -> f64 {
        let page = self.get("/metrics").await.body;
        page.lines()
            .find(|l| l.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')) && l.contains(part))
            .and_then(|l| l.rsplit(' ').next())
            .and_then(|v| v.parse().ok())
            .unwrap_or_else(|| panic!("{name} is not on the page"))
    }

    /// Waits until a gauge has a value.
    pub(crate) async fn until(&self, name: &str, value: f64) {
        for _ in 0..400 {
            if self.metric(name, "").await == value {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{name} never became {value}, it is {}", self.metric(name, "").await);
    }
}

/// A recorded exchange: path, request body, answer's head, answer's body.
pub(crate) fn recorded(name: &str) -> (String, String, String, String) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/fixtures/vllm/http");
    let read = |ext: &str| std::fs::read_to_string(format!("{folder}/{name}.{ext}")).expect("a fixture");
    let request = read("request");
    let (line, body) = request.split_once('\n').unwrap_or((&request, ""));
    let path = line.split(' ').nth(1).expect("METHOD PATH").trim().to_owned();
    let response = read("response").replace("\r\n", "\n");
    let (head, answer) = response.split_once("\n\n").expect("head and body");
    (path, body.trim().to_owned(), head.to_owned(), answer.to_owned())
}

/// JSON with its keys in order and its values reduced to their type.
pub(crate) fn skeleton(json: &str) -> String {
    let mut out = String::new();
    let bytes = json.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let start = at;
                at += 1;
                while bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
                out.push_str(if bytes.get(at) == Some(&b':') { &json[start..at] } else { "text" });
            }
            b'0'..=b'9' | b'-' => {
                while at < bytes.len() && matches!(bytes[at], b'0'..=b'9' | b'-' | b'.' | b'e' | b'E' | b'+') {
                    at += 1;
                }
                out.push('1');
            }
            c => {
                out.push(c as char);
                at += 1;
            }
        }
    }
    out
}

/// Lines of an event stream as skeletons, equal neighbours (events of single tokens) once.
pub(crate) fn stream_skeleton(body: &str) -> Vec<String> {
    let mut events: Vec<String> = body
        .split("\n\n")
        .filter(|e| !e.trim().is_empty())
        .map(|event| {
            let lines = event.lines().map(|l| match l.strip_prefix("data: ") {
                Some(data) if data.starts_with('{') => format!("data: {}", skeleton(data)),
                _ => l.to_owned(),
            });
            lines.collect::<Vec<_>>().join("\n")
        })
        .collect();
    events.dedup();
    events
}
