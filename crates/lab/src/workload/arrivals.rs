//! When requests come: processes in open loop (simulator 3.4).

use pointsman_core::Nanos;
use pointsman_sim::Rng;

/// An arrival process. Rates are requests per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Evenly spaced.
    Constant {
        /// Requests per second.
        rate: f64,
    },
    /// Memoryless.
    Poisson {
        /// Requests per second.
        rate: f64,
    },
    /// Gaps from a Gamma distribution. A coefficient of variation of 1 is Poisson; 2 to 4 is bursty.
    Gamma {
        /// Requests per second.
        rate: f64,
        /// Standard deviation of a gap over its mean.
        cv: f64,
    },
    /// Poisson at `rate` for `on` seconds, then nothing for `off` seconds, and so on.
    OnOff {
        /// Requests per second while on.
        rate: f64,
        /// Seconds.
        on: f64,
        /// Seconds.
        off: f64,
    },
    /// Poisson whose rate swings around `rate` by the share `swing` (0 to 1), one turn in `period` seconds.
    Diurnal {
        /// Mean requests per second.
        rate: f64,
        /// Share of the rate.
        swing: f64,
        /// Seconds.
        period: f64,
    },
}

impl Arrivals {
    /// Mean requests per second (while on).
    #[must_use]
    pub fn rate(&self) -> f64 {
        match *self {
            Self::Constant { rate }
            | Self::Poisson { rate }
            | Self::Gamma { rate, .. }
            | Self::OnOff { rate, .. }
            | Self::Diurnal { rate, .. } => rate,
        }
    }

    /// The same process at another rate.
    #[must_use]
    pub fn at_rate(mut self, to: f64) -> Self {
        match &mut self {
            Self::Constant { rate }
            | Self::Poisson { rate }
            | Self::Gamma { rate, .. }
            | Self::OnOff { rate, .. }
            | Self::Diurnal { rate, .. } => *rate = to,
        }
        self
    }

    /// The first `count` arrival times.
    #[must_use]
    pub fn times(&self, count: usize, rng: &mut Rng) -> Vec<Nanos> {
        let rate = self.rate().max(1e-9);
        let mut seconds = 0.0_f64;
        let mut out = Vec::with_capacity(count);
        while out.len() < count {
            match *self {
                Self::Constant { .. } => seconds = out.len() as f64 / rate,
                Self::Poisson { .. } => seconds += exponential(rng) / rate,
                Self::Gamma { cv, .. } => {
                    let cv = cv.max(0.01);
                    seconds += gamma(1.0 / (cv * cv), rng) * cv * cv / rate;
                }
                Self::OnOff { on, off, .. } => {
                    let (on, off) = (on.max(1e-3), off.max(0.0));
                    let busy = seconds - (seconds / (on + off)).floor() * off + exponential(rng) / rate;
                    // Time spent on, laid out over the turns again.
                    seconds = busy_to_wall(busy, seconds, on, off);
                }
                Self::Diurnal { swing, period, .. } => {
                    let swing = swing.clamp(0.0, 1.0);
                    // Thinning: draws at the highest rate, of which some are dropped.
                    loop {
                        seconds += exponential(rng) / (rate * (1.0 + swing));
                        let phase = (std::f64::consts::TAU * seconds / period.max(1e-3)).sin();
                        if rng.unit() * (1.0 + swing) <= 1.0 + swing * phase {
                            break;
                        }
                    }
                }
            }
            out.push(Nanos((seconds * 1e9).min(1e18) as u64));
        }
        out
    }
}

/// Time of day at which `busy` seconds of on-time have passed, of which the turns before the one of `wall` are whole.
fn busy_to_wall(busy: f64, wall: f64, on: f64, off: f64) -> f64 {
    let turns = (wall / (on + off)).floor();
    let within = busy - turns * on;
    let more = (within / on).floor().max(0.0);
    (turns + more) * (on + off) + (within - more * on)
}

/// Exponential with mean 1.
fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.unit()).ln()
}

/// Gamma of that shape, scale 1 (Marsaglia and Tsang 2000).
fn gamma(shape: f64, rng: &mut Rng) -> f64 {
    if shape < 1.0 {
        let boost = (1.0 - rng.unit()).powf(1.0 / shape);
        return gamma(shape + 1.0, rng) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = rng.normal();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - rng.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(process: Arrivals) -> (f64, f64) {
        let times = process.times(20_000, &mut Rng::new(1));
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1].0 - w[0].0) as f64 / 1e9).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn each_process_has_its_mean_and_its_variation() {
        let near = |got: (f64, f64), mean: f64, cv: f64| {
            assert!((got.0 / mean - 1.0).abs() < 0.05 && (got.1 - cv).abs() < 0.1 + cv * 0.05, "{got:?} {mean} {cv}");
        };
        near(gaps(Arrivals::Constant { rate: 4.0 }), 0.25, 0.0);
        near(gaps(Arrivals::Poisson { rate: 4.0 }), 0.25, 1.0);
        near(gaps(Arrivals::Gamma { rate: 4.0, cv: 3.0 }), 0.25, 3.0);
        near(gaps(Arrivals::Gamma { rate: 4.0, cv: 0.5 }), 0.25, 0.5);
        let diurnal = Arrivals::Diurnal { rate: 4.0, swing: 0.8, period: 100.0 };
        assert!((gaps(diurnal).0 / 0.25 - 1.0).abs() < 0.05);
    }

    #[test]
    fn bursts_leave_the_pauses_empty() {
        let times = Arrivals::OnOff { rate: 10.0, on: 2.0, off: 3.0 }.times(2_000, &mut Rng::new(2));
        assert!(times.iter().all(|t| (t.0 as f64 / 1e9) % 5.0 <= 2.0 + 1e-6));
        assert!(times.is_sorted());
        let turns = times[1_999].0 as f64 / 1e9 / 5.0;
        assert!((turns * 20.0 / 2_000.0 - 1.0).abs() < 0.1, "{turns}");
    }
}
