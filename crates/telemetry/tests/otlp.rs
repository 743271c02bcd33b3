//! Spans arrive at a collector over gRPC, with TLS and without, and a collector that is gone costs nothing.

use bytes::{BufMut, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use pointsman_telemetry::{Build, Telemetry, Variables};
use pointsman_trace::{Incoming as Said, Kind, Span, SpanId, Status, Value as Attribute};
use prost::Message as _;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_rustls::TlsAcceptor;

const BUILD: Build = Build { service: "llm-d-epp", version: "v9", commit: "abc" };
const SOON: Duration = Duration::from_secs(20);

type Received = (HeaderMap, ExportTraceServiceRequest);

/// A collector: answers every export, and keeps what it was sent.
async fn collector(tls: Option<TlsAcceptor>) -> (SocketAddr, UnboundedReceiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (sender, tls) = (sender.clone(), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => serve(stream, sender).await,
                    Some(tls) => serve(tls.accept(stream).await.expect("TLS"), sender).await,
                }
            });
        }
    });
    (address, receiver)
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, sender: UnboundedSender<Received>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let sender = sender.clone();
        async move {
            let (head, body) = request.into_parts();
            assert_eq!(head.uri.path(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
            let body = body.collect().await.expect("a body").to_bytes();
            // One message: a byte that says whether it is compressed, and four of its length.
            let export = ExportTraceServiceRequest::decode(&body[5..]).expect("an export");
            let _ = sender.send((head.headers, export));
            let answer = ExportTraceServiceResponse::default().encode_to_vec();
            let mut message = BytesMut::new();
            message.put_u8(0);
            message.put_u32(answer.len() as u32);
            message.extend_from_slice(&answer);
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().expect("a value"));
            let trailers = std::future::ready(Some(Ok(trailers)));
            let body = Full::new(message.freeze()).with_trailers(trailers);
            let response = Response::builder().header("content-type", "application/grpc").body(body).expect("valid");
            Ok::<_, Infallible>(response)
        }
    });
    let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

fn start(pairs: &[(&str, String)]) -> Telemetry {
    let look_up = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
    let telemetry = Telemetry::start(&BUILD, Variables::of(&look_up)).expect("what it was told is right");
    assert!(telemetry.warnings.is_empty(), "{:?}", telemetry.warnings);
    telemetry
}

fn told(endpoint: String) -> Vec<(&'static str, String)> {
    vec![
        ("OTEL_TRACES_EXPORTER", "otlp".to_owned()),
        ("OTEL_TRACES_SAMPLER", "always_on".to_owned()),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
    ]
}

/// A request's span and a part of it.
fn two_spans(telemetry: &Telemetry) -> [Span; 2] {
    let context = telemetry.tracer().begin(&Said::default());
    let request = Span {
        name: "gateway.request".into(),
        kind: Kind::Server,
        context,
        parent: None,
        parent_is_remote: false,
        start_unix_ns: 1_000,
        end_unix_ns: 9_000,
        attributes: Vec::new(),
        status: Status::Error("ModelServerError".into()),
        exception: None,
    };
    let pick = Span {
        name: "pick_endpoints".into(),
        kind: Kind::Internal,
        context: pointsman_trace::SpanContext { span: SpanId::random(), ..context },
        parent: Some(context.span),
        attributes: vec![("llm_d.epp.picker.candidate_endpoints", Attribute::Int(2))],
        status: Status::Unset,
        ..request.clone()
    };
    [request, pick]
}

async fn stop(telemetry: &Arc<Telemetry>, at_most: Duration) {
    let telemetry = Arc::clone(telemetry);
    tokio::task::spawn_blocking(move || telemetry.stop(at_most)).await.expect("it does not panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_arrive_with_their_resource_scope_parents_and_attributes() {
    let (address, mut received) = collector(None).await;
    let telemetry = Arc::new(start(&told(format!("http://{address}"))));
    let [request, pick] = two_spans(&telemetry);
    telemetry.tracer().record(vec![request.clone(), pick.clone()]);
    stop(&telemetry, SOON).await;
    let (_, export) = tokio::time::timeout(SOON, received.recv()).await.expect("in time").expect("an export");
    let [resource] = &export.resource_spans[..] else { panic!("{export:?}") };
    let text = |attributes: &[opentelemetry_proto::tonic::common::v1::KeyValue], key: &str| {
        let value = attributes.iter().find(|kv| kv.key == key).and_then(|kv| kv.value.clone()).and_then(|v| v.value);
        match value {
            Some(Value::StringValue(text)) => text,
            other => panic!("{key}: {other:?}"),
        }
    };
    let attributes = &resource.resource.as_ref().expect("a resource").attributes;
    assert_eq!(text(attributes, "service.name"), "llm-d-epp");
    assert_eq!(text(attributes, "service.version"), "v9");
    let [scope] = &resource.scope_spans[..] else { panic!("{export:?}") };
    let of = scope.scope.as_ref().expect("a scope");
    assert_eq!((of.name.as_str(), of.version.as_str()), ("pointsman", "v9"));
    assert_eq!(text(&of.attributes, "commit-sha"), "abc");
    let find = |name: &str| scope.spans.iter().find(|s| s.name == name).expect("it arrived");
    let (server, inner) = (find("gateway.request"), find("pick_endpoints"));
    assert_eq!(server.trace_id, request.context.trace.0.get().to_be_bytes());
    assert_eq!(server.span_id, request.context.span.0.get().to_be_bytes());
    assert_eq!(
        (server.kind(), server.start_time_unix_nano, server.end_time_unix_nano),
        (SpanKind::Server, 1_000, 9_000)
    );
    assert_eq!(server.status.as_ref().expect("a status").message, "ModelServerError");
    assert!(server.parent_span_id.is_empty());
    assert_eq!((inner.kind(), &inner.parent_span_id), (SpanKind::Internal, &server.span_id));
    assert_eq!(inner.attributes[0].value.clone().and_then(|v| v.value), Some(Value::IntValue(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_speaks_tls_is_trusted_by_the_named_certificate() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("they fit");
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let (address, mut received) = collector(Some(TlsAcceptor::from(Arc::new(tls)))).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file: &Path = &folder.path().join("ca.pem");
    std::fs::write(file, made.cert.pem()).expect("it is written");
    let mut told = told(format!("localhost:{}", address.port()));
    told.push(("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", file.display().to_string()));
    let telemetry = Arc::new(start(&told));
    telemetry.tracer().record(two_spans(&telemetry).into());
    stop(&telemetry, SOON).await;
    let (_, export) = tokio::time::timeout(SOON, received.recv()).await.expect("in time").expect("an export");
    assert_eq!(export.resource_spans[0].scope_spans[0].spans.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_gone_or_silent_makes_nobody_wait() {
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("it is bound");
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    for address in [gone, silent.local_addr().expect("it is bound")] {
        let telemetry = Arc::new(start(&told(format!("http://{address}"))));
        let spans: Vec<Span> = two_spans(&telemetry).into();
        let began = Instant::now();
        for _ in 0..20_000 {
            telemetry.tracer().record(spans.clone());
        }
        let took = began.elapsed();
        assert!(took < Duration::from_secs(5), "40000 spans took {took:?}");
        stop(&telemetry, Duration::from_millis(200)).await;
        assert!(began.elapsed() < took + Duration::from_secs(2));
    }
}
