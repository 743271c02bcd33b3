//! What users send: every API, sizes, streams, trailers, HTTP/2, requests without a body.

use anyhow::Result;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use serde_json::Value;

use super::ask::{APIS, End, ask, body, sized, tell};
use super::stack::{MODEL, Plan, Stack, Tools};
use super::wire::{Raw, h2c, head};
use crate::report::{Tally, check};
use crate::text::prose;

/// Sizes of request bodies: around the picker's pieces of 62,000 bytes, gRPC's 4 MiB, and far beyond.
const SIZES: [usize; 9] = [500, 61_999, 62_000, 62_001, 124_000, 150_000, 1_000_000, 4_194_304, 8_000_000];

/// The cases.
pub(super) async fn run(tools: &Tools, tally: &mut Tally) -> Result<()> {
    let stack = Stack::start(tools, Plan { name: "surface", ..Plan::ORDINARY }).await?;
    bodies(tools, &stack, tally).await;
    streams(tools, &stack, tally).await;
    trailers(&stack, tally).await?;
    without_body(tools, &stack, tally).await?;
    drop(stack);
    served(tools, tally).await
}

async fn bodies(tools: &Tools, stack: &Stack, tally: &mut Tally) {
    for path in APIS {
        let told = ask(&tools.client, &stack.url(""), path, "Which way does this train go?", false).await;
        check(tally, told.end == End::Right, format!("{path} is answered ({:?}, by {})", told.end, told.engine));
    }
    let path = APIS[0];
    for size in SIZES {
        let text = format!("that was {size}");
        let told = tell(&tools.client, &stack.url(path), path, sized(size, &text), &text, false).await;
        check(tally, told.end == End::Right, format!("a body of {size} bytes arrives ({:?})", told.end));
    }
}

async fn streams(tools: &Tools, stack: &Stack, tally: &mut Tally) {
    for path in APIS {
        let text = prose(11, 2_000);
        let told = ask(&tools.client, &stack.url(""), path, &text, true).await;
        check(tally, told.end == End::Right, format!("{path} streams every event in order ({:?})", told.end));
    }
    let text = prose(12, 40_000);
    let told = ask(&tools.client, &stack.url(""), APIS[0], &text, true).await;
    check(tally, told.end == End::Right, format!("a stream of 10,000 events arrives whole ({:?})", told.end));
}

async fn trailers(stack: &Stack, tally: &mut Tally) -> Result<()> {
    let path = APIS[0];
    let request = body(path, "over HTTP/2", false).to_string();
    let right = |text: &str, wanted: &str| {
        let answer: Value = serde_json::from_str(text).unwrap_or_default();
        answer.pointer("/choices/0/message/content").and_then(Value::as_str) == Some(wanted)
    };

    let answer = h2c(stack.address, path, Bytes::from(request.clone()), None).await?;
    let held = answer.status == 200 && right(&answer.text(), "over HTTP/2");
    check(tally, held, format!("an HTTP/2 client in clear text is answered ({})", answer.status));

    let mut trailers = HeaderMap::new();
    trailers.insert("x-checksum", HeaderValue::from_static("1234"));
    let answer = h2c(stack.address, path, Bytes::from(request), Some(trailers)).await?;
    let held = answer.status == 200 && right(&answer.text(), "over HTTP/2");
    check(tally, held, format!("trailers end an HTTP/2 request's body ({})", answer.status));

    let request = body(path, "in chunks", false).to_string();
    let mut raw = Raw::connect(stack.address).await?;
    raw.send(head(path, "transfer-encoding: chunked\r\ntrailer: x-checksum\r\n").as_bytes()).await?;
    for piece in request.as_bytes().chunks(20) {
        raw.send(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
        raw.send(piece).await?;
        raw.send(b"\r\n").await?;
    }
    raw.send(b"0\r\nx-checksum: 1234\r\n\r\n").await?;
    let answer = raw.rest().await?;
    let held = answer.status == 200 && right(&answer.text(), "in chunks");
    check(tally, held, format!("trailers end an HTTP/1 request's chunks ({})", answer.status));
    Ok(())
}

async fn without_body(tools: &Tools, stack: &Stack, tally: &mut Tally) -> Result<()> {
    let models = tools.client.get_json(&stack.url("/v1/models")).await?;
    let id = models.pointer("/data/0/id").and_then(Value::as_str);
    check(tally, id == Some(MODEL), format!("GET /v1/models is answered by an engine ({id:?})"));

    let reply = tools.client.get(&stack.url("/health")).await?;
    check(tally, reply.status == 200, format!("GET /health reaches an engine ({})", reply.status));

    let mut raw = Raw::connect(stack.address).await?;
    raw.send(head(APIS[0], "content-length: 0\r\n").as_bytes()).await?;
    let answer = raw.rest().await?;
    let by_engine = answer.header("x-inference-pod").is_some() && (400..500).contains(&answer.status);
    check(tally, by_engine, format!("a POST without a body reaches an engine, which refuses it ({})", answer.status));
    let mark = answer.header("x-went-into-resp-headers");
    check(tally, mark == Some("true"), format!("responses carry the picker's mark ({mark:?})"));
    Ok(())
}

/// The proxy says which endpoint served, and the picker hears it.
async fn served(tools: &Tools, tally: &mut Tally) -> Result<()> {
    let plan = Plan {
        name: "served",
        plugins: "- {type: destination-endpoint-served-verifier}\n",
        reports_served: true,
        ..Plan::ORDINARY
    };
    let stack = Stack::start(tools, plan).await?;
    let request = body(APIS[0], "who was it?", false).to_string();
    let mut raw = Raw::connect(stack.address).await?;
    raw.send(head(APIS[0], &format!("content-length: {}\r\n", request.len())).as_bytes()).await?;
    raw.send(request.as_bytes()).await?;
    let answer = raw.rest().await?;
    let (told, engine) = (answer.header("x-conformance-test-served-endpoint"), answer.header("x-inference-pod"));
    let held = answer.status == 200 && told.is_some() && told == engine;
    check(tally, held, format!("the endpoint that the proxy reports as serving is heard ({told:?}, was {engine:?})"));
    Ok(())
}
