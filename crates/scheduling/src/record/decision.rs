//! One decision: what is kept of it.

use super::{DecisionId, Reason};
use crate::{Attribute, Candidate, Facts, PrefixMatch, Profile, ProfileRun};
use parking_lot::Mutex;
use pointsman_core::{BlockHash, Nanos};
use pointsman_fleet::Directory;
use std::borrow::Cow;
use std::sync::Arc;

/// Candidates a profile's record holds at most: above twice as many, the best are kept and the rest is counted.
pub const MAX_CANDIDATES: usize = 64;

/// Where the requested adapter stands on an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoraState {
    /// The engine reports no adapters at all.
    Unknown,
    /// The requested model is loaded as an adapter.
    Active,
    /// It waits to be loaded.
    Waiting,
    /// It is not there, and a slot is free.
    Room,
    /// It is not there, and all slots are taken.
    Full,
}

impl LoraState {
    /// As the JSON form spells it.
    #[must_use]
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Unknown => None,
            Self::Active => Some("active"),
            Self::Waiting => Some("waiting"),
            Self::Room => Some("room"),
            Self::Full => Some("full"),
        }
    }
}

/// What was known of an endpoint at that moment. `None` is unknown, not zero.
#[derive(Clone, Copy, Debug)]
pub struct Signals {
    /// Requests waiting in the engine.
    pub waiting: Option<f32>,
    /// Requests running in the engine.
    pub running: Option<f32>,
    /// KV cache usage, 0 to 1.
    pub kv_cache_usage: Option<f32>,
    /// Requests in flight through this router.
    pub in_flight: u32,
    /// Where the requested adapter stands.
    pub lora: LoraState,
    /// Age of the engine's gauges in milliseconds; `None` when never read.
    pub age_ms: Option<u32>,
}

/// A candidate in a record.
#[derive(Clone, Copy, Debug)]
pub struct CandidateRecord {
    /// Place in the fleet snapshot.
    pub index: u32,
    /// Its place in [`ProfileRecord::drops`], when it was dropped. Apart, so that a record can be let go without a look at each candidate.
    pub dropped: Option<u16>,
    /// What was known of it.
    pub signals: Signals,
    /// Weighted sum; `None` when dropped.
    pub total: Option<f64>,
    /// Prompt tokens it was believed to hold.
    pub prefix_match_tokens: u32,
    /// Row of raw scores in [`ProfileRecord::scores`].
    pub row: Option<u32>,
}

/// Name, type and weight of a scorer.
#[derive(Clone, Debug)]
pub struct ScorerColumn {
    /// Instance name.
    pub name: Arc<str>,
    /// Weight.
    pub weight: f64,
}

/// What is the same in every record of a profile.
#[derive(Clone, Debug, Default)]
pub struct ProfileColumns {
    /// Profile name.
    pub name: Arc<str>,
    /// Picker that chose.
    pub picker: Arc<str>,
    /// Filters by number.
    pub filters: Box<[Arc<str>]>,
    /// Scorers by column.
    pub scorers: Box<[ScorerColumn]>,
}

/// What one profile did.
#[derive(Clone, Debug)]
pub struct ProfileRecord {
    /// Its name and plugins.
    pub columns: Arc<ProfileColumns>,
    /// Candidates in fleet order; the best [`MAX_CANDIDATES`] of a large fleet.
    pub candidates: Box<[CandidateRecord]>,
    /// Why candidates were dropped: the number of the filter (`None`: out before any filter) and the reason.
    pub drops: Box<[(Option<u16>, Reason)]>,
    /// Raw scores, row by row.
    pub scores: Box<[f64]>,
    /// Fleet places of the candidates that shared the highest sum.
    pub ties: Box<[u32]>,
    /// Fleet places of the picks, best first.
    pub picked: Box<[u32]>,
    /// Candidates left out of `candidates`.
    pub omitted: u32,
    /// How many of the omitted ones had been dropped.
    pub omitted_dropped: u32,
}

/// Time each step took, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steps {
    /// Held before its decision: for a rendered prompt, or for others to be placed with.
    pub wait: u64,
    /// From the last byte of the request to the request understood.
    pub read: u64,
    /// Objective, fairness, model rewrite, candidates.
    pub resolve: u64,
    /// Producers.
    pub gather: u64,
    /// Filters, scorers, picker.
    pub schedule: u64,
    /// Hooks and this record.
    pub send: u64,
}

impl Steps {
    /// All steps of the decision together; what was waited for before is not among them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.read + self.resolve + self.gather + self.schedule + self.send
    }
}

/// An attempt that did not serve.
#[derive(Clone, Debug)]
pub struct Retry {
    /// The endpoint tried.
    pub endpoint: Arc<str>,
    /// What went wrong.
    pub error: String,
}

/// What shadow profiles would have chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadowed {
    /// `host:port`; `None` where they found nobody.
    pub endpoint: Option<Arc<str>>,
    /// Whether they prefer it to the one chosen, rather than to hold the two for equal.
    pub differs: bool,
}

/// How a prompt begins, for a person to see. Kept only where that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptText {
    /// The first bytes, as they are hashed.
    pub bytes: Box<[u8]>,
    /// Bytes of a block; 0 where blocks are not made of these bytes.
    pub block_bytes: usize,
    /// Hashes of all its blocks, by which prefixes of it are found.
    pub chain: Box<[BlockHash]>,
}

impl PromptText {
    /// All that is kept.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        lossy(&self.bytes)
    }

    /// What is kept of the blocks from `from` on, at most `most` bytes; `None` where nothing of them is.
    #[must_use]
    pub fn of_blocks(&self, from: usize, most: usize) -> Option<Cow<'_, str>> {
        let start = from.checked_mul(self.block_bytes).filter(|_| self.block_bytes > 0)?;
        let rest = self.bytes.get(start..).filter(|rest| !rest.is_empty())?;
        Some(lossy(&rest[..rest.len().min(most)]))
    }
}

/// Text without the zeros that fill a prompt's last token.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
    String::from_utf8_lossy(&bytes[..end])
}

/// How the request went on after the decision. Filled in as it happens.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// HTTP status the client received.
    pub status: Option<u16>,
    /// `host:port` that served.
    pub endpoint: Option<Arc<str>>,
    /// Attempts that failed before.
    pub retries: Vec<Retry>,
    /// Milliseconds from the request's headers to the first body byte.
    pub ttft_ms: Option<f64>,
    /// Milliseconds from the request's headers to the end.
    pub duration_ms: Option<f64>,
    /// As the engine counted.
    pub prompt_tokens: Option<u64>,
    /// As the engine counted.
    pub completion_tokens: Option<u64>,
    /// Prompt tokens the chosen endpoint was believed to hold.
    pub cached_tokens_predicted: u64,
    /// Prompt tokens it held, as the engine counted.
    pub cached_tokens: Option<u64>,
    /// How it ended; see [`crate::Termination`].
    pub ended: Option<&'static str>,
    /// What went wrong, if anything did.
    pub error: Option<String>,
    /// What plugins made of what it used.
    pub attributes: Vec<Attribute>,
}

/// The record of one decision.
#[derive(Debug)]
pub struct Decision {
    /// Identity.
    pub id: DecisionId,
    /// When, milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
    /// `x-request-id`.
    pub request_id: Arc<str>,
    /// `gateway` or `extproc`.
    pub transport: &'static str,
    /// HTTP method.
    pub method: Arc<str>,
    /// Path without query.
    pub path: Arc<str>,
    /// Model the client named.
    pub model: Arc<str>,
    /// Model after rewriting.
    pub target_model: Arc<str>,
    /// Prompt tokens by the router's estimate.
    pub prompt_tokens_estimated: u64,
    /// Tokens in a block, and blocks of the prompt.
    pub blocks: (u32, u32),
    /// Version of the configuration in force.
    pub config_version: u64,
    /// The fleet as it was seen.
    pub fleet: Arc<Directory>,
    /// Profiles that ran.
    pub profiles: Box<[ProfileRecord]>,
    /// Time each step took.
    pub steps: Steps,
    /// Salted block hashes, when they are recorded.
    pub block_hashes: Option<Box<[u64]>>,
    /// How its prompt begins, when that is recorded.
    pub prompt: Option<Box<PromptText>>,
    /// What the shadow profiles would have chosen, when there are any.
    pub shadow: Option<Box<Shadowed>>,
    /// What followed.
    pub outcome: Mutex<Outcome>,
}

impl ProfileRecord {
    /// Puts a run on record. `candidates` are those the profile was given, `unready` those that were out before.
    #[must_use]
    pub fn of(
        profile: &Profile,
        run: &ProfileRun,
        candidates: &[Candidate<'_>],
        unready: &[(u32, Reason)],
        facts: &Facts,
        signals: impl Fn(&Candidate<'_>) -> Signals,
        prompt_tokens: u64,
    ) -> Self {
        let places = |list: &[u32]| list.iter().map(|&c| candidates[c as usize].index).collect();
        let columns = profile.scorers.len();
        let n = run.kept.len();
        let rows = best_rows(run);
        let prefix = facts.any::<PrefixMatch>();
        let mut records = Vec::with_capacity(rows.len() + run.dropped.len().min(MAX_CANDIDATES) + unready.len());
        let mut scores = Vec::with_capacity(rows.len() * columns);
        let record = |c: u32| CandidateRecord {
            index: candidates[c as usize].index,
            dropped: None,
            signals: signals(&candidates[c as usize]),
            total: None,
            prefix_match_tokens: prefix
                .and_then(|p| p.get(c as usize))
                .map_or(0, |p| p.tokens(prompt_tokens).min(u64::from(u32::MAX)) as u32),
            row: None,
        };
        for (row, &i) in rows.iter().enumerate() {
            let i = i as usize;
            records.push(CandidateRecord {
                total: run.totals.get(i).copied(),
                row: Some(row as u32),
                ..record(run.kept[i])
            });
            scores.extend((0..columns).map(|s| run.raw[s * n + i]));
        }
        let room = if candidates.len() > 2 * MAX_CANDIDATES {
            MAX_CANDIDATES - rows.len().min(MAX_CANDIDATES)
        } else {
            usize::MAX
        };
        let mut drops = Vec::with_capacity(run.dropped.len().min(room) + unready.len().min(MAX_CANDIDATES));
        for d in run.dropped.iter().take(room) {
            records.push(CandidateRecord { dropped: Some(drops.len() as u16), ..record(d.candidate) });
            drops.push((Some(d.filter), d.reason.clone()));
        }
        let shown = records.len();
        for (index, reason) in unready.iter().take(MAX_CANDIDATES) {
            records.push(CandidateRecord {
                index: *index,
                dropped: Some(drops.len() as u16),
                signals: Signals {
                    waiting: None,
                    running: None,
                    kv_cache_usage: None,
                    in_flight: 0,
                    lora: LoraState::Unknown,
                    age_ms: None,
                },
                total: None,
                prefix_match_tokens: 0,
                row: None,
            });
            drops.push((None, reason.clone()));
        }
        records.sort_unstable_by_key(|r| r.index);
        let dropped_shown = run.dropped.len().min(room);
        Self {
            columns: Arc::clone(&profile.columns),
            candidates: records.into(),
            drops: drops.into(),
            scores: scores.into(),
            ties: places(&run.ties),
            picked: places(&run.picked),
            omitted: (candidates.len() - shown + unready.len() - unready.len().min(MAX_CANDIDATES)) as u32,
            omitted_dropped: (run.dropped.len() - dropped_shown) as u32,
        }
    }
}

/// Rows of `run.kept` to keep: all of a small fleet, the best of a large one.
fn best_rows(run: &ProfileRun) -> Vec<u32> {
    let n = run.kept.len();
    let mut rows: Vec<u32> = (0..n as u32).collect();
    if n + run.dropped.len() > 2 * MAX_CANDIDATES && n > MAX_CANDIDATES && !run.totals.is_empty() {
        let by_total = |a: &u32, b: &u32| run.totals[*b as usize].total_cmp(&run.totals[*a as usize]);
        rows.select_nth_unstable_by(MAX_CANDIDATES - 1, by_total);
        rows.truncate(MAX_CANDIDATES);
        for p in run.picked.iter().filter_map(|p| run.kept.iter().position(|k| k == p)) {
            if !rows.contains(&(p as u32)) {
                rows.push(p as u32);
            }
        }
        rows.sort_unstable();
    }
    rows
}

impl Decision {
    /// A record in which nothing stands but its identity.
    #[must_use]
    pub fn blank(id: DecisionId) -> Self {
        Self {
            id,
            at_unix_ms: 0,
            request_id: "".into(),
            transport: "",
            method: "".into(),
            path: "".into(),
            model: "".into(),
            target_model: "".into(),
            prompt_tokens_estimated: 0,
            blocks: (0, 0),
            config_version: 0,
            fleet: Arc::default(),
            profiles: Box::default(),
            steps: Steps::default(),
            block_hashes: None,
            prompt: None,
            shadow: None,
            outcome: Mutex::default(),
        }
    }

    /// Bytes this record keeps alive, near enough for a budget.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let profiles: usize = self
            .profiles
            .iter()
            .map(|p| {
                size_of::<ProfileRecord>()
                    + p.candidates.len() * size_of::<CandidateRecord>()
                    + p.drops.len() * size_of::<(Option<u16>, Reason)>()
                    + p.scores.len() * 8
                    + (p.ties.len() + p.picked.len()) * 4
            })
            .sum();
        let strings = [&self.request_id, &self.method, &self.path, &self.model, &self.target_model];
        let strings: usize = strings.iter().map(|s| s.len()).sum();
        // 160: what the outcome grows by, and the allocator's own overhead.
        let hashes = self.block_hashes.as_ref().map_or(0, |b| b.len() * 8);
        let prompt = self.prompt.as_ref().map_or(0, |p| size_of::<PromptText>() + p.bytes.len() + p.chain.len() * 8);
        size_of::<Self>() + profiles + strings + hashes + prompt + 160
    }

    /// Name of the endpoint at a place of the fleet; empty where there is none.
    #[must_use]
    pub fn endpoint(&self, index: u32) -> &str {
        self.fleet.at(index).map_or("", |(name, _)| name)
    }
}

impl Signals {
    /// Reads the signals of a candidate for the record.
    #[must_use]
    pub fn of(candidate: &Candidate<'_>, target_model: &str, now: Nanos) -> Self {
        let lora = candidate.endpoint.engine.lora_at();
        let lora = (lora > candidate.fresh_since).then(|| candidate.endpoint.engine.lora());
        let lora = lora.map_or(LoraState::Unknown, |lora| {
            if lora.max_active() == 0 {
                LoraState::Unknown
            } else if lora.is_active(target_model) {
                LoraState::Active
            } else if lora.is_waiting(target_model) {
                LoraState::Waiting
            } else if lora.active().len() + lora.waiting().len() < lora.max_active() as usize {
                LoraState::Room
            } else {
                LoraState::Full
            }
        });
        Self {
            waiting: candidate.waiting().map(|v| v as f32),
            running: candidate.running().map(|v| v as f32),
            kv_cache_usage: candidate.kv_usage().map(|v| v as f32),
            in_flight: candidate.in_flight.min(u64::from(u32::MAX)) as u32,
            lora,
            age_ms: candidate.engine.age(now).map(|age| age.as_millis().min(u128::from(u32::MAX)) as u32),
        }
    }
}
