//! `POST /api/rescore`: where the last requests would have gone with other weights, and what was measured of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::StatusCode;
use pointsman_scheduling::record::{Agreement, Decision, ProfileRecord};
use serde::{Deserialize, Serialize};

use crate::View;
use crate::reply::{Reply, fault, json};

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;
/// Changed decisions that are listed.
const LISTED: usize = 50;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// By scorer; others keep theirs.
    #[serde(default)]
    weights: BTreeMap<String, f64>,
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Serialize)]
struct Report {
    decisions: usize,
    same: usize,
    tied: usize,
    different: usize,
    unrated: usize,
    partial: usize,
    weights: BTreeMap<String, f64>,
    unused: Vec<String>,
    endpoints: Vec<Share>,
    changes: Vec<Change>,
    measured: Measured,
}

#[derive(Serialize)]
struct Share {
    endpoint: String,
    chosen: usize,
    would: usize,
}

#[derive(Serialize)]
struct Change {
    id: String,
    model: String,
    from: String,
    to: String,
    margin: f64,
}

/// What the same decisions led to, as they were made.
#[derive(Default, Serialize)]
struct Measured {
    requests: usize,
    ttft_p50_ms: Option<f64>,
    ttft_p95_ms: Option<f64>,
    prompt_tokens: u64,
    cached_tokens: Option<u64>,
    cache_hit_share: Option<f64>,
}

pub(crate) fn answer(view: &impl View, body: &[u8]) -> Reply {
    let wanted: Wanted = match serde_json::from_slice(body) {
        Ok(wanted) => wanted,
        Err(error) => {
            let why = format!("the body is {{\"weights\": {{\"SCORER\": number}}, \"limit\": number}}: {error}");
            return fault(StatusCode::BAD_REQUEST, &why);
        }
    };
    let limit = wanted.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return fault(StatusCode::BAD_REQUEST, &format!("limit is a number from 1 to {MAX_LIMIT}"));
    }
    if wanted.weights.values().any(|w| !w.is_finite()) {
        return fault(StatusCode::BAD_REQUEST, "a weight is a finite number");
    }
    json(&report(&view.decisions(limit, None), wanted.weights))
}

/// The profile that chose where the request went; of several, the one whose pick served.
fn primary(decision: &Decision) -> Option<&ProfileRecord> {
    let served = decision.outcome.lock().endpoint.clone();
    let picked = |p: &&ProfileRecord| !p.picked.is_empty();
    let serves = |p: &&ProfileRecord| {
        let address = p.picked.first().and_then(|at| decision.fleet.at(*at)).map(|(_, address)| &**address);
        served.is_some() && address == served.as_deref()
    };
    decision.profiles.iter().find(serves).or_else(|| decision.profiles.iter().find(picked))
}

fn report(decisions: &[Arc<Decision>], wanted: BTreeMap<String, f64>) -> Report {
    let mut report = Report {
        decisions: decisions.len(),
        same: 0,
        tied: 0,
        different: 0,
        unrated: 0,
        partial: 0,
        weights: BTreeMap::new(),
        unused: Vec::new(),
        endpoints: Vec::new(),
        changes: Vec::new(),
        measured: measured(decisions),
    };
    let mut shares: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for decision in decisions {
        let Some(profile) = primary(decision) else {
            report.unrated += 1;
            continue;
        };
        let rescored = profile.rescored(|s| wanted.get(&*s.name).copied().unwrap_or(s.weight));
        let Some(rescored) = rescored else {
            report.unrated += 1;
            continue;
        };
        for scorer in &profile.columns.scorers {
            let weight = wanted.get(&*scorer.name).copied().unwrap_or(scorer.weight);
            report.weights.entry(scorer.name.to_string()).or_insert(weight);
        }
        report.partial += usize::from(profile.omitted > 0);
        let from = decision.endpoint(rescored.picked);
        let to = match rescored.agreement() {
            Agreement::Same => {
                report.same += 1;
                from
            }
            Agreement::Tied => {
                report.tied += 1;
                from
            }
            Agreement::Different => {
                report.different += 1;
                let to = decision.endpoint(rescored.best[0]);
                if report.changes.len() < LISTED {
                    report.changes.push(Change {
                        id: decision.id.to_string(),
                        model: decision.model.to_string(),
                        from: from.to_owned(),
                        to: to.to_owned(),
                        margin: rescored.sums.0 - rescored.sums.1,
                    });
                }
                to
            }
        };
        shares.entry(from).or_default().0 += 1;
        shares.entry(to).or_default().1 += 1;
    }
    report.unused = wanted.into_keys().filter(|name| !report.weights.contains_key(name)).collect();
    let share =
        |(endpoint, (chosen, would)): (&str, (usize, usize))| Share { endpoint: endpoint.to_owned(), chosen, would };
    report.endpoints = shares.into_iter().map(share).collect();
    report
}

fn measured(decisions: &[Arc<Decision>]) -> Measured {
    let mut all = Measured::default();
    let mut waits = Vec::new();
    for decision in decisions {
        let outcome = decision.outcome.lock();
        all.requests += usize::from(outcome.ended.is_some());
        waits.extend(outcome.ttft_ms);
        // Only where the engine counts both can a share be told.
        if let (Some(prompt), Some(cached)) = (outcome.prompt_tokens, outcome.cached_tokens) {
            all.prompt_tokens += prompt;
            *all.cached_tokens.get_or_insert(0) += cached;
        }
    }
    waits.sort_by(f64::total_cmp);
    // The smallest value that so large a share does not exceed.
    let at = |share: f64| waits.get(((waits.len() as f64 * share).ceil() as usize).saturating_sub(1)).copied();
    (all.ttft_p50_ms, all.ttft_p95_ms) = (at(0.5), at(0.95));
    let cached = all.cached_tokens.filter(|_| all.prompt_tokens > 0);
    all.cache_hit_share = cached.map(|cached| cached as f64 / all.prompt_tokens as f64);
    all
}
