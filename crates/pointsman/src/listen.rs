//! Ports and signals.

use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::signal::unix::{SignalKind, signal};

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
