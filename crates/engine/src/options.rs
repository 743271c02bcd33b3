//! The flags of `pointsman engine` and what they resolve to.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use pointsman_sim::{EngineConfig, Latency, LatencyCalculator, Profile};

use crate::adapters::Adapters;
use crate::failures::FailureKind;
use crate::runtime::{FakeMetrics, Runtime, Transfer};

/// Deployment that an engine has when nobody says.
const DEFAULT_PROFILE: &str = "8b-h100";

/// What the answer is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Words of no meaning, of a drawn or demanded length.
    #[default]
    Random,
    /// The prompt, or the text of the last message, whatever the demanded length.
    Echo,
}

/// Step times of a deployment, or none: then the latency flags rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepModel {
    /// No step model.
    None,
    /// That of a deployment.
    Of(&'static Profile),
}

impl StepModel {
    /// `none`, a deployment's name, or a file.
    ///
    /// # Errors
    /// As [`deployment`].
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Self::None) } else { deployment(text).map(Self::Of) }
    }

    pub(crate) fn profile(self) -> Option<&'static Profile> {
        match self {
            Self::None => None,
            Self::Of(profile) => Some(profile),
        }
    }
}

/// A deployment by its name, or one that a JSON file describes. It is kept until the process ends.
///
/// # Errors
/// When there is none of that name, or the file cannot be used.
pub fn deployment(text: &str) -> Result<&'static Profile, String> {
    if let Some(known) = Profile::named(text) {
        return Ok(known);
    }
    if !text.ends_with(".json") {
        return Err(format!("there is no such deployment; there are {}; or write NAME.json for a file", names()));
    }
    let bytes = std::fs::read(text).map_err(|e| e.to_string())?;
    Profile::read(&bytes).map(|own| &*Box::leak(Box::new(own)))
}

/// All names, for a sentence.
pub(crate) fn names() -> String {
    Profile::all().iter().map(|p| p.name).collect::<Vec<_>>().join(", ")
}

/// Everything that can be set on a simulated engine. Durations are numbers of milliseconds, or have a unit: `250us`, `12.9ms`, `2s`, `1m`.
#[derive(Args, Clone, Debug)]
pub struct EngineOptions {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub host: IpAddr,
    /// Port to listen on.
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// Base model.
    #[arg(long, env = "SIM_MODEL", default_value = "demo")]
    pub model: String,
    /// Names the base model is served under; the first one is in the metrics. Default: the model's.
    #[arg(long, num_args = 1.., value_delimiter = ',', value_name = "NAME")]
    pub served_model_name: Vec<String>,
    /// Longest prompt plus output, in tokens.
    #[arg(long, default_value_t = 131_072, value_parser = clap::value_parser!(u64).range(1..=16_777_216))]
    pub max_model_len: u64,
    /// Requests that run at once.
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub max_num_seqs: usize,
    /// Tokens computed in one step (with a profile).
    #[arg(long, default_value_t = 8_192, value_name = "N")]
    pub max_num_batched_tokens: u64,
    /// Requests that may wait beyond the free seats; more are refused with 429.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    pub max_waiting_queue_length: usize,
    /// Tokens per KV block (8, 16, 32, 64 or 128).
    #[arg(long, default_value_t = 16, value_name = "TOKENS")]
    pub block_size: u32,
    /// KV blocks. Default: what the profile's hardware holds; 27,280 without one.
    #[arg(long, value_name = "BLOCKS")]
    pub kv_cache_size: Option<u32>,
    /// Step times of a real deployment. Default: 8b-h100, or none when a latency flag is given.
    /// A name, `none`, or a JSON file as `profiles/deployments.json` of the source has them.
    #[arg(long, value_name = "NAME|FILE", value_parser = StepModel::parse)]
    pub profile: Option<StepModel>,
    /// Sigma of the log-normal noise on each step (with a profile).
    #[arg(long, default_value_t = 0.0, value_name = "SIGMA")]
    pub step_noise: f64,
    /// Time between arrival and entering the queue (tokenising). Default: 15 ms with a profile, else 0.
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    pub api_overhead: Option<Duration>,
    /// Which latency the first token has: the constant one, or overhead and time per uncached prompt token.
    #[arg(long, value_enum)]
    pub latency_calculator: Option<Calculator>,
    /// Mean time to the first token.
    #[arg(long, default_value = "0", value_parser = parse_duration, value_name = "TIME")]
    pub time_to_first_token: Duration,
    /// Its standard deviation, at most 30 % of the mean.
    #[arg(long, default_value = "0", value_parser = parse_duration, value_name = "TIME")]
    pub time_to_first_token_std_dev: Duration,
    /// Mean time between tokens.
    #[arg(long, default_value = "0", value_parser = parse_duration, value_name = "TIME")]
    pub inter_token_latency: Duration,
    /// Its standard deviation, at most 30 % of the mean.
    #[arg(long, default_value = "0", value_parser = parse_duration, value_name = "TIME")]
    pub inter_token_latency_std_dev: Duration,
    /// Fixed part of the per-token time to first token.
    #[arg(long, default_value = "0", value_parser = parse_duration, value_name = "TIME")]
    pub prefill_overhead: Duration,
    /// Time per uncached prompt token.
    #[arg(long, default_value = "0", value_parser = parse_duration, value_name = "TIME")]
    pub prefill_time_per_token: Duration,
    /// Standard deviation of the per-token time to first token.
    #[arg(long, default_value = "0", value_parser = parse_duration, value_name = "TIME")]
    pub prefill_time_std_dev: Duration,
    /// Factor on latencies when all seats are taken.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    pub time_factor_under_load: f64,
    /// Fixed part of the time in which a prompt's KV comes from another engine (`do_remote_prefill`).
    #[arg(long, default_value = "0", value_parser = parse_duration, value_name = "TIME")]
    pub kv_cache_transfer_latency: Duration,
    /// Time per prompt token that comes from another engine.
    #[arg(long, default_value = "0", value_parser = parse_duration, value_name = "TIME")]
    pub kv_cache_transfer_time_per_token: Duration,
    /// How many times faster than real time it lives.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    pub speed: f64,
    /// Seed of all draws. Default: the time.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Adapters at start: JSON `{"name":..,"path":..}` or `name=path`.
    #[arg(long, num_args = 1.., value_name = "ADAPTER")]
    pub lora_modules: Vec<String>,
    /// Adapters that can run in one batch.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub max_loras: usize,
    /// What answers are made of.
    #[arg(long, value_enum, default_value_t = Mode::Random)]
    pub mode: Mode,
    /// Time during which `/health/ready` says 503.
    #[arg(long, default_value = "0", value_parser = parse_duration, value_name = "TIME")]
    pub startup_duration: Duration,
    /// Share of requests that fail on purpose, in percent.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100), value_name = "PERCENT")]
    pub failure_injection_rate: u8,
    /// Which failures. Default: all.
    #[arg(long, value_enum, num_args = 1.., value_delimiter = ',', value_name = "KIND")]
    pub failure_types: Vec<FailureKind>,
    /// Largest request body, in MiB.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1024), value_name = "MIB")]
    pub max_request_body_size_mb: u64,
    /// Leave `prompt_tokens_details` null, as vLLM does unless told otherwise.
    #[arg(long)]
    pub no_prompt_tokens_details: bool,
    /// Metrics to show instead of the true ones: JSON with `running-requests`, `waiting-requests`, `kv-cache-usage`, `loras`.
    #[arg(long, value_name = "JSON")]
    pub fake_metrics: Option<String>,
    /// Name in the response header `x-inference-pod`.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,
    /// Namespace in the response header `x-inference-namespace`.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    pub pod_namespace: Option<String>,
}

/// Form of the first token's latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Calculator {
    /// `--time-to-first-token`.
    Constant,
    /// `--prefill-overhead` and `--prefill-time-per-token`.
    PerToken,
}

#[derive(Parser)]
struct Defaults {
    #[command(flatten)]
    options: EngineOptions,
}

impl Default for EngineOptions {
    /// What the flags say when none is given.
    fn default() -> Self {
        Defaults::try_parse_from(["engine"]).expect("every flag has a valid default").options
    }
}

/// Options that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum OptionsError {
    /// A flag's value is out of its range.
    #[error("--{flag}: {problem}")]
    Invalid {
        /// The flag.
        flag: &'static str,
        /// What is wrong and what is allowed.
        problem: String,
    },
}

pub(crate) fn invalid(flag: &'static str, problem: impl Into<String>) -> OptionsError {
    OptionsError::Invalid { flag, problem: problem.into() }
}

/// What stays fixed while an engine runs.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) options: EngineOptions,
    pub(crate) names: Vec<String>,
    pub(crate) engine: EngineConfig,
}

impl EngineOptions {
    /// Where `pointsman engine` listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }

    pub(crate) fn latency(&self) -> Latency {
        Latency {
            calculator: match self.latency_calculator {
                None => LatencyCalculator::Unset,
                Some(Calculator::Constant) => LatencyCalculator::Constant,
                Some(Calculator::PerToken) => LatencyCalculator::PerToken,
            },
            time_to_first_token: self.time_to_first_token,
            time_to_first_token_std_dev: self.time_to_first_token_std_dev,
            inter_token_latency: self.inter_token_latency,
            inter_token_latency_std_dev: self.inter_token_latency_std_dev,
            prefill_overhead: self.prefill_overhead,
            prefill_time_per_token: self.prefill_time_per_token,
            prefill_time_std_dev: self.prefill_time_std_dev,
            time_factor_under_load: self.time_factor_under_load,
        }
    }

    /// Checks everything and splits it into what is fixed, what can change at run time, and the adapters.
    pub(crate) fn resolve(self) -> Result<(Settings, Runtime, Adapters), OptionsError> {
        if ![8, 16, 32, 64, 128].contains(&self.block_size) {
            return Err(invalid("block-size", format!("{} is not 8, 16, 32, 64 or 128", self.block_size)));
        }
        if self.max_num_seqs == 0 {
            return Err(invalid("max-num-seqs", "must be at least 1"));
        }
        if self.max_num_batched_tokens == 0 {
            return Err(invalid("max-num-batched-tokens", "must be at least 1"));
        }
        if self.kv_cache_size == Some(0) {
            return Err(invalid("kv-cache-size", "must be at least 1 block"));
        }
        if !(self.speed.is_finite() && self.speed > 0.0) {
            return Err(invalid("speed", "must be a number above 0"));
        }
        if !(0.0..=1.0).contains(&self.step_noise) {
            return Err(invalid("step-noise", "must be between 0 and 1"));
        }
        let latency = self.latency();
        let timed = latency != Latency::default();
        let profile = match self.profile {
            Some(name) => name.profile(),
            None if timed => None,
            None => Profile::named(DEFAULT_PROFILE),
        };
        let runtime = Runtime {
            latency,
            profile,
            step_noise: self.step_noise,
            transfer: Transfer {
                latency: self.kv_cache_transfer_latency,
                time_per_token: self.kv_cache_transfer_time_per_token,
            },
            failure_rate: self.failure_injection_rate,
            failure_kinds: self.failure_types.clone(),
            fake: self
                .fake_metrics
                .as_deref()
                .map(FakeMetrics::from_json)
                .transpose()
                .map_err(|e| invalid("fake-metrics", e.to_string()))?,
            healthy: true,
        };
        runtime.check().map_err(|e| match e {
            crate::ConfigError::Value { key, problem } => invalid(key, problem),
            other => invalid("fake-metrics", other.to_string()),
        })?;
        let default_blocks = profile.or(Profile::named(DEFAULT_PROFILE)).map_or(1, |p| p.blocks_of(self.block_size));
        let seed = self.seed.unwrap_or_else(|| {
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
        });
        let overhead = if profile.is_some() { Duration::from_millis(15) } else { Duration::ZERO };
        let engine = EngineConfig {
            blocks: self.kv_cache_size.unwrap_or(default_blocks),
            block_size: self.block_size,
            max_num_seqs: self.max_num_seqs,
            max_num_batched_tokens: self.max_num_batched_tokens,
            max_waiting: self.max_waiting_queue_length,
            max_loras: self.max_loras,
            api_overhead: self.api_overhead.unwrap_or(overhead),
            lora_load: if profile.is_some() { Duration::from_millis(10) } else { Duration::ZERO },
            // Clients wait for each token.
            coalesce: false,
            seed,
            ..EngineConfig::default()
        };
        let names =
            if self.served_model_name.is_empty() { vec![self.model.clone()] } else { self.served_model_name.clone() };
        let adapters = Adapters::from_flags(&self.lora_modules)?;
        Ok((Settings { options: self, names, engine }, runtime, adapters))
    }
}

/// A duration: a bare number is milliseconds; units are `ns`, `us`, `ms`, `s`, `m`.
///
/// # Errors
/// A sentence for the user when it is neither.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let wrong =
        || format!("`{text}` is not a duration: use a number of milliseconds, or a unit as in 250us, 12.5ms, 2s");
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let nanos = number
        * match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "" | "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            _ => return Err(wrong()),
        };
    if nanos > 1e15 {
        return Err(format!("`{text}` is longer than eleven days"));
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_default_to_milliseconds() {
        for (text, nanos) in [
            ("100", 100_000_000),
            ("0.75", 750_000),
            ("250us", 250_000),
            ("12.9ms", 12_900_000),
            ("2s", 2_000_000_000),
            ("1m", 60_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["", "ms", "-1", "3h", "1e400", "nan", "99999999999s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn without_flags_it_is_an_8b_model_on_an_h100() {
        let (settings, runtime, _) = EngineOptions::default().resolve().expect("defaults are valid");
        assert_eq!(settings.engine.blocks, 27_280);
        assert_eq!(runtime.profile.map(|p| p.name), Some("8b-h100"));
        assert_eq!(settings.names, ["demo"]);
    }

    #[test]
    fn a_deployment_is_a_name_or_a_file() {
        assert_eq!(deployment("8b-h100").map(|p| p.tensor_parallel), Ok(1));
        let unknown = deployment("9b").expect_err("unknown");
        assert!(unknown.contains("70b-4xh100") && unknown.contains("NAME.json"), "{unknown}");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("mine.json");
        std::fs::write(&file, r#"{"name": "mine", "hardware": "L40S-48", "model": "Llama-3.1-8B"}"#).expect("written");
        assert_eq!(deployment(&file.display().to_string()).map(|p| p.name), Ok("mine"));
        assert!(deployment("nowhere.json").is_err());
    }

    #[test]
    fn a_latency_flag_switches_the_step_model_off_unless_a_profile_is_named() {
        let timed = EngineOptions { inter_token_latency: Duration::from_millis(5), ..EngineOptions::default() };
        assert!(timed.clone().resolve().expect("valid").1.profile.is_none());
        let both = EngineOptions { profile: StepModel::parse("qwen3-32b-2xh100").ok(), ..timed };
        assert_eq!(both.resolve().expect("valid").0.engine.blocks, 19_300);
    }

    #[test]
    fn values_out_of_range_name_their_flag() {
        for (options, flag) in [
            (EngineOptions { block_size: 12, ..EngineOptions::default() }, "block-size"),
            (EngineOptions { speed: 0.0, ..EngineOptions::default() }, "speed"),
            (EngineOptions { max_num_seqs: 0, ..EngineOptions::default() }, "max-num-seqs"),
            (EngineOptions { lora_modules: vec!["{".into()], ..EngineOptions::default() }, "lora-modules"),
            (
                EngineOptions {
                    time_to_first_token: Duration::from_millis(10),
                    time_to_first_token_std_dev: Duration::from_millis(4),
                    ..EngineOptions::default()
                },
                "time-to-first-token-std-dev",
            ),
        ] {
            match options.resolve() {
                Err(OptionsError::Invalid { flag: named, .. }) => assert_eq!(named, flag),
                Ok(_) => panic!("{flag} was accepted"),
            }
        }
    }
}
