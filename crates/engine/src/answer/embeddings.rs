//! `/v1/embeddings`: small vectors that follow from the text alone.

use std::fmt::Write;

use pointsman_core::xxh64;
use pointsman_sim::Rng;
use serde_json::Value;

use super::quoted;

/// The vector of one input: unit length, the same for the same bytes.
fn vector(input: &[u8], dimensions: usize) -> Vec<f32> {
    let mut rng = Rng::new(xxh64(input));
    let raw: Vec<f64> = (0..dimensions).map(|_| rng.normal()).collect();
    let length = raw.iter().map(|x| x * x).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    raw.iter().map(|x| (x / length) as f32).collect()
}

/// Items of `input`: bytes, and how many tokens they are by the four-byte rule. `None` when it is nothing that can be embedded.
pub(crate) fn inputs(input: &Value) -> Option<Vec<(Vec<u8>, u64)>> {
    let text = |t: &str| (!t.is_empty()).then(|| (t.as_bytes().to_vec(), t.len().div_ceil(4) as u64));
    let ids = |list: &[Value]| -> Option<(Vec<u8>, u64)> {
        let mut bytes = Vec::with_capacity(list.len() * 8);
        for id in list {
            bytes.extend_from_slice(&id.as_u64()?.to_le_bytes());
        }
        (!list.is_empty()).then_some((bytes, list.len() as u64))
    };
    match input {
        Value::String(t) => Some(vec![text(t)?]),
        Value::Array(list) if list.first().is_some_and(Value::is_number) => Some(vec![ids(list)?]),
        Value::Array(list) if !list.is_empty() => list
            .iter()
            .map(|entry| match entry {
                Value::String(t) => text(t),
                Value::Array(list) => ids(list),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

/// The answer's body.
pub(crate) fn embeddings(
    id: &str,
    created: u64,
    model: &str,
    inputs: &[(Vec<u8>, u64)],
    dimensions: usize,
    base64: bool,
) -> String {
    let mut data = String::new();
    for (index, (bytes, _)) in inputs.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let vector = vector(bytes, dimensions);
        let embedding = if base64 {
            let raw: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            format!("\"{}\"", encode(&raw))
        } else {
            Value::from(vector).to_string()
        };
        let _ = write!(data, r#"{comma}{{"index":{index},"object":"embedding","embedding":{embedding}}}"#);
    }
    let tokens: u64 = inputs.iter().map(|(_, tokens)| tokens).sum();
    format!(
        r#"{{"id":"embd-{id}","object":"list","created":{created},"model":{},"data":[{data}],"usage":{{"prompt_tokens":{tokens},"total_tokens":{tokens},"completion_tokens":0,"prompt_tokens_details":null}}}}"#,
        quoted(model)
    )
}

/// Base64 with padding.
fn encode(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = u32::from(chunk[0]) << 16
            | u32::from(chunk.get(1).copied().unwrap_or(0)) << 8
            | u32::from(chunk.get(2).copied().unwrap_or(0));
        for i in 0..4 {
            out.push(if i <= chunk.len() { ALPHABET[(word >> (18 - 6 * i)) as usize & 63] as char } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn base64_pads_to_four() {
        for (text, want) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(encode(text.as_bytes()), want);
        }
    }

    #[test]
    fn vectors_follow_from_the_text_and_have_unit_length() {
        let a = vector(b"one", 64);
        assert_eq!(a, vector(b"one", 64));
        assert_ne!(a, vector(b"two", 64));
        assert!((a.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4);
    }

    #[test]
    fn input_comes_in_four_shapes() {
        let shape = |value| inputs(&value).map(|list| list.into_iter().map(|(_, tokens)| tokens).collect::<Vec<_>>());
        assert_eq!(shape(json!("hello")), Some(vec![2]));
        assert_eq!(shape(json!(["a", "bcdef"])), Some(vec![1, 2]));
        assert_eq!(shape(json!([1, 2, 3])), Some(vec![3]));
        assert_eq!(shape(json!([[1], [2, 3]])), Some(vec![1, 2]));
        for bad in [json!(""), json!([]), json!([""]), json!([{}]), json!(3), json!([-1]), json!([[]])] {
            assert_eq!(shape(bad.clone()), None, "{bad}");
        }
    }
}
