//! `utilization-filter`: drop endpoints above a limit on any of the listed signals.
//!
//! Signals: `active-requests` (in flight through this router), `running-requests`, `waiting-queue`, `kv-cache-utilization` (0 to 1). An endpoint stays
//! when every value is at most its `maxValue`; an unknown value passes. With `fallbackOnEmpty`, nobody is dropped when everybody would be.
//! Source: plugin specification 5.3.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::record::Reason;
use pointsman_scheduling::{Candidate, Cycle, DataKind, Filter, Scope};

/// A signal that can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Requests in flight through this router.
    ActiveRequests,
    /// Requests running in the engine.
    RunningRequests,
    /// Requests waiting in the engine.
    WaitingQueue,
    /// KV cache usage, 0 to 1.
    KvCacheUtilization,
}

impl Signal {
    const NAMES: &'static [&'static str] =
        &["active-requests", "running-requests", "waiting-queue", "kv-cache-utilization"];

    fn named(name: &str) -> Self {
        match name {
            "active-requests" => Self::ActiveRequests,
            "running-requests" => Self::RunningRequests,
            "waiting-queue" => Self::WaitingQueue,
            _ => Self::KvCacheUtilization,
        }
    }

    fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    fn read(self, candidate: &Candidate<'_>) -> Option<f64> {
        match self {
            Self::ActiveRequests => Some(candidate.in_flight as f64),
            Self::RunningRequests => candidate.running(),
            Self::WaitingQueue => candidate.waiting(),
            Self::KvCacheUtilization => candidate.kv_usage(),
        }
    }
}

/// Keeps endpoints within every limit.
#[derive(Debug)]
pub struct UtilizationFilter {
    conditions: Vec<(Signal, f64)>,
    fallback_on_empty: bool,
}

impl UtilizationFilter {
    fn above(&self, candidate: &Candidate<'_>) -> Option<Reason> {
        self.conditions.iter().find_map(|&(signal, limit)| {
            let value = signal.read(candidate).filter(|&v| v > limit)?;
            Some(Reason::Above { signal: signal.name(), value, limit })
        })
    }
}

impl Filter for UtilizationFilter {
    fn filter(&self, _: &Cycle<'_>, scope: Scope<'_>, drop: &mut dyn FnMut(usize, Reason)) {
        if self.fallback_on_empty && scope.iter().all(|(_, c)| self.above(c).is_some()) {
            return;
        }
        for (i, (_, candidate)) in scope.iter().enumerate() {
            if let Some(reason) = self.above(candidate) {
                drop(i, reason);
            }
        }
    }
}

const CONDITION: ParamKind = ParamKind::Object(&[
    Param::new("metric", ParamKind::Enum(Signal::NAMES), "Signal.").required(),
    Param::new("maxValue", ParamKind::NON_NEGATIVE, "Highest value that passes; at most 1 for `kv-cache-utilization`.")
        .required(),
]);

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("conditions", ParamKind::List(&CONDITION), "Limits, all of which must hold.").required(),
        Param::new("fallbackOnEmpty", ParamKind::Bool, "Keep everybody when nobody is within the limits.")
            .default("false"),
        Param::new("inFlightLoadProducerName", ParamKind::String, "Producer of `active-requests`.")
            .default("\"inflight-load-producer\""),
    ],
    needs: &[Need::named(DataKind::InFlightLoad, "inFlightLoadProducerName"), Need::required(DataKind::EngineMetrics)],
    example: "{conditions: [{metric: waiting-queue, maxValue: 50}], fallbackOnEmpty: true}",
    build: Some(build),
    ..Row::new(
        "utilization-filter",
        &[Kind::Filter],
        Stability::Alpha,
        "Drops endpoints above a limit on any of the listed signals; an unknown value passes.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let conditions: Vec<(Signal, f64)> =
        b.params.objects("conditions").map(|c| (Signal::named(c.str("metric")), c.f64("maxValue"))).collect();
    if conditions.is_empty() {
        b.fault("conditions", "`conditions` needs at least one entry");
    }
    if conditions.iter().any(|&(s, max)| s == Signal::KvCacheUtilization && max > 1.0) {
        b.fault("conditions", "`maxValue` of `kv-cache-utilization` is a fraction: at most 1");
    }
    Instance::filter(UtilizationFilter { conditions, fallback_on_empty: b.params.bool("fallbackOnEmpty") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    fn filter(conditions: &[(Signal, f64)], fallback_on_empty: bool) -> UtilizationFilter {
        UtilizationFilter { conditions: conditions.to_vec(), fallback_on_empty }
    }

    #[test]
    fn a_value_at_the_limit_passes_and_an_unknown_one_too() {
        let bench = Bench::new([
            endpoint("a").waiting(50.0).kv(0.2),
            endpoint("b").waiting(51.0).kv(0.2),
            endpoint("c").waiting(0.0).kv(0.95),
            endpoint("d"),
        ]);
        let f = filter(&[(Signal::WaitingQueue, 50.0), (Signal::KvCacheUtilization, 0.9)], false);
        assert_eq!(bench.kept(&f), ["a", "d"]);
    }

    #[test]
    fn fallback_keeps_everybody_when_nobody_is_left() {
        let bench = Bench::new([endpoint("a").waiting(9.0), endpoint("b").waiting(8.0)]);
        assert_eq!(bench.kept(&filter(&[(Signal::WaitingQueue, 1.0)], true)), ["a", "b"]);
        assert!(bench.kept(&filter(&[(Signal::WaitingQueue, 1.0)], false)).is_empty());
    }
}
