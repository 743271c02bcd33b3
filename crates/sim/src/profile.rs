//! Deployments as data: hardware, model, fitted constants, cache capacity (simulator 2.2 and 2.3). The figures and their sources are the files in
//! `profiles/`; whoever has other hardware writes a deployment of the same form.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::StepCosts;

/// A text of a profile. Profiles are made once per process and live as long as it.
pub(crate) type Text = &'static str;

/// One accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Dense bf16 operations per second.
    pub flops: f64,
    /// Memory bandwidth, bytes per second.
    pub bandwidth: f64,
    /// Memory, GiB.
    pub memory_gib: f64,
    /// Where the figures are from.
    #[serde(default, deserialize_with = "kept")]
    pub source: Text,
}

/// One model as deployed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Parameters.
    pub parameters: f64,
    /// Bytes of all weights.
    pub weight_bytes: f64,
    /// Transformer layers.
    pub layers: u32,
    /// Hidden size.
    pub hidden: u32,
    /// Bytes of KV cache per token.
    pub kv_bytes_per_token: f64,
    /// Operations per second over those in bf16: 2 with FP8 weights.
    #[serde(default = "one")]
    pub flops_factor: f64,
    /// Where the figures are from.
    #[serde(default, deserialize_with = "kept")]
    pub source: Text,
}

/// How far real kernels stay behind the data sheet, and the costs that scale with nothing.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Share of the bandwidth reached when reading weights.
    pub weight_read: f64,
    /// Share of the operations per second reached in matrix products.
    pub matmul: f64,
    /// Share of the operations per second reached in attention.
    pub attention: f64,
    /// Share of the bandwidth reached when decodes read the KV cache.
    pub kv_read: f64,
    /// Seconds per layer.
    pub per_layer: f64,
    /// Seconds per all-reduce, two of which happen per layer with tensor parallelism.
    pub all_reduce: f64,
    /// Seconds per request in the batch.
    pub per_request: f64,
    /// Seconds per step.
    pub per_step: f64,
    /// Where the figures are from.
    #[serde(default, deserialize_with = "kept")]
    pub source: Text,
}

/// A named deployment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Name, as `--profile` takes it.
    pub name: &'static str,
    /// Accelerator.
    pub hardware: Hardware,
    /// Model.
    pub model: Model,
    /// Accelerators the model is spread over.
    pub tensor_parallel: u32,
    /// KV capacity in blocks of 16 tokens.
    pub blocks: u32,
    /// Constants.
    pub fit: Fit,
    /// What it was compared with.
    pub source: Text,
}

/// Share of the memory that vLLM takes.
const MEMORY_SHARE: f64 = 0.9;

/// GiB of each accelerator that activations, graphs and collectives take.
const OVERHEAD_GIB: f64 = 3.4;

/// A deployment as a file has it. Hardware, model and fit are names in the other files, or figures.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deployment {
    #[serde(deserialize_with = "kept")]
    name: Text,
    hardware: Value,
    model: Value,
    #[serde(default = "one_accelerator")]
    tensor_parallel: u32,
    /// Blocks of 16 tokens, where memory does not say.
    blocks: Option<u32>,
    #[serde(default = "usual_fit")]
    fit: Value,
    #[serde(default, deserialize_with = "kept")]
    source: Text,
}

fn one() -> f64 {
    1.0
}

fn one_accelerator() -> u32 {
    1
}

fn usual_fit() -> Value {
    "vllm-h100".into()
}

fn kept<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
    Ok(String::deserialize(deserializer)?.leak())
}

struct Known {
    hardware: BTreeMap<String, Hardware>,
    models: BTreeMap<String, Model>,
    fits: BTreeMap<String, Fit>,
}

#[expect(clippy::expect_used, reason = "the files are part of the binary, and tests read them")]
fn embedded<T: for<'de> Deserialize<'de>>(text: &str) -> T {
    serde_json::from_str(text).expect("a profile file of this crate")
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| Known {
    hardware: embedded(include_str!("../profiles/hardware.json")),
    models: embedded(include_str!("../profiles/models.json")),
    fits: embedded(include_str!("../profiles/fits.json")),
});

#[expect(clippy::expect_used, reason = "the file is part of the binary, and tests read it")]
static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    let deployments: Vec<Deployment> = embedded(include_str!("../profiles/deployments.json"));
    deployments.into_iter().map(|d| d.profile().expect("a deployment of this crate")).collect()
});

fn names<T>(known: &BTreeMap<String, T>) -> String {
    known.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn find<T: Copy + DeserializeOwned>(what: &str, value: Value, known: &BTreeMap<String, T>) -> Result<T, String> {
    match value {
        Value::String(name) => known.get(&name).copied().ok_or_else(|| {
            format!("unknown {what} `{name}`: there are {}; or write its figures in its place", names(known))
        }),
        Value::Object(figures) => T::deserialize(Value::Object(figures)).map_err(|e| format!("in `{what}`: {e}")),
        other => Err(format!("`{what}` is {other}: write a name ({}) or an object with its figures", names(known))),
    }
}

impl Deployment {
    fn profile(self) -> Result<Profile, String> {
        let hardware = find("hardware", self.hardware, &KNOWN.hardware)?;
        let model = find("model", self.model, &KNOWN.models)?;
        let fit = find("fit", self.fit, &KNOWN.fits)?;
        let Fit { weight_read, matmul, attention, kv_read, per_layer, all_reduce, per_request, per_step, .. } = fit;
        let positive = [
            ("flops", hardware.flops),
            ("bandwidth", hardware.bandwidth),
            ("memory_gib", hardware.memory_gib),
            ("parameters", model.parameters),
            ("weight_bytes", model.weight_bytes),
            ("kv_bytes_per_token", model.kv_bytes_per_token),
            ("flops_factor", model.flops_factor),
            ("weight_read", weight_read),
            ("matmul", matmul),
            ("attention", attention),
            ("kv_read", kv_read),
            ("tensor_parallel", f64::from(self.tensor_parallel)),
        ];
        let times = [per_layer, all_reduce, per_request, per_step];
        if let Some((what, value)) = positive.into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0)) {
            return Err(format!("`{what}` is {value}, it must be above 0"));
        }
        if times.into_iter().any(|t| !(0.0..1.0).contains(&t)) {
            return Err("the times of `fit` are seconds, from 0 to 1".into());
        }
        let blocks = match self.blocks {
            Some(blocks) => f64::from(blocks),
            None => capacity(&hardware, &model, self.tensor_parallel) / 16.0,
        };
        if blocks < 1.0 {
            return Err("there is no memory left for a KV cache: give it more accelerators, or say `blocks`".into());
        }
        Ok(Profile {
            name: self.name,
            hardware,
            model,
            tensor_parallel: self.tensor_parallel,
            blocks: blocks.min(f64::from(u32::MAX - 1)) as u32,
            fit,
            source: self.source,
        })
    }
}

/// Tokens of KV cache: what weights and overhead leave of the memory.
fn capacity(hardware: &Hardware, model: &Model, tensor_parallel: u32) -> f64 {
    let gib = (MEMORY_SHARE * hardware.memory_gib - OVERHEAD_GIB) * f64::from(tensor_parallel);
    (gib * 1024.0_f64.powi(3) - model.weight_bytes) / model.kv_bytes_per_token
}

impl Profile {
    /// The profile of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Profile> {
        Self::all().iter().find(|p| p.name == name)
    }

    /// All of them, in the order they are documented.
    #[must_use]
    pub fn all() -> &'static [Profile] {
        &PROFILES
    }

    /// What there is to choose from and to build a deployment of, a line each.
    #[must_use]
    pub fn catalogue() -> String {
        let own = Self::all().iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
        let (hardware, models, fits) = (names(&KNOWN.hardware), names(&KNOWN.models), names(&KNOWN.fits));
        format!("deployments: {own}\nhardware: {hardware}\nmodels: {models}\nfits: {fits}")
    }

    /// A deployment of one's own, as JSON: an entry of `profiles/deployments.json`, in which hardware, model and fit are names or figures.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice::<Deployment>(json).map_err(|e| e.to_string())?.profile()
    }

    /// Costs of a step on it, without noise.
    #[must_use]
    pub fn costs(&self) -> StepCosts {
        StepCosts::new(&self.hardware, &self.model, self.tensor_parallel, &self.fit)
    }

    /// Capacity in blocks of another size.
    #[must_use]
    pub fn blocks_of(&self, block_size: u32) -> u32 {
        (u64::from(self.blocks) * 16 / u64::from(block_size.max(1))).clamp(1, u64::from(u32::MAX) - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_those_of_the_table() {
        for (name, blocks) in
            [("8b-h100", 27_280), ("70b-4xh100", 28_970), ("qwen3-32b-2xh100", 19_300), ("70b-fp8-2xh100", 14_485)]
        {
            let profile = Profile::named(name).expect(name);
            let by_memory = capacity(&profile.hardware, &profile.model, profile.tensor_parallel) / 16.0;
            assert_eq!(profile.blocks, blocks, "{name}");
            assert!((by_memory / f64::from(blocks) - 1.0).abs() < 0.001, "{name}: {by_memory}, table {blocks}");
        }
    }

    #[test]
    fn every_figure_has_a_source() {
        let sources = KNOWN.hardware.values().map(|h| h.source).chain(KNOWN.models.values().map(|m| m.source));
        let mut sources = sources.chain(KNOWN.fits.values().map(|f| f.source)).chain(PROFILES.iter().map(|p| p.source));
        assert!(sources.all(|source| !source.is_empty()));
    }

    #[test]
    fn a_deployment_of_ones_own_is_read() {
        let own =
            br#"{"name": "mine", "hardware": "L40S-48", "model": {"parameters": 1e9, "weight_bytes": 2e9, "layers": 16,
            "hidden": 2048, "kv_bytes_per_token": 32768}, "fit": "blis"}"#;
        let profile = Profile::read(own).expect("fine");
        assert_eq!((profile.name, profile.tensor_parallel, profile.fit.kv_read), ("mine", 1, 0.53));
        assert!(profile.blocks > 60_000, "{}", profile.blocks);
    }

    #[test]
    fn what_is_wrong_with_one_is_said() {
        let fault = |text: &str| Profile::read(text.as_bytes()).expect_err(text);
        assert!(fault("{").contains("line 1"));
        let unknown = fault(r#"{"name": "a", "hardware": "H900", "model": "Llama-3.1-8B"}"#);
        assert!(unknown.starts_with("unknown hardware `H900`: there are A100-SXM-80, "), "{unknown}");
        let full = fault(r#"{"name": "a", "hardware": "L40S-48", "model": "Llama-3.1-70B"}"#);
        assert!(full.contains("no memory left"), "{full}");
        let none = fault(r#"{"name": "a", "hardware": "L40S-48", "model": "Llama-3.1-8B", "tensor_parallel": 0}"#);
        let missing = fault(r#"{"name": "a", "hardware": {"flops": 1e15, "memory_gib": 80}, "model": "Llama-3.1-8B"}"#);
        assert_eq!(missing, "in `hardware`: missing field `bandwidth`");
        let wrong = fault(r#"{"name": "a", "hardware": "L40S-48", "model": {"params": 8e9}}"#);
        assert!(wrong.starts_with("in `model`: unknown field `params`, expected one of `parameters`, "), "{wrong}");
        let neither = fault(r#"{"name": "a", "hardware": "L40S-48", "model": 8}"#);
        assert!(neither.starts_with("`model` is 8: write a name ("), "{neither}");
        assert_eq!(none, "`tensor_parallel` is 0, it must be above 0");
        assert!(
            fault(r#"{"name": "a", "hardware": "L40S-48", "model": "Llama-3.1-8B", "speed": 2}"#).contains("speed")
        );
    }
}
