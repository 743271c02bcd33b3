//! What one metrics page tells of an engine's set-up: for a person who wants to know whether the two fit together.

use super::{Engine, EngineMappings, Field};
use crate::row::Signal;
use pointsman_wire::exposition::{Spec, Wanted, scan};
use std::sync::Arc;

/// What a page tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// Engine kind that it was read as.
    pub engine: Arc<str>,
    /// The kind whose load metrics it has, when those are not the ones of `engine`.
    pub looks_like: Option<Arc<str>>,
    /// Signals that a metric is named for and that the page does not have, with the names that were looked for.
    pub missing: Vec<(Signal, Vec<String>)>,
    /// Tokens in a KV-cache block.
    pub block_size: Option<u64>,
    /// KV-cache blocks in all.
    pub num_blocks: Option<u64>,
    /// Whether the engine keeps prefixes, as vLLM tells.
    pub prefix_caching: Option<bool>,
}

const SIGNALS: [Signal; 4] = [Signal::Waiting, Signal::Running, Signal::KvUsage, Signal::Lora];

impl EngineMappings {
    /// Reads a page as that of an endpoint without an engine label.
    #[must_use]
    pub fn survey(&self, page: &[u8]) -> Survey {
        let text = String::from_utf8_lossy(page);
        let default = &self.engines[self.default];
        let extracted = self.read_as(None, page);
        let lacks = |signal: &Signal| match signal {
            Signal::Waiting => extracted.missing.waiting,
            Signal::Running => extracted.missing.running,
            Signal::KvUsage => extracted.missing.kv_usage,
            // A family without series is fine: vLLM shows the first one with the first request.
            Signal::Lora => !has(&text, default, Field::Lora),
        };
        let named = |signal: &Signal| names(default, Field::of(*signal)).next().is_some();
        let missing = SIGNALS
            .iter()
            .filter(|s| named(s) && lacks(s))
            .map(|s| (*s, names(default, Field::of(*s)).map(ToString::to_string).collect()));
        let load = |engine: &Engine| {
            [Field::Waiting, Field::Running, Field::KvUsage].iter().filter(|f| has(&text, engine, **f)).count()
        };
        // Kinds of the configuration come last and may go by the same names as a built-in one: the first of the best counts.
        let best = self.engines.iter().rev().max_by_key(|e| load(e));
        Survey {
            looks_like: best.filter(|e| load(e) > load(default)).map(|e| Arc::clone(&e.name)),
            missing: missing.collect(),
            block_size: extracted.scraped.block_size,
            num_blocks: extracted.scraped.num_blocks,
            prefix_caching: prefix_caching(default, page),
            engine: extracted.engine.unwrap_or_else(|| Arc::clone(&default.name)),
        }
    }
}

fn names(engine: &Engine, field: Field) -> impl Iterator<Item = &Spec> {
    let specs = engine.fields.iter().zip(engine.wanted.specs());
    specs.filter(move |(f, _)| **f == field).map(|(_, spec)| spec)
}

/// Whether a page has any family that is named for a field, be it without series.
fn has(page: &str, engine: &Engine, field: Field) -> bool {
    names(engine, field).any(|spec| {
        page.lines().any(|line| {
            let line = line.strip_prefix("# TYPE ").unwrap_or(line);
            line.strip_prefix(spec.name()).is_some_and(|rest| rest.starts_with([' ', '{', '\t']))
        })
    })
}

fn prefix_caching(engine: &Engine, page: &[u8]) -> Option<bool> {
    let mut told = None;
    let wanted = Wanted::new(names(engine, Field::CacheInfo).cloned());
    scan(page, &wanted, |sample| {
        let value = sample.labels.get("enable_prefix_caching").map(|v| v.to_ascii_lowercase());
        told = told.or(match value.as_deref() {
            Some("true" | "1") => Some(true),
            Some("false" | "0") => Some(false),
            _ => None,
        });
    });
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(page: &str) -> Survey {
        let name = format!("{}/../../testdata/fixtures/vllm/metrics/{page}.prom", env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read(name).expect("a recorded page");
        mappings().survey(&page)
    }

    fn mappings() -> EngineMappings {
        let engines = super::super::engines::built_in();
        EngineMappings { label_key: super::super::LABEL.to_owned(), engines, default: 0 }
    }

    #[test]
    fn a_recorded_page_tells_blocks_prefix_caching_and_whether_there_are_adapters() {
        let plain = survey("idle-no-lora");
        assert_eq!((plain.block_size, plain.prefix_caching, plain.looks_like), (Some(128), Some(true), None));
        assert_eq!(plain.missing, [(Signal::Lora, vec!["vllm:lora_requests_info".to_owned()])]);
        let adapters = survey("idle-lora-enabled");
        assert_eq!((adapters.block_size, adapters.missing), (Some(32), vec![]));
    }

    #[test]
    fn a_page_of_another_engine_is_told_apart() {
        let page = "sglang:num_queue_reqs 0\nsglang:num_running_reqs 1\nsglang:token_usage 0.5\n";
        let found = mappings().survey(page.as_bytes());
        assert_eq!((&*found.engine, found.looks_like.as_deref()), ("vllm", Some("sglang")));
        assert_eq!(found.missing.len(), 4);
        assert_eq!(mappings().survey(b"up 1\n").looks_like, None);
        let off = "vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"False\"} 1\n";
        assert_eq!(mappings().survey(off.as_bytes()).prefix_caching, Some(false));
    }
}
