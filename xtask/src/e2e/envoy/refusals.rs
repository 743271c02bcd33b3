//! Requests that are refused, as the client sees them.

use anyhow::Result;
use bytes::Bytes;

use super::ask::{APIS, body};
use super::stack::{Plan, Stack, Tools};
use super::wire::{Answer, Raw, head};
use crate::report::{Tally, check};

const REASON: &str = "x-llm-d-request-dropped-reason";

/// The cases.
pub(super) async fn run(tools: &Tools, tally: &mut Tally) -> Result<()> {
    let request = Bytes::from(body(APIS[0], "may I?", false).to_string());

    // The parsers by default end with one that lets every path pass.
    let plan = Plan {
        name: "refusals",
        engines: 1,
        plugins: "- {type: openai-parser}\n",
        sections: "requestHandler: {parsers: [{pluginRef: openai-parser}]}\n",
        ..Plan::ORDINARY
    };
    let stack = Stack::start(tools, plan).await?;
    let answer = post(&stack, APIS[0], b"{\"model\": ").await?;
    refused(tally, "a body that is no JSON", &answer, 400, "inference error: BadRequest - ", None);
    let answer = post(&stack, "/v1/nothing", &request).await?;
    let text = "inference error: BadRequest - no parser registered matching path suffix for: /v1/nothing";
    refused(tally, "a path that no parser knows", &answer, 400, text, None);
    let long = vec![b'x'; 1_000_000];
    let answer = post(&stack, "/v1/nothing", &long).await?;
    refused(tally, "a megabyte to that path", &answer, 400, text, None);
    drop(stack);

    let stack = Stack::start(tools, Plan { name: "no-endpoints", engines: 0, ..Plan::ORDINARY }).await?;
    let text = "inference error: ServiceUnavailable - failed to find endpoint candidates for serving the request";
    let answer = post(&stack, APIS[0], &request).await?;
    refused(tally, "a request to an empty pool", &answer, 503, text, Some("rejected-no-endpoints"));
    let answer = get(&stack, "/v1/models").await?;
    refused(tally, "GET /v1/models to an empty pool", &answer, 503, "inference error: ", Some("rejected-no-endpoints"));
    drop(stack);

    // No endpoint has the label, which is how a pool looks in which every engine is over its limits.
    let plan = Plan {
        name: "saturated",
        engines: 1,
        plugins: "- {type: label-selector-filter, parameters: {matchLabels: {free: \"true\"}}}\n- {type: max-score-picker}\n",
        sections: "schedulingProfiles:\n- name: default\n  plugins: [{pluginRef: label-selector-filter}, {pluginRef: max-score-picker}]\n",
        ..Plan::ORDINARY
    };
    let stack = Stack::start(tools, plan).await?;
    let answer = post(&stack, APIS[0], &request).await?;
    refused(
        tally,
        "a request that no endpoint may take",
        &answer,
        429,
        "inference error: ",
        Some("rejected-saturated"),
    );
    Ok(())
}

async fn post(stack: &Stack, path: &str, body: &[u8]) -> Result<Answer> {
    let mut raw = Raw::connect(stack.address).await?;
    raw.send(head(path, &format!("content-length: {}\r\n", body.len())).as_bytes()).await?;
    // A refusal may come before everything is read.
    let _ = raw.send(body).await;
    raw.rest().await
}

async fn get(stack: &Stack, path: &str) -> Result<Answer> {
    let mut raw = Raw::connect(stack.address).await?;
    raw.send(format!("GET {path} HTTP/1.1\r\nhost: e2e\r\nconnection: close\r\n\r\n").as_bytes()).await?;
    raw.rest().await
}

fn refused(tally: &mut Tally, what: &str, answer: &Answer, status: u16, text: &str, reason: Option<&str>) {
    let said = answer.text();
    let held = answer.status == status && said.starts_with(text) && answer.header(REASON) == reason;
    let told = answer.header(REASON);
    check(tally, held, format!("{what} is refused with {status} ({} {told:?} {said:?})", answer.status));
}
