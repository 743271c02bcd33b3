//! The JSON form of a decision, documented in `docs/api.md`: keys may be added, never renamed.

use super::{CandidateRecord, Decision, Outcome, ProfileRecord, Reason, Retry, Shadowed, Signals, Steps};
use crate::Attribute;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer};
use std::collections::BTreeMap;

/// Milliseconds since the Unix epoch as RFC 3339.
fn rfc3339(unix_ms: u64) -> String {
    jiff::Timestamp::from_millisecond(unix_ms as i64).map_or_else(|_| String::new(), |t| format!("{t:.3}"))
}

impl Serialize for Decision {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut o = s.serialize_struct("Decision", 19)?;
        o.serialize_field("id", &self.id.to_string())?;
        o.serialize_field("request_id", &*self.request_id)?;
        o.serialize_field("at", &rfc3339(self.at_unix_ms))?;
        o.serialize_field("transport", self.transport)?;
        o.serialize_field("method", &*self.method)?;
        o.serialize_field("path", &*self.path)?;
        o.serialize_field("model", &*self.model)?;
        o.serialize_field("target_model", &*self.target_model)?;
        o.serialize_field("prompt_tokens_estimated", &self.prompt_tokens_estimated)?;
        o.serialize_field("block_tokens", &self.blocks.0)?;
        o.serialize_field("prompt_blocks", &self.blocks.1)?;
        o.serialize_field("config_version", &self.config_version)?;
        o.serialize_field("profiles", &Profiles(self))?;
        o.serialize_field("steps_us", &self.steps)?;
        if let Some(hashes) = &self.block_hashes {
            let hex: Vec<String> = hashes.iter().map(|h| format!("{h:016x}")).collect();
            o.serialize_field("block_hashes", &hex)?;
        }
        if let Some(prompt) = &self.prompt {
            o.serialize_field("prompt_text", &prompt.text())?;
        }
        if let Some(shadow) = &self.shadow {
            o.serialize_field("shadow", &**shadow)?;
        }
        o.serialize_field("outcome", &*self.outcome.lock())?;
        o.end()
    }
}

impl Serialize for Shadowed {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut o = s.serialize_struct("Shadowed", 2)?;
        o.serialize_field("endpoint", &self.endpoint.as_deref())?;
        o.serialize_field("differs", &self.differs)?;
        o.end()
    }
}

impl Serialize for Steps {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut o = s.serialize_map(Some(7))?;
        for (name, nanos) in [
            ("wait", self.wait),
            ("read", self.read),
            ("resolve", self.resolve),
            ("gather", self.gather),
            ("schedule", self.schedule),
            ("send", self.send),
            ("total", self.total()),
        ] {
            o.serialize_entry(name, &(nanos as f64 / 1000.0))?;
        }
        o.end()
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut o = s.serialize_struct("Outcome", 13)?;
        o.serialize_field("status", &self.status)?;
        o.serialize_field("endpoint", &self.endpoint.as_deref())?;
        o.serialize_field("retries", &self.retries.len())?;
        o.serialize_field("retried", &Retried(&self.retries))?;
        o.serialize_field("ttft_ms", &self.ttft_ms)?;
        o.serialize_field("duration_ms", &self.duration_ms)?;
        o.serialize_field("prompt_tokens", &self.prompt_tokens)?;
        o.serialize_field("completion_tokens", &self.completion_tokens)?;
        o.serialize_field("cached_tokens_predicted", &self.cached_tokens_predicted)?;
        o.serialize_field("cached_tokens", &self.cached_tokens)?;
        o.serialize_field("ended", &self.ended)?;
        o.serialize_field("error", &self.error)?;
        o.serialize_field("attributes", &by_namespace(&self.attributes))?;
        o.end()
    }
}

/// Values by namespace and name.
fn by_namespace(attributes: &[Attribute]) -> BTreeMap<&str, BTreeMap<&str, i64>> {
    let mut all: BTreeMap<&str, BTreeMap<&str, i64>> = BTreeMap::new();
    for attribute in attributes {
        all.entry(&attribute.namespace).or_default().insert(&attribute.name, attribute.value);
    }
    all
}

struct Retried<'a>(&'a [Retry]);
impl Serialize for Retried<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.0.iter().map(|r| BTreeMap::from([("endpoint", &*r.endpoint), ("error", &*r.error)])))
    }
}

struct Profiles<'a>(&'a Decision);
impl Serialize for Profiles<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut list = s.serialize_seq(Some(self.0.profiles.len()))?;
        for p in &self.0.profiles {
            list.serialize_element(&One(self.0, p))?;
        }
        list.end()
    }
}

struct One<'a>(&'a Decision, &'a ProfileRecord);
impl Serialize for One<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Self(d, p) = self;
        let names = |list: &[u32]| list.iter().map(|&i| d.endpoint(i)).collect::<Vec<_>>();
        let mut o = s.serialize_struct("Profile", 7)?;
        o.serialize_field("name", &*p.columns.name)?;
        o.serialize_field("picker", &*p.columns.picker)?;
        o.serialize_field("candidates", &Candidates(d, p))?;
        o.serialize_field("ties", &names(&p.ties))?;
        o.serialize_field("picked", &names(&p.picked))?;
        o.serialize_field("omitted", &p.omitted)?;
        o.serialize_field("omitted_dropped", &p.omitted_dropped)?;
        o.end()
    }
}

struct Candidates<'a>(&'a Decision, &'a ProfileRecord);
impl Serialize for Candidates<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut list = s.serialize_seq(Some(self.1.candidates.len()))?;
        for c in &self.1.candidates {
            list.serialize_element(&OneCandidate(self.0, self.1, c))?;
        }
        list.end()
    }
}

struct OneCandidate<'a>(&'a Decision, &'a ProfileRecord, &'a CandidateRecord);
impl Serialize for OneCandidate<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Self(d, p, c) = self;
        let mut o = s.serialize_struct("Candidate", 9)?;
        o.serialize_field("endpoint", d.endpoint(c.index))?;
        o.serialize_field("address", d.fleet.at(c.index).map_or("", |(_, address)| address))?;
        let dropped = c.dropped.and_then(|place| p.drops.get(usize::from(place)));
        let by = dropped.map(|(filter, reason)| match filter {
            Some(filter) => p.columns.filters.get(usize::from(*filter)).map_or("", |name| name),
            None => reason.before_filters(),
        });
        o.serialize_field("dropped_by", &by)?;
        o.serialize_field("reason", &dropped.map(|(_, r)| r.to_string()))?;
        let since = match dropped {
            Some((_, Reason::NotReady { since_unix_ms, .. })) => Some(rfc3339(*since_unix_ms)),
            _ => None,
        };
        o.serialize_field("since", &since)?;
        o.serialize_field("signals", &c.signals)?;
        o.serialize_field("scores", &Scores(p, c))?;
        o.serialize_field("total", &c.total)?;
        o.serialize_field("prefix_match_tokens", &c.prefix_match_tokens)?;
        o.end()
    }
}

impl Serialize for Signals {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut o = s.serialize_struct("Signals", 6)?;
        o.serialize_field("waiting", &self.waiting)?;
        o.serialize_field("running", &self.running)?;
        // A gauge of two or three decimals should not grow digits on its way through an f32.
        o.serialize_field("kv_cache_usage", &self.kv_cache_usage.map(|v| (f64::from(v) * 1e6).round() / 1e6))?;
        o.serialize_field("in_flight", &self.in_flight)?;
        o.serialize_field("lora", &self.lora.as_str())?;
        o.serialize_field("age_ms", &self.age_ms)?;
        o.end()
    }
}

struct Score {
    raw: f64,
    weight: f64,
}
impl Serialize for Score {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut o = s.serialize_struct("Score", 2)?;
        o.serialize_field("raw", &self.raw)?;
        o.serialize_field("weight", &self.weight)?;
        o.end()
    }
}

struct Scores<'a>(&'a ProfileRecord, &'a CandidateRecord);
impl Serialize for Scores<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Self(p, c) = self;
        let Some(row) = c.row else { return s.serialize_map(Some(0))?.end() };
        let columns = p.columns.scorers.len();
        let mut o = s.serialize_map(Some(columns))?;
        for (scorer, raw) in p.columns.scorers.iter().zip(&p.scores[row as usize * columns..]) {
            o.serialize_entry(&*scorer.name, &Score { raw: *raw, weight: scorer.weight })?;
        }
        o.end()
    }
}
