//! When it pays to compute a prompt on another engine: an analytic model of both ways (disaggregation specification 8).
//!
//! Here: wait for the stall, compute what is not held. There: compute what is not held there, move the blocks that are lacking here, pay for one more
//! hop. Times are those of one request on idle engines; queues come on top. Nothing decides by this yet: it explains.

/// What the model needs to know of a language model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelShape {
    /// Name.
    pub name: &'static str,
    /// Parameters that take part in computing a token.
    pub active_parameters: f64,
    /// Layers, attention heads and the size of a head.
    pub layers_heads_size: (f64, f64, f64),
    /// Bytes of KV cache per token, in 16 bits.
    pub kv_bytes: f64,
    /// GPUs of an engine, unless somebody says.
    pub gpus: f64,
}

const fn shape(
    name: &'static str,
    active_parameters: f64,
    layers_heads_size: (f64, f64, f64),
    kv_bytes: f64,
    gpus: f64,
) -> ModelShape {
    ModelShape { name, active_parameters, layers_heads_size, kv_bytes, gpus }
}

/// Models whose shapes are published.
pub const MODELS: &[ModelShape] = &[
    shape("llama-3.1-8b", 8.03e9, (32.0, 32.0, 128.0), 131_072.0, 1.0),
    shape("qwen3-8b", 8.2e9, (36.0, 32.0, 128.0), 147_456.0, 1.0),
    shape("qwen3-32b", 32.8e9, (64.0, 64.0, 128.0), 262_144.0, 2.0),
    shape("llama-3.1-70b", 70.6e9, (80.0, 64.0, 128.0), 327_680.0, 8.0),
    shape("llama-3.1-405b", 405.9e9, (126.0, 128.0, 128.0), 516_096.0, 16.0),
    shape("qwen3-235b-a22b", 22.0e9, (94.0, 64.0, 128.0), 192_512.0, 8.0),
];

/// Ways between engines: name, and bytes per second that a transfer reaches.
pub const LINKS: &[(&str, f64)] = &[
    ("10 GbE", 1.17e9),
    ("100 GbE, TCP", 10e9),
    ("one 400 Gb/s NIC, RDMA", 45e9),
    ("4 x 200 Gb/s RoCE", 87e9),
    ("8 x 400 Gb/s RoCE", 150e9),
    ("NVLink", 300e9),
];

/// Floating-point operations per second of one GPU at 16 bits, dense (H100, H200).
const PEAK: f64 = 989e12;
/// Share of them that prefill reaches.
const UTILIZATION: f64 = 0.5;

/// Everything that the two ways depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Situation {
    /// The model.
    pub model: ModelShape,
    /// GPUs of each engine.
    pub gpus: f64,
    /// Bytes per second between engines.
    pub bandwidth: f64,
    /// Seconds that the other way costs whatever the prompt: one more hop, and the start of a transfer.
    pub overhead: f64,
    /// Requests that decode where the prompt would be computed here.
    pub decoding: f64,
    /// What a second of stall of one of them weighs against a second of waiting for the first token; 0: nothing.
    pub stall_weight: f64,
    /// Share of the prompt that the decode engine holds, 0 to 1.
    pub held_decode: f64,
    /// Share of the prompt that the prefill engine holds, 0 to 1.
    pub held_prefill: f64,
}

/// Both ways for one prompt, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ways {
    /// Prefill here, with what the stall of others weighs.
    pub local: f64,
    /// Prefill here alone.
    pub local_prefill: f64,
    /// Prefill there, transfer and overhead together.
    pub remote: f64,
    /// Prefill there alone.
    pub remote_prefill: f64,
    /// Transfer alone, without the overhead.
    pub transfer: f64,
}

impl Ways {
    /// Whether the other engine is the faster way.
    #[must_use]
    pub fn disaggregate(&self) -> bool {
        self.remote < self.local
    }
}

impl Situation {
    /// Seconds to compute `new` tokens after `cached` ones.
    #[must_use]
    pub fn prefill(&self, new: f64, cached: f64) -> f64 {
        let (layers, heads, size) = self.model.layers_heads_size;
        let dense = 2.0 * self.model.active_parameters * new;
        let attention = 4.0 * layers * heads * size * new * (cached + new / 2.0);
        (dense + attention) / (self.gpus * PEAK * UTILIZATION)
    }

    /// Both ways for a prompt of so many tokens.
    #[must_use]
    pub fn ways(&self, prompt: f64) -> Ways {
        let (here, there) = (prompt * self.held_decode, prompt * self.held_prefill);
        let local_prefill = self.prefill(prompt - here, here);
        let remote_prefill = self.prefill(prompt - there, there);
        let transfer = (prompt - here) * self.model.kv_bytes / self.bandwidth;
        Ways {
            local: local_prefill * (1.0 + self.stall_weight * self.decoding),
            local_prefill,
            remote: remote_prefill + transfer + self.overhead,
            remote_prefill,
            transfer,
        }
    }

    /// The shortest prompt of at most `longest` tokens from which on the other engine is the faster way; `None`: never.
    #[must_use]
    pub fn threshold(&self, longest: u32) -> Option<u32> {
        // The other way starts with a fixed cost and gains with length, if it gains at all: once it wins it goes on winning.
        let wins = |tokens: u32| self.ways(f64::from(tokens)).disaggregate();
        if !wins(longest) {
            return None;
        }
        let (mut loses, mut won) = (0, longest);
        while won - loses > 1 {
            let middle = loses + (won - loses) / 2;
            if wins(middle) { won = middle } else { loses = middle }
        }
        Some(won)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, bandwidth: f64) -> Situation {
        let model = *MODELS.iter().find(|m| m.name == name).expect("a known model");
        Situation {
            model,
            gpus: model.gpus,
            bandwidth,
            overhead: 0.010,
            decoding: 0.0,
            stall_weight: 0.0,
            held_decode: 0.0,
            held_prefill: 0.0,
        }
    }

    fn near(got: f64, want: f64, share: f64, what: &str) {
        assert!((got - want).abs() <= want * share, "{what}: {got}, should be {want}");
    }

    #[test]
    fn times_are_those_of_the_worked_table() {
        for (name, tokens, prefill, slow, fast) in [
            ("llama-3.1-8b", 512.0, 16.8, 57.8, 1.2),
            ("llama-3.1-8b", 8_192.0, 301.6, 918.0, 12.8),
            ("qwen3-32b", 2_048.0, 140.3, 459.0, 6.6),
            ("qwen3-32b", 32_768.0, 3_312.0, 7_342.0, 99.2),
            ("llama-3.1-70b", 512.0, 18.4, 143.8, 2.4),
            ("llama-3.1-70b", 8_192.0, 314.6, 2_295.0, 31.3),
        ] {
            let ways = of(name, 1.17e9).ways(tokens);
            near(ways.local_prefill * 1e3, prefill, 0.01, name);
            // The table's transfers have 0.45 ms to begin with, which are part of the overhead here.
            near(ways.transfer * 1e3, slow - 0.45, 0.01, name);
            near(of(name, 87e9).ways(tokens).transfer * 1e3, fast - 0.45, 0.05, name);
        }
    }

    #[test]
    fn thresholds_are_near_those_of_the_linear_rule() {
        let at = |bandwidth, stall_weight, decoding| {
            Situation { stall_weight, decoding, ..of("llama-3.1-70b", bandwidth) }.threshold(131_072)
        };
        assert_eq!(at(87e9, 0.0, 32.0), None);
        assert_eq!(at(1.17e9, 0.02, 32.0), None);
        for (bandwidth, weight, decoding, want) in [
            (45e9, 0.02, 32.0, 643.0),
            (87e9, 0.02, 32.0, 524.0),
            (150e9, 0.02, 32.0, 484.0),
            (45e9, 0.05, 32.0, 201.0),
            (87e9, 0.05, 8.0, 951.0),
        ] {
            let got = at(bandwidth, weight, decoding).expect("it pays at some length");
            near(f64::from(got), want, 0.05, "threshold");
        }
    }

    #[test]
    fn a_warmer_prefill_engine_can_win_even_where_no_stall_counts() {
        let ways = Situation { held_prefill: 0.75, held_decode: 0.5, ..of("llama-3.1-70b", 87e9) }.ways(8_192.0);
        near(ways.remote * 1e3, 108.7, 0.01, "remote");
        near(ways.local * 1e3, 162.9, 0.01, "local");
        assert!(ways.disaggregate());
    }
}
