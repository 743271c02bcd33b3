//! Which traces are recorded.

use crate::{SpanContext, TraceId};

/// Share of the traces that begin here of which spans are exported, when nothing else is said.
pub const DEFAULT_RATIO: f64 = 0.1;

/// Decides for a whole trace, so that it is recorded everywhere or nowhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampler {
    /// All.
    AlwaysOn,
    /// None.
    AlwaysOff,
    /// This share, 0 to 1, by the trace's id.
    Ratio(f64),
    /// As the client's span says; all of those that begin here.
    ParentOrOn,
    /// As the client's span says; none of those that begin here.
    ParentOrOff,
    /// As the client's span says; this share, 0 to 1, of those that begin here.
    ParentOrRatio(f64),
}

impl Default for Sampler {
    fn default() -> Self {
        Self::ParentOrRatio(DEFAULT_RATIO)
    }
}

impl Sampler {
    /// The sampler that `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG` ask for, and what is wrong with them. What is not known or not a share
    /// becomes the default.
    #[must_use]
    pub fn named(name: Option<&str>, argument: Option<&str>) -> (Self, Option<String>) {
        let (mut ratio, mut fault) = (DEFAULT_RATIO, None);
        if let Some(text) = argument.map(str::trim).filter(|a| !a.is_empty()) {
            match text.parse::<f64>() {
                Ok(share) if (0.0..=1.0).contains(&share) => ratio = share,
                _ => {
                    fault =
                        Some(format!("OTEL_TRACES_SAMPLER_ARG is {text:?}, not a share from 0 to 1: {ratio} is taken"));
                }
            }
        }
        let sampler = match name.map(str::trim).unwrap_or_default() {
            "" | "parentbased_traceidratio" => Self::ParentOrRatio(ratio),
            "traceidratio" => Self::Ratio(ratio),
            // These have no argument.
            "always_on" => return (Self::AlwaysOn, None),
            "always_off" => return (Self::AlwaysOff, None),
            "parentbased_always_on" => return (Self::ParentOrOn, None),
            "parentbased_always_off" => return (Self::ParentOrOff, None),
            other => {
                let message = format!("OTEL_TRACES_SAMPLER {other:?} is not known: parentbased_traceidratio is taken");
                return (Self::ParentOrRatio(ratio), Some(message));
            }
        };
        (sampler, fault)
    }

    /// Whether this trace is recorded.
    #[must_use]
    pub fn samples(self, trace: TraceId, parent: Option<SpanContext>) -> bool {
        match (self, parent) {
            (Self::AlwaysOn, _) | (Self::ParentOrOn, None) => true,
            (Self::AlwaysOff, _) | (Self::ParentOrOff, None) => false,
            (Self::Ratio(ratio), _) | (Self::ParentOrRatio(ratio), None) => within(trace, ratio),
            (Self::ParentOrOn | Self::ParentOrOff | Self::ParentOrRatio(_), Some(parent)) => parent.sampled,
        }
    }
}

/// By the lower 63 bits of the id, as every OpenTelemetry SDK counts, so that all of them choose the same traces.
fn within(trace: TraceId, ratio: f64) -> bool {
    let place = (trace.0.get() as u64) >> 1;
    ratio >= 1.0 || place < (ratio.max(0.0) * (1u64 << 63) as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SpanId;

    #[test]
    fn the_six_samplers_are_known_by_name_and_others_become_the_default() {
        let of = |name, argument| Sampler::named(name, argument);
        assert_eq!(of(None, None), (Sampler::ParentOrRatio(0.1), None));
        assert_eq!(of(Some("parentbased_traceidratio"), Some("0.5")), (Sampler::ParentOrRatio(0.5), None));
        assert_eq!(of(Some("traceidratio"), Some("1")), (Sampler::Ratio(1.0), None));
        assert_eq!(of(Some("always_on"), Some("x")), (Sampler::AlwaysOn, None));
        assert_eq!(of(Some("always_off"), None), (Sampler::AlwaysOff, None));
        assert_eq!(of(Some("parentbased_always_on"), None), (Sampler::ParentOrOn, None));
        assert_eq!(of(Some("parentbased_always_off"), None), (Sampler::ParentOrOff, None));
        let (sampler, fault) = of(Some("jaeger_remote"), Some("0.2"));
        assert_eq!(sampler, Sampler::ParentOrRatio(0.2));
        assert!(fault.is_some_and(|f| f.contains("jaeger_remote")));
        for bad in ["x", "2", "-1", "NaN"] {
            let (sampler, fault) = of(None, Some(bad));
            assert_eq!(sampler, Sampler::default());
            assert!(fault.is_some(), "{bad}");
        }
    }

    #[test]
    fn a_parent_rules_where_the_name_says_so_and_nowhere_else() {
        let trace = TraceId::random();
        let parent = |sampled| Some(SpanContext { trace, span: SpanId::random(), sampled });
        for s in [Sampler::ParentOrOn, Sampler::ParentOrOff, Sampler::ParentOrRatio(0.5)] {
            assert!(s.samples(trace, parent(true)) && !s.samples(trace, parent(false)), "{s:?}");
        }
        assert!(Sampler::ParentOrOn.samples(trace, None) && !Sampler::ParentOrOff.samples(trace, None));
        assert!(Sampler::AlwaysOn.samples(trace, parent(false)) && !Sampler::AlwaysOff.samples(trace, parent(true)));
        assert!(!Sampler::Ratio(0.0).samples(trace, parent(true)) && Sampler::Ratio(1.0).samples(trace, parent(false)));
    }

    #[test]
    fn a_ratio_takes_its_share_of_random_traces() {
        let taken = (0..20_000).filter(|_| Sampler::default().samples(TraceId::random(), None)).count();
        assert!((1_700..2_300).contains(&taken), "{taken} of 20000");
    }
}
