//! `pointsman record`: keeps the decisions of a running Pointsman as a trace that can be replayed and decided again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use super::files::LineError;
use super::sink::{Sink, say};
use super::{files, workers};
use crate::admin_client::Target;
use crate::failure::{Exit, Failure};
use crate::terminal::clean;

const EXAMPLES: &str = "\
Examples:
  pointsman record --out recording.jsonl
  pointsman record --from decisions.jsonl --out recording.jsonl";

const POLL: Duration = Duration::from_millis(250);
const BATCH: usize = 500;
/// Decisions that wait for the end of their request; the oldest are written as they are beyond.
const WAITING: usize = 100_000;

/// What to record, and whereto.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
#[command(
    after_help = "Start the Pointsman with --record-block-hashes: without, prompts are recorded as if they shared nothing. The hashes are salted, no text \
    leaves the machine.\nAn interrupt ends the recording; what was recorded stays."
)]
pub(crate) struct Record {
    #[command(flatten)]
    target: Target,
    /// Where the recording goes; `-` is standard output. What is there is replaced once there is a decision
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Convert a decision log instead of asking a running Pointsman
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    duration: Option<u64>,
    /// End after so many decisions
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Try for so many seconds to reach a Pointsman that went: it may be restarting
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    reconnect: u64,
}

/// Records until told to end.
pub(crate) fn run(options: &Record) -> Result<Exit, Failure> {
    if options.from.as_ref().is_some_and(|from| files::same(from, &options.out)) {
        return Err(Failure::usage("--from and --out are the same file").next("name another file with --out"));
    }
    let mut sink = Sink::at(&options.out)?;
    workers::listen_for_interrupts();
    let ended = match &options.from {
        Some(log) => convert(log, &mut sink).map(|()| Exit::Fine),
        None => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|e| Failure::new("cannot start the runtime").why(e))?;
            runtime.block_on(follow(options, &mut sink))
        }
    };
    // What was recorded stays, whatever ended it.
    if let Err(full) = sink.flush() {
        return Err(ended.err().unwrap_or(full));
    }
    sink.sum_up();
    let exit = ended?;
    Ok(if sink.written() == 0 { Exit::No } else { exit })
}

fn convert(log: &Path, sink: &mut Sink) -> Result<(), Failure> {
    files::lines(log, &mut |line| {
        let value: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        sink.take(&value)?;
        Ok(!workers::stopped())
    })
}

#[derive(Deserialize)]
struct Page {
    decisions: Vec<Value>,
}

async fn follow(options: &Record, sink: &mut Sink) -> Result<Exit, Failure> {
    let (began, address) = (Instant::now(), clean(options.target.address()));
    let newest: Page = options.target.get("/api/decisions?limit=1").await?.read()?;
    say(format_args!("recording what {address} decides into {}; Ctrl-C ends it", sink.name()));
    // The last that is written, or was there before.
    let mut cursor = newest.decisions.first().map(id);
    // Those after it as they were last seen; by id, and so by time.
    let mut open: BTreeMap<String, Value> = BTreeMap::new();
    // Since when nobody answers.
    let mut lost: Option<Instant> = None;
    let mut exit = Exit::Fine;
    loop {
        match after(options, cursor.clone()).await {
            Ok(seen) => {
                if lost.take().is_some() {
                    say(format_args!(
                        "{address} answers again; if it was restarted, prompts from before and from now on share nothing: its hashes have another salt"
                    ));
                }
                // What the router keeps no longer will not change any more. A restarted one knows nothing from before; its ids begin with the time and go on growing.
                let gone: Vec<String> = open.keys().filter(|id| !seen.contains_key(*id)).cloned().collect();
                open.extend(seen);
                // The oldest that are over leave in order; one that is still running is asked for again.
                while let Some(first) = open.first_entry() {
                    let over = !first.get()["outcome"]["ended"].is_null() || gone.binary_search(first.key()).is_ok();
                    if !over && open.len() < WAITING {
                        break;
                    }
                    let Some((at, decision)) = open.pop_first() else { break };
                    take(&decision, sink)?;
                    cursor = Some(at);
                    if options.limit.is_some_and(|limit| sink.written() >= limit) {
                        return Ok(Exit::Fine);
                    }
                }
                sink.flush()?;
                sink.count();
            }
            Err(failure) => {
                let since = *lost.get_or_insert_with(|| {
                    say(format_args!("{address} does not answer; trying again for {} s", options.reconnect));
                    Instant::now()
                });
                if since.elapsed().as_secs() >= options.reconnect {
                    say(format_args!("{failure}\n{address} did not come back: the recording ends here"));
                    exit = Exit::No;
                    break;
                }
            }
        }
        let over = options.duration.is_some_and(|seconds| began.elapsed().as_secs() >= seconds);
        if over || workers::stopped() {
            break;
        }
        tokio::time::sleep(POLL).await;
    }
    open.values().try_for_each(|decision| take(decision, sink))?;
    Ok(exit)
}

fn take(decision: &Value, sink: &mut Sink) -> Result<(), Failure> {
    sink.take(decision).map_err(|error| match error {
        LineError::Wrong(what) => Failure::new("an answer cannot be read").why(what),
        LineError::Other(failure) => failure,
    })
}

/// All decisions after one, page by page; at most [`WAITING`].
async fn after(options: &Record, mut cursor: Option<String>) -> Result<BTreeMap<String, Value>, Failure> {
    let mut all = BTreeMap::new();
    loop {
        let after = cursor.as_ref().map_or_else(String::new, |id| format!("&after={id}"));
        let page: Page = options.target.get(&format!("/api/decisions?limit={BATCH}{after}")).await?.read()?;
        let full = page.decisions.len() >= BATCH;
        all.extend(page.decisions.into_iter().map(|decision| (id(&decision), decision)));
        cursor = all.last_key_value().map(|(id, _)| id.clone()).or(cursor);
        if !full || all.len() >= WAITING || workers::stopped() {
            return Ok(all);
        }
    }
}

fn id(decision: &Value) -> String {
    decision["id"].as_str().unwrap_or_default().to_owned()
}
