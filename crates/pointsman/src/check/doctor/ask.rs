//! What engines tell when they are asked.

use std::time::{Duration, SystemTime};

use pointsman_fleet::EndpointMeta;
use pointsman_plugins::data_layer::core_metrics_extractor::Survey;
use pointsman_sources::{Answer, FetchError, PageAt, TlsClient, ask, endpoints_of};
use serde_json::{Value, json};

use super::wants::Wants;
use crate::terminal::count;

const DEADLINE: Duration = Duration::from_secs(5);

/// What one engine told.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Its address.
    pub(super) name: String,
    /// Whether anything came back at all, and what kept it from that.
    pub(super) unreachable: Option<String>,
    /// `http` or `https`, where it answers to that and was asked by the other one.
    pub(super) other_scheme: Option<&'static str>,
    /// Its metrics page.
    pub(super) metrics: Page,
    /// The models it lists, and how long a request to each may be.
    pub(super) models: Option<Vec<Model>>,
    /// Its version.
    pub(super) version: Option<String>,
    /// By how many seconds its clock is ahead of ours.
    pub(super) ahead: Option<i64>,
    /// Settings that it shows.
    pub(super) settings: Settings,
}

/// A metrics page.
#[derive(Clone, Debug, Default)]
pub(super) enum Page {
    /// Not asked for.
    #[default]
    Unasked,
    /// It cannot be read.
    Missing { path: String, why: String },
    /// It was read.
    Read(Survey),
}

/// A model of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) id: String,
    /// The base model, where this is an adapter.
    pub(super) parent: Option<String>,
    pub(super) max_len: Option<u64>,
}

/// What an engine shows of how it was started: vLLM in its development mode, SGLang always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// Requests that it runs at once.
    pub(super) max_num_seqs: Option<u64>,
    /// Whether it publishes KV-cache events.
    pub(super) kv_events: Option<bool>,
    /// Whether it keeps prefixes.
    pub(super) prefix_caching: Option<bool>,
}

/// Asks all at the same time; the order stays.
pub(super) async fn all(engines: &[EndpointMeta], wants: &Wants) -> Vec<Told> {
    let asked: Vec<_> = engines.iter().cloned().map(|meta| tokio::spawn(one(meta, wants.clone()))).collect();
    let mut told = Vec::with_capacity(asked.len());
    for (meta, answer) in engines.iter().zip(asked) {
        let lost = |e: tokio::task::JoinError| Told { unreachable: Some(e.to_string()), ..Told::named(meta) };
        told.push(answer.await.unwrap_or_else(lost));
    }
    told
}

async fn one(meta: EndpointMeta, wants: Wants) -> Told {
    let tls = TlsClient::insecure();
    let mut told = Told::named(&meta);
    let page = |path: &'static str| ask(&meta, None, path, &tls, DEADLINE);
    let models = match page("/v1/models").await {
        Ok(answer) => answer,
        Err(error) => {
            told.other_scheme = other_scheme(&meta, &error, &tls).await;
            told.unreachable = Some(error.to_string());
            return told;
        }
    };
    told.ahead = models.date.as_deref().and_then(|date| ahead(date, SystemTime::now()));
    told.models = json_of(&models).as_ref().and_then(models_of);
    let json = async |path| page(path).await.ok().as_ref().and_then(json_of);
    told.version = json("/version").await.and_then(|v| Some(v["version"].as_str()?.to_owned()));
    if let Some(info) = json("/server_info?config_format=json").await {
        told.settings = vllm_settings(&info);
    } else if let Some(info) = json("/get_server_info").await {
        told.settings = sglang_settings(&info);
        told.version = told.version.or_else(|| Some(info["version"].as_str()?.to_owned()));
    }
    if let (Some(source), Some(mappings)) = (&wants.source, &wants.mappings) {
        let at = PageAt { host: source.host, port: source.port, secure: source.tls };
        let missing = |why: String| Page::Missing { path: source.path.clone(), why };
        told.metrics = match ask(&meta, Some(&at), &source.path, &tls, DEADLINE).await {
            Ok(answer) if answer.status == 200 => Page::Read(mappings.survey(&answer.body)),
            Ok(answer) => missing(format!("status {}", answer.status)),
            Err(error) => missing(error.to_string()),
        };
    }
    told
}

/// The scheme by which an engine answers that did not answer as it was asked.
async fn other_scheme(meta: &EndpointMeta, error: &FetchError, tls: &TlsClient) -> Option<&'static str> {
    let other = match error {
        FetchError::Tls(_) => "http",
        FetchError::Broken(_) => "https",
        _ => return None,
    };
    let meta = endpoints_of(&format!("{other}://{}", meta.host_port())).ok()?.pop()?;
    ask(&meta, None, "/v1/models", tls, DEADLINE).await.ok().map(|_| other)
}

fn json_of(answer: &Answer) -> Option<Value> {
    serde_json::from_slice(&answer.body).ok().filter(|_| answer.status == 200)
}

fn models_of(list: &Value) -> Option<Vec<Model>> {
    let model = |m: &Value| {
        Some(Model {
            id: m["id"].as_str()?.to_owned(),
            parent: m["parent"].as_str().map(str::to_owned),
            max_len: m["max_model_len"].as_u64(),
        })
    };
    Some(list["data"].as_array()?.iter().filter_map(model).collect())
}

fn vllm_settings(info: &Value) -> Settings {
    let config = &info["vllm_config"];
    let events = &config["kv_events_config"];
    Settings {
        max_num_seqs: config["scheduler_config"]["max_num_seqs"].as_u64(),
        // `null` is there, too, when nothing is published.
        kv_events: config.get("kv_events_config").map(|_| events["enable_kv_cache_events"].as_bool().unwrap_or(false)),
        prefix_caching: config["cache_config"]["enable_prefix_caching"].as_bool(),
    }
}

fn sglang_settings(info: &Value) -> Settings {
    Settings {
        max_num_seqs: info["max_running_requests"].as_u64(),
        kv_events: info.get("kv_events_config").map(|c| !c.is_null()),
        prefix_caching: info["disable_radix_cache"].as_bool().map(|off| !off),
    }
}

/// By how many seconds a `date` header is ahead of our clock.
fn ahead(date: &str, now: SystemTime) -> Option<i64> {
    let theirs = jiff::fmt::rfc2822::parse(date).ok()?.timestamp().as_second();
    let ours = i64::try_from(now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs()).ok()?;
    Some(theirs - ours)
}

impl Told {
    fn named(meta: &EndpointMeta) -> Self {
        Self { name: meta.host_port().to_owned(), ..Self::default() }
    }

    /// What is known of its prefix cache.
    pub(super) fn prefix_caching(&self) -> Option<bool> {
        match &self.metrics {
            Page::Read(survey) => survey.prefix_caching.or(self.settings.prefix_caching),
            _ => self.settings.prefix_caching,
        }
    }

    /// Tokens in its KV-cache blocks.
    pub(super) fn block_size(&self) -> Option<u64> {
        match &self.metrics {
            Page::Read(survey) => survey.block_size,
            _ => None,
        }
    }

    /// Models that are no adapters.
    pub(super) fn base_models(&self) -> Option<Vec<&str>> {
        let models = self.models.as_ref()?.iter().filter(|m| m.parent.is_none());
        Some(models.map(|m| m.id.as_str()).collect())
    }

    /// One line about it.
    pub(super) fn summary(&self) -> String {
        if let Some(why) = &self.unreachable {
            return format!("no answer: {why}");
        }
        let mut parts = Vec::new();
        if let Page::Read(survey) = &self.metrics {
            let kind = survey.looks_like.as_ref().unwrap_or(&survey.engine);
            parts.push(self.version.as_ref().map_or_else(|| kind.to_string(), |v| format!("{kind} {v}")));
        }
        if let Some(models) = &self.models {
            let ids: Vec<&str> = models.iter().take(4).map(|m| m.id.as_str()).collect();
            let more = if models.len() > 4 { format!(" and {} more", models.len() - 4) } else { String::new() };
            parts.push(format!("serves {}{more}", ids.join(", ")));
        }
        if let Some(size) = self.block_size() {
            parts.push(format!("blocks of {}", count(size, "token")));
        }
        if let Some(seqs) = self.settings.max_num_seqs {
            parts.push(format!("runs {} at once", count(seqs, "request")));
        }
        if parts.is_empty() { "answers".to_owned() } else { parts.join(", ") }
    }

    pub(super) fn as_json(&self) -> Value {
        let survey = match &self.metrics {
            Page::Read(survey) => Some(survey),
            _ => None,
        };
        json!({
            "engine": self.name,
            "reachable": self.unreachable.is_none(),
            "kind": survey.map(|s| s.looks_like.as_ref().unwrap_or(&s.engine).to_string()),
            "version": self.version,
            "models": self.models.as_ref().map(|all| all.iter().map(|m| &m.id).collect::<Vec<_>>()),
            "block_size": self.block_size(),
            "blocks": survey.and_then(|s| s.num_blocks),
            "prefix_caching": self.prefix_caching(),
            "max_num_seqs": self.settings.max_num_seqs,
            "kv_events": self.settings.kv_events,
            "clock_ahead_seconds": self.ahead,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_where_engines_show_them() {
        let vllm = json!({"vllm_config": {
            "cache_config": {"enable_prefix_caching": false},
            "scheduler_config": {"max_num_seqs": 128},
            "kv_events_config": null,
        }});
        let want = Settings { max_num_seqs: Some(128), kv_events: Some(false), prefix_caching: Some(false) };
        assert_eq!(vllm_settings(&vllm), want);
        let sglang = json!({"max_running_requests": 64, "disable_radix_cache": false, "kv_events_config": "{}"});
        let want = Settings { max_num_seqs: Some(64), kv_events: Some(true), prefix_caching: Some(true) };
        assert_eq!(sglang_settings(&sglang), want);
        assert_eq!(vllm_settings(&json!({"vllm_config": "text"})), Settings::default());
    }

    #[test]
    fn a_date_tells_how_far_the_clock_is_ahead() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_974_016);
        assert_eq!(ahead("Sun, 29 Nov 2026 17:40:16 GMT", now), Some(0));
        assert_eq!(ahead("Sun, 29 Nov 2026 17:41:16 GMT", now), Some(60));
        assert_eq!(ahead("yesterday", now), None);
    }
}
