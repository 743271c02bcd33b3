//! Mooncake's traces: JSON Lines with ids of content (simulator 3.1).

use serde::Deserialize;

use super::lengths::MOST;
use super::read::nanos;
use super::{Arrival, Prompt, When};
use pointsman_core::Nanos;

/// Tokens per id where a line does not say.
const BLOCK_TOKENS: u32 = 512;

#[derive(Deserialize)]
struct Line {
    /// Milliseconds.
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
    block_tokens: Option<u32>,
    session: Option<u64>,
    lora: Option<String>,
}

/// One line, with its time in nanoseconds.
pub(super) fn line(text: &str, _: usize) -> Result<(u64, Arrival), String> {
    let line: Line = serde_json::from_str(text).map_err(|e| json_fault(&e))?;
    let at = nanos(line.timestamp / 1e3).ok_or("timestamp is no time in milliseconds")?;
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
