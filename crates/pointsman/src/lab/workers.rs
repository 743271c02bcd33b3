//! Runs on all cores, which an interrupt ends early without losing what is there.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::progress::Live;
use crate::failure::Failure;

/// Set by the first Ctrl-C (or SIGTERM); the second ends the process.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Whether somebody wants an end.
pub(super) fn stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// From here on an interrupt is a wish.
pub(super) fn listen_for_interrupts() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    std::thread::spawn(move || {
        runtime.block_on(async {
            let Ok(mut signals) = crate::listen::StopSignals::catch() else { return };
            signals.next().await;
            STOPPED.store(true, Ordering::Relaxed);
            signals.next().await;
            std::process::exit(3);
        });
    });
}

/// Cores to use.
pub(super) fn cores(wanted: Option<u16>) -> usize {
    wanted.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from).clamp(1, MOST)
}

/// Reads how many threads are wanted.
pub(super) fn threads() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=MOST as i64)
}

/// Runs at once.
const MOST: usize = 256;

/// How far one run is, and whether it should go on.
pub(super) type Tick<'a> = dyn FnMut(usize, usize) -> ControlFlow<()> + 'a;

/// Runs every job, `threads` at a time (on a terminal `so_far` is shown meanwhile), and returns what came of them in the order of the jobs; jobs that an interrupt kept from beginning are missing.
///
/// # Errors
/// The first error of a job; the others are then not begun.
pub(super) fn spread<J: Sync, D: Send>(
    jobs: &[J],
    threads: usize,
    label: &(dyn Fn(&J) -> String + Sync),
    so_far: &(dyn Fn(&[&D]) -> String + Sync),
    run: &(dyn Fn(&J, &mut Tick<'_>) -> Result<D, Failure> + Sync),
) -> Result<Vec<D>, Failure> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let done: Mutex<Vec<(usize, Result<D, Failure>)>> = Mutex::new(Vec::new());
    let shares: Vec<AtomicUsize> = jobs.iter().map(|_| AtomicUsize::new(0)).collect();
    let live = Mutex::new(Live::stderr());
    let began = Instant::now();
    let show = |at: usize| {
        let Some(mut live) = live.try_lock().filter(|live| live.is_due()) else { return };
        let share =
            shares.iter().map(|s| s.load(Ordering::Relaxed)).sum::<usize>() as f64 / (PARTS * jobs.len()) as f64;
        live.show(share, began.elapsed(), &label(&jobs[at]));
    };
    let tell = || {
        let mut live = live.lock();
        if live.is_curious() {
            let done = done.lock();
            let whole: Vec<&D> = done.iter().filter_map(|(_, result)| result.as_ref().ok()).collect();
            live.tell(so_far(&whole));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= jobs.len() || stopped() || failed.load(Ordering::Relaxed) {
                        return;
                    }
                    show(at);
                    let result = run(&jobs[at], &mut |ended, all| {
                        shares[at].store(ended * PARTS / all.max(1), Ordering::Relaxed);
                        show(at);
                        if stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    });
                    shares[at].store(PARTS, Ordering::Relaxed);
                    if result.is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                    done.lock().push((at, result));
                    tell();
                    show(at);
                }
            });
        }
    });
    live.into_inner().clear();
    let mut done = done.into_inner();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Fineness of progress.
const PARTS: usize = 1_000;

/// Time between two looks of the progress line.
pub(super) const REDRAW: Duration = Duration::from_millis(100);
