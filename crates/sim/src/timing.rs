//! How long a batched step takes (simulator 2.3).
//!
//! A step reads all weights once and multiplies all its tokens: whichever is slower sets the pace (`max`). Decodes also read the KV
//! cache of everything before them; kernels, collectives and bookkeeping add time that no hardware speeds up.

use crate::Latency;
use crate::profile::{Fit, Hardware, Model};
use crate::run::FEMTOS;

/// Where durations come from.
#[derive(Clone, Debug)]
pub enum Timing {
    /// Batched steps with costs computed from hardware and model: decodes and prefills share steps and slow each other down.
    Step(StepCosts),
    /// Latencies per request, drawn independently; load only through a factor.
    Latency(Latency),
}

/// What one step computes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepShape {
    /// All tokens, one for each decode.
    pub tokens: u64,
    /// Sum over prefill chunks of `n * (context + n / 2)`.
    pub prefill_pairs: f64,
    /// Sum over decodes of their context, in tokens.
    pub decode_context: u64,
    /// Requests in the step.
    pub requests: u64,
}

/// Costs of a step as coefficients, all in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCosts {
    /// Reading the weights.
    pub weights: f64,
    /// Per token.
    pub per_token: f64,
    /// Per (query, key) pair of prefill attention.
    pub per_pair: f64,
    /// Per token of context a decode reads.
    pub per_context_token: f64,
    /// Per request.
    pub per_request: f64,
    /// Per step.
    pub fixed: f64,
    /// Sigma of the log-normal factor on each step; 0 = exact.
    pub noise: f64,
}

impl StepCosts {
    /// Coefficients of a deployment, without noise.
    #[must_use]
    pub fn new(hardware: &Hardware, model: &Model, tensor_parallel: u32, fit: &Fit) -> Self {
        let tp = f64::from(tensor_parallel.max(1));
        let flops = tp * hardware.flops * model.flops_factor;
        let bandwidth = tp * hardware.bandwidth;
        let layers = f64::from(model.layers);
        let collectives = if tensor_parallel > 1 { 2.0 * fit.all_reduce } else { 0.0 };
        Self {
            weights: model.weight_bytes / (bandwidth * fit.weight_read),
            per_token: 2.0 * model.parameters / (flops * fit.matmul),
            per_pair: 4.0 * layers * f64::from(model.hidden) / (flops * fit.attention),
            per_context_token: model.kv_bytes_per_token / (bandwidth * fit.kv_read),
            per_request: fit.per_request,
            fixed: layers * (fit.per_layer + collectives) + fit.per_step,
            noise: 0.0,
        }
    }

    /// The same, every step `factor` times as long.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            weights: self.weights * factor,
            per_token: self.per_token * factor,
            per_pair: self.per_pair * factor,
            per_context_token: self.per_context_token * factor,
            per_request: self.per_request * factor,
            fixed: self.fixed * factor,
            noise: self.noise,
        }
    }

    /// Duration of a step in seconds, noise not applied.
    #[must_use]
    pub fn seconds(&self, step: &StepShape) -> f64 {
        let compute = self.per_token * step.tokens as f64 + self.per_pair * step.prefill_pairs;
        self.weights.max(compute)
            + self.per_context_token * step.decode_context as f64
            + self.per_request * step.requests as f64
            + self.fixed
    }

    /// Femtoseconds of a step that takes `factor` times as long, and of each token of its context. At least a nanosecond, so that time always moves.
    pub(crate) fn femtos(&self, step: &StepShape, factor: f64) -> (u64, u64) {
        let per_context_token = (self.per_context_token * factor * 1e15) as u64;
        let rest = (self.seconds(&StepShape { decode_context: 0, ..*step }) * factor * 1e15) as u64;
        let context = per_context_token.saturating_mul(step.decode_context);
        (rest.max(FEMTOS).saturating_add(context), per_context_token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    fn decode(profile: &str, requests: u64, context: u64) -> f64 {
        let shape = StepShape { tokens: requests, prefill_pairs: 0.0, decode_context: requests * context, requests };
        Profile::named(profile).expect("known").costs().seconds(&shape) * 1e3
    }

    fn prefill(profile: &str, tokens: u64) -> f64 {
        let pairs = tokens as f64 * tokens as f64 / 2.0;
        let shape = StepShape { tokens, prefill_pairs: pairs, decode_context: 0, requests: 1 };
        Profile::named(profile).expect("known").costs().seconds(&shape) * 1e3
    }

    fn rate(profile: &str) -> f64 {
        8_192.0 / prefill(profile, 8_192) * 1e3
    }

    /// Points of the table in simulator 2.3, in milliseconds and tokens per second, with the unit they were rounded to.
    #[test]
    fn step_times_follow_the_published_points() {
        let points: [(&str, f64, f64, f64); 17] = [
            ("8B decode B=1 ctx 1k", decode("8b-h100", 1, 1_000), 6.4, 0.1),
            ("8B decode B=64 ctx 2k", decode("8b-h100", 64, 2_000), 15.0, 0.1),
            ("8B decode B=128 ctx 4k", decode("8b-h100", 128, 4_000), 40.3, 0.1),
            ("8B decode B=32 ctx 8k", decode("8b-h100", 32, 8_000), 23.2, 0.1),
            ("8B prefill 1,000", prefill("8b-h100", 1_000), 31.0, 1.0),
            ("8B prefill 8,000", prefill("8b-h100", 8_000), 274.0, 1.0),
            ("8B prefill rate", rate("8b-h100"), 29_000.0, 1_000.0),
            ("70B decode B=1 ctx 1k", decode("70b-4xh100", 1, 1_000), 15.4, 0.1),
            ("70B decode B=64 ctx 2k", decode("70b-4xh100", 64, 2_000), 20.9, 0.1),
            ("70B decode B=128 ctx 4k", decode("70b-4xh100", 128, 4_000), 36.8, 0.1),
            ("70B prefill 1,000", prefill("70b-4xh100", 1_000), 68.0, 1.0),
            ("70B prefill 8,000", prefill("70b-4xh100", 8_000), 569.0, 1.0),
            ("70B prefill rate", rate("70b-4xh100"), 14_000.0, 1_000.0),
            ("Qwen3 decode B=1 ctx 1k", decode("qwen3-32b-2xh100", 1, 1_000), 14.1, 0.1),
            ("Qwen3 decode B=64 ctx 2k", decode("qwen3-32b-2xh100", 64, 2_000), 22.6, 0.1),
            ("Qwen3 prefill 8,000", prefill("qwen3-32b-2xh100", 8_000), 532.0, 1.0),
            ("Qwen3 prefill rate", rate("qwen3-32b-2xh100"), 15_000.0, 1_000.0),
        ];
        for (what, got, want, unit) in points {
            assert!((got - want).abs() <= unit / 2.0, "{what}: {got:.3}, expected {want}");
        }
    }

    #[test]
    fn a_decode_step_of_ten_contexts_of_a_thousand_takes_7_0725_ms() {
        assert!((decode("8b-h100", 10, 1_000) - 7.0725).abs() < 0.001);
    }
}
