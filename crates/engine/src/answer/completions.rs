//! `/v1/completions`.

use std::fmt::Write;

use super::{
    Context, FINGERPRINT, Gain, Totals, Wire, counts, quoted, reason, running_usage, transfer_params, usage,
    whole_reason,
};

pub(super) struct Completions;

fn head(c: &Context) -> String {
    format!(r#""id":"cmpl-{}","object":"text_completion","created":{},"model":{}"#, c.id, c.created, quoted(&c.model))
}

impl Wire for Completions {
    fn tokens(&mut self, c: &Context, gain: &Gain<'_>, out: &mut String) {
        let (finish, fingerprint) = match gain.ended {
            Some(ended) => (format!("\"{}\"", reason(ended)), !c.include_usage),
            None => ("null".to_owned(), false),
        };
        let fingerprint =
            if fingerprint { format!(",\"system_fingerprint\":\"{FINGERPRINT}\"") } else { String::new() };
        let _ = write!(
            out,
            "data: {{{},\"choices\":[{{\"index\":{},\"text\":{},\"logprobs\":null,\"finish_reason\":{finish},\"stop_reason\":null,\"prompt_token_ids\":null,\"token_ids\":null}}]{}{fingerprint}}}\n\n",
            head(c),
            gain.index,
            quoted(gain.text),
            running_usage(c, gain.produced)
        );
    }

    fn close(&mut self, c: &Context, totals: &Totals, out: &mut String) {
        if c.include_usage {
            let details = if c.details {
                format!(r#","prompt_tokens_details":{{"cached_tokens":{}}}"#, totals.cached)
            } else {
                String::new()
            };
            let _ = write!(
                out,
                "data: {{{},\"choices\":[],\"usage\":{{{}{details}}},\"system_fingerprint\":\"{FINGERPRINT}\"}}\n\n",
                head(c),
                counts(totals)
            );
        }
        out.push_str("data: [DONE]\n\n");
    }

    fn whole(&mut self, c: &Context, texts: &[String], totals: &Totals) -> String {
        let mut choices = String::new();
        for (i, (text, answer)) in texts.iter().zip(&c.answers).enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let _ = write!(
                choices,
                r#"{comma}{{"index":{i},"text":{},"logprobs":null,"finish_reason":"{}","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null}}"#,
                quoted(text),
                whole_reason(c, answer.ended)
            );
        }
        format!(
            r#"{{{},"choices":[{choices}],"service_tier":null,"system_fingerprint":"{FINGERPRINT}","usage":{},"kv_transfer_params":{},"ec_transfer_params":null,"metrics":null}}"#,
            head(c),
            usage(c, totals, false),
            transfer_params(c)
        )
    }
}
