//! What can change while the engine runs (`/admin/config`).

use std::time::Duration;

use clap::ValueEnum;
use pointsman_sim::{Latency, LatencyCalculator, Profile, Timing};
use serde_json::{Map, Value, json};

use crate::failures::FailureKind;
use crate::options::{names, parse_duration};

/// Metrics shown instead of the true ones, so that a demonstration can hold a state still. Counters and histograms stay true.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FakeMetrics {
    /// `vllm:num_requests_running`.
    pub running: f64,
    /// `vllm:num_requests_waiting`.
    pub waiting: f64,
    /// `vllm:kv_cache_usage_perc`, 0 to 1.
    pub kv_cache_usage: f64,
    /// Series of `vllm:lora_requests_info`.
    pub loras: Vec<FakeLoras>,
}

/// One series of `vllm:lora_requests_info`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FakeLoras {
    /// Running adapters, comma-separated.
    pub running: String,
    /// Waiting adapters, comma-separated.
    pub waiting: String,
    /// Unix seconds; `None` = the time of the page.
    pub timestamp: Option<f64>,
}

/// A document that `/admin/config` (or [`crate::EngineHandle::configure`]) does not take. Nothing of it has been applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// Not a JSON object.
    #[error("the configuration must be a JSON object")]
    NotAnObject,
    /// A key that does not exist, or cannot be changed at run time.
    #[error("unknown key `{0}`")]
    UnknownKey(String),
    /// A value out of its range.
    #[error("`{key}`: {problem}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong.
        problem: String,
    },
}

fn wrong(key: &'static str, problem: impl Into<String>) -> ConfigError {
    ConfigError::Value { key, problem: problem.into() }
}

impl FakeMetrics {
    /// From the JSON of `--fake-metrics`.
    ///
    /// # Errors
    /// When it is not JSON or has a key or value it should not have.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let value: Value = serde_json::from_str(text).map_err(|e| wrong("fake-metrics", e.to_string()))?;
        Self::from_value(&value)
    }

    fn from_value(value: &Value) -> Result<Self, ConfigError> {
        let object = value.as_object().ok_or_else(|| wrong("fake-metrics", "must be an object"))?;
        let mut fake = Self::default();
        for (key, value) in object {
            match key.replace('_', "-").as_str() {
                "running-requests" | "running" => fake.running = number("running-requests", value, 0.0, 1e9)?,
                "waiting-requests" | "waiting" => fake.waiting = number("waiting-requests", value, 0.0, 1e9)?,
                "kv-cache-usage" => fake.kv_cache_usage = number("kv-cache-usage", value, 0.0, 1.0)?,
                "loras" => fake.loras = loras(value)?,
                _ => return Err(ConfigError::UnknownKey(format!("fake-metrics.{key}"))),
            }
        }
        Ok(fake)
    }

    fn to_json(&self) -> Value {
        let loras: Vec<Value> = self
            .loras
            .iter()
            .map(|l| json!({"running": l.running, "waiting": l.waiting, "timestamp": l.timestamp}))
            .collect();
        json!({
            "running-requests": self.running,
            "waiting-requests": self.waiting,
            "kv-cache-usage": self.kv_cache_usage,
            "loras": loras,
        })
    }
}

/// How long the KV of a prompt takes from one engine to another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Transfer {
    pub(crate) latency: Duration,
    pub(crate) time_per_token: Duration,
}

impl Transfer {
    pub(crate) fn of(&self, tokens: u64) -> Duration {
        self.latency.saturating_add(self.time_per_token.saturating_mul(u32::try_from(tokens).unwrap_or(u32::MAX)))
    }
}

/// The changeable part of an engine's configuration.
#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    pub(crate) latency: Latency,
    pub(crate) profile: Option<&'static Profile>,
    pub(crate) step_noise: f64,
    pub(crate) transfer: Transfer,
    pub(crate) failure_rate: u8,
    pub(crate) failure_kinds: Vec<FailureKind>,
    pub(crate) fake: Option<FakeMetrics>,
    pub(crate) healthy: bool,
}

impl Runtime {
    pub(crate) fn timing(&self) -> Timing {
        match self.profile {
            Some(profile) => Timing::Step(pointsman_sim::StepCosts { noise: self.step_noise, ..profile.costs() }),
            None => Timing::Latency(self.latency),
        }
    }

    /// Ranges that hold between values.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let l = &self.latency;
        for (key, mean, deviation) in [
            ("time-to-first-token-std-dev", l.time_to_first_token, l.time_to_first_token_std_dev),
            ("inter-token-latency-std-dev", l.inter_token_latency, l.inter_token_latency_std_dev),
        ] {
            if deviation.as_secs_f64() > 0.3 * mean.as_secs_f64() + 1e-12 {
                return Err(wrong(key, "must be at most 30 % of the mean"));
            }
        }
        if !(l.time_factor_under_load.is_finite() && (1.0..=1e6).contains(&l.time_factor_under_load)) {
            return Err(wrong("time-factor-under-load", "must be at least 1"));
        }
        Ok(())
    }

    /// The configuration after a partial update; either all of it or none.
    pub(crate) fn updated(&self, update: &Value) -> Result<Self, ConfigError> {
        let object = update.as_object().ok_or(ConfigError::NotAnObject)?;
        let mut next = self.clone();
        let mut named_profile = false;
        let mut timed = false;
        for (key, value) in object {
            let key = key.replace('_', "-");
            let l = &mut next.latency;
            let before = *l;
            match key.as_str() {
                "time-to-first-token" => l.time_to_first_token = duration("time-to-first-token", value)?,
                "time-to-first-token-std-dev" => {
                    l.time_to_first_token_std_dev = duration("time-to-first-token-std-dev", value)?;
                }
                "inter-token-latency" => l.inter_token_latency = duration("inter-token-latency", value)?,
                "inter-token-latency-std-dev" => {
                    l.inter_token_latency_std_dev = duration("inter-token-latency-std-dev", value)?;
                }
                "prefill-overhead" => l.prefill_overhead = duration("prefill-overhead", value)?,
                "prefill-time-per-token" => l.prefill_time_per_token = duration("prefill-time-per-token", value)?,
                "prefill-time-std-dev" => l.prefill_time_std_dev = duration("prefill-time-std-dev", value)?,
                "time-factor-under-load" => {
                    l.time_factor_under_load = number("time-factor-under-load", value, 1.0, 1e6)?;
                }
                "kv-cache-transfer-latency" => next.transfer.latency = duration("kv-cache-transfer-latency", value)?,
                "kv-cache-transfer-time-per-token" => {
                    next.transfer.time_per_token = duration("kv-cache-transfer-time-per-token", value)?;
                }
                "latency-calculator" => l.calculator = calculator(value)?,
                "profile" => {
                    next.profile = profile(value)?;
                    named_profile = true;
                }
                "failure-injection-rate" => {
                    next.failure_rate = number("failure-injection-rate", value, 0.0, 100.0)? as u8;
                }
                "failure-types" => next.failure_kinds = failure_kinds(value)?,
                "fake-metrics" | "frozen" => {
                    next.fake = if value.is_null() { None } else { Some(FakeMetrics::from_value(value)?) };
                }
                "healthy" => {
                    next.healthy = value.as_bool().ok_or_else(|| wrong("healthy", "must be true or false"))?;
                }
                _ => return Err(ConfigError::UnknownKey(key)),
            }
            timed |= before != next.latency;
        }
        // Whoever sets latencies wants them to act.
        if timed && !named_profile {
            next.profile = None;
        }
        next.check()?;
        Ok(next)
    }

    pub(crate) fn to_json(&self) -> Value {
        let l = &self.latency;
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
        put("profile", json!(self.profile.map_or("none", |p| p.name)));
        put(
            "latency-calculator",
            json!(match l.calculator {
                LatencyCalculator::Constant => "constant",
                LatencyCalculator::PerToken => "per-token",
                LatencyCalculator::Unset => "",
            }),
        );
        for (key, value) in [
            ("time-to-first-token", l.time_to_first_token),
            ("time-to-first-token-std-dev", l.time_to_first_token_std_dev),
            ("inter-token-latency", l.inter_token_latency),
            ("inter-token-latency-std-dev", l.inter_token_latency_std_dev),
            ("prefill-overhead", l.prefill_overhead),
            ("prefill-time-per-token", l.prefill_time_per_token),
            ("prefill-time-std-dev", l.prefill_time_std_dev),
            ("kv-cache-transfer-latency", self.transfer.latency),
            ("kv-cache-transfer-time-per-token", self.transfer.time_per_token),
        ] {
            put(key, json!(format!("{}us", value.as_nanos() as f64 / 1e3)));
        }
        put("time-factor-under-load", json!(l.time_factor_under_load));
        put("failure-injection-rate", json!(self.failure_rate));
        put("failure-types", self.failure_kinds.iter().map(|k| json!(k.name())).collect());
        put("fake-metrics", self.fake.as_ref().map_or(Value::Null, FakeMetrics::to_json));
        put("healthy", json!(self.healthy));
        Value::Object(map)
    }
}

fn number(key: &'static str, value: &Value, low: f64, high: f64) -> Result<f64, ConfigError> {
    let number = value.as_f64().ok_or_else(|| wrong(key, "must be a number"))?;
    if (low..=high).contains(&number) {
        Ok(number)
    } else {
        Err(wrong(key, format!("must be between {low} and {high}")))
    }
}

fn duration(key: &'static str, value: &Value) -> Result<Duration, ConfigError> {
    let text = match value {
        Value::Number(n) => n.to_string(),
        Value::String(s) => s.clone(),
        _ => return Err(wrong(key, "must be a number of milliseconds or a text such as \"250us\"")),
    };
    parse_duration(&text).map_err(|problem| wrong(key, problem))
}

fn text<'a>(key: &'static str, value: &'a Value) -> Result<&'a str, ConfigError> {
    value.as_str().ok_or_else(|| wrong(key, "must be a text"))
}

fn calculator(value: &Value) -> Result<LatencyCalculator, ConfigError> {
    match text("latency-calculator", value)? {
        "constant" => Ok(LatencyCalculator::Constant),
        "per-token" => Ok(LatencyCalculator::PerToken),
        "" => Ok(LatencyCalculator::Unset),
        _ => Err(wrong("latency-calculator", "must be `constant`, `per-token` or empty")),
    }
}

fn profile(value: &Value) -> Result<Option<&'static Profile>, ConfigError> {
    match text("profile", value)? {
        "none" => Ok(None),
        name => match Profile::named(name) {
            Some(known) => Ok(Some(known)),
            None => Err(wrong("profile", format!("must be `none` or one of {}", names()))),
        },
    }
}

fn failure_kinds(value: &Value) -> Result<Vec<FailureKind>, ConfigError> {
    let list = value.as_array().ok_or_else(|| wrong("failure-types", "must be a list"))?;
    list.iter()
        .map(|kind| {
            let name = text("failure-types", kind)?;
            FailureKind::from_str(name, false)
                .map_err(|_| wrong("failure-types", format!("`{name}` is no failure type")))
        })
        .collect()
}

fn loras(value: &Value) -> Result<Vec<FakeLoras>, ConfigError> {
    let list =
        value.as_array().filter(|l| l.len() <= 64).ok_or_else(|| wrong("loras", "must be a list of at most 64"))?;
    let names = |value: Option<&Value>| match value {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(s)) if !s.contains(['"', '\\', '\n']) => Ok(s.clone()),
        _ => Err(wrong("loras", "`running` and `waiting` are texts of comma-separated names")),
    };
    list.iter()
        .map(|entry| {
            let entry = entry.as_object().ok_or_else(|| wrong("loras", "entries are objects"))?;
            if let Some(key) = entry.keys().find(|k| !["running", "waiting", "timestamp"].contains(&k.as_str())) {
                return Err(ConfigError::UnknownKey(format!("fake-metrics.loras.{key}")));
            }
            Ok(FakeLoras {
                running: names(entry.get("running"))?,
                waiting: names(entry.get("waiting"))?,
                timestamp: entry.get("timestamp").and_then(Value::as_f64),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineOptions;

    fn runtime() -> Runtime {
        EngineOptions::default().resolve().expect("valid").1
    }

    #[test]
    fn what_is_read_can_be_written_back() {
        let json = runtime().to_json();
        let again = runtime().updated(&json).expect("its own words");
        assert_eq!(again.to_json(), json);
    }

    #[test]
    fn an_update_applies_whole_or_not_at_all() {
        let before = runtime();
        let update = json!({"inter_token_latency": "750us", "nonsense": 1});
        assert_eq!(before.updated(&update).expect_err("unknown"), ConfigError::UnknownKey("nonsense".into()));
        let after =
            before.updated(&json!({"inter_token_latency": "750us", "failure-injection-rate": 30})).expect("valid");
        assert_eq!((after.latency.inter_token_latency, after.failure_rate), (Duration::from_micros(750), 30));
        assert!(after.profile.is_none(), "latencies that were set act");
    }

    #[test]
    fn values_are_checked() {
        for update in [
            json!([]),
            json!({"failure-injection-rate": 101}),
            json!({"failure-types": ["nope"]}),
            json!({"time-to-first-token": true}),
            json!({"time-to-first-token-std-dev": 5}),
            json!({"fake-metrics": {"kv-cache-usage": 1.5}}),
            json!({"fake-metrics": {"loras": [{"name": "x"}]}}),
            json!({"profile": "9b"}),
        ] {
            assert!(runtime().updated(&update).is_err(), "{update}");
        }
    }
}
