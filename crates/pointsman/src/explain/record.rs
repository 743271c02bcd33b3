//! A decision record as the admin API gives it. Keys that are missing are taken as unknown: an older Pointsman can be asked, too.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

/// Only what is shown is read; `--json` passes on all.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) at: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) model: String,
    pub(crate) target_model: String,
    pub(crate) prompt_tokens_estimated: u64,
    pub(crate) block_tokens: u64,
    pub(crate) prompt_blocks: u64,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) steps_us: Steps,
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) picker: String,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) ties: Vec<String>,
    pub(crate) picked: Vec<String>,
    pub(crate) omitted: u64,
    pub(crate) omitted_dropped: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Candidate {
    pub(crate) endpoint: String,
    pub(crate) dropped_by: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) since: Option<String>,
    pub(crate) signals: Signals,
    pub(crate) scores: Scores,
    pub(crate) total: Option<f64>,
    pub(crate) prefix_match_tokens: u64,
}

/// Where a candidate fell out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DroppedBy {
    /// Before any filter: it was not ready.
    NotReady,
    /// Before any filter: its engine lists other models.
    ModelNotListed,
    /// Before any filter: the proxy does not allow it for this request.
    NotInSubset,
    /// At a filter.
    Filter,
}

impl Candidate {
    /// Where it fell out; `None` for one that was rated.
    pub(crate) fn dropped(&self) -> Option<DroppedBy> {
        self.dropped_by.as_deref().map(|by| match by {
            "not-ready" => DroppedBy::NotReady,
            "model-not-listed" => DroppedBy::ModelNotListed,
            "not-in-subset" => DroppedBy::NotInSubset,
            _ => DroppedBy::Filter,
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Signals {
    pub(crate) waiting: Option<f64>,
    pub(crate) running: Option<f64>,
    pub(crate) kv_cache_usage: Option<f64>,
    pub(crate) in_flight: u64,
    pub(crate) lora: Option<String>,
    pub(crate) age_ms: Option<u64>,
}

/// Scores by scorer, in the order in which the profile names the scorers.
#[derive(Debug, Default)]
pub(crate) struct Scores(pub(crate) Vec<(String, Score)>);

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Score {
    pub(crate) raw: f64,
    pub(crate) weight: f64,
}

impl<'de> Deserialize<'de> for Scores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Scores;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("scores by scorer")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scores, A::Error> {
                let mut scores = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    scores.push(entry);
                }
                Ok(Scores(scores))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Steps {
    /// Zero in records of before it was kept.
    #[serde(default)]
    pub(crate) wait: f64,
    pub(crate) read: f64,
    pub(crate) resolve: f64,
    pub(crate) gather: f64,
    pub(crate) schedule: f64,
    pub(crate) send: f64,
    pub(crate) total: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Outcome {
    pub(crate) status: Option<u16>,
    pub(crate) endpoint: Option<String>,
    pub(crate) retries: u64,
    pub(crate) retried: Vec<Retry>,
    pub(crate) ttft_ms: Option<f64>,
    pub(crate) duration_ms: Option<f64>,
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) completion_tokens: Option<u64>,
    pub(crate) cached_tokens_predicted: u64,
    pub(crate) cached_tokens: Option<u64>,
    pub(crate) ended: Option<String>,
    pub(crate) error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Retry {
    pub(crate) endpoint: String,
    pub(crate) error: String,
}

impl Profile {
    /// The endpoint that was picked first.
    pub(crate) fn pick(&self) -> Option<&Candidate> {
        let name = self.picked.first()?;
        self.candidates.iter().find(|c| c.endpoint == *name)
    }

    /// Candidates that were rated, best first; of equals, the pick first, then in the fleet's order.
    pub(crate) fn rated(&self) -> Vec<&Candidate> {
        let mut rated: Vec<&Candidate> = self.candidates.iter().filter(|c| c.dropped_by.is_none()).collect();
        let place = |c: &Candidate| self.picked.iter().position(|p| *p == c.endpoint).unwrap_or(usize::MAX);
        let total = |c: &Candidate| c.total.unwrap_or(f64::NEG_INFINITY);
        rated.sort_by(|a, b| total(b).total_cmp(&total(a)).then(place(a).cmp(&place(b))));
        rated
    }
}

impl Outcome {
    /// Whether the request has ended.
    pub(crate) fn is_final(&self) -> bool {
        self.ended.is_some() || self.error.is_some()
    }
}
