//! Waits for moments of a clock, with the runtime's timers.

use std::sync::Arc;

use pointsman_core::{Clock, Nanos, Timer, Wait};

/// Waits on whichever Tokio runtime it is waited for. The clock must be one that runs as the machine's does.
#[derive(Clone, Debug)]
pub struct RuntimeTimer(pub Arc<dyn Clock>);

impl Timer for RuntimeTimer {
    fn until(&self, at: Nanos) -> Wait {
        let clock = Arc::clone(&self.0);
        Box::pin(async move { tokio::time::sleep(at.since(clock.now())).await })
    }
}
