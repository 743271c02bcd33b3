//! Replacing the model's name inside a body.

use bytes::Bytes;
use std::ops::Range;

/// The body `chunks` with the bytes at `span` (offsets over all chunks) replaced by `replacement` as a JSON string. Everything else is
/// shared with the original, not copied. A span beyond the end is cut to the body.
#[must_use]
pub fn splice(chunks: &[Bytes], span: Range<usize>, replacement: &str) -> Vec<Bytes> {
    let mut out = Vec::with_capacity(chunks.len() + 2);
    let quoted = Bytes::from(serde_json::Value::from(replacement).to_string());
    let mut keep = |piece: Bytes| {
        if !piece.is_empty() {
            out.push(piece);
        }
    };
    let mut replaced = false;
    let mut base = 0;
    for chunk in chunks {
        let within = |offset: usize| offset.saturating_sub(base).min(chunk.len());
        keep(chunk.slice(..within(span.start)));
        if !replaced && span.start < base + chunk.len() {
            keep(quoted.clone());
            replaced = true;
        }
        keep(chunk.slice(within(span.end.max(span.start))..));
        base += chunk.len();
    }
    if !replaced {
        keep(quoted);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_model_changes_wherever_the_chunks_are_cut() {
        let body = br#"{ "model" : "acme-chat",  "seed": 9007199254740993, "prompt":"<x>"}"#;
        let span = 12..23;
        assert_eq!(&body[span.clone()], br#""acme-chat""#);
        for a in 0..=body.len() {
            for b in a..=body.len() {
                let chunks = [&body[..a], &body[a..b], &body[b..]].map(Bytes::copy_from_slice);
                let out = splice(&chunks, span.clone(), "a\"b\u{e9}").concat();
                assert_eq!(
                    String::from_utf8(out).expect("text"),
                    "{ \"model\" : \"a\\\"b\u{e9}\",  \"seed\": 9007199254740993, \"prompt\":\"<x>\"}"
                );
            }
        }
    }

    #[test]
    fn the_rest_is_shared_not_copied() {
        let chunk = Bytes::from_static(br#"{"model":"m","prompt":"x"}"#);
        let out = splice(std::slice::from_ref(&chunk), 9..12, "other");
        assert_eq!(out.len(), 3);
        assert_eq!(out[2].as_ptr(), chunk[12..].as_ptr());
    }
}
