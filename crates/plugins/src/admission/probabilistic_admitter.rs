//! `probabilistic-admitter`: shed more of what may be shed, the more saturated the pool is.
//!
//! Looks at requests of a priority below 0 only. `s` is the mean over the endpoints of `max(waiting /
//! queueDepthThreshold, kv / kvCacheUtilThreshold)`, where a signal that is unknown counts 1: nobody may take an engine
//! for idle that was not heard of. A request is refused with the chance `min(1, k * s^power)`, with 429
//! `rejected-saturated`. Source: plugin specification 10.2, 3.2 and its `Wart:` lines.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_core::{DropReason, ErrorCode, Refusal};
use pointsman_scheduling::{Admitter, Cycle, DataKind, Scope};
use std::sync::Arc;

/// Refuses by chance.
#[derive(Debug)]
pub struct ProbabilisticAdmitter {
    waiting: f64,
    kv: f64,
    power: f64,
    k: f64,
    salt: u64,
}

impl ProbabilisticAdmitter {
    /// How saturated the endpoints are, from 0; 1 at the thresholds.
    fn saturation(&self, all: Scope<'_>) -> f64 {
        let of = |(_, c): (usize, &pointsman_scheduling::Candidate<'_>)| {
            let waiting = c.waiting().map_or(1.0, |waiting| waiting / self.waiting);
            waiting.max(c.kv_usage().map_or(1.0, |used| used / self.kv))
        };
        all.iter().map(of).sum::<f64>() / all.len().max(1) as f64
    }

    /// The chance of a refusal.
    fn chance(&self, saturation: f64) -> f64 {
        (self.k * saturation.powf(self.power)).min(1.0)
    }
}

impl Admitter for ProbabilisticAdmitter {
    fn admit(&self, cycle: &Cycle<'_>, all: Scope<'_>) -> Result<(), Refusal> {
        if cycle.request.priority >= 0 {
            return Ok(());
        }
        let saturation = self.saturation(all);
        let chance = self.chance(saturation);
        if cycle.draws(self.salt).f64() >= chance {
            return Ok(());
        }
        let message = format!("probabilistic-admitter: rejected, saturation={saturation:.3} prob={chance:.2}");
        Err(Refusal::new(ErrorCode::ResourceExhausted, message).because(DropReason::Saturated))
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("queueDepthThreshold", ParamKind::NUMBER, "Requests waiting at which an endpoint is saturated.")
            .default("5"),
        Param::new("kvCacheUtilThreshold", ParamKind::NUMBER, "KV cache in use at which an endpoint is saturated.")
            .default("0.8"),
        Param::new("power", ParamKind::NUMBER, "How steeply the chance of a refusal grows.").default("5"),
        Param::new("k", ParamKind::NUMBER, "How early it grows.").default("300"),
    ],
    needs: &[Need::required(DataKind::EngineMetrics)],
    formula: "refused with the chance min(1, k * mean(max(waiting / queueDepthThreshold, kv / kvCacheUtilThreshold))^power)",
    build: Some(build),
    ..Row::new(
        "probabilistic-admitter",
        &[Kind::Admission],
        Stability::Beta,
        "Refuses requests of negative priority by a chance that grows with saturation.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    b.warning_of_all(super::NO_PRIORITIES);
    for param in ["queueDepthThreshold", "kvCacheUtilThreshold", "power", "k"] {
        if b.params.f64(param) <= 0.0 {
            b.fault(param, &format!("`{param}` must be above 0"));
        }
    }
    let admitter = ProbabilisticAdmitter {
        waiting: b.params.f64("queueDepthThreshold"),
        kv: b.params.f64("kvCacheUtilThreshold"),
        power: b.params.f64("power"),
        k: b.params.f64("k"),
        salt: b.salt(),
    };
    Instance { admitter: Some(Arc::new(admitter)), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};
    use proptest::prelude::*;

    const DEFAULT: ProbabilisticAdmitter =
        ProbabilisticAdmitter { waiting: 5.0, kv: 0.8, power: 5.0, k: 300.0, salt: 7 };

    #[test]
    fn the_chance_grows_as_the_specification_counts() {
        for (saturation, chance) in [(0.0, 0.0), (0.1, 0.003), (0.2, 0.096), (0.25, 0.29297), (0.3, 0.729), (0.32, 1.0)]
        {
            assert!((DEFAULT.chance(saturation) - chance).abs() < 1e-5, "{saturation}");
        }
    }

    #[test]
    fn saturation_is_the_mean_of_the_worse_signal_and_an_unknown_one_counts_in_full() {
        let saturation = |made: Vec<crate::testing::Made>| Bench::new(made).with(|_, all| DEFAULT.saturation(all));
        let mean = saturation(vec![endpoint("a").waiting(1.0).kv(0.08), endpoint("b").waiting(0.0).kv(0.4)]);
        assert!((mean - (0.2 + 0.5) / 2.0).abs() < 1e-12);
        assert_eq!(saturation(vec![endpoint("a"), endpoint("b").waiting(0.0).kv(0.0)]), 0.5);
        assert_eq!(saturation(vec![endpoint("a").waiting(0.0)]), 1.0);
    }

    #[test]
    fn only_negative_priorities_are_refused() {
        let mut bench = Bench::new([endpoint("a").waiting(50.0).kv(1.0)]);
        assert!(bench.with(|cycle, all| DEFAULT.admit(cycle, all)).is_ok());
        bench.request.priority = -1;
        let refusal = bench.with(|cycle, all| DEFAULT.admit(cycle, all)).expect_err("refused");
        assert_eq!((refusal.code.status(), refusal.reason), (429, Some(DropReason::Saturated)));
        assert_eq!(refusal.message, "probabilistic-admitter: rejected, saturation=10.000 prob=1.00");
    }

    #[test]
    fn refusals_are_as_frequent_as_their_chance() {
        let mut bench = Bench::new([endpoint("a").waiting(0.0).kv(0.2)]);
        bench.request.priority = -1;
        let mut seeds = fastrand::Rng::with_seed(1);
        let refused = (0..10_000).filter(|_| {
            bench.seed = seeds.u64(..);
            bench.with(|cycle, all| DEFAULT.admit(cycle, all)).is_err()
        });
        let share = refused.count() as f64 / 10_000.0;
        assert!((share - 0.29297).abs() < 0.03, "{share}");
    }

    proptest! {
        #[test]
        fn more_saturation_never_lowers_the_chance(a in 0.0..20.0f64, b in 0.0..20.0f64) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(DEFAULT.chance(low) <= DEFAULT.chance(high));
            prop_assert!((0.0..=1.0).contains(&DEFAULT.chance(high)));
        }
    }
}
