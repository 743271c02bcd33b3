//! A trace goes through: the engine continues ours, which continues the client's.

use std::sync::Arc;

use crate::support::*;
use pointsman_gateway::GatewayOptions;
use pointsman_router::PoolOptions;
use pointsman_trace::{Sampler, SpanContext, Tracer};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

async fn traced(engine: &Engine) -> Running {
    let tracer = Some(Arc::new(Tracer::new(Sampler::default(), None)));
    let pool = PoolOptions { tracer, ..PoolOptions::default() };
    Running::start_in(pool, &[engine.address], GatewayOptions::default(), |_| {}).await
}

#[tokio::test]
async fn an_engine_gets_one_traceparent_of_our_span_and_the_clients_state_and_baggage_once() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let gateway = traced(&engine).await;
    let headers = format!("Traceparent: {PARENT}\r\ntracestate: a=b\r\nbaggage: k=v\r\nbaggage: l=w\r\n");
    assert_eq!(gateway.ask(post_with("/v1/chat/completions", &headers, chat_body("x"))).await.status(), 200);
    let received = engine.only();
    let [parent] = received.header("traceparent")[..] else { panic!("{}", received.head) };
    let (ours, client) = (SpanContext::parse(parent).unwrap(), SpanContext::parse(PARENT).unwrap());
    assert_eq!((ours.trace, ours.sampled), (client.trace, false));
    assert_ne!(ours.span, client.span);
    assert_eq!(received.header("tracestate"), ["a=b"]);
    assert_eq!(received.header("baggage"), ["k=v,l=w"]);
}

#[tokio::test]
async fn an_invalid_trace_of_a_client_goes_no_further() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let gateway = traced(&engine).await;
    let headers = "traceparent: mine\r\ntracestate: a=b\r\nbaggage: none\r\n";
    assert_eq!(gateway.ask(post_with("/v1/chat/completions", headers, chat_body("x"))).await.status(), 200);
    let received = engine.only();
    let [parent] = received.header("traceparent")[..] else { panic!("{}", received.head) };
    assert!(SpanContext::parse(parent).is_some(), "{parent}");
    assert!(received.header("tracestate").is_empty() && received.header("baggage").is_empty(), "{}", received.head);
}

#[tokio::test]
async fn where_nobody_traces_the_clients_headers_pass_as_they_are() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let headers = "traceparent: mine\r\ntracestate: a=b\r\n";
    assert_eq!(gateway.ask(post_with("/v1/chat/completions", headers, chat_body("x"))).await.status(), 200);
    let received = engine.only();
    assert_eq!(received.header("traceparent"), ["mine"]);
    assert_eq!(received.header("tracestate"), ["a=b"]);
}
