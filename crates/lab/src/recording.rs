//! What is kept of real decisions: enough to decide them again, and to replay their requests. No text is in it, prompts are salted hashes.
//!
//! A recording is JSON Lines. Each line is a line of a trace as [`workload::read`](crate::workload::read) takes it, and has beside that what was known of
//! each endpoint.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::mix;
use crate::workload::MOST_TOKENS as MOST;

/// Milliseconds that a recording may span: thirty years.
const LAST: u64 = 1_000_000_000_000;

/// An endpoint at the moment of a decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    /// Its name in the fleet; empty where nobody kept it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `host:port`.
    pub address: String,
    /// Requests waiting in the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<f64>,
    /// Requests running in the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<f64>,
    /// KV cache usage, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_usage: Option<f64>,
    /// Requests in flight through the router.
    pub in_flight: u64,
    /// Where the requested adapter stood: `active`, `waiting`, `room` or `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<String>,
    /// Prompt tokens it was believed to hold.
    pub prefix_match_tokens: u64,
    /// It was out before any filter: not ready, not serving the model, not allowed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub out: bool,
}

/// A line of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recorded {
    /// Milliseconds since the recording's first request.
    pub timestamp: u64,
    /// Prompt tokens, as the router estimated them: `hash_ids` count their blocks.
    pub input_length: u64,
    /// Generated tokens; 1 where nobody counted.
    pub output_length: u64,
    /// One id per block.
    pub hash_ids: Vec<u64>,
    /// Tokens in a block.
    pub block_tokens: u32,
    /// Model after rewriting.
    pub model: String,
    /// LoRA adapter, where the model is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<String>,
    /// What was known of the endpoints.
    pub candidates: Vec<Seen>,
    /// `host:port` that was chosen; empty where the request was refused.
    pub picked: String,
    /// Milliseconds to the first byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    /// Prompt tokens that the engine had cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
}

impl Recorded {
    /// From a decision's JSON form (admin API, decision log); nothing of a request that was turned away before there were candidates. `begin`: Unix milliseconds of the recording's first request, set by it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of(decision: &Value, begin: &mut Option<u64>) -> Result<Option<Self>, String> {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let at: jiff::Timestamp =
            text(decision, "at").parse().map_err(|_| "a decision has no time (`at`)".to_owned())?;
        let at = u64::try_from(at.as_millisecond()).unwrap_or(0);
        let primary = decision["profiles"].get(0).unwrap_or(&Value::Null);
        let candidates = primary["candidates"].as_array().map_or(&[][..], Vec::as_slice);
        if candidates.is_empty() {
            return Ok(None);
        }
        let begin = *begin.get_or_insert(at);
        let outcome = &decision["outcome"];
        let estimated = decision["prompt_tokens_estimated"].as_u64().unwrap_or(0).min(MOST);
        let block_tokens = decision["block_tokens"].as_u64().unwrap_or(64).clamp(1, 1 << 20) as u32;
        // Ids count blocks of the estimate, so that is the length that they go with.
        let input_length = estimated.max(1);
        let hashes = decision["block_hashes"].as_array().map_or(&[][..], Vec::as_slice);
        // Whole in every reader of JSON, JavaScript included.
        let id = |value: &Value| u64::from_str_radix(value.as_str().unwrap_or_default(), 16).unwrap_or(0) >> 11;
        let mut hash_ids: Vec<u64> = hashes.iter().map(id).collect();
        let own = text(decision, "id").bytes().fold(1, |hash, byte| mix(hash ^ u64::from(byte)));
        let blocks = input_length.div_ceil(u64::from(block_tokens)) as usize;
        // Beyond what was hashed, and where nothing was, a prompt is like no other.
        let known = hash_ids.len();
        hash_ids.extend((known..blocks).map(|at| mix(own ^ at as u64) >> 11));
        hash_ids.truncate(blocks);
        let candidates: Vec<Seen> = candidates.iter().map(seen).collect();
        let model = text(decision, "target_model");
        // A base model is never in a slot for adapters.
        let is_adapter = |c: &Seen| matches!(c.lora.as_deref(), Some("active" | "waiting"));
        let lora = candidates.iter().any(is_adapter).then(|| model.clone());
        Ok(Some(Self {
            timestamp: at.saturating_sub(begin).min(LAST),
            input_length,
            output_length: outcome["completion_tokens"].as_u64().unwrap_or(1).max(1),
            hash_ids,
            block_tokens,
            model,
            lora,
            candidates,
            picked: text(outcome, "endpoint"),
            ttft_ms: outcome["ttft_ms"].as_f64(),
            cached_tokens: outcome["cached_tokens"].as_u64(),
        }))
    }

    /// Reads a line of a recording, or of a decision log; nothing where it has no candidates.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(line: &str, begin: &mut Option<u64>) -> Result<Option<Self>, String> {
        let value: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        if value.get("profiles").is_some() {
            return Self::of(&value, begin);
        }
        let decided = value.get("candidates").is_some() || value.get("picked").is_some();
        let mut recorded: Self = serde_json::from_value(value).map_err(|e| e.to_string())?;
        if recorded.input_length > MOST || recorded.output_length > MOST || recorded.timestamp > LAST {
            return Err(format!("lengths are to be {MOST} tokens at most, times {LAST} milliseconds"));
        }
        for seen in &mut recorded.candidates {
            seen.prefix_match_tokens = seen.prefix_match_tokens.min(recorded.input_length);
            seen.in_flight = seen.in_flight.min(MOST);
        }
        if !decided {
            return Err("this is no recorded decision: it has no candidates".into());
        }
        Ok((!recorded.candidates.is_empty()).then_some(recorded))
    }

    /// What a person calls the endpoint at that address.
    #[must_use]
    pub fn name<'a>(&'a self, address: &'a str) -> &'a str {
        let seen = self.candidates.iter().find(|seen| seen.address == address && !seen.name.is_empty());
        seen.map_or(address, |seen| &seen.name)
    }
}

/// Whether a line is one of a decision log.
pub(crate) fn is_decision(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|value| value.get("profiles").is_some())
}

fn seen(candidate: &Value) -> Seen {
    let signals = &candidate["signals"];
    let by = candidate["dropped_by"].as_str().unwrap_or_default();
    Seen {
        name: candidate["endpoint"].as_str().unwrap_or_default().to_owned(),
        address: candidate["address"].as_str().unwrap_or_default().to_owned(),
        waiting: signals["waiting"].as_f64(),
        running: signals["running"].as_f64(),
        kv_cache_usage: signals["kv_cache_usage"].as_f64(),
        in_flight: signals["in_flight"].as_u64().unwrap_or(0),
        lora: signals["lora"].as_str().map(str::to_owned),
        prefix_match_tokens: candidate["prefix_match_tokens"].as_u64().unwrap_or(0),
        out: ["not-ready", "model-not-listed", "not-in-subset"].contains(&by),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::read;
    use serde_json::json;

    fn decision(at: &str) -> Value {
        json!({
            "id": "1M8", "at": at, "target_model": "m", "prompt_tokens_estimated": 150, "block_tokens": 64,
            "block_hashes": ["0000000000010000", "ffffffffffffffff"],
            "profiles": [{"candidates": [
                {"endpoint": "A", "address": "10.0.0.1:80", "dropped_by": null, "signals": {"waiting": 2.0, "in_flight": 1, "lora": "active"}, "prefix_match_tokens": 64},
                {"address": "10.0.0.2:80", "dropped_by": "not-ready", "signals": {}}]}],
            "outcome": {"endpoint": "10.0.0.1:80", "ttft_ms": 12.5, "completion_tokens": 7, "cached_tokens": 64},
        })
    }

    #[test]
    fn a_decision_becomes_a_line_of_a_trace_and_back() {
        let mut begin = None;
        let first =
            Recorded::of(&decision("2026-11-29T10:00:00.000Z"), &mut begin).expect("fine").expect("it has candidates");
        let second =
            Recorded::of(&decision("2026-11-29T10:00:01.500Z"), &mut begin).expect("fine").expect("it has candidates");
        assert_eq!((first.timestamp, second.timestamp, first.hash_ids.len()), (0, 1_500, 3));
        assert!(first.candidates[1].out && !first.candidates[0].out);
        let lines: Vec<String> = [&first, &second].map(|r| serde_json::to_string(r).expect("JSON")).to_vec();
        assert_eq!((first.name("10.0.0.1:80"), first.name("10.0.0.2:80")), ("A", "10.0.0.2:80"));
        assert_eq!(Recorded::read(&lines[0], &mut None), Ok(Some(first)));
        let workload = read("r", lines.join("\n").as_bytes(), None).expect("a trace");
        assert_eq!((workload.requests.len(), workload.requests[1].output), (2, 7));
    }

    #[test]
    fn a_request_that_never_came_to_candidates_is_no_part_of_a_recording() {
        let mut refused = decision("2026-11-29T10:00:00.000Z");
        refused["profiles"] = json!([]);
        let mut begin = None;
        assert_eq!((Recorded::of(&refused, &mut begin), begin), (Ok(None), None));
        let kept_before = serde_json::to_string(&Recorded::default()).expect("JSON");
        for line in [refused.to_string(), kept_before] {
            assert_eq!(Recorded::read(&line, &mut None), Ok(None));
        }
    }

    #[test]
    fn a_line_of_a_mere_trace_is_no_decision() {
        let line = "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 5, \"hash_ids\": [0]}";
        assert!(Recorded::read(line, &mut None).is_err());
        assert!(Recorded::read("{", &mut None).is_err());
        let far = "{\"timestamp\": 18446744073709551615, \"input_length\": 18446744073709551615, \"picked\": \"a:1\"}";
        assert!(Recorded::read(far, &mut None).is_err());
    }
}
