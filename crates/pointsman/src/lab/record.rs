//! `pointsman record`: keeps the decisions of a running Pointsman as a trace that can be replayed and decided again.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use pointsman_lab::recording::Recorded;
use serde::Deserialize;
use serde_json::Value;

use super::{files, workers};
use crate::admin_client::Target;
use crate::failure::{Exit, Failure};
use crate::terminal::count;

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
    /// Where the recording goes; what is there is replaced
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
}

/// Records until told to end.
pub(crate) fn run(options: &Record) -> Result<Exit, Failure> {
    if options.from.as_ref().is_some_and(|from| files::same(from, &options.out)) {
        return Err(Failure::usage("--from and --out are the same file").next("name another file with --out"));
    }
    let mut sink = Sink::open(&options.out)?;
    workers::listen_for_interrupts();
    let ended = match &options.from {
        Some(log) => convert(log, &mut sink),
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
    if sink.written == 0 {
        ended?;
        let _ = writeln!(std::io::stderr(), "there were no decisions");
        return Ok(Exit::No);
    }
    let _ = writeln!(std::io::stderr(), "{} in {}", count(sink.written, "decision"), options.out.display());
    if sink.unshared > 0 {
        let _ = writeln!(
            std::io::stderr(),
            "{} had no block hashes: start the Pointsman with --record-block-hashes to learn what prompts share",
            count(sink.unshared, "decision")
        );
    }
    ended.map(|()| Exit::Fine)
}

fn convert(log: &Path, sink: &mut Sink) -> Result<(), Failure> {
    files::lines(log, &mut |line| {
        let value: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        let recorded = Recorded::of(&value, &mut sink.begin)?;
        sink.write(&recorded, value.get("block_hashes").is_none())?;
        Ok(!workers::stopped())
    })
}

#[derive(Deserialize)]
struct Page {
    decisions: Vec<Value>,
}

async fn follow(options: &Record, sink: &mut Sink) -> Result<(), Failure> {
    let began = Instant::now();
    let newest: Page = options.target.get("/api/decisions?limit=1").await?.read()?;
    // The last that is written, or was there before.
    let mut cursor = newest.decisions.first().map(id);
    // Those after it as they were last seen; by id, and so by time.
    let mut open: BTreeMap<String, Value> = BTreeMap::new();
    loop {
        let seen = match after(options, cursor.clone()).await {
            Ok(seen) => seen,
            // It has gone: what was recorded counts.
            Err(failure) if sink.written > 0 || !open.is_empty() => {
                let _ = writeln!(std::io::stderr(), "{failure}");
                break;
            }
            Err(failure) => return Err(failure),
        };
        // What the router keeps no longer will not change any more.
        let gone: Vec<String> = open.keys().filter(|id| !seen.contains_key(*id)).cloned().collect();
        open.extend(seen);
        // The oldest that are over leave in order; one that is still running is asked for again.
        while let Some(first) = open.first_entry() {
            let over = !first.get()["outcome"]["ended"].is_null() || gone.binary_search(first.key()).is_ok();
            if !over && open.len() < WAITING {
                break;
            }
            let Some((at, decision)) = open.pop_first() else { break };
            sink.take(&decision)?;
            cursor = Some(at);
            if options.limit.is_some_and(|limit| sink.written >= limit) {
                return Ok(());
            }
        }
        let over = options.duration.is_some_and(|seconds| began.elapsed().as_secs() >= seconds);
        if over || workers::stopped() {
            break;
        }
        sink.flush()?;
        tokio::time::sleep(POLL).await;
    }
    open.values().try_for_each(|decision| sink.take(decision))
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

/// The file that grows.
struct Sink {
    path: PathBuf,
    file: BufWriter<File>,
    begin: Option<u64>,
    written: u64,
    unshared: u64,
}

impl Sink {
    fn open(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
        let file = file.map_err(|e| files::cannot_write(path, &e))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), begin: None, written: 0, unshared: 0 })
    }

    /// Writes a decision as a running Pointsman tells it.
    fn take(&mut self, decision: &Value) -> Result<(), Failure> {
        let recorded = Recorded::of(decision, &mut self.begin);
        let recorded = recorded.map_err(|e| Failure::new("an answer cannot be read").why(e))?;
        self.write(&recorded, decision.get("block_hashes").is_none())
    }

    fn write(&mut self, recorded: &Recorded, unshared: bool) -> Result<(), Failure> {
        let line = serde_json::to_string(recorded).map_err(|e| Failure::new("a decision cannot be written").why(e))?;
        writeln!(self.file, "{line}").map_err(|e| files::cannot_write(&self.path, &e))?;
        self.written += 1;
        self.unshared += u64::from(unshared);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.file.flush().map_err(|e| files::cannot_write(&self.path, &e))
    }
}
