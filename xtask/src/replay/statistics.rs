//! From answers to a row.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use crate::completion::Usage;

/// What one request gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Simulated seconds from its due time until this client sent it: how busy the machine is.
    pub(crate) late: f64,
    /// Simulated seconds from its due time to its first token.
    pub(crate) ttft: f64,
    /// Tokens, as the engine counted them.
    pub(crate) usage: Usage,
    /// Cached tokens that the router predicted; `None` without a record.
    pub(crate) predicted: Option<u64>,
    /// Which endpoint served it.
    pub(crate) endpoint: String,
    /// Why it has no complete answer, when it has none.
    pub(crate) failure: Option<String>,
}

/// The table's heading; its columns are those of [`Summary`].
pub(crate) const HEADER: &str = "
policy           answered   TTFT mean      p50       p95   cache hit   cached: predicted      actual   requests per engine";

/// A row of the table.
pub(crate) struct Summary {
    name: String,
    answered: usize,
    /// Simulated seconds to the first token, mean.
    pub(crate) mean: f64,
    p50: f64,
    /// Their 95th percentile.
    pub(crate) p95: f64,
    /// Share of prompt tokens found in the engines' caches.
    pub(crate) hit_share: f64,
    predicted: u64,
    actual: u64,
    unrecorded: usize,
    per_engine: Vec<usize>,
    /// Mean of how late this client was, in simulated seconds.
    pub(crate) late: f64,
    /// Why requests had no complete answer.
    pub(crate) failures: Vec<String>,
}

impl Summary {
    /// Sums samples up. Times and shares are those of complete answers only.
    pub(crate) fn of(name: &str, engines: &[SocketAddr], samples: &[Sample]) -> Self {
        let answered: Vec<&Sample> = samples.iter().filter(|sample| sample.failure.is_none()).collect();
        let mut times: Vec<f64> = answered.iter().map(|sample| sample.ttft).collect();
        times.sort_unstable_by(f64::total_cmp);
        let mut by_engine: BTreeMap<&str, usize> = BTreeMap::new();
        for sample in &answered {
            *by_engine.entry(&sample.endpoint).or_default() += 1;
        }
        let prompt: u64 = answered.iter().map(|sample| sample.usage.prompt).sum();
        let actual: u64 = answered.iter().map(|sample| sample.usage.cached).sum();
        Self {
            name: name.to_owned(),
            answered: answered.len(),
            mean: times.iter().sum::<f64>() / times.len().max(1) as f64,
            p50: quantile(&times, 0.50),
            p95: quantile(&times, 0.95),
            hit_share: actual as f64 / prompt.max(1) as f64,
            predicted: answered.iter().filter_map(|sample| sample.predicted).sum(),
            actual,
            unrecorded: answered.iter().filter(|sample| sample.predicted.is_none()).count(),
            late: answered.iter().map(|sample| sample.late).sum::<f64>() / answered.len().max(1) as f64,
            per_engine: engines.iter().map(|at| by_engine.get(at.to_string().as_str()).copied().unwrap_or(0)).collect(),
            failures: samples.iter().filter_map(|sample| sample.failure.clone()).collect(),
        }
    }
}

/// The smallest value that at least `share` of the sorted values do not exceed; 0 when there are none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<16} {:>8} {:>9.3} s {:>6.3} s {:>7.3} s {:>9.1} % {:>15} tok {:>7} tok  ",
            self.name,
            self.answered,
            self.mean,
            self.p50,
            self.p95,
            100.0 * self.hit_share,
            self.predicted,
            self.actual,
        )?;
        for count in &self.per_engine {
            write!(f, " {count:>4}")?;
        }
        if self.unrecorded > 0 {
            write!(f, "   ({} without a decision record)", self.unrecorded)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ttft: f64, cached: u64, endpoint: &str) -> Sample {
        let usage = Usage { prompt: 1_000, completion: 1, cached };
        Sample { late: 0.0, ttft, usage, predicted: Some(cached + 16), endpoint: endpoint.into(), failure: None }
    }

    #[test]
    fn the_hit_rate_weighs_tokens_and_failures_count_for_nothing_else() {
        let engines: Vec<SocketAddr> = vec!["127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()];
        let failed = Sample { failure: Some("cut".into()), ttft: 900.0, ..sample(900.0, 1_000, "127.0.0.1:2") };
        let samples = [sample(1.0, 0, "127.0.0.1:1"), sample(3.0, 500, "127.0.0.1:1"), failed];
        let row = Summary::of("p", &engines, &samples);
        assert_eq!((row.answered, row.per_engine.as_slice()), (2, [2, 0].as_slice()));
        assert!((row.hit_share - 0.25).abs() < 1e-12 && (row.mean - 2.0).abs() < 1e-12);
        assert_eq!((row.predicted, row.actual, row.failures.len()), (532, 500, 1));
    }

    #[test]
    fn a_quantile_is_a_value_that_occurred() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((quantile(&values, 0.5), quantile(&values, 0.95)), (50.0, 95.0));
        assert_eq!((quantile(&values[..1], 0.95), quantile(&[], 0.5)), (1.0, 0.0));
    }
}
