//! How long prompts and answers are (simulator 3.4).

use pointsman_sim::Rng;

/// A distribution of lengths, in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lengths {
    /// Always the same.
    Fixed(u64),
    /// Both ends included.
    Uniform {
        /// Shortest.
        min: u64,
        /// Longest.
        max: u64,
    },
    /// Normal, drawn again where it falls outside; after 100 draws, held within.
    Normal {
        /// Mean before truncation.
        mean: f64,
        /// Standard deviation before truncation.
        deviation: f64,
        /// Shortest.
        min: u64,
        /// Longest.
        max: u64,
    },
    /// Log-normal of that mean and deviation, held within the ends.
    LogNormal {
        /// Mean before clipping.
        mean: f64,
        /// Standard deviation before clipping.
        deviation: f64,
        /// Shortest.
        min: u64,
        /// Longest.
        max: u64,
    },
}

impl Lengths {
    /// One length.
    #[must_use]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match *self {
            Self::Fixed(tokens) => tokens,
            Self::Uniform { min, max } => rng.between(min, max),
            Self::Normal { mean, deviation, min, max } => {
                let draw = |rng: &mut Rng| mean + deviation * rng.normal();
                let inside = (0..100).map(|_| draw(rng)).find(|x| *x >= min as f64 && *x <= max as f64);
                inside.unwrap_or(mean).round().clamp(min as f64, max.max(min) as f64) as u64
            }
            Self::LogNormal { mean, deviation, min, max } => {
                let (mu, sigma) = lognormal(mean, deviation);
                (mu + sigma * rng.normal()).exp().round().clamp(min as f64, max.max(min) as f64) as u64
            }
        }
    }

    /// What a length is on average, before it is held within its ends.
    pub(super) fn mean(&self) -> f64 {
        match *self {
            Self::Fixed(tokens) => tokens as f64,
            Self::Uniform { min, max } => (min as f64 + max as f64) / 2.0,
            Self::Normal { mean, min, max, .. } | Self::LogNormal { mean, min, max, .. } => {
                mean.clamp(min as f64, max.max(min) as f64)
            }
        }
    }

    /// Reads `800`, `100..2000` (uniform), `normal:800/200/1/4000` or `lognormal:1500/1200/1/100000` (mean, deviation, shortest, longest).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let four = |rest: &str| -> Option<(f64, f64, u64, u64)> {
            let parts: Vec<f64> = rest.split('/').map(str::parse).collect::<Result<_, _>>().ok()?;
            let &[mean, deviation, min, max] = &parts[..] else { return None };
            let sane =
                parts.iter().all(|p| p.is_finite() && *p >= 0.0 && *p <= MOST as f64) && mean > 0.0 && min <= max;
            sane.then_some((mean, deviation, min as u64, max as u64))
        };
        if let Some(rest) = text.strip_prefix("normal:") {
            return four(rest).map(|(mean, deviation, min, max)| Self::Normal { mean, deviation, min, max });
        }
        if let Some(rest) = text.strip_prefix("lognormal:") {
            return four(rest).map(|(mean, deviation, min, max)| Self::LogNormal { mean, deviation, min, max });
        }
        if let Some((min, max)) = text.split_once("..") {
            let (min, max) = (min.parse().ok()?, max.parse().ok()?);
            return (min <= max && max <= MOST).then_some(Self::Uniform { min, max });
        }
        text.parse().ok().filter(|tokens| *tokens <= MOST).map(Self::Fixed)
    }
}

/// Tokens that a length may have at most.
pub(crate) const MOST: u64 = 10_000_000;

/// Mean and deviation of the logarithm, from those of the length.
fn lognormal(mean: f64, deviation: f64) -> (f64, f64) {
    let variance = (1.0 + (deviation / mean).powi(2)).ln();
    (mean.ln() - variance / 2.0, variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_normal_parameters_follow_the_published_rows() {
        for (mean, deviation, mu, sigma) in
            [(1_500.0, 1_200.0, 7.0659, 0.7033), (800.0, 600.0, 6.4615, 0.6680), (160_000.0, 233_600.0, 11.412, 1.0684)]
        {
            let got = lognormal(mean, deviation);
            assert!((got.0 - mu).abs() < 1e-3 && (got.1 - sigma).abs() < 1e-3, "{got:?}");
        }
    }

    #[test]
    fn lengths_are_written_in_four_forms() {
        assert_eq!(Lengths::parse("800"), Some(Lengths::Fixed(800)));
        assert_eq!(Lengths::parse("10..20"), Some(Lengths::Uniform { min: 10, max: 20 }));
        let want = Lengths::LogNormal { mean: 1_500.0, deviation: 1_200.0, min: 1, max: 9_000 };
        assert_eq!(Lengths::parse("lognormal:1500/1200/1/9000"), Some(want));
        assert!(
            ["", "x", "20..10", "normal:1", "99999999999", "lognormal:0/1/1/2"]
                .iter()
                .all(|t| Lengths::parse(t).is_none())
        );
    }

    #[test]
    fn draws_stay_within_their_ends() {
        let mut rng = Rng::new(1);
        for form in ["5..9", "normal:7/30/5/9", "lognormal:7/30/5/9"] {
            let lengths = Lengths::parse(form).expect(form);
            assert!((0..500).all(|_| (5..=9).contains(&lengths.draw(&mut rng))), "{form}");
        }
    }
}
