//! What counts: one figure or several with weights, and what must be kept beside them.

use std::fmt;

use crate::metrics::Metric;

/// Figures of a run, or of several, by name.
type Figures<'a> = &'a dyn Fn(&str) -> f64;

/// What is to be best. Figures of different units are made comparable by the default configuration's: each counts by the share in which it is better.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    text: String,
    terms: Vec<(&'static Metric, f64)>,
}

impl Objective {
    /// Reads `ttft-p95`, or `ttft-p95=1,hit-rate=0.5`.
    ///
    /// # Errors
    /// Says what is wrong and what may stand there.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms: Vec<(&'static Metric, f64)> = Vec::new();
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let metric = metric(name)?;
            if metric.more_is_better.is_none() {
                return Err(format!("`{name}` is neither better when it is more nor when it is less"));
            }
            let weight = weight.trim().parse::<f64>().ok().filter(|w| *w > 0.0 && *w <= 1e6);
            let weight = weight.ok_or_else(|| format!("`{part}`: the weight is to be a number above 0"))?;
            if terms.iter().any(|(other, _)| *other == metric) {
                return Err(format!("`{name}` is named twice"));
            }
            terms.push((metric, weight));
        }
        Ok(Self { text: text.split(',').map(str::trim).collect::<Vec<_>>().join(","), terms })
    }

    /// Figures that it looks at.
    pub fn metrics(&self) -> impl Iterator<Item = &'static Metric> {
        self.terms.iter().map(|(metric, _)| *metric)
    }

    /// By which share these figures are better than `base`: 0.1 is 10 % better. Where the base is 0, any difference counts as 1.
    #[must_use]
    pub fn gain(&self, figures: Figures<'_>, base: Figures<'_>) -> f64 {
        let one = |metric: &Metric| {
            let (value, base) = (figures(metric.name), base(metric.name));
            let more = if base.abs() > 0.0 { (value - base) / base.abs() } else { value.clamp(-1.0, 1.0) };
            if metric.more_is_better == Some(true) { more } else { -more }
        };
        let weights: f64 = self.terms.iter().map(|(_, weight)| weight).sum();
        self.terms.iter().map(|(metric, weight)| one(metric) * weight).sum::<f64>() / weights
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Something that must be kept: a figure below a bound, or above one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constraint {
    /// The figure.
    pub metric: &'static Metric,
    /// At least the bound; else at most.
    pub at_least: bool,
    /// In the figure's unit.
    pub bound: f64,
}

impl Constraint {
    /// Reads `tpot-p95<0.05` or `hit-ratio>=0.5`. A bound itself is kept.
    ///
    /// # Errors
    /// Says what is wrong and what may stand there.
    pub fn parse(text: &str) -> Result<Self, String> {
        let at = text.find(['<', '>']).ok_or("expected FIGURE<NUMBER or FIGURE>NUMBER, as in tpot-p95<0.05")?;
        let (name, rest) = text.split_at(at);
        let at_least = rest.starts_with('>');
        let bound = rest[1..].trim_start_matches('=').trim();
        let bound = bound.parse::<f64>().ok().filter(|b| b.is_finite());
        let bound = bound.ok_or_else(|| format!("`{text}`: the bound is to be a number"))?;
        Ok(Self { metric: metric(name)?, at_least, bound })
    }

    /// By which share of the bound it is broken; 0 when it is kept.
    #[must_use]
    pub fn broken(&self, figures: Figures<'_>) -> f64 {
        let value = figures(self.metric.name);
        let over = if self.at_least { self.bound - value } else { value - self.bound };
        if over > 0.0 { over / self.bound.abs().max(1e-9) } else { 0.0 }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.metric.flag(), if self.at_least { '>' } else { '<' }, self.bound)
    }
}

fn metric(name: &str) -> Result<&'static Metric, String> {
    Metric::named(name.trim()).ok_or_else(|| {
        let names: Vec<String> = crate::metrics::METRICS.iter().map(Metric::flag).collect();
        format!("there is no figure `{}`; there are {}", name.trim(), names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(ttft: f64, hit: f64) -> impl Fn(&str) -> f64 {
        move |name| match name {
            "ttft_p95" => ttft,
            "hit_ratio" => hit,
            _ => f64::NAN,
        }
    }

    #[test]
    fn gains_are_shares_of_the_default_and_weighted() {
        let gain =
            |text: &str, ttft, hit| Objective::parse(text).expect(text).gain(&figures(ttft, hit), &figures(0.4, 0.5));
        let near = |got: f64, want: f64| assert!((got - want).abs() < 1e-12, "{got} {want}");
        near(gain("ttft-p95", 0.3, 0.5), 0.25);
        near(gain("hit-rate", 0.3, 0.6), 0.2);
        near(gain("ttft-p95=1,hit-rate=0.5", 0.4, 0.8), 0.2);
        near(gain("ttft-p95=2, hit_ratio=2", 0.3, 0.6), 0.225);
    }

    #[test]
    fn a_bound_is_kept_up_to_itself() {
        let most = Constraint::parse("ttft-p95<0.4").expect("fine");
        assert_eq!((most.broken(&figures(0.4, 0.0)), most.to_string().as_str()), (0.0, "ttft-p95<0.4"));
        assert!((most.broken(&figures(0.6, 0.0)) - 0.5).abs() < 1e-12);
        let least = Constraint::parse("hit-rate >= 0.5").expect("fine");
        assert!(least.broken(&figures(0.0, 0.25)) > 0.0 && least.broken(&figures(0.0, 0.75)) == 0.0);
    }

    #[test]
    fn what_cannot_be_read_is_said_with_what_may_be() {
        for (text, word) in [
            ("speed", "ttft-p95"),
            ("ttft-p95=x", "above 0"),
            ("ttft-p95,ttft-p95", "twice"),
            ("seconds", "neither"),
            ("", ""),
        ] {
            assert!(Objective::parse(text).expect_err(text).contains(word), "{text}");
        }
        for text in ["ttft-p95", "ttft-p95<x", "ttft-p95<nan", "speed<1", "<1"] {
            assert!(Constraint::parse(text).is_err(), "{text}");
        }
    }
}
