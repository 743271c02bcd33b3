//! `/v1/chat/completions`.

use std::fmt::Write;

use super::{
    Context, FINGERPRINT, Gain, Totals, Wire, counts, quoted, reason, running_usage, transfer_params, usage,
    whole_reason,
};

pub(super) struct Chat;

fn head(c: &Context, object: &str) -> String {
    format!(r#""id":"chatcmpl-{}","object":"{object}","created":{},"model":{}"#, c.id, c.created, quoted(&c.model))
}

impl Wire for Chat {
    fn open(&mut self, c: &Context, out: &mut String) {
        let _ = write!(
            out,
            "data: {{{},\"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"logprobs\":null,\"finish_reason\":null}}]{},\"prompt_token_ids\":null,\"prompt_text\":null}}\n\n",
            head(c, "chat.completion.chunk"),
            running_usage(c, 0)
        );
    }

    fn tokens(&mut self, c: &Context, gain: &Gain<'_>, out: &mut String) {
        let finish = match gain.ended {
            Some(ended) => format!("\"{}\",\"stop_reason\":null", reason(ended)),
            None => "null".to_owned(),
        };
        let fingerprint = match gain.ended {
            Some(_) if !c.include_usage => format!(",\"system_fingerprint\":\"{FINGERPRINT}\""),
            _ => String::new(),
        };
        let _ = write!(
            out,
            "data: {{{},\"choices\":[{{\"index\":{},\"delta\":{{\"content\":{}}},\"logprobs\":null,\"finish_reason\":{finish},\"token_ids\":null}}]{}{fingerprint}}}\n\n",
            head(c, "chat.completion.chunk"),
            gain.index,
            quoted(gain.text),
            running_usage(c, gain.produced)
        );
    }

    fn close(&mut self, c: &Context, totals: &Totals, out: &mut String) {
        if c.include_usage {
            let details = if c.details {
                format!(
                    r#","prompt_tokens_details":{{"cached_tokens":{},"created_cache_tokens":{}}}"#,
                    totals.cached, totals.created
                )
            } else {
                String::new()
            };
            let _ = write!(
                out,
                "data: {{{},\"choices\":[],\"usage\":{{{}{details}}},\"system_fingerprint\":\"{FINGERPRINT}\"}}\n\n",
                head(c, "chat.completion.chunk"),
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
                r#"{comma}{{"index":{i},"message":{{"role":"assistant","content":{},"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null}},"logprobs":null,"finish_reason":"{}","stop_reason":null,"token_ids":null,"routed_experts":null}}"#,
                quoted(text),
                whole_reason(c, answer.ended)
            );
        }
        format!(
            r#"{{{},"choices":[{choices}],"service_tier":null,"system_fingerprint":"{FINGERPRINT}","usage":{},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":{},"ec_transfer_params":null,"metrics":null}}"#,
            head(c, "chat.completion"),
            usage(c, totals, true),
            transfer_params(c)
        )
    }
}
