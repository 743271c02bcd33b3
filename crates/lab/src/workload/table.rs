//! Traces as tables: lengths and times, no content (simulator 3.2). Their prompts share nothing.

use pointsman_core::Nanos;

use super::lengths::MOST;
use super::read::{no_time, time};
use super::{Arrival, Prompt, When};
use crate::mix;

/// Places of the columns that are read.
pub(super) struct Columns {
    names: Vec<String>,
    time: usize,
    input: usize,
    output: usize,
    session: Option<usize>,
}

impl Columns {
    /// From the header. Names are compared without case, spaces and underscores.
    pub(super) fn of(header: &str) -> Result<Self, String> {
        let names: Vec<String> = cells(header).map(str::to_owned).collect();
        let plain: Vec<String> = names.iter().map(|name| name.to_lowercase().replace([' ', '_'], "")).collect();
        let find = |wanted: &[&str]| plain.iter().position(|name| wanted.contains(&name.as_str()));
        let found = (
            find(&["timestamp", "time", "arrivaltime"]),
            find(&["contexttokens", "requesttokens", "inputlength", "prompttokens"]),
            find(&["generatedtokens", "responsetokens", "outputlength", "completiontokens"]),
        );
        let (Some(time), Some(input), Some(output)) = found else {
            let what = "unknown columns: wanted are TIMESTAMP,ContextTokens,GeneratedTokens or Timestamp,Request tokens,Response tokens";
            return Err(what.into());
        };
        Ok(Self { time, input, output, session: find(&["sessionid", "session"]), names })
    }

    /// One line, with its time in nanoseconds; nothing for a request that had no answer.
    pub(super) fn line(&self, text: &str, number: usize) -> Result<Option<(u64, Arrival)>, String> {
        let cells: Vec<&str> = cells(text).collect();
        let cell = |at: usize| cells.get(at).copied().ok_or_else(|| format!("column {} is missing", self.names[at]));
        let tokens = |at: usize| {
            let text = cell(at)?;
            let whole = text.parse::<u64>().ok().filter(|n| *n <= MOST);
            whole.ok_or_else(|| {
                format!("{} is no whole number: `{}`", self.names[at], text.chars().take(40).collect::<String>())
            })
        };
        let (input, output) = (tokens(self.input)?, tokens(self.output)?);
        let text = cell(self.time)?;
        let at = time(text)
            .ok_or_else(|| no_time(&self.names[self.time], text, "seconds, Unix time in seconds or milliseconds"))?;
        if output == 0 {
            return Ok(None);
        }
        let unit = 64;
        let own = mix(number as u64 ^ 0x72_6f_77);
        let ids = (0..input.max(1).div_ceil(u64::from(unit))).map(|at| mix(own ^ at)).collect();
        let session = self.session.and_then(|at| cells.get(at)).filter(|s| !s.is_empty());
        let arrival = Arrival {
            when: When::At(Nanos(at)),
            prompt: Prompt { tokens: input.max(1), unit, ids },
            output,
            session: session.map(|s| s.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)))),
            lora: None,
        };
        Ok(Some((at, arrival)))
    }
}

/// Cells of a line. None of the known columns holds a comma.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|cell| cell.trim().trim_matches('"').trim())
}
