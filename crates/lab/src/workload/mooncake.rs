//! Mooncake's traces: JSON Lines with ids of content (simulator 3.1).

use serde::{Deserialize, Serialize};

use super::lengths::MOST;
use super::read::{nanos, no_time, time};
use super::{Arrival, Prompt, When, Workload};
use pointsman_core::Nanos;

/// Tokens per id where a line does not say.
const BLOCK_TOKENS: u32 = 512;

#[derive(Deserialize, Serialize)]
struct Line {
    timestamp: Time,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
    block_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lora: Option<String>,
}

/// A time as a line has it.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Time {
    Millis(f64),
    Date(String),
    /// Something else, to be quoted.
    None(serde_json::Value),
}

impl Time {
    fn nanos(&self) -> Result<u64, String> {
        let fault = |text: &str| no_time("timestamp", text, "milliseconds, Unix time included");
        match self {
            Self::Millis(ms) => nanos(ms / 1e3).ok_or_else(|| fault(&ms.to_string())),
            Self::Date(text) if text.parse::<f64>().is_err() => time(text).ok_or_else(|| fault(text)),
            Self::Date(text) => Err(fault(&format!("\"{text}\""))),
            Self::None(value) => Err(fault(&value.to_string())),
        }
    }
}

impl Workload {
    /// As lines of a trace; `None` where requests wait for others, of which a trace can tell nothing.
    #[must_use]
    pub fn trace(&self) -> Option<impl Iterator<Item = String>> {
        let timed = self.requests.iter().all(|r| matches!(r.when, When::At(_)));
        (timed && self.stages.len() == 1).then(|| self.requests.iter().map(written))
    }
}

fn written(request: &Arrival) -> String {
    let at = if let When::At(at) = request.when { at.0 } else { 0 };
    let line = Line {
        timestamp: Time::Millis(at as f64 / 1e6),
        input_length: request.prompt.tokens,
        output_length: request.output,
        // Whole in every reader of JSON, JavaScript included.
        hash_ids: request.prompt.ids.iter().map(|id| id >> 11).collect(),
        block_tokens: Some(request.prompt.unit),
        session: request.session,
        lora: request.lora.as_deref().map(str::to_owned),
    };
    serde_json::to_string(&line).unwrap_or_default()
}

/// One line, with its time in nanoseconds.
pub(super) fn line(text: &str, _: usize) -> Result<(u64, Arrival), String> {
    let line: Line = serde_json::from_str(text).map_err(|e| json_fault(&e))?;
    let at = line.timestamp.nanos()?;
    let unit = line.block_tokens.unwrap_or(BLOCK_TOKENS);
    if unit == 0 || line.input_length > MOST || line.output_length > MOST {
        return Err(format!("lengths must lie between 1 and {MOST} tokens"));
    }
    let (needs, has) = (line.input_length.div_ceil(u64::from(unit)), line.hash_ids.len() as u64);
    if needs != has {
        let are = if has == 1 { "is" } else { "are" };
        return Err(format!("{} tokens need {needs} hash_ids of {unit} tokens, there {are} {has}", line.input_length));
    }
    let prompt = Prompt { tokens: line.input_length.max(1), unit, ids: line.hash_ids.into() };
    let arrival = Arrival {
        when: When::At(Nanos(at)),
        prompt,
        output: line.output_length.max(1),
        session: line.session,
        lora: line.lora.map(Into::into),
    };
    Ok((at, arrival))
}

/// What is wrong, by column: the line is the trace's, not the parser's.
fn json_fault(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", ", column ")
}

#[cfg(test)]
mod tests {
    use crate::workload::{Spec, read, sharing};

    #[test]
    fn a_generated_workload_is_the_same_as_a_trace() {
        let made = Spec::parse("lora:requests=50,question=100..300").expect("fine").generate(3);
        let lines: Vec<String> = made.trace().expect("all have a time").collect();
        let again = read("again", lines.join("\n").as_bytes(), None).expect("a trace");
        assert_eq!(sharing(&made, 16, true), sharing(&again, 16, true));
        for (one, other) in made.requests.iter().zip(&again.requests) {
            assert_eq!((one.output, &one.lora, one.session), (other.output, &other.lora, other.session));
        }
        assert!(Spec::parse("chat:sessions=2").expect("fine").generate(1).trace().is_none());
    }
}
