//! One decision on one screen.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;

use super::record::{Candidate, DroppedBy, Outcome, Profile, Record};
use super::table;
use crate::terminal::{Paint, ago, clean, count, millis, thousands};

/// Endpoints whose signals are named one by one; of more, only the range is told.
const NAMED: usize = 8;

/// The decision as `pointsman explain` shows it. `signals` adds what was known of each endpoint.
pub(crate) fn render(record: &Record, signals: bool, paint: Paint) -> String {
    let mut out = String::new();
    head(&mut out, record, paint);
    for profile in &record.profiles {
        head_of_profile(&mut out, profile);
        out.push('\n');
        candidates(&mut out, profile, &record.at, paint);
        out.push('\n');
        if let Some(text) = prefix(record, profile) {
            line(&mut out, "prefix", &text);
        }
        line(&mut out, "signals", &ages(profile));
        if signals {
            known(&mut out, profile);
        }
        if let Some(text) = draw(profile) {
            line(&mut out, "draw", &text);
        }
    }
    if record.profiles.is_empty() {
        out.push_str("no profile ran: the request was refused before\n\n");
    }
    for retry in &record.outcome.retried {
        line(&mut out, "retried", &format!("{} could not serve: {}", clean(&retry.endpoint), clean(&retry.error)));
    }
    let s = &record.steps_us;
    let steps = format!(
        "read {:.1}, resolve {:.1}, gather {:.1}, schedule {:.1}, send {:.1} us",
        s.read, s.resolve, s.gather, s.schedule, s.send
    );
    if s.wait > 0.0 {
        line(&mut out, "held", &format!("{:.1} ms before the decision", s.wait / 1e3));
    }
    line(&mut out, "steps", &steps);
    line(&mut out, "outcome", &outcome(record));
    out
}

fn line(out: &mut String, label: &str, text: &str) {
    let _ = writeln!(out, "{label:<10} {text}");
}

fn head(out: &mut String, record: &Record, paint: Paint) {
    let model = if record.target_model.is_empty() || record.target_model == record.model {
        clean(&record.model)
    } else {
        format!("{} (asked for {})", clean(&record.target_model), clean(&record.model))
    };
    let id = format!("decision {}", clean(&record.id));
    let tokens = count(record.prompt_tokens_estimated, "token");
    let _ = writeln!(
        out,
        "{}   {} {}   model {}   {tokens} (estimated)   {:.0} us",
        paint.bold(&id),
        clean(&record.method),
        clean(&record.path),
        if model.is_empty() { "(none)" } else { &model },
        record.steps_us.total
    );
}

fn head_of_profile(out: &mut String, profile: &Profile) {
    let all = profile.candidates.len() as u64 + profile.omitted;
    let of = |wanted: DroppedBy| profile.candidates.iter().filter(|c| c.dropped() == Some(wanted)).count();
    let mut parts = vec![count(all, "endpoint"), format!("{} not ready", of(DroppedBy::NotReady))];
    // What most pools never see is told only where it happens.
    for (n, what) in
        [(of(DroppedBy::ModelNotListed), "without the model"), (of(DroppedBy::NotInSubset), "not in the subset")]
    {
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    parts.push(format!("{} filtered", of(DroppedBy::Filter)));
    if profile.omitted_dropped > 0 {
        parts.push(format!("{} dropped and not listed", thousands(profile.omitted_dropped)));
    }
    let picked = if profile.picked.is_empty() { "nobody picked" } else { "picked" };
    parts.push(format!("{picked} by {}", clean(&profile.picker)));
    let label = format!("profile {}", clean(&profile.name));
    let _ = writeln!(out, "{label:<22}   {}", parts.join(", "));
}

fn candidates(out: &mut String, profile: &Profile, at: &str, paint: Paint) {
    let width = table::names_width(profile);
    let rated = profile.rated();
    if !rated.is_empty() {
        for (row, text) in table::lines(&rated, width).iter().enumerate() {
            match row.checked_sub(1).map(|row| profile.picked.contains(&rated[row].endpoint)) {
                None => {
                    let _ = writeln!(out, "  {}", paint.dim(text));
                }
                Some(true) => {
                    let _ = writeln!(out, "{}", paint.good(&format!("> {text}")));
                }
                Some(false) => {
                    let _ = writeln!(out, "  {text}");
                }
            }
        }
    }
    for candidate in profile.candidates.iter().filter(|c| c.dropped_by.is_some()) {
        let text = dropped(candidate, at);
        let _ = writeln!(out, "  {:<width$}   {}", clean(&candidate.endpoint), paint.dim(&text));
    }
    if profile.omitted > 0 {
        let dropped = profile.omitted_dropped;
        let _ = writeln!(out, "  ... {} not shown, {dropped} of them dropped", count(profile.omitted, "endpoint"));
    }
}

fn dropped(candidate: &Candidate, at: &str) -> String {
    let age = candidate
        .since
        .as_deref()
        .and_then(|since| between(since, at))
        .map_or_else(String::new, |age| format!(" for {}", ago(age)));
    let reason = clean(candidate.reason.as_deref().unwrap_or(""));
    let or = |text: &str| if reason.is_empty() { text.to_owned() } else { reason.clone() };
    match candidate.dropped() {
        Some(DroppedBy::NotReady) if reason.is_empty() => format!("not ready{age}"),
        Some(DroppedBy::NotReady) => {
            format!("not ready{age}: {}", reason.strip_prefix("not ready: ").unwrap_or(&reason))
        }
        Some(DroppedBy::ModelNotListed) => or("the engine does not list the requested model"),
        Some(DroppedBy::NotInSubset) => or("not in the subset that the proxy allows"),
        Some(DroppedBy::Filter) | None => {
            let by = clean(candidate.dropped_by.as_deref().unwrap_or(""));
            if reason.is_empty() { format!("dropped by {by}") } else { format!("dropped by {by}: {reason}") }
        }
    }
}

/// Time between two moments in RFC 3339.
fn between(earlier: &str, later: &str) -> Option<Duration> {
    let (earlier, later) = (earlier.parse::<Timestamp>().ok()?, later.parse::<Timestamp>().ok()?);
    Duration::try_from(later.duration_since(earlier)).ok()
}

/// What the pick holds of the prompt, and who holds more.
fn prefix(record: &Record, profile: &Profile) -> Option<String> {
    let (block, blocks) = (record.block_tokens, record.prompt_blocks);
    if block == 0 {
        return None;
    }
    if blocks == 0 {
        return Some("the prompt has no block to look for".into());
    }
    // The last block may be partly filled.
    let all = match record.prompt_tokens_estimated {
        0 => blocks * block,
        tokens => tokens.min(blocks * block),
    };
    let of = |c: &Candidate| {
        let held = c.prefix_match_tokens;
        let (name, held_blocks) = (clean(&c.endpoint), thousands(held.div_ceil(block)));
        format!(
            "{name} holds {held_blocks} of {} ({} of {} tokens)",
            count(blocks, "block"),
            thousands(held),
            thousands(all)
        )
    };
    let best = profile.candidates.iter().max_by_key(|c| c.prefix_match_tokens)?;
    if best.prefix_match_tokens == 0 {
        return Some(match blocks {
            1 => format!("nobody is known to hold the prompt's one block ({})", count(all, "token")),
            _ => format!("nobody is known to hold any of the {} ({})", count(blocks, "block"), count(all, "token")),
        });
    }
    let Some(pick) = profile.pick() else { return Some(of(best)) };
    let mut text = of(pick);
    if best.prefix_match_tokens > pick.prefix_match_tokens {
        let _ =
            write!(text, "; {} holds {}", clean(&best.endpoint), thousands(best.prefix_match_tokens.div_ceil(block)));
    }
    Some(text)
}

fn ages(profile: &Profile) -> String {
    // Of an endpoint that was out before any filter, nothing was looked up.
    let read: Vec<&Candidate> =
        profile.candidates.iter().filter(|c| matches!(c.dropped(), None | Some(DroppedBy::Filter))).collect();
    let known: Vec<(&Candidate, u64)> = read.iter().filter_map(|c| Some((*c, c.signals.age_ms?))).collect();
    let (Some(least), Some(most)) = (known.iter().map(|k| k.1).min(), known.iter().map(|k| k.1).max()) else {
        return "no metrics were ever read".into();
    };
    let range = if least == most { thousands(least) } else { format!("{}-{}", thousands(least), thousands(most)) };
    let mut text = format!("metrics {range} ms old");
    if known.len() > 1 && read.len() <= NAMED {
        let each: Vec<String> =
            known.iter().map(|(c, age)| format!("{} {}", clean(&c.endpoint), thousands(*age))).collect();
        let _ = write!(text, " ({})", each.join(", "));
    }
    let never: Vec<String> = read.iter().filter(|c| c.signals.age_ms.is_none()).map(|c| clean(&c.endpoint)).collect();
    if !never.is_empty() {
        let who = if never.len() <= NAMED { never.join(", ") } else { count(never.len() as u64, "endpoint") };
        let _ = write!(text, ", never read of {who}");
    }
    text
}

/// What was known of each endpoint at that moment.
fn known(out: &mut String, profile: &Profile) {
    let width = table::names_width(profile);
    let number = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| thousands(v.max(0.0) as u64));
    let _ = writeln!(out, "  {:<width$}   waiting   running   kv cache   in flight   adapter", "endpoint");
    for c in &profile.candidates {
        let s = &c.signals;
        let kv = s.kv_cache_usage.map_or_else(|| "-".to_owned(), |v| format!("{:.1} %", v * 100.0));
        let _ = writeln!(
            out,
            "  {:<width$}   {:>7}   {:>7}   {kv:>8}   {:>9}   {}",
            clean(&c.endpoint),
            number(s.waiting),
            number(s.running),
            thousands(s.in_flight),
            clean(s.lora.as_deref().unwrap_or("-")),
        );
    }
}

fn draw(profile: &Profile) -> Option<String> {
    if profile.ties.len() < 2 {
        return None;
    }
    let names: Vec<String> = profile.ties.iter().take(NAMED).map(|name| clean(name)).collect();
    let more = profile.ties.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let drawn = profile.picked.first().map_or_else(String::new, |pick| format!("; {} was drawn", clean(pick)));
    let total = profile.rated().first().and_then(|c| c.total).map_or_else(String::new, |t| format!(" at {t:.3}"));
    Some(format!("{}{more} tied{total}{drawn}", names.join(", ")))
}

fn outcome(record: &Record) -> String {
    let o: &Outcome = &record.outcome;
    let mut parts = Vec::new();
    match (o.status, o.is_final()) {
        (Some(status), _) => parts.push(status.to_string()),
        (None, false) => parts.push("under way".into()),
        (None, true) => parts.push("no answer".into()),
    }
    if o.status.is_some() && !o.is_final() {
        parts.push("streaming".into());
    }
    if o.retries > 0
        && let Some(served) = &o.endpoint
    {
        parts.push(format!(
            "served by {} after {}",
            clean(served),
            if o.retries == 1 { "1 retry".into() } else { format!("{} retries", o.retries) }
        ));
    }
    if let Some(ms) = o.ttft_ms {
        parts.push(format!("TTFT {}", millis(ms)));
    }
    if let Some(ms) = o.duration_ms {
        parts.push(format!("{} in all", millis(ms)));
    }
    if let (Some(prompt), Some(completion)) = (o.prompt_tokens, o.completion_tokens) {
        parts.push(format!("{} + {} tokens", thousands(prompt), thousands(completion)));
    }
    if record.profiles.is_empty() {
        return finish(parts, o);
    }
    let actual = o.cached_tokens.map_or_else(|| "not reported".to_owned(), |n| format!("{} actual", thousands(n)));
    parts.push(format!("cached tokens: {} predicted, {actual}", thousands(o.cached_tokens_predicted)));
    finish(parts, o)
}

/// How it ended, where that is not as one would wish.
fn finish(mut parts: Vec<String>, o: &Outcome) -> String {
    match o.ended.as_deref() {
        None | Some("natural" | "error") => {}
        Some("refused") => parts.push("refused".into()),
        Some(how) => parts.push(format!("ended by {}", clean(how))),
    }
    if let Some(error) = &o.error {
        parts.push(clean(error));
    }
    parts.join(", ")
}
