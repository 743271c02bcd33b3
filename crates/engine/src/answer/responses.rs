//! `/v1/responses`.

use std::fmt::Write;

use super::{Context, Gain, Totals, Wire, quoted, transfer_params};
use crate::metrics::Ended;

#[derive(Default)]
pub(super) struct Responses {
    sequence: u64,
    text: String,
}

fn item(c: &Context, content: &str, status: &str) -> String {
    format!(
        r#"{{"id":"msg_{}","content":[{content}],"role":"assistant","status":"{status}","type":"message","phase":null}}"#,
        c.id
    )
}

fn part(text: &str, logprobs: &str) -> String {
    format!(r#"{{"annotations":[],"text":{},"type":"output_text","logprobs":{logprobs}}}"#, quoted(text))
}

/// The response object: in progress, or with output and usage.
fn object(c: &Context, done: Option<(&str, &Totals)>) -> String {
    let cut = c.answers.first().is_some_and(|a| a.ended == Ended::Length);
    let (incomplete, output, status, usage) = match done {
        None => ("null", String::new(), "in_progress", "null".to_owned()),
        Some((text, totals)) => {
            let cached = if c.details { totals.cached } else { 0 };
            let usage = format!(
                r#"{{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{cached},"cache_write_tokens":0,"input_tokens_per_turn":[],"cached_tokens_per_turn":[]}},"output_tokens":{},"output_tokens_details":{{"reasoning_tokens":0,"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]}},"total_tokens":{}}}"#,
                totals.prompt,
                totals.output,
                totals.prompt + totals.output
            );
            let incomplete = if cut { r#"{"reason":"max_output_tokens"}"# } else { "null" };
            let status = if cut { "incomplete" } else { "completed" };
            (incomplete, item(c, &part(text, "null"), "completed"), status, usage)
        }
    };
    let limit = c.limit.map_or_else(|| "null".to_owned(), |l| l.to_string());
    let params = transfer_params(c);
    format!(
        r#"{{"id":"resp_{}","created_at":{},"incomplete_details":{incomplete},"instructions":null,"metadata":null,"model":{},"object":"response","output":[{output}],"parallel_tool_calls":true,"temperature":{:?},"tool_choice":"none","tools":[],"top_p":1.0,"background":false,"max_output_tokens":{limit},"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto","status":"{status}","text":null,"top_logprobs":null,"truncation":"disabled","usage":{usage},"user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":{params},"ec_transfer_params":null,"input_messages":null,"output_messages":null}}"#,
        c.id,
        c.created,
        quoted(&c.model),
        c.temperature
    )
}

impl Responses {
    /// One event; keys stand in alphabetical order, so the caller says what stands before and after the number.
    fn event(&mut self, out: &mut String, kind: &str, before: &str, after: &str) {
        let _ = write!(
            out,
            "event: {kind}\ndata: {{{before},\"sequence_number\":{}{after},\"type\":\"{kind}\"}}\n\n",
            self.sequence
        );
        self.sequence += 1;
    }
}

impl Wire for Responses {
    fn at_once(&mut self, c: &Context, out: &mut String) {
        let response = format!("\"response\":{}", object(c, None));
        self.event(out, "response.created", &response, "");
        self.event(out, "response.in_progress", &response, "");
    }

    fn open(&mut self, c: &Context, out: &mut String) {
        let added = format!("\"item\":{},\"output_index\":0", item(c, "", "in_progress"));
        self.event(out, "response.output_item.added", &added, "");
        let part = format!(r#""content_index":0,"item_id":"msg_{}","output_index":0,"part":{}"#, c.id, part("", "[]"));
        self.event(out, "response.content_part.added", &part, "");
    }

    fn tokens(&mut self, c: &Context, gain: &Gain<'_>, out: &mut String) {
        let delta = format!(
            r#""content_index":0,"delta":{},"item_id":"msg_{}","logprobs":[],"output_index":0"#,
            quoted(gain.text),
            c.id
        );
        self.event(out, "response.output_text.delta", &delta, "");
        self.text.push_str(gain.text);
    }

    fn close(&mut self, c: &Context, totals: &Totals, out: &mut String) {
        let text = std::mem::take(&mut self.text);
        let place = format!(r#""content_index":0,"item_id":"msg_{}""#, c.id);
        let done = format!(r#"{place},"logprobs":[],"output_index":0"#);
        self.event(out, "response.output_text.done", &done, &format!(",\"text\":{}", quoted(&text)));
        let whole = part(&text, "null");
        self.event(out, "response.content_part.done", &format!(r#"{place},"output_index":0,"part":{whole}"#), "");
        let item = format!("\"item\":{},\"output_index\":0", item(c, &whole, "completed"));
        self.event(out, "response.output_item.done", &item, "");
        let response = format!("\"response\":{}", object(c, Some((&text, totals))));
        self.event(out, "response.completed", &response, "");
    }

    fn whole(&mut self, c: &Context, texts: &[String], totals: &Totals) -> String {
        object(c, Some((texts.first().map_or("", String::as_str), totals)))
    }
}
