//! `--decision-log`: finished decisions as JSON lines.
//!
//! Requests hand over a counted reference and go on; one thread turns records into text and writes them. When the disk is slower than the requests
//! are, the queue fills, and what does not fit is dropped and counted: a log never holds a request up.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use pointsman_scheduling::record::Decision;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::failure::Failure;

/// Records waiting to be written at most.
const QUEUE: usize = 8_192;
/// Lines are in the file after this time at the latest.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// What is counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Records that did not fit, or could not be written.
    dropped: Counter,
    /// Records written.
    written: Counter,
}

impl Counts {
    /// Puts them on the metrics page.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Finished decisions written to the decision log";
        registry.register("pointsman_decision_log_written", help, self.written.clone());
        let help = "Finished decisions that the decision log dropped because it could not keep up or could not write";
        registry.register("pointsman_decision_log_dropped", help, self.dropped.clone());
    }
}

/// A running log.
pub(crate) struct DecisionLog {
    sender: RwLock<Option<SyncSender<Arc<Decision>>>>,
    reopen: Arc<AtomicBool>,
    counts: Counts,
    sample: f64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl DecisionLog {
    /// Opens the file for appending and starts the thread that writes.
    pub(crate) fn start(path: &Path, sample: f64) -> Result<Self, Failure> {
        let file = open(path).map_err(|e| {
            Failure::new(format!("cannot open the decision log {}", path.display()))
                .why(e)
                .next("name a file that can be written with --decision-log")
        })?;
        let (sender, receiver) = sync_channel(QUEUE);
        let (reopen, counts) = (Arc::new(AtomicBool::new(false)), Counts::default());
        let writer = Writer {
            path: path.to_owned(),
            file: BufWriter::new(file),
            reopen: Arc::clone(&reopen),
            counts: counts.clone(),
            buffered: 0,
        };
        let thread = std::thread::Builder::new().name("decision-log".into()).spawn(move || writer.run(&receiver));
        let thread = thread.map_err(|e| Failure::new("cannot start the thread of the decision log").why(e))?;
        Ok(Self { sender: RwLock::new(Some(sender)), reopen, counts, sample, thread: Mutex::new(Some(thread)) })
    }

    /// Takes a finished decision, if it is among the sampled ones.
    pub(crate) fn take(&self, decision: &Arc<Decision>) {
        if !sampled(decision.id.0, self.sample) {
            return;
        }
        let sender = self.sender.read();
        let Some(sender) = &*sender else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = sender.try_send(Arc::clone(decision)) {
            self.counts.dropped.inc();
        }
    }

    /// Opens the file anew before the next line: whoever rotates logs has moved it away.
    pub(crate) fn reopen(&self) {
        self.reopen.store(true, Ordering::Release);
    }

    /// Writes what waits, and ends.
    pub(crate) fn close(&self) {
        drop(self.sender.write().take());
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }

    /// What has been counted.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// Whether a decision is in the sample: by its id, so that the same ones are wherever the same share is asked for.
fn sampled(id: u64, share: f64) -> bool {
    // Fibonacci hashing: consecutive ids are spread over the whole range.
    let place = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11;
    (place as f64) < share * (1u64 << 53) as f64
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    reopen: Arc<AtomicBool>,
    counts: Counts,
    /// Records in the buffer: neither written nor dropped yet.
    buffered: u64,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Arc<Decision>>) {
        let (mut flushed, mut failing) = (Instant::now(), false);
        loop {
            let received = receiver.recv_timeout(FLUSH_EVERY);
            if self.reopen.swap(false, Ordering::AcqRel) {
                self.renew();
            }
            let written = match &received {
                Ok(decision) => self.write(decision),
                Err(_) => Ok(()),
            };
            let due = flushed.elapsed() >= FLUSH_EVERY || received.is_err();
            let result = written.and_then(|()| if due { self.flush() } else { Ok(()) });
            if due {
                flushed = Instant::now();
            }
            match result {
                Err(error) if !failing => {
                    failing = true;
                    tracing::error!(file = %self.path.display(), %error, "the decision log cannot be written; decisions are dropped until it can");
                }
                Err(_) => {}
                Ok(()) if failing && received.is_ok() => {
                    failing = false;
                    tracing::info!(file = %self.path.display(), "the decision log can be written again");
                }
                Ok(()) => {}
            }
            if matches!(received, Err(RecvTimeoutError::Disconnected)) {
                return;
            }
        }
    }

    fn write(&mut self, decision: &Decision) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(decision)?;
        line.push(b'\n');
        // So that a line is whole in the file or not there at all, however it fares.
        if self.file.buffer().len() + line.len() > self.file.capacity() {
            let flushed = self.flush();
            if flushed.is_err() {
                self.counts.dropped.inc();
                return flushed;
            }
        }
        self.buffered += 1;
        if let Err(error) = self.file.write_all(&line) {
            self.discard();
            return Err(error);
        }
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self.file.flush() {
            Ok(()) => {
                self.counts.written.inc_by(std::mem::take(&mut self.buffered));
                Ok(())
            }
            Err(error) => {
                self.discard();
                Err(error)
            }
        }
    }

    /// Gives up what is in the buffer.
    fn discard(&mut self) {
        self.counts.dropped.inc_by(std::mem::take(&mut self.buffered));
        if let Ok(file) = self.file.get_ref().try_clone() {
            // Taken apart, the old one does not try to write its buffer once more.
            drop(std::mem::replace(&mut self.file, BufWriter::new(file)).into_parts());
        }
    }

    fn renew(&mut self) {
        let flushed = self.flush();
        match flushed.and_then(|()| open(&self.path)) {
            Ok(file) => self.file = BufWriter::new(file),
            Err(error) => {
                tracing::error!(file = %self.path.display(), %error, "the decision log cannot be reopened; the old file is kept");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pointsman_scheduling::record::DecisionId;

    use super::*;

    fn decision(n: u64) -> Arc<Decision> {
        Arc::new(Decision::blank(DecisionId(n)))
    }

    #[test]
    fn the_sample_has_the_share_asked_for_and_is_the_same_every_time() {
        // Ids as they are given out: milliseconds above a counter of 20 bits.
        let ids =
            |share| (0..10_000u64).filter(|n| sampled(((1_764_449_000_000 + n / 3) << 20) | (n % 3), share)).count();
        assert_eq!((ids(0.0), ids(1.0)), (0, 10_000));
        for share in [0.01, 0.25, 0.5] {
            let (got, want) = (ids(share) as f64, share * 10_000.0);
            assert!((got - want).abs() < 0.2 * want + 10.0, "{got} of 10,000 at {share}");
            assert_eq!(got, ids(share) as f64);
        }
    }

    #[test]
    fn what_was_taken_is_in_the_file_when_the_log_is_closed_and_later_ones_are_ignored() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.jsonl");
        let log = DecisionLog::start(&path, 1.0).expect("it can be written");
        (0..100).for_each(|n| log.take(&decision(n)));
        log.close();
        log.take(&decision(100));
        let text = std::fs::read_to_string(&path).expect("a file");
        assert_eq!((text.lines().count(), log.counts().written.get(), log.counts().dropped.get()), (100, 100, 0));
        assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_an_error_at_the_start() {
        let failed = DecisionLog::start(Path::new("/nonexistent/folder/log.jsonl"), 1.0).err().expect("an error");
        assert!(failed.to_string().contains("/nonexistent/folder/log.jsonl"));
    }

    #[test]
    fn a_full_disk_loses_lines_and_counts_them_but_never_waits() {
        let log = DecisionLog::start(Path::new("/dev/full"), 1.0).expect("it can be opened");
        (0..2_000).for_each(|n| log.take(&decision(n)));
        log.close();
        assert!(log.counts().dropped.get() > 0, "nothing can be written there");
    }
}
