//! Seeded random numbers, small and the same on every machine.

/// SplitMix64: one word of state, good enough for latencies and lengths, never for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator whose whole sequence follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Uniform over all 64-bit words.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `low..=high`; `low` when the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        if high <= low {
            return low;
        }
        let width = u128::from(high - low) + 1;
        low + ((u128::from(self.next_u64()) * width) >> 64) as u64
    }

    /// Standard normal (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        // 1 - u lies in (0, 1], so the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// `exp(sigma * N(0, 1))`: a factor around 1.
    pub fn lognormal_factor(&mut self, sigma: f64) -> f64 {
        if sigma <= 0.0 { 1.0 } else { (sigma * self.normal()).exp() }
    }
}

/// SplitMix64's output function: a bijection that scatters neighbouring numbers.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_deviation_one() {
        let mut rng = Rng::new(1);
        let n = 20_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = rng.normal();
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(n);
        assert!(mean.abs() < 0.03, "{mean}");
        assert!((squares / f64::from(n) - 1.0).abs() < 0.05);
    }

    #[test]
    fn a_range_reaches_both_ends_and_nothing_beyond() {
        let mut rng = Rng::new(3);
        let mut seen = [false; 4];
        for _ in 0..200 {
            seen[rng.between(2, 5) as usize - 2] = true;
        }
        assert_eq!(seen, [true; 4]);
        assert_eq!(rng.between(9, 9), 9);
        assert_eq!(rng.between(9, 3), 9);
    }
}
