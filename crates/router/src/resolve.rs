//! Step `resolve`: who asks for what, and which endpoints may serve it at all.

use crate::head::RequestHead;
use crate::read::Reading;
use pointsman_core::{ErrorCode, Nanos, Refusal, headers, xxh64};
use pointsman_fleet::{Endpoint, Snapshot};
use pointsman_scheduling::record::Reason;
use pointsman_scheduling::{Candidate, MediaItem, PromptBlocks, Request};
use pointsman_wire::body::{Api, Feature, ParsedBody, PromptText};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// What the body said, as scheduling needs it.
pub(crate) struct Resolved {
    pub(crate) request: Request,
    /// The client asked for a stream.
    pub(crate) stream: bool,
    /// How the body comes to name the target model, when it names another or none.
    pub(crate) rewrite: Option<Rewrite>,
    /// How the prompt begins, where that is kept.
    pub(crate) text: Option<PromptText>,
}

/// How a body comes to name another model.
pub(crate) enum Rewrite {
    /// The value at that place is replaced.
    Replace(std::ops::Range<usize>),
    /// The body names none: the member is put in front.
    Insert,
}

/// Model, priority, fairness id, tokens.
///
/// # Errors
/// 400 when a path that needs a model has none.
pub(crate) fn resolve(reading: &Reading, parsed: Option<ParsedBody>) -> Result<Resolved, (Refusal, Arc<str>)> {
    let head = &reading.head;
    let needs_model = parsed.is_some() && reading.path.is_some_and(|p| p.needs_model);
    // A parser that cannot rewrite still takes the header's word for what is being asked for; what has no body asks for no model.
    let takes_rewrite = needs_model || reading.bytes > 0 && reading.path.is_some_and(|p| !p.needs_model);
    let parsed = parsed.unwrap_or_else(|| ParsedBody::unread(Api::Raw));
    let incoming: Arc<str> = parsed.model.as_deref().unwrap_or_default().into();
    let rewrite = head.aliased(headers::MODEL_REWRITE, headers::MODEL_REWRITE_OLD).filter(|_| takes_rewrite);
    let target: Arc<str> = match rewrite {
        Some(model) if !model.is_empty() && *model != *incoming => model.into(),
        _ => Arc::clone(&incoming),
    };
    if needs_model && target.is_empty() {
        return Err((Refusal::new(ErrorCode::BadRequest, "model not found in request body"), incoming));
    }
    let rewritten = if target == incoming || !needs_model {
        None
    } else if head.header("content-encoding").is_some_and(|e| !e.eq_ignore_ascii_case("identity")) {
        let message =
            "the model of a compressed body cannot be rewritten: send it plain, or without the rewrite header";
        return Err((Refusal::new(ErrorCode::BadRequest, message), incoming));
    } else {
        Some(parsed.model_span.map_or(Rewrite::Insert, Rewrite::Replace))
    };
    let fairness = head.aliased(headers::FAIRNESS_ID, headers::FAIRNESS_ID_OLD).filter(|f| !f.is_empty());
    let request = Request {
        id: head.header(headers::REQUEST_ID).unwrap_or_default().into(),
        target_model: target,
        incoming_model: incoming,
        headers: Arc::clone(&head.headers),
        // Objectives come with the Kubernetes objects that define them.
        priority: 0,
        fairness_id: fairness.unwrap_or(headers::DEFAULT_FAIRNESS_ID).into(),
        size_bytes: reading.bytes,
        prompts: parsed.prompts.into_iter().map(|p| PromptBlocks { tokens: p.tokens, contents: p.contents }).collect(),
        items: distinct(&parsed.features),
        block_tokens: reading.block_tokens,
        cache_salt: parsed.cache_salt.as_deref().unwrap_or_default().into(),
        max_output_tokens: parsed.max_output_tokens,
        received: head.received,
        timed: false,
    };
    Ok(Resolved { request, stream: parsed.stream, rewrite: rewritten, text: parsed.text })
}

/// The items of a request, each once, in order.
fn distinct(features: &[Feature]) -> Vec<MediaItem> {
    let mut seen = HashSet::with_capacity(features.len());
    let mut items: Vec<MediaItem> = Vec::new();
    for feature in features {
        let hash = xxh64(feature.hash.as_bytes());
        if seen.insert(hash) {
            let before = items.last().filter(|before| *before.modality == *feature.modality);
            let modality = before.map_or_else(|| (&*feature.modality).into(), |before| Arc::clone(&before.modality));
            items.push(MediaItem { modality, hash });
        }
    }
    items
}

/// The endpoints a request may go to, and those it may not with the reason.
pub(crate) struct Located<'a> {
    /// When the fleet was looked at.
    pub(crate) now: Nanos,
    pub(crate) candidates: Vec<Candidate<'a>>,
    pub(crate) out: Vec<(u32, Reason)>,
}

/// Ready endpoints of the subset whose engines list the model, as far as their lists are known.
pub(crate) fn locate<'a>(
    fleet: &'a Snapshot,
    head: &RequestHead,
    model: &str,
    now: Nanos,
    stale_after: Duration,
) -> Located<'a> {
    let mut located = Located { now, candidates: Vec::with_capacity(fleet.endpoints.len()), out: Vec::new() };
    for (index, endpoint) in fleet.endpoints.iter().enumerate() {
        let index = index as u32;
        if head.subset.as_ref().is_some_and(|s| !s.iter().any(|entry| names(entry, endpoint))) {
            located.out.push((index, Reason::NotInSubset));
        } else if !model.is_empty() && endpoint.engine.serves(model) == Some(false) {
            located.out.push((index, Reason::ModelNotServed));
        } else if !endpoint.ready() {
            let report = endpoint.health.describe();
            let why = report.reason.unwrap_or_else(|| "not ready".into());
            located.out.push((index, Reason::NotReady { why, since_unix_ms: report.since_unix_millis }));
        } else {
            located.candidates.push(Candidate::read(endpoint, index, now, stale_after));
        }
    }
    located
}

/// Whether a subset entry (`ip:port`, `[ip]:port` or `ip`) means this endpoint.
fn names(entry: &str, endpoint: &Endpoint) -> bool {
    let bare = entry.strip_prefix('[').and_then(|e| e.strip_suffix(']')).unwrap_or(entry);
    entry == endpoint.host_port() || bare == endpoint.meta.address
}

impl Located<'_> {
    /// Why there is nobody to choose from.
    pub(crate) fn refusal(&self, model: &str) -> Refusal {
        let unserved = self.out.iter().any(|(_, r)| *r == Reason::ModelNotServed);
        // An engine that is not ready may well serve the model, unless it said that it does not.
        let others = self.out.iter().any(|(_, r)| matches!(r, Reason::NotReady { .. }));
        if unserved && !others {
            return Refusal::new(ErrorCode::NotFound, format!("The model `{model}` does not exist."));
        }
        Refusal::no_endpoints()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_there_once_in_order_and_in_one_pass() {
        let features: Vec<Feature> = (0..200_000_u32)
            .map(|n| Feature {
                modality: if n % 2 == 0 { "image".into() } else { "audio".into() },
                hash: (n % 50_000).to_string(),
                offset: 0,
                length: 1,
            })
            .collect();
        let items = distinct(&features);
        let want: Vec<u64> = features[..50_000].iter().map(|f| xxh64(f.hash.as_bytes())).collect();
        assert_eq!(items.iter().map(|i| i.hash).collect::<Vec<_>>(), want);
        assert_eq!((&*items[0].modality, &*items[49_999].modality), ("image", "audio"));
    }
}
