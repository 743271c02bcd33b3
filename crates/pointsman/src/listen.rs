//! Ports, signals, and the stages of a process.

use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;

/// What to do about a port that cannot be had.
pub(crate) fn cannot_listen(address: SocketAddr, flag: &str, error: &std::io::Error) -> Failure {
    let failure = Failure::new(format!("cannot listen on {address} ({flag})"));
    match error.kind() {
        ErrorKind::AddrInUse => failure.why("another process has this port").next(format!(
            "choose another one with {flag}, or find who has it: ss -ltnp 'sport = :{}'",
            address.port()
        )),
        ErrorKind::PermissionDenied => failure.why(error).next(format!("choose a port above 1023 with {flag}")),
        ErrorKind::AddrNotAvailable => failure
            .why("this machine has no such address")
            .next(format!("choose one of its own, or 0.0.0.0, with {flag}")),
        _ => failure.why(error),
    }
}

/// Refuses to show prompts to whoever can reach the admin listener from elsewhere.
pub(crate) fn prompts_stay_here(show: bool, admin: Option<SocketAddr>, token: Option<&str>) -> Result<(), Failure> {
    match admin.filter(|admin| show && !admin.ip().is_loopback() && token.is_none()) {
        None => Ok(()),
        Some(admin) => Err(Failure::usage(format!("--show-prompts: anybody could read prompts at {admin}"))
            .next("set --admin-token, or let --admin-listen be a loopback address")),
    }
}

/// Waits for SIGTERM or SIGINT.
pub(crate) async fn stop_signal() {
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut term), Ok(mut int)) => {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        }
        // Without handlers the system's own way of stopping stays in force.
        _ => std::future::pending().await,
    }
}

/// SIGTERM and SIGINT, caught from the moment that this exists: none is lost between two waits, and none ends the process in its own way.
pub(crate) struct StopSignals {
    term: Signal,
    int: Signal,
}

impl StopSignals {
    /// Begins to catch them.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let caught = |kind| signal(kind).map_err(|e| Failure::new("signals cannot be caught").why(e));
        Ok(Self { term: caught(SignalKind::terminate())?, int: caught(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}

/// Waits until the process has come as far in its life as `wanted`.
pub(crate) async fn reached<S: PartialOrd>(mut stage: watch::Receiver<S>, wanted: S) {
    // A sender that is gone means that the process is over, too.
    let _ = stage.wait_for(|now| *now >= wanted).await;
}
