//! Latencies as the flags of a fake server give them (simulator 1.3): per request, without batching or chunks.
//!
//! Means are nanoseconds and stay so. The fake server this copies truncates to whole milliseconds before drawing, which turns 750 us into 0.

use std::time::Duration;

use crate::Rng;

/// Which mean the first token's latency has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LatencyCalculator {
    /// `time_to_first_token`, whatever the prompt.
    Constant,
    /// `prefill_overhead + uncached tokens * prefill_time_per_token`.
    PerToken,
    /// Constant when a time to first token (or its deviation) is set, else per token.
    #[default]
    Unset,
}

/// The latency flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Which form.
    pub calculator: LatencyCalculator,
    /// Mean time to first token of the constant form.
    pub time_to_first_token: Duration,
    /// Its standard deviation.
    pub time_to_first_token_std_dev: Duration,
    /// Mean time between tokens.
    pub inter_token_latency: Duration,
    /// Its standard deviation.
    pub inter_token_latency_std_dev: Duration,
    /// Fixed part of the per-token form.
    pub prefill_overhead: Duration,
    /// Time per uncached prompt token of the per-token form.
    pub prefill_time_per_token: Duration,
    /// Standard deviation of the per-token form's sum.
    pub prefill_time_std_dev: Duration,
    /// Factor on every latency when all seats are taken; 1 = load does not matter.
    pub time_factor_under_load: f64,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            calculator: LatencyCalculator::Unset,
            time_to_first_token: Duration::ZERO,
            time_to_first_token_std_dev: Duration::ZERO,
            inter_token_latency: Duration::ZERO,
            inter_token_latency_std_dev: Duration::ZERO,
            prefill_overhead: Duration::ZERO,
            prefill_time_per_token: Duration::ZERO,
            prefill_time_std_dev: Duration::ZERO,
            time_factor_under_load: 1.0,
        }
    }
}

impl Latency {
    /// `1 + (factor - 1) * (running - 1) / (seats - 1)`; 1 with a single seat. `running` includes the request itself.
    #[must_use]
    pub fn load(&self, running: usize, seats: usize) -> f64 {
        if seats <= 1 {
            return 1.0;
        }
        1.0 + (self.time_factor_under_load - 1.0) * (running.saturating_sub(1)) as f64 / (seats - 1) as f64
    }

    /// Nanoseconds to the first token of a prompt with `uncached` tokens to compute.
    pub(crate) fn first_token(&self, uncached: u64, load: f64, rng: &mut Rng) -> u64 {
        let constant = match self.calculator {
            LatencyCalculator::Constant => true,
            LatencyCalculator::PerToken => false,
            LatencyCalculator::Unset => {
                !self.time_to_first_token.is_zero() || !self.time_to_first_token_std_dev.is_zero()
            }
        };
        let (mean, deviation) = if constant {
            (nanos(self.time_to_first_token), self.time_to_first_token_std_dev)
        } else {
            let sum = nanos(self.prefill_overhead) + uncached as f64 * nanos(self.prefill_time_per_token);
            (sum, self.prefill_time_std_dev)
        };
        draw(mean * load, nanos(deviation), rng)
    }

    /// Nanoseconds to each further token.
    pub(crate) fn next_token(&self, load: f64, rng: &mut Rng) -> u64 {
        draw(nanos(self.inter_token_latency) * load, nanos(self.inter_token_latency_std_dev), rng)
    }
}

fn nanos(d: Duration) -> f64 {
    d.as_nanos() as f64
}

/// Normal around `mean`, never outside 30 % to 170 % of it.
fn draw(mean: f64, deviation: f64, rng: &mut Rng) -> u64 {
    let value = if deviation > 0.0 { mean + deviation * rng.normal() } else { mean };
    value.clamp(0.3 * mean, 1.7 * mean) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_grows_linearly_from_one_request_to_all_seats() {
        let latency = Latency { time_factor_under_load: 2.0, ..Latency::default() };
        assert_eq!(latency.load(1, 5), 1.0);
        assert_eq!(latency.load(3, 5), 1.5);
        assert_eq!(latency.load(5, 5), 2.0);
        assert_eq!(latency.load(1, 1), 1.0);
    }

    #[test]
    fn the_per_token_form_counts_only_uncached_tokens() {
        let latency = Latency {
            prefill_overhead: Duration::from_millis(30),
            prefill_time_per_token: Duration::from_micros(250),
            ..Latency::default()
        };
        assert_eq!(latency.first_token(1_000 - 640, 1.0, &mut Rng::new(0)), 120_000_000);
    }

    #[test]
    fn microseconds_are_not_truncated() {
        let latency = Latency { inter_token_latency: Duration::from_micros(750), ..Latency::default() };
        assert_eq!(latency.next_token(1.0, &mut Rng::new(0)), 750_000);
    }

    #[test]
    fn draws_stay_within_30_and_170_percent_of_the_mean() {
        let latency = Latency {
            time_to_first_token: Duration::from_millis(100),
            time_to_first_token_std_dev: Duration::from_millis(90),
            ..Latency::default()
        };
        let mut rng = Rng::new(5);
        let draws: Vec<u64> = (0..500).map(|_| latency.first_token(0, 1.0, &mut rng)).collect();
        assert!(draws.iter().all(|d| (30_000_000..=170_000_000).contains(d)));
        assert!(
            draws.contains(&30_000_000) && draws.contains(&170_000_000),
            "both clamps bite with a deviation this wide"
        );
    }
}
