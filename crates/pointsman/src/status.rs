//! `pointsman status`: the pool on one screen.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use crate::admin_client::{Target, converse};
use crate::failure::{Exit, Failure};
use crate::terminal::{Paint, ago, clean, count, thousands};

const EXAMPLES: &str = "\
Examples:
  pointsman status
  pointsman status --json --admin 10.0.0.5:9090";

/// Of which Pointsman.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES, after_help = "Ends with 1 when no endpoint is ready.")]
pub(crate) struct Status {
    /// Print what the admin API says, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Deserialize)]
pub(crate) struct Pool {
    pub(crate) endpoints: Vec<Endpoint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Endpoint {
    pub(crate) address: String,
    pub(crate) name: String,
    pub(crate) ready: bool,
    pub(crate) since_ms: u64,
    pub(crate) reason: Option<String>,
    pub(crate) scrape_age_ms: Option<u64>,
    pub(crate) engine: Option<String>,
    pub(crate) running: Option<f64>,
    pub(crate) waiting: Option<f64>,
    pub(crate) kv_cache_usage: Option<f64>,
    pub(crate) lora: Option<Lora>,
    pub(crate) in_flight: u64,
    pub(crate) cached_blocks: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Lora {
    pub(crate) running: Vec<String>,
    pub(crate) waiting: Vec<String>,
    pub(crate) max: Option<u64>,
}

/// Prints it.
pub(crate) fn run(options: &Status) -> Result<Exit, Failure> {
    let answer = converse(options.target.get("/api/endpoints"))?;
    let pool: Pool = answer.read()?;
    let mut out = std::io::stdout().lock();
    if options.json {
        out.write_all(&answer.0)?;
        out.write_all(b"\n")?;
    } else {
        out.write_all(render(&pool, Paint::stdout()).as_bytes())?;
    }
    out.flush()?;
    Ok(if pool.endpoints.iter().any(|e| e.ready) { Exit::Fine } else { Exit::No })
}

/// How a column stands.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

const COLUMNS: [(&str, Side); 11] = [
    ("endpoint", Side::Left),
    ("state", Side::Left),
    ("for", Side::Right),
    ("waiting", Side::Right),
    ("running", Side::Right),
    ("kv cache", Side::Right),
    ("in flight", Side::Right),
    ("cached blocks", Side::Right),
    ("scraped", Side::Right),
    ("engine", Side::Left),
    ("address", Side::Left),
];

fn render(pool: &Pool, paint: Paint) -> String {
    let rows: Vec<[String; COLUMNS.len()]> = pool.endpoints.iter().map(cells).collect();
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([COLUMNS[at].0.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let line = |row: &[&str]| {
        let mut text = String::new();
        for (at, cell) in row.iter().enumerate() {
            let (gap, width) = (if at == 0 { "" } else { "   " }, widths[at]);
            let _ = match COLUMNS[at].1 {
                Side::Left => write!(text, "{gap}{cell:<width$}"),
                Side::Right => write!(text, "{gap}{cell:>width$}"),
            };
        }
        text.trim_end().to_owned()
    };
    let mut out = String::new();
    if !rows.is_empty() {
        let _ = writeln!(out, "{}", paint.dim(&line(&COLUMNS.map(|(header, _)| header))));
    }
    for (endpoint, row) in pool.endpoints.iter().zip(&rows) {
        let text = line(&row.each_ref().map(String::as_str));
        let _ = writeln!(out, "{}", if endpoint.ready { text.into() } else { paint.bad(&text) });
        if let Some(reason) = endpoint.reason.as_deref().filter(|_| !endpoint.ready) {
            let _ = writeln!(out, "  {}", paint.dim(&clean(reason)));
        }
        if let Some(adapters) = endpoint.lora.as_ref().and_then(adapters) {
            let _ = writeln!(out, "  {}", paint.dim(&adapters));
        }
    }
    let ready = pool.endpoints.iter().filter(|e| e.ready).count();
    let all = count(pool.endpoints.len() as u64, "endpoint");
    let _ = writeln!(out, "{}{} of {all} ready", if rows.is_empty() { "" } else { "\n" }, thousands(ready as u64));
    out
}

fn cells(e: &Endpoint) -> [String; COLUMNS.len()] {
    let unknown = || "-".to_owned();
    let number = |v: Option<f64>| v.map_or_else(unknown, |v| thousands(v.max(0.0) as u64));
    [
        clean(&e.name),
        if e.ready { "ready" } else { "not ready" }.to_owned(),
        ago(Duration::from_millis(e.since_ms)),
        number(e.waiting),
        number(e.running),
        e.kv_cache_usage.map_or_else(unknown, |v| format!("{:.1} %", v * 100.0)),
        thousands(e.in_flight),
        e.cached_blocks.map_or_else(unknown, thousands),
        e.scrape_age_ms.map_or_else(|| "never".to_owned(), |ms| format!("{} ago", ago(Duration::from_millis(ms)))),
        e.engine.as_deref().map_or_else(unknown, clean),
        clean(&e.address),
    ]
}

/// `adapters chat-lora, code-lora (2 of 2); waiting a3`.
fn adapters(lora: &Lora) -> Option<String> {
    if lora.running.is_empty() && lora.waiting.is_empty() {
        return None;
    }
    let list = |names: &[String]| names.iter().map(|n| clean(n)).collect::<Vec<_>>().join(", ");
    let mut text = String::from("adapters");
    if !lora.running.is_empty() {
        let _ = write!(text, " {}", list(&lora.running));
    }
    if let Some(max) = lora.max {
        let _ = write!(text, " ({} of {max})", lora.running.len());
    }
    if !lora.waiting.is_empty() {
        let _ = write!(text, "; waiting {}", list(&lora.waiting));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned_and_says_why_an_endpoint_is_out() {
        let pool = serde_json::from_str(include_str!("../tests/data/endpoints.json")).unwrap();
        let text = render(&pool, Paint::PLAIN);
        crate::snapshot::same("status.txt", &text);
    }

    #[test]
    fn an_empty_pool_is_said_to_be_empty() {
        assert_eq!(render(&Pool { endpoints: Vec::new() }, Paint::PLAIN), "0 of 0 endpoints ready\n");
    }
}
