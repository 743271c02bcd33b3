//! An engine that dies, and perhaps returns.

use std::time::Duration;

/// From when to when an engine is down. What it held and what ran in it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Number of the engine, from 0.
    pub pod: usize,
    /// Since the run's beginning.
    pub from: Duration,
    /// When it takes requests again, with an empty cache; `None` = never.
    pub to: Option<Duration>,
}

impl Outage {
    /// Reads `POD@FROM` or `POD@FROM..TO`, in seconds.
    ///
    /// # Errors
    /// Says what may stand there.
    pub fn parse(text: &str) -> Result<Self, String> {
        let seconds = |text: &str| {
            let number = text.trim().parse::<f64>().ok().filter(|n| (0.0..=1e9).contains(n));
            number.map(Duration::from_secs_f64)
        };
        let read = || {
            let (pod, times) = text.split_once('@')?;
            let (from, to) = times.split_once("..").map_or((times, None), |(from, to)| (from, Some(to)));
            let to = match to {
                Some(to) => Some(seconds(to)?),
                None => None,
            };
            let outage = Self { pod: pod.trim().parse().ok()?, from: seconds(from)?, to };
            (to.is_none_or(|to| to > outage.from)).then_some(outage)
        };
        read().ok_or_else(|| "ENGINE@SECONDS or ENGINE@SECONDS..SECONDS, engines from 0: 2@30..90".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_others_are_not() {
        let of = |from, to: Option<u64>| Outage {
            pod: 2,
            from: Duration::from_millis(from),
            to: to.map(Duration::from_secs),
        };
        assert_eq!(Outage::parse("2@30.5"), Ok(of(30_500, None)));
        assert_eq!(Outage::parse("2@30..90"), Ok(of(30_000, Some(90))));
        for text in ["", "2", "2@", "x@3", "2@9..3", "2@3..", "2@-1", "2@nan", "-1@3"] {
            assert!(Outage::parse(text).is_err(), "{text}");
        }
    }
}
