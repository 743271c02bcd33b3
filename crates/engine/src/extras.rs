//! Fields of a request that only an engine cares about, beside those the router reads.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// A JSON number, or something that is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Number {
    #[default]
    Absent,
    Is(f64),
    Not,
}

/// Top-level fields. Of a field that is there twice the last one counts; `null` is the same as absence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    pub(crate) model: Option<Value>,
    pub(crate) max_tokens: Number,
    pub(crate) max_completion_tokens: Number,
    pub(crate) max_output_tokens: Number,
    pub(crate) temperature: Number,
    pub(crate) n: Number,
    pub(crate) dimensions: Number,
    pub(crate) ignore_eos: bool,
    pub(crate) include_usage: bool,
    pub(crate) continuous_usage: bool,
    pub(crate) base64: bool,
    pub(crate) token_strs: bool,
    pub(crate) has_messages: bool,
    /// Another engine will decode: compute the prompt only.
    pub(crate) remote_decode: bool,
    /// Another engine has computed the prompt.
    pub(crate) remote_prefill: bool,
    /// `prompt`, `messages` or `input`, where it is wanted.
    pub(crate) content: Option<Value>,
}

/// Reads a body. Content is kept only when `keep_content`.
pub(crate) fn read(body: &[u8], keep_content: bool) -> Result<Extras, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let extras = reader.deserialize_map(Fields { keep_content })?;
    reader.end()?;
    Ok(extras)
}

struct Fields {
    keep_content: bool,
}

fn number(value: &Value) -> Number {
    match value {
        Value::Null => Number::Absent,
        Value::Number(n) => n.as_f64().map_or(Number::Not, Number::Is),
        _ => Number::Not,
    }
}

fn truth(value: Option<&Value>) -> bool {
    value.and_then(Value::as_bool).unwrap_or(false)
}

impl<'de> Visitor<'de> for Fields {
    type Value = Extras;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Extras, A::Error> {
        let mut e = Extras::default();
        while let Some(key) = map.next_key::<Key>()? {
            if key == Key::Other || (matches!(key, Key::Messages | Key::Content) && !self.keep_content) {
                map.next_value::<IgnoredAny>()?;
                e.has_messages |= key == Key::Messages;
                continue;
            }
            let value: Value = map.next_value()?;
            match key {
                Key::Model => e.model = Some(value).filter(|v| !v.is_null()),
                Key::MaxTokens => e.max_tokens = number(&value),
                Key::MaxCompletionTokens => e.max_completion_tokens = number(&value),
                Key::MaxOutputTokens => e.max_output_tokens = number(&value),
                Key::Temperature => e.temperature = number(&value),
                Key::N => e.n = number(&value),
                Key::Dimensions => e.dimensions = number(&value),
                Key::IgnoreEos => e.ignore_eos = truth(Some(&value)),
                Key::StreamOptions => {
                    e.include_usage = truth(value.get("include_usage"));
                    e.continuous_usage = truth(value.get("continuous_usage_stats"));
                }
                Key::EncodingFormat => e.base64 = value == "base64",
                Key::KvTransferParams => {
                    e.remote_decode = truth(value.get("do_remote_decode"));
                    e.remote_prefill = truth(value.get("do_remote_prefill"));
                }
                Key::ReturnTokenStrs => e.token_strs = truth(Some(&value)),
                Key::Messages => {
                    e.has_messages = !value.is_null();
                    e.content = Some(value);
                }
                Key::Content => e.content = Some(value),
                Key::Other => {}
            }
        }
        Ok(e)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Key {
    Model,
    MaxTokens,
    MaxCompletionTokens,
    MaxOutputTokens,
    Temperature,
    N,
    Dimensions,
    IgnoreEos,
    StreamOptions,
    EncodingFormat,
    ReturnTokenStrs,
    KvTransferParams,
    Messages,
    #[serde(alias = "prompt", alias = "input")]
    Content,
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_two_equal_fields_counts_and_null_is_absence() {
        let e = read(br#"{"max_tokens":1,"x":{"max_tokens":9},"max_tokens":2,"n":null,"ignore_eos":true}"#, false)
            .expect("JSON");
        assert_eq!(e.max_tokens, Number::Is(2.0));
        assert_eq!(e.n, Number::Absent);
        assert!(e.ignore_eos);
    }

    #[test]
    fn content_is_kept_only_where_it_is_wanted() {
        let body = br#"{"messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":true}}"#;
        assert!(read(body, false).expect("JSON").content.is_none());
        let e = read(body, true).expect("JSON");
        assert!(e.has_messages && e.include_usage && e.content.is_some());
        assert!(read(b"{} x", false).is_err() && read(b"[1]", false).is_err() && read(b"", false).is_err());
    }
}
