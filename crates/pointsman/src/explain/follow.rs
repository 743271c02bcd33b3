//! One line per decision, as they happen.

use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::record::Record;
use crate::admin_client::Target;
use crate::failure::Failure;
use crate::terminal::{Paint, clean, count, millis, thousands};

const POLL: Duration = Duration::from_millis(250);
/// A decision whose request has not ended after this long is shown without its outcome.
const PATIENCE: Duration = Duration::from_secs(2);
const BATCH: usize = 500;

#[derive(Deserialize)]
struct Page {
    decisions: Vec<Record>,
}

/// Prints decisions until interrupted, or until the other side is gone.
pub(super) async fn follow(target: &Target, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let newest: Page = target.get("/api/decisions?limit=1").await?.read()?;
    let mut seen = Seen { cursor: newest.decisions.first().map(|d| d.id.clone()), waiting: HashMap::new() };
    let paint = Paint::stdout();
    loop {
        let after = seen.cursor.as_ref().map_or_else(String::new, |id| format!("&after={id}"));
        let answer = target.get(&format!("/api/decisions?limit={BATCH}{after}")).await?;
        let page: Page = answer.read()?;
        let due = seen.due(&page.decisions, Instant::now());
        for &at in &due {
            if json {
                let raw: RawPage<'_> = serde_json::from_slice(&answer.0)
                    .map_err(|e| Failure::new("the answer of the admin listener cannot be read").why(e))?;
                writeln!(out, "{}", raw.decisions[at].get())?;
            } else {
                writeln!(out, "{}", one_line(&page.decisions[at], paint))?;
            }
        }
        out.flush()?;
        tokio::time::sleep(POLL).await;
    }
}

#[derive(Deserialize)]
struct RawPage<'a> {
    #[serde(borrow)]
    decisions: Vec<&'a serde_json::value::RawValue>,
}

/// What has been shown, and what is waited for.
struct Seen {
    /// All decisions up to this one have been shown.
    cursor: Option<String>,
    /// Later ones: when each was first seen, and whether it has been shown.
    waiting: HashMap<String, (Instant, bool)>,
}

impl Seen {
    /// Which decisions of a page (newest first) are to be shown now, oldest first.
    fn due(&mut self, page: &[Record], now: Instant) -> Vec<usize> {
        let mut due = Vec::new();
        let mut all_shown = true;
        for (at, record) in page.iter().enumerate().rev() {
            let state = self.waiting.entry(record.id.clone()).or_insert((now, false));
            if !state.1 && (record.outcome.is_final() || now.duration_since(state.0) >= PATIENCE) {
                state.1 = true;
                due.push(at);
            }
            all_shown &= state.1;
            if all_shown {
                self.cursor = Some(record.id.clone());
            }
        }
        // Ids sort by time.
        if let Some(cursor) = &self.cursor {
            self.waiting.retain(|id, _| id > cursor);
        }
        due
    }
}

/// `12:03:04.123  0D..K3  demo  2,310 tokens  -> C 0.790 (A 0.449)  prefix 33/36  200  TTFT 61 ms`.
fn one_line(record: &Record, paint: Paint) -> String {
    let time = record.at.get(11..23).unwrap_or("");
    let model = if record.model.is_empty() { "(no model)".to_owned() } else { clean(&record.model) };
    let mut parts = vec![time.to_owned(), clean(&record.id), model, count(record.prompt_tokens_estimated, "token")];
    if let Some(profile) = record.profiles.last() {
        let rated = profile.rated();
        let pick = profile.pick().map_or_else(
            || "nobody".to_owned(),
            |c| format!("{}{}", clean(&c.endpoint), c.total.map_or_else(String::new, |t| format!(" {t:.3}"))),
        );
        let next = rated.iter().find(|c| !profile.picked.contains(&c.endpoint));
        let next = next.and_then(|c| Some(format!(" ({} {:.3})", clean(&c.endpoint), c.total?))).unwrap_or_default();
        parts.push(format!("-> {}{next}", paint.bold(&pick)));
        if record.block_tokens > 0 && record.prompt_blocks > 0 {
            let held = profile.pick().map_or(0, |c| c.prefix_match_tokens.div_ceil(record.block_tokens));
            parts.push(format!("prefix {}/{}", thousands(held), thousands(record.prompt_blocks)));
        }
    } else {
        parts.push("refused".into());
    }
    let o = &record.outcome;
    if o.retries > 0 {
        parts.push(format!("{} retried", o.retries));
    }
    match o.status {
        Some(status) => {
            parts.push(if status < 400 { status.to_string() } else { paint.bad(&status.to_string()).into_owned() })
        }
        None => parts.push("under way".into()),
    }
    if let Some(ms) = o.ttft_ms {
        parts.push(format!("TTFT {}", millis(ms)));
    }
    if let Some(error) = &o.error {
        parts.push(paint.bad(&clean(error)).into_owned());
    }
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::record::Outcome;

    fn record(id: &str, ended: bool) -> Record {
        let outcome = Outcome { ended: ended.then(|| "natural".into()), ..Outcome::default() };
        Record { id: id.into(), outcome, ..Record::default() }
    }

    #[test]
    fn each_decision_is_shown_once_when_it_has_ended_or_has_taken_long() {
        let start = Instant::now();
        let mut seen = Seen { cursor: None, waiting: HashMap::new() };
        let ids = |page: &[Record], due: Vec<usize>| due.into_iter().map(|at| page[at].id.clone()).collect::<Vec<_>>();

        let page = [record("3", true), record("2", false), record("1", true)];
        assert_eq!(ids(&page, seen.due(&page, start)), ["1", "3"]);
        assert_eq!(seen.cursor.as_deref(), Some("1"));

        let page = [record("3", true), record("2", false)];
        assert!(seen.due(&page, start + PATIENCE / 2).is_empty());
        assert_eq!(ids(&page, seen.due(&page, start + PATIENCE)), ["2"]);
        assert_eq!((seen.cursor.as_deref(), seen.waiting.len()), (Some("3"), 0));
        assert!(seen.due(&[], start + PATIENCE).is_empty());
    }
}
