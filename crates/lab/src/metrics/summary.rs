//! The figures of one run.

use crate::fleet::{Ended, Outcome, Sample};

/// What a request must keep to count as good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slo {
    /// Seconds to the first token.
    pub ttft: f64,
    /// Seconds per token after it.
    pub tpot: f64,
}

impl Default for Slo {
    /// Of a chat.
    fn default() -> Self {
        Self { ttft: 1.0, tpot: 0.050 }
    }
}

/// A figure: its name in JSON, what it is, its unit, and whether more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// `s`, `ratio`, `tokens`, `tokens/s`, `requests/s`, `requests` or `x`.
    pub unit: &'static str,
    /// More is better; `None` where neither is.
    pub more_is_better: Option<bool>,
}

impl Metric {
    /// By its name, with `-` or `_`; `hit-rate` is the ratio.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Metric> {
        let name = name.replace('-', "_");
        let name = if name == "hit_rate" { "hit_ratio" } else { &name };
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// Its name as a flag has it.
    #[must_use]
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// A value of it with its unit.
    #[must_use]
    pub fn shown(&self, value: f64) -> String {
        shown(value, self.unit)
    }
}

/// A value with its unit.
pub(crate) fn shown(value: f64, unit: &str) -> String {
    match unit {
        "s" if value.abs() < 1.0 => format!("{:.1} ms", value * 1e3),
        "s" => format!("{value:.2} s"),
        "ratio" => format!("{:.1} %", value * 1e2),
        "tokens" if value.abs() >= 1e6 => format!("{:.2} M", value / 1e6),
        "tokens" => format!("{value:.0}"),
        "tokens/s" => format!("{value:.0}/s"),
        "requests/s" => format!("{value:.2}/s"),
        "x" => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    }
}

const fn metric(name: &'static str, unit: &'static str, more: Option<bool>, doc: &'static str) -> Metric {
    Metric { name, doc, unit, more_is_better: more }
}

/// All figures, in the order of [`Summary::values`].
pub const METRICS: &[Metric] = &[
    metric("ttft_mean", "s", Some(false), "time to first token, mean"),
    metric("ttft_p50", "s", Some(false), "time to first token, median"),
    metric("ttft_p90", "s", Some(false), "time to first token, 90th percentile"),
    metric("ttft_p95", "s", Some(false), "time to first token, 95th percentile"),
    metric("ttft_p99", "s", Some(false), "time to first token, 99th percentile"),
    metric("tpot_mean", "s", Some(false), "time per output token after the first, mean over requests"),
    metric("tpot_p50", "s", Some(false), "time per output token, median"),
    metric("tpot_p90", "s", Some(false), "time per output token, 90th percentile"),
    metric("tpot_p95", "s", Some(false), "time per output token, 95th percentile"),
    metric("tpot_p99", "s", Some(false), "time per output token, 99th percentile"),
    metric("e2e_mean", "s", Some(false), "time to the last token, mean"),
    metric("e2e_p50", "s", Some(false), "time to the last token, median"),
    metric("e2e_p90", "s", Some(false), "time to the last token, 90th percentile"),
    metric("e2e_p95", "s", Some(false), "time to the last token, 95th percentile"),
    metric("e2e_p99", "s", Some(false), "time to the last token, 99th percentile"),
    metric("output_throughput", "tokens/s", Some(true), "generated tokens per second"),
    metric("request_throughput", "requests/s", Some(true), "completed requests per second"),
    metric("goodput", "requests/s", Some(true), "requests per second that kept the service level"),
    metric("good_ratio", "ratio", Some(true), "share of all requests that kept the service level"),
    metric("hit_ratio", "ratio", Some(true), "share of prompt tokens found in the serving engine's cache"),
    metric("completed", "requests", Some(true), "requests that got all their tokens"),
    metric("success_rate", "ratio", Some(true), "share of all requests that did"),
    metric("unplaced", "requests", Some(false), "requests for which the router found no endpoint"),
    metric("refused", "requests", Some(false), "requests that an engine refused"),
    metric("broken", "requests", Some(false), "requests that lost their engine, or their prompt's KV, on the way"),
    metric("computed_tokens", "tokens", Some(false), "prompt tokens computed"),
    metric("re_prefilled_tokens", "tokens", Some(false), "prompt tokens computed although some engine held them"),
    metric("moved_tokens", "tokens", None, "prompt tokens whose KV came from another engine"),
    metric("imbalance_requests", "x", Some(false), "requests of the busiest engine over the mean"),
    metric("imbalance_tokens", "x", Some(false), "computed prompt tokens of the busiest engine over the mean"),
    metric("preemptions", "requests", Some(false), "times a request lost its blocks"),
    metric("seconds", "s", None, "simulated time"),
];

/// How much smaller one success rate is than another; differences below a thousandth are none. Times are of requests that were served, so whoever serves fewer
/// looks quick and must not be compared by them.
#[must_use]
pub fn unserved(success_rate: f64, other: f64) -> f64 {
    (other - success_rate - 0.001).max(0.0)
}

/// Values of all [`METRICS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    values: Vec<f64>,
}

impl Summary {
    /// Sums a run up. Times and ratios are of complete requests.
    #[must_use]
    pub fn of(outcome: &Outcome, pods: usize, slo: Slo) -> Self {
        let complete: Vec<&Sample> = outcome.samples.iter().filter(|s| s.ended == Ended::Complete).collect();
        let over = outcome.samples.iter().filter(|s| s.ended != Ended::Open).count();
        let sum = |of: &dyn Fn(&Sample) -> u64| complete.iter().map(|s| of(s)).sum::<u64>() as f64;
        let good = |s: &&&Sample| s.ttft() <= slo.ttft && s.tpot().is_none_or(|t| t <= slo.tpot);
        let good = complete.iter().filter(good).count() as f64;
        let computed = |s: &Sample| s.prompt - s.cached;
        let seconds = outcome.seconds;
        let per_second = |n: f64| if seconds > 0.0 { n / seconds } else { 0.0 };
        let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        let ended = |how| outcome.samples.iter().filter(|s| s.ended == how).count() as f64;
        let mut values = Vec::with_capacity(METRICS.len());
        values.extend(five(complete.iter().map(|s| s.ttft()).collect()));
        values.extend(five(complete.iter().filter_map(|s| s.tpot()).collect()));
        values.extend(five(complete.iter().map(|s| s.e2e()).collect()));
        values.extend([
            per_second(sum(&|s| s.output)),
            per_second(complete.len() as f64),
            per_second(good),
            ratio(good, over as f64),
            ratio(sum(&|s| s.cached), sum(&|s| s.prompt)),
            complete.len() as f64,
            ratio(complete.len() as f64, over as f64),
            ended(Ended::Unplaced),
            ended(Ended::Refused),
            ended(Ended::Broken),
            sum(&computed),
            sum(&|s| s.held.saturating_sub(s.cached)),
            sum(&|s| s.moved),
            imbalance(&complete, pods, &|s| (s.pod, 1)),
            imbalance(&complete, pods, &|s| (s.prefill.unwrap_or(s.pod), computed(s))),
            outcome.preemptions as f64,
            seconds,
        ]);
        Self { values }
    }

    /// The mean of several; `None` of none.
    #[must_use]
    pub fn mean<'s>(all: impl Iterator<Item = &'s Self>) -> Option<Self> {
        let all: Vec<&Self> = all.collect();
        let first = all.first()?;
        let mean = |at: usize| all.iter().map(|summary| summary.values[at]).sum::<f64>() / all.len() as f64;
        Some(Self { values: (0..first.values.len()).map(mean).collect() })
    }

    /// All values, in the order of [`METRICS`].
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The value of that name; NaN for a name that is none.
    #[must_use]
    pub fn get(&self, name: &str) -> f64 {
        METRICS.iter().position(|m| m.name == name).and_then(|at| self.values.get(at)).copied().unwrap_or(f64::NAN)
    }
}

/// Mean, p50, p90, p95, p99; zeros for nothing.
fn five(mut values: Vec<f64>) -> [f64; 5] {
    if values.is_empty() {
        return [0.0; 5];
    }
    values.sort_by(f64::total_cmp);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    // Nearest rank.
    let at = |q: f64| values[((q * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1];
    [mean, at(0.50), at(0.90), at(0.95), at(0.99)]
}

/// Largest share of an engine over the mean; 1 is even.
fn imbalance(samples: &[&Sample], pods: usize, of: &dyn Fn(&Sample) -> (u32, u64)) -> f64 {
    let mut sums = vec![0_u64; pods.max(1)];
    for sample in samples {
        let (pod, amount) = of(sample);
        sums[(pod as usize).min(pods.max(1) - 1)] += amount;
    }
    let (all, most) = (sums.iter().sum::<u64>() as f64, sums.iter().max().copied().unwrap_or(0) as f64);
    if all > 0.0 { most * sums.len() as f64 / all } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Course;
    use pointsman_core::Nanos;

    #[test]
    fn figures_follow_from_the_samples() {
        let sample = |pod, ttft: u64, cached| Sample {
            arrived: Nanos(1_000_000_000),
            first: Nanos(1_000_000_000 + ttft * 1_000_000),
            last: Nanos(1_000_000_000 + ttft * 1_000_000 + 400_000_000),
            pod,
            prompt: 1_000,
            prefill: None,
            cached,
            moved: 0,
            held: 600,
            output: 11,
            ended: Ended::Complete,
        };
        let refused = Sample { ended: Ended::Refused, ..sample(0, 0, 0) };
        let samples = vec![sample(0, 100, 600), sample(0, 300, 200), sample(1, 2_000, 600), refused];
        let outcome = Outcome {
            samples,
            engines: vec![],
            preemptions: 0,
            seconds: 10.0,
            course: Course::default(),
            events: 0,
            cut: false,
        };
        let got = Summary::of(&outcome, 2, Slo::default());
        let near = |name, want: f64| assert!((got.get(name) - want).abs() < 1e-9, "{name}: {}", got.get(name));
        near("ttft_mean", 0.8);
        near("ttft_p50", 0.3);
        near("tpot_mean", 0.04);
        near("output_throughput", 3.3);
        near("goodput", 0.2);
        near("good_ratio", 0.5);
        near("hit_ratio", 1_400.0 / 3_000.0);
        near("success_rate", 0.75);
        near("re_prefilled_tokens", 400.0);
        near("imbalance_requests", 4.0 / 3.0);
        assert_eq!(got.values().len(), METRICS.len());
    }
}
