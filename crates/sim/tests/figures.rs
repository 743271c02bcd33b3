//! Worked figures of the engine model beyond single steps: capacities (simulator 2.2), growth of decodes (2.6), disaggregation's prefill (2.7).

use pointsman_sim::{Model, Profile, StepShape};

/// GiB that a GPU keeps for activations, graphs and collectives.
const OVERHEAD: f64 = 3.4;
/// Share of the memory that an engine may use.
const UTILIZATION: f64 = 0.9;
const GIB: f64 = 1_073_741_824.0;

/// Tokens of KV cache: what the GPUs have, less weights and overhead.
fn capacity(profile: &Profile) -> f64 {
    let gpus = f64::from(profile.tensor_parallel);
    let memory = gpus * (UTILIZATION * 79.6 - OVERHEAD) * GIB - profile.model.weight_bytes;
    memory / profile.model.kv_bytes_per_token
}

#[test]
fn capacities_are_within_3_percent_of_the_rows_and_of_what_was_published() {
    for (name, row, published) in [
        ("8b-h100", 436_000.0, None),
        ("70b-4xh100", 463_500.0, Some(461_376.0)),
        ("qwen3-32b-2xh100", 308_800.0, Some(307_328.0)),
    ] {
        let profile = Profile::named(name).expect(name);
        let tokens = f64::from(profile.blocks) * 16.0;
        for want in [Some(row), published, Some(capacity(profile))].into_iter().flatten() {
            assert!((tokens / want - 1.0_f64).abs() < 0.03, "{name}: {tokens}, expected {want}");
        }
    }
    // The row that has no profile: half the bytes of weights, on two GPUs.
    let dense = Profile::named("70b-4xh100").expect("known");
    let model = Model { weight_bytes: dense.model.weight_bytes / 2.0, ..dense.model };
    let fp8 = capacity(&Profile { model, tensor_parallel: 2, ..*dense });
    assert!((fp8 / 231_800.0 - 1.0).abs() < 0.03, "{fp8}");
}

#[test]
fn each_step_of_ten_contexts_is_0_6521_us_longer_than_the_one_before() {
    let costs = Profile::named("8b-h100").expect("known").costs();
    let step = |k: u64| StepShape { tokens: 10, prefill_pairs: 0.0, decode_context: 10 * (1_000 + k), requests: 10 };
    let slope = costs.seconds(&step(1)) - costs.seconds(&step(0));
    assert!((slope * 1e6 - 0.6521).abs() < 0.001, "{}", slope * 1e6);
}

#[test]
fn two_thousand_tokens_behind_eight_thousand_cached_ones_take_80_8_ms() {
    let costs = Profile::named("8b-h100").expect("known").costs();
    let chunk = |tokens: u64, context: f64| {
        let n = tokens as f64;
        costs.seconds(&StepShape { tokens, prefill_pairs: n * (context + n / 2.0), decode_context: 0, requests: 1 })
            * 1e3
    };
    assert!((chunk(2_000, 8_000.0) - 80.8).abs() < 0.8, "{}", chunk(2_000, 8_000.0));
    // A cold prompt of 10,000 tokens takes two chunks.
    let cold = chunk(8_192, 0.0) + chunk(1_808, 8_192.0);
    assert!((cold - 355.2).abs() < 3.6, "{cold}");
}
