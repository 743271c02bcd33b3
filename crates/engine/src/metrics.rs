//! Counters and histograms of one engine, with vLLM's buckets. Times are seconds as seen from outside (scaled time included).

/// Buckets of `time_to_first_token_seconds`.
const TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
/// Buckets of times per token.
const PER_TOKEN: &[f64] =
    &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
/// Buckets of times per request.
const REQUEST: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];
/// Buckets of token counts, up to the longest context anyone configures.
const TOKENS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 50000.0, 100000.0,
];

/// A histogram with fixed buckets.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    pub(crate) bounds: &'static [f64],
    /// One more than `bounds`; not cumulative.
    pub(crate) counts: Vec<u64>,
    pub(crate) sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Records `value` `times` times.
    pub(crate) fn observe(&mut self, value: f64, times: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += times;
        self.sum += value * times as f64;
    }
}

/// Why a request ended, as `request_success_total` labels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Stop,
    Length,
    Abort,
}

/// Everything that only grows.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub(crate) prompt_tokens: u64,
    pub(crate) generation_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) refused: u64,
    pub(crate) ended: [u64; 3],
    pub(crate) ttft: Histogram,
    pub(crate) inter_token: Histogram,
    pub(crate) per_output_token: Histogram,
    pub(crate) e2e: Histogram,
    pub(crate) queue: Histogram,
    pub(crate) inference: Histogram,
    pub(crate) prefill: Histogram,
    pub(crate) decode: Histogram,
    pub(crate) request_prompt_tokens: Histogram,
    pub(crate) request_generation_tokens: Histogram,
    pub(crate) max_tokens: Histogram,
    pub(crate) max_generation_tokens: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            prompt_tokens: 0,
            generation_tokens: 0,
            cached_tokens: 0,
            refused: 0,
            ended: [0; 3],
            ttft: Histogram::new(TTFT),
            inter_token: Histogram::new(PER_TOKEN),
            per_output_token: Histogram::new(PER_TOKEN),
            e2e: Histogram::new(REQUEST),
            queue: Histogram::new(REQUEST),
            inference: Histogram::new(REQUEST),
            prefill: Histogram::new(REQUEST),
            decode: Histogram::new(REQUEST),
            request_prompt_tokens: Histogram::new(TOKENS),
            request_generation_tokens: Histogram::new(TOKENS),
            max_tokens: Histogram::new(TOKENS),
            max_generation_tokens: Histogram::new(TOKENS),
        }
    }
}

/// When one request reached which point, in seconds since the engine's start, and how long it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Milestones {
    pub(crate) arrived: f64,
    pub(crate) admitted: f64,
    pub(crate) first: f64,
    pub(crate) last: f64,
    pub(crate) prompt: u64,
    pub(crate) produced: u64,
    pub(crate) limit: Option<u64>,
}

impl Metrics {
    /// A request has all its tokens.
    pub(crate) fn finish(&mut self, m: &Milestones, why: Ended) {
        self.ended[why as usize] += 1;
        self.e2e.observe(m.last - m.arrived, 1);
        self.queue.observe(m.admitted - m.arrived, 1);
        self.inference.observe(m.last - m.admitted, 1);
        self.prefill.observe(m.first - m.admitted, 1);
        self.decode.observe(m.last - m.first, 1);
        if m.produced > 1 {
            self.per_output_token.observe((m.last - m.first) / (m.produced - 1) as f64, 1);
        }
        self.request_prompt_tokens.observe(m.prompt as f64, 1);
        self.request_generation_tokens.observe(m.produced as f64, 1);
        self.max_generation_tokens.observe(m.produced as f64, 1);
        if let Some(limit) = m.limit {
            self.max_tokens.observe(limit as f64, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_belongs_to_that_bucket() {
        let mut h = Histogram::new(PER_TOKEN);
        h.observe(0.01, 1);
        h.observe(0.011, 2);
        h.observe(1e9, 1);
        assert_eq!((h.counts[0], h.counts[1], h.counts[19]), (1, 2, 1));
    }
}
