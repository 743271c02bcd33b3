//! Traces of a process: the tracer of its pools, and the end of it.

use std::sync::Arc;
use std::time::Duration;

use pointsman_telemetry::{Build, Telemetry, Variables};
use pointsman_trace::Tracer;

use crate::failure::Failure;

/// How long a stop waits for the spans that are left.
const LAST_SPANS: Duration = Duration::from_secs(2);

const BUILD: Build = Build {
    service: "llm-d-epp",
    version: concat!("v", env!("CARGO_PKG_VERSION")),
    commit: match option_env!("POINTSMAN_COMMIT") {
        Some(commit) => commit,
        None => "unknown",
    },
};

/// What traces requests, if anything does.
#[derive(Debug)]
pub(crate) struct Traces(Option<Arc<Telemetry>>);

impl Traces {
    /// As the `OTEL_*` variables say; nothing with `--tracing=false`. To be called inside the runtime.
    pub(crate) fn start(tracing: bool) -> Result<Self, Failure> {
        if !tracing {
            return Ok(Self(None));
        }
        let telemetry = Telemetry::start(&BUILD, Variables::of_process()).map_err(|e| {
            Failure::new("spans cannot be exported")
                .why(e)
                .next("look at the OTEL_EXPORTER_OTLP_* variables, or take OTEL_TRACES_EXPORTER away")
        })?;
        for warning in &telemetry.warnings {
            tracing::warn!("{warning}");
        }
        Ok(Self(Some(Arc::new(telemetry))))
    }

    /// For the pools.
    pub(crate) fn tracer(&self) -> Option<Arc<Tracer>> {
        self.0.as_ref().map(|telemetry| telemetry.tracer())
    }

    /// Sends what is left, for two seconds at most.
    pub(crate) async fn stop(self) {
        if let Some(telemetry) = self.0 {
            let _ = tokio::task::spawn_blocking(move || telemetry.stop(LAST_SPANS)).await;
        }
    }
}
