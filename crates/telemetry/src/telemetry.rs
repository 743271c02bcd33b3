//! From the variables to a tracer.

use crate::export::Export;
use crate::{TelemetryError, console, otlp, resource};
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SpanProcessor};
use pointsman_trace::{Sampler, Sink, Tracer};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Which build spans come from.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// Service name of a process that is told none.
    pub service: &'static str,
    /// Version, `service.version` of the resource.
    pub version: &'static str,
    /// Commit, `commit-sha` of the instrumentation scope.
    pub commit: &'static str,
}

/// How variables are looked up: the process's own, or a test's.
#[derive(Clone, Copy)]
pub struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl fmt::Debug for Variables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Variables")
    }
}

impl<'a> Variables<'a> {
    /// Through this look-up.
    #[must_use]
    pub fn of(look_up: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self(look_up)
    }

    /// Those of the process.
    #[must_use]
    pub fn of_process() -> Self {
        Self(&|name| std::env::var(name).ok())
    }

    /// A variable that is there and not empty.
    pub(crate) fn get(self, name: &str) -> Option<String> {
        (self.0)(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty())
    }

    /// The first of several that is there, with its name.
    pub(crate) fn first(self, names: &[&'static str]) -> Option<(&'static str, String)> {
        names.iter().find_map(|name| Some((*name, self.get(name)?)))
    }
}

/// A tracer, and what sends its spans away.
#[derive(Debug)]
pub struct Telemetry {
    tracer: Arc<Tracer>,
    /// What the variables ask for and does not exist, for the log.
    pub warnings: Vec<String>,
    processor: Option<Arc<BatchSpanProcessor>>,
}

impl Telemetry {
    /// Reads the variables. To be called inside a Tokio runtime, which the connection to a collector lives in.
    ///
    /// # Errors
    /// When an exporter is asked for that cannot be made. That the collector does not answer is no error.
    pub fn start(build: &Build, variables: Variables<'_>) -> Result<Self, TelemetryError> {
        let (sampler, fault) = Sampler::named(
            variables.get("OTEL_TRACES_SAMPLER").as_deref(),
            variables.get("OTEL_TRACES_SAMPLER_ARG").as_deref(),
        );
        let mut warnings: Vec<String> = fault.into_iter().collect();
        let config = BatchConfigBuilder::default().build();
        let mut processor = match variables.get("OTEL_TRACES_EXPORTER").as_deref() {
            None | Some("none") => None,
            Some("otlp") => {
                let exporter = otlp::exporter(variables, &mut warnings)?;
                Some(BatchSpanProcessor::builder(exporter).with_batch_config(config).build())
            }
            Some("console") => {
                Some(BatchSpanProcessor::builder(console::Console::default()).with_batch_config(config).build())
            }
            Some(other) => {
                warnings.push(format!(
                    "OTEL_TRACES_EXPORTER {other:?} is not known: no spans are exported (otlp, console, none)"
                ));
                None
            }
        };
        if let Some(processor) = &mut processor {
            let (resource, malformed) = resource::of(build, variables);
            warnings.extend(malformed);
            processor.set_resource(&resource);
        }
        let processor = processor.map(Arc::new);
        let sink = processor.as_ref().map(|p| Box::new(Export::new(Arc::clone(p), build)) as Box<dyn Sink>);
        Ok(Self { tracer: Arc::new(Tracer::new(sampler, sink)), warnings, processor })
    }

    /// The tracer, for the pools.
    #[must_use]
    pub fn tracer(&self) -> Arc<Tracer> {
        Arc::clone(&self.tracer)
    }

    /// Sends what waits, for `at_most` so long. Blocks: not to be called on a thread that serves.
    pub fn stop(&self, at_most: Duration) {
        if let Some(processor) = &self.processor {
            // What could not be sent in time is lost; the library's own log says so.
            let _ = processor.shutdown_with_timeout(at_most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_trace::Incoming;

    const BUILD: Build = Build { service: "llm-d-epp", version: "v1", commit: "abc" };

    fn start(pairs: &[(&str, &str)]) -> Result<Telemetry, TelemetryError> {
        let look_up = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Telemetry::start(&BUILD, Variables::of(&look_up))
    }

    #[test]
    fn a_process_that_was_told_nothing_exports_nothing_and_traces_a_tenth() {
        let telemetry = start(&[]).expect("nothing can be wrong");
        assert!(telemetry.warnings.is_empty() && telemetry.processor.is_none());
        let sampled = (0..1000).filter(|_| telemetry.tracer().begin(&Incoming::default()).sampled).count();
        assert!((40..200).contains(&sampled), "{sampled}");
    }

    #[test]
    fn what_is_not_known_is_said_and_does_not_stop_the_process() {
        let telemetry =
            start(&[("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_TRACES_SAMPLER", "xray")]).expect("no error");
        assert_eq!(telemetry.warnings.len(), 2, "{:?}", telemetry.warnings);
        assert!(telemetry.processor.is_none());
    }
}
