//! Prometheus text pages, scanned for the few series that are wanted (metrics specification 4.3).
//!
//! [`scan`] goes over a page line by line, looks at the beginning of each, and takes apart only lines of wanted families, without
//! allocating. It never gives a page up: a line of a wanted family that cannot be read is counted and skipped, everything else
//! (comments, types, exemplars, other families) is passed over. What the values mean together is not decided here.
//!
//! ```
//! use pointsman_wire::exposition::{Spec, Wanted, scan};
//!
//! let wanted = Wanted::new(Spec::parse("vllm:num_requests_waiting")?);
//! let mut waiting = 0.0;
//! scan(b"vllm:num_requests_waiting{engine=\"0\"} 3\n", &wanted, |sample| waiting += sample.value);
//! assert_eq!(waiting, 3.0);
//! # Ok::<(), pointsman_wire::exposition::SpecError>(())
//! ```

mod labels;
mod line;
mod spec;

pub use labels::Labels;
pub use spec::{Spec, SpecError, Wanted};

use memchr::memchr;

/// One sample of a wanted series.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'p> {
    /// Which of the wanted selectors it matches, counted from 0. A series that matches several comes once for each.
    pub index: usize,
    /// Its labels.
    pub labels: Labels<'p>,
    /// Its value; may be NaN or infinite.
    pub value: f64,
    /// Its explicit timestamp in milliseconds since the Unix epoch.
    pub timestamp: Option<i64>,
}

/// What a scan came across.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Samples handed out.
    pub samples: usize,
    /// Lines of wanted families that could not be read.
    pub bad_lines: usize,
}

/// Scans `page`, handing every sample that matches a wanted selector to `sink`, in the order of the page.
pub fn scan<'p>(page: &'p [u8], wanted: &Wanted, mut sink: impl FnMut(Sample<'p>)) -> Scanned {
    let mut scanned = Scanned::default();
    let mut rest = page;
    while !rest.is_empty() {
        let (line, next) = match memchr(b'\n', rest) {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, &rest[rest.len()..]),
        };
        rest = next;
        let Some((name, after)) = wanted.candidate(line) else { continue };
        let Some(series) = line::parse(after) else {
            scanned.bad_lines += 1;
            continue;
        };
        for (index, spec) in wanted.named(name) {
            if spec.matches(&series.labels) {
                scanned.samples += 1;
                sink(Sample { index, labels: series.labels, value: series.value, timestamp: series.timestamp });
            }
        }
    }
    scanned
}

#[cfg(test)]
mod tests;
