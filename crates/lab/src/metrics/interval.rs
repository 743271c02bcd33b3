//! Means with confidence: Student's t over a few seeds.

use serde::Serialize;

/// A mean, and half of its 95 % confidence interval. One value has no interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Half of the interval; `None` where it is unknown.
    pub ci: Option<f64>,
}

/// Mean of independent runs.
#[must_use]
pub fn estimate(values: &[f64]) -> Estimate {
    let n = values.len() as f64;
    if values.is_empty() {
        return Estimate { mean: 0.0, ci: None };
    }
    let mean = values.iter().sum::<f64>() / n;
    if values.len() == 1 {
        return Estimate { mean, ci: None };
    }
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Estimate { mean, ci: Some(quantile(values.len() - 1) * (variance / n).sqrt()) }
}

/// Mean of the differences `a - b` of runs that had the same seeds: what both have in common falls out.
#[must_use]
pub fn paired(a: &[f64], b: &[f64]) -> Estimate {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    estimate(&differences)
}

impl Estimate {
    /// Whether zero lies outside of the interval; never without one.
    #[must_use]
    pub fn is_real(&self) -> bool {
        self.ci.is_some_and(|ci| self.mean.abs() > ci)
    }
}

/// Student's t at 97.5 % (two-sided 95 %), by degrees of freedom.
fn quantile(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    match freedom {
        0 => f64::INFINITY,
        n if n <= TABLE.len() => TABLE[n - 1],
        // Cornish and Fisher: within 0.001 from here on.
        n => 1.960 + 2.372 / n as f64 + 2.8 / (n as f64).powi(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_values_have_the_interval_of_four_degrees_of_freedom() {
        let got = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((got.mean - 3.0).abs() < 1e-12);
        // s = 1.5811, s / sqrt(5) = 0.70711, times 2.776.
        assert!((got.ci.expect("five") - 1.9629).abs() < 1e-3);
        assert!((quantile(60) - 2.000).abs() < 2e-3 && (quantile(31) - 2.040).abs() < 2e-3);
    }

    #[test]
    fn one_value_has_no_interval_and_is_no_proof() {
        assert_eq!(estimate(&[2.0]), Estimate { mean: 2.0, ci: None });
        assert!(!estimate(&[2.0]).is_real());
    }

    #[test]
    fn pairs_see_a_difference_that_means_hide() {
        let (a, b) = ([10.0, 20.0, 30.0], [9.0, 19.1, 28.9]);
        assert!(paired(&a, &b).is_real());
        assert!(!Estimate { mean: estimate(&a).mean - estimate(&b).mean, ci: estimate(&a).ci }.is_real());
    }
}
