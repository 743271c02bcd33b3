//! `/v1/messages` (Anthropic).

use std::fmt::Write;

use super::{Context, Gain, Totals, Wire, quoted};
use crate::metrics::Ended;

pub(super) struct Messages;

fn stop_reason(c: &Context) -> &'static str {
    match c.answers.first().map(|a| a.ended) {
        Some(Ended::Length) => "max_tokens",
        _ => "end_turn",
    }
}

/// `input_tokens` is the whole prompt, the cached part of it is told beside.
fn usage(c: &Context, totals: &Totals) -> String {
    let cached = if c.details { totals.cached } else { 0 };
    format!(
        r#"{{"input_tokens":{},"output_tokens":{},"cache_creation_input_tokens":0,"cache_read_input_tokens":{cached}}}"#,
        totals.prompt, totals.output
    )
}

fn event(out: &mut String, kind: &str, rest: &str) {
    let _ = write!(out, "event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n");
}

impl Wire for Messages {
    fn open(&mut self, c: &Context, out: &mut String) {
        let start = format!(
            r#","message":{{"id":"chatcmpl-{}","type":"message","role":"assistant","content":[],"model":{},"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":{},"output_tokens":0}}}}"#,
            c.id,
            quoted(&c.model),
            c.prompt_tokens()
        );
        event(out, "message_start", &start);
        event(out, "content_block_start", r#","content_block":{"type":"text","text":""},"index":0"#);
    }

    fn tokens(&mut self, _c: &Context, gain: &Gain<'_>, out: &mut String) {
        let delta = format!(r#","delta":{{"type":"text_delta","text":{}}},"index":0"#, quoted(gain.text));
        event(out, "content_block_delta", &delta);
    }

    fn close(&mut self, c: &Context, totals: &Totals, out: &mut String) {
        event(out, "content_block_stop", r#","index":0"#);
        let delta = format!(
            r#","delta":{{"stop_reason":"{}","stop_sequence":null}},"usage":{}"#,
            stop_reason(c),
            usage(c, totals)
        );
        event(out, "message_delta", &delta);
        event(out, "message_stop", "");
    }

    fn whole(&mut self, c: &Context, texts: &[String], totals: &Totals) -> String {
        format!(
            r#"{{"id":"chatcmpl-{}","type":"message","role":"assistant","content":[{{"type":"text","text":{}}}],"model":{},"stop_reason":"{}","usage":{}}}"#,
            c.id,
            quoted(texts.first().map_or("", String::as_str)),
            quoted(&c.model),
            stop_reason(c),
            usage(c, totals)
        )
    }
}
