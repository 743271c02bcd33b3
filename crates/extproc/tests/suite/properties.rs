//! Whatever a proxy does, in whatever cut, and wherever it stops: one legal sequence of answers, one end of the request, nothing left in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pointsman_grpc::Call as _;
use pointsman_grpc::{Code, Out, Status};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::messages;
use crate::process::Process;

/// How a stream stops before its messages are all sent.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// It does not.
    Never,
    /// The proxy closes its side after so many messages.
    HalfClose(usize),
    /// It resets the stream.
    Reset(usize),
    /// The process stops.
    Shutdown(usize),
}

#[derive(Clone, Debug)]
struct Plan {
    modes: Option<(&'static str, &'static str)>,
    bodyless: bool,
    good: bool,
    request_cuts: Vec<usize>,
    request_trailers: bool,
    /// Whether the end of the request's body is a message of its own.
    empty_end: bool,
    answered: bool,
    status: u16,
    response_cuts: Vec<usize>,
    response_trailers: bool,
    stop: Stop,
}

fn plans() -> impl Strategy<Value = Plan> {
    let mode =
        || prop::sample::select(vec!["NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED"]);
    let cuts = || prop::collection::vec(0_usize..60, 0..5);
    let stop = prop_oneof![
        3 => Just(Stop::Never),
        1 => (0_usize..14).prop_map(Stop::HalfClose),
        1 => (0_usize..14).prop_map(Stop::Reset),
        1 => (0_usize..14).prop_map(Stop::Shutdown),
    ];
    let request = (
        prop::option::of((mode(), mode())),
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.9),
        cuts(),
        any::<bool>(),
        any::<bool>(),
    );
    let response = (any::<bool>(), prop::sample::select(vec![200_u16, 200, 404, 500]), cuts(), any::<bool>());
    (request, response, stop).prop_map(
        |(
            (modes, bodyless, good, request_cuts, request_trailers, empty_end),
            (answered, status, response_cuts, response_trailers),
            stop,
        )| Plan {
            modes,
            bodyless,
            good,
            request_cuts,
            request_trailers,
            empty_end,
            answered,
            status,
            response_cuts,
            response_trailers,
            stop,
        },
    )
}

fn cut(body: &str, cuts: &[usize]) -> Vec<String> {
    let mut at: Vec<usize> = cuts.iter().map(|c| c % (body.len() + 1)).collect();
    at.sort_unstable();
    at.push(body.len());
    let mut from = 0;
    at.into_iter().map(|to| body[std::mem::replace(&mut from, to)..to].to_owned()).collect()
}

/// Messages of one direction's body, as a proxy in that mode sends them.
fn body(kind: &str, mode: &str, text: &str, cuts: &[usize], trailers: bool, empty_end: bool) -> Vec<Value> {
    let pieces = match mode {
        "NONE" => return Vec::new(),
        "BUFFERED" | "BUFFERED_PARTIAL" => vec![text.to_owned()],
        _ => cut(text, cuts),
    };
    let last = pieces.len() - 1;
    let own_end = empty_end && mode == "FULL_DUPLEX_STREAMED" && !trailers;
    let mut messages: Vec<Value> = pieces
        .into_iter()
        .enumerate()
        .map(|(i, piece)| json!({"type": kind, "body": piece, "end_of_stream": i == last && !trailers && !own_end}))
        .collect();
    if own_end {
        messages.push(json!({"type": kind, "body": "", "end_of_stream": true}));
    }
    messages
}

fn messages_of(plan: &Plan) -> Vec<Value> {
    let (request_mode, response_mode) = plan.modes.unwrap_or(("FULL_DUPLEX_STREAMED", "FULL_DUPLEX_STREAMED"));
    let mut head = json!({
        "type": "request_headers", "end_of_stream": plan.bodyless,
        "headers": [[":method", "POST"], [":path", "/v1/completions"], ["x-request-id", "r"]],
    });
    if plan.modes.is_some() {
        head["protocol_config"] = json!({"request_body_mode": request_mode, "response_body_mode": response_mode});
    }
    let mut all = vec![head];
    if !plan.bodyless {
        let text = if plan.good { r#"{"model":"m","prompt":"Once upon a time"}"# } else { "nothing of the kind" };
        all.extend(body("request_body", request_mode, text, &plan.request_cuts, plan.request_trailers, plan.empty_end));
        if plan.request_trailers {
            all.push(json!({"type": "request_trailers", "headers": [["x-t", "1"]]}));
        }
    }
    if plan.answered {
        all.push(json!({"type": "response_headers", "end_of_stream": false, "headers": [[":status", plan.status.to_string()], ["content-type", "application/json"]]}));
        all.extend(body(
            "response_body",
            response_mode,
            r#"{"usage":{"prompt_tokens":3}}"#,
            &plan.response_cuts,
            plan.response_trailers,
            false,
        ));
        if plan.response_trailers {
            all.push(json!({"type": "response_trailers", "headers": []}));
        }
    }
    all
}

/// Whether answers of one direction stand in the order of the protocol.
fn in_order(kinds: &[&Value], direction: &str) -> bool {
    let (headers, body, trailers) =
        (format!("{direction}_headers"), format!("{direction}_body"), format!("{direction}_trailers"));
    let rank = |m: &&&Value| match m["type"].as_str() {
        Some(t) if t == headers => Some(0),
        Some(t) if t == body => Some(1),
        Some(t) if t == trailers => Some(2),
        _ => None,
    };
    let ranks: Vec<i32> = kinds.iter().filter_map(|m| rank(&m)).collect();
    let once = |r: i32| ranks.iter().filter(|x| **x == r).count() <= 1;
    let ends: Vec<bool> = kinds.iter().filter(|m| m["type"] == body).map(|m| m["end_of_stream"] == true).collect();
    ranks.is_sorted() && once(0) && once(2) && ends.iter().rev().skip(1).all(|end| !end)
}

fn check(plan: &Plan) -> Result<(), TestCaseError> {
    let setup = json!({"config": "configs/default-parsers.yaml", "flags": [], "engines": {}, "endpoints": [
        {"name": "a", "namespace": "default", "address": "10.0.0.1", "port": "8000"},
        {"name": "b", "namespace": "default", "address": "10.0.0.2", "port": "8000"},
    ]});
    let process = Process::start("wire", &setup, &[]).expect("the default configuration");
    let ends = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ends);
    process.pool.on_finished(Box::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    let mut exchange = process.new_exchange();
    let mut out = Out::default();
    let mut answers = Vec::new();
    let mut ended_at = None;
    let messages = messages_of(plan);
    for (i, message) in messages.iter().enumerate() {
        match plan.stop {
            Stop::HalfClose(at) if at == i => {
                exchange.half_closed(&mut out);
                break;
            }
            Stop::Reset(at) if at == i => break,
            Stop::Shutdown(at) if at == i => {
                exchange.ended(&Status::new(Code::Unavailable, "stopping"), &mut out);
                break;
            }
            _ => {}
        }
        exchange.message(messages::encode(message), &mut out);
        let now = messages::decode(&out.take());
        prop_assert!(ended_at.is_none() || now.is_empty(), "something was sent after the end: {now:?}");
        answers.extend(now);
        if out.is_ended() && ended_at.is_none() {
            ended_at = Some(i);
        }
    }
    answers.extend(messages::decode(&out.take()));
    drop(exchange);
    let all: Vec<&Value> = answers.iter().collect();
    let immediate = all.iter().position(|m| m["type"] == "immediate_response");
    prop_assert!(immediate.is_none_or(|at| at + 1 == all.len()), "an immediate response is the last answer");
    prop_assert!(in_order(&all, "request") && in_order(&all, "response"), "{all:#?}");
    let destinations = all.iter().filter(|m| m["dynamic_metadata"].is_object()).count();
    prop_assert!(destinations <= 1, "one destination");
    let decided = process.pool.ring.newest(10, None).len();
    prop_assert!(decided <= 1, "one decision");
    prop_assert_eq!(ends.load(Ordering::SeqCst), decided, "every decision has one end");
    let in_flight: u64 = process.pool.fleet.load().endpoints.iter().map(|e| e.load.requests() + e.load.tokens()).sum();
    prop_assert_eq!(in_flight, 0, "nothing is left in flight");
    prop_assert_eq!(process.held_bytes(), 0, "no body is held");
    let page = process.page();
    for line in page.lines().filter(|l| l.starts_with("llm_d_epp_request_running{")) {
        prop_assert!(line.ends_with(" 0"), "{line}");
    }
    // A complete exchange was answered in full.
    if matches!(plan.stop, Stop::Never) && plan.good && plan.modes.is_none() && !plan.bodyless {
        let bytes = |kind: &str| -> Vec<u8> {
            let of = answers.iter().filter(|m| m["type"] == kind);
            of.flat_map(|m| m["bytes"].as_array().into_iter().flatten())
                .map(|b| b.as_u64().unwrap_or(0) as u8)
                .collect()
        };
        let sent = |kind: &str| -> Vec<u8> {
            messages
                .iter()
                .filter(|m| m["type"] == kind)
                .flat_map(|m| m["body"].as_str().unwrap_or("").bytes())
                .collect()
        };
        prop_assert_eq!(bytes("request_body"), sent("request_body"));
        prop_assert_eq!(bytes("response_body"), sent("response_body"));
        let trailers = answers.iter().filter(|m| m["type"] == "request_trailers").count();
        prop_assert_eq!(trailers, usize::from(plan.request_trailers));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]
    #[test]
    fn any_stream_has_one_legal_sequence_of_answers_one_end_and_leaves_nothing(plan in plans()) {
        check(&plan)?;
    }

    #[test]
    fn messages_in_no_legal_order_are_survived(order in prop::collection::vec(0_usize..8, 0..12)) {
        let setup = json!({"config": "configs/default-parsers.yaml", "flags": [], "engines": {}, "endpoints": [
            {"name": "a", "namespace": "default", "address": "10.0.0.1", "port": "8000"},
        ]});
        let process = Process::start("wire", &setup, &[]).expect("the default configuration");
        let mut exchange = process.new_exchange();
        let mut out = Out::default();
        let body = r#"{"model":"m","prompt":"x"}"#;
        let kinds = [
            json!({"type": "request_headers", "headers": [[":path", "/v1/completions"]], "end_of_stream": false}),
            json!({"type": "request_headers", "headers": [], "end_of_stream": true}),
            json!({"type": "request_body", "body": body, "end_of_stream": true}),
            json!({"type": "request_body", "body": body, "end_of_stream": false}),
            json!({"type": "request_trailers", "headers": []}),
            json!({"type": "response_headers", "headers": [[":status", "x"]], "end_of_stream": false}),
            json!({"type": "response_body", "body": "{}", "end_of_stream": true}),
            json!({"type": "response_trailers", "headers": []}),
        ];
        for kind in order {
            exchange.message(messages::encode(&kinds[kind]), &mut out);
        }
        let answers = messages::decode(&out.take());
        drop(exchange);
        prop_assert!(answers.iter().filter(|m| m["dynamic_metadata"].is_object()).count() <= 1);
        let in_flight: u64 = process.pool.fleet.load().endpoints.iter().map(|e| e.load.requests()).sum();
        prop_assert_eq!(in_flight, 0);
    }
}
