//! Deployments as data: hardware, model, fitted constants, cache capacity (simulator 2.2 and 2.3, with the sources given there).

use crate::StepCosts;

/// One accelerator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Name.
    pub name: &'static str,
    /// Dense bf16 operations per second.
    pub flops: f64,
    /// Memory bandwidth, bytes per second.
    pub bandwidth: f64,
}

/// H100 SXM, 80 GB.
pub(crate) const H100: Hardware = Hardware { name: "H100-SXM-80", flops: 989e12, bandwidth: 3.35e12 };

/// One model as deployed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Name.
    pub name: &'static str,
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
}

/// How far real kernels stay behind the data sheet, and the costs that scale with nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
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
}

/// The constants of simulator 2.3, which fit its published rows.
pub(crate) const FIT: Fit = Fit {
    weight_read: 0.82,
    matmul: 0.55,
    attention: 0.45,
    kv_read: 0.60,
    per_layer: 12e-6,
    all_reduce: 9e-6,
    per_request: 4e-6,
    per_step: 150e-6,
};

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
}

/// Every deployment that has a name.
const PROFILES: &[Profile] = &[
    Profile {
        name: "8b-h100",
        hardware: H100,
        model: Model {
            name: "Llama-3.1-8B",
            parameters: 8.03e9,
            weight_bytes: 16.06e9,
            layers: 32,
            hidden: 4096,
            kv_bytes_per_token: 131_072.0,
        },
        tensor_parallel: 1,
        blocks: 27_280,
        fit: FIT,
    },
    Profile {
        name: "70b-4xh100",
        hardware: H100,
        model: Model {
            name: "Llama-3.1-70B",
            parameters: 70.6e9,
            weight_bytes: 141.2e9,
            layers: 80,
            hidden: 8192,
            kv_bytes_per_token: 327_680.0,
        },
        tensor_parallel: 4,
        blocks: 28_970,
        fit: FIT,
    },
    Profile {
        name: "qwen3-32b-2xh100",
        hardware: H100,
        model: Model {
            name: "Qwen3-32B",
            parameters: 32.8e9,
            weight_bytes: 65.6e9,
            layers: 64,
            hidden: 5120,
            kv_bytes_per_token: 262_144.0,
        },
        tensor_parallel: 2,
        blocks: 19_300,
        fit: FIT,
    },
];

impl Profile {
    /// The profile of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|p| p.name == name)
    }

    /// All of them, in the order they are documented.
    #[must_use]
    pub fn all() -> &'static [Profile] {
        PROFILES
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
