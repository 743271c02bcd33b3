//! The spans of a profile's run: filters, each scorer, pick.

use pointsman_core::Nanos;
use pointsman_scheduling::{Candidate, Profile, ProfileRun, Request};
use pointsman_trace::{Kind, Span, SpanContext, SpanId, Status, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// Endpoints that `pick_endpoints` names at most.
const TOP: usize = 5;

type Attributes = Vec<(&'static str, Value)>;

/// The spans of one run, parents first. `unix` makes points of time of the monotone clock nanoseconds since the Unix epoch.
pub(super) fn spans(
    parent: SpanContext,
    profile: &Profile,
    run: &ProfileRun,
    candidates: &[Candidate<'_>],
    request: &Request,
    unix: impl Fn(Nanos) -> u64,
) -> Vec<Span> {
    let (Some(&began), Some(&ended)) = (run.laps.first(), run.laps.last()) else { return Vec::new() };
    let at = |lap: usize| run.laps.get(lap).copied().unwrap_or(ended);
    let span = |name: Cow<'static, str>, parent: SpanContext, from: Nanos, to: Nanos, attributes| Span {
        name,
        kind: Kind::Internal,
        context: SpanContext { span: SpanId::random(), ..parent },
        parent: Some(parent.span),
        parent_is_remote: false,
        start_unix_ns: unix(from),
        end_unix_ns: unix(to),
        attributes,
        status: Status::Unset,
        exception: None,
    };
    let of_profile = vec![("llm_d.epp.scheduling.profile.name", Value::from(&profile.name))];
    let root = span("run_scheduler_profile".into(), parent, began, ended, of_profile);
    let (whole, filters, n) = (root.context, profile.filters.len(), run.kept.len());
    let mut spans = vec![root];

    let mut attributes = vec![
        ("llm_d.epp.filter.candidate_endpoints", Value::from(n + run.dropped.len())),
        ("llm_d.epp.filter.filtered_endpoints", Value::from(n)),
    ];
    asked(request, &mut attributes);
    spans.push(span("filter_endpoints".into(), whole, began, at(filters), attributes));
    if n == 0 || run.totals.len() != n {
        return spans;
    }

    let mut attributes = vec![
        ("llm_d.epp.scorer.count", Value::from(profile.scorers.len())),
        ("llm_d.epp.scoring.candidate_endpoints", Value::from(n)),
    ];
    asked(request, &mut attributes);
    let scored = filters + profile.scorers.len();
    let scoring = span("llm_d.epp.scoring".into(), whole, at(filters), at(scored), attributes);
    let inside = scoring.context;
    spans.push(scoring);
    for (i, (weighted, raw)) in profile.scorers.iter().zip(run.raw.chunks_exact(n)).enumerate() {
        let (name, scorer) = (format!("llm_d.epp.scorer.{}", weighted.scorer.type_name), &weighted.scorer);
        let attributes = vec![
            ("llm_d.epp.scorer.type", Value::from(&scorer.type_name)),
            ("llm_d.epp.scorer.name", Value::from(&scorer.name)),
            ("llm_d.epp.scorer.weight", Value::from(weighted.weight)),
            ("llm_d.epp.scorer.candidate_endpoints", Value::from(n)),
            ("llm_d.epp.scorer.score.max", Value::from(raw.iter().copied().fold(f64::NEG_INFINITY, f64::max))),
            ("llm_d.epp.scorer.score.avg", Value::from(raw.iter().sum::<f64>() / n as f64)),
            ("llm_d.epp.scorer.endpoints_scored", Value::from(n)),
        ];
        spans.push(span(name.into(), inside, at(filters + i), at(filters + i + 1), attributes));
    }

    let mut best: Vec<usize> = (0..n).collect();
    best.sort_by(|a, b| run.totals[*b].total_cmp(&run.totals[*a]));
    best.truncate(TOP);
    let name = |i: &usize| -> Arc<str> {
        let name = candidates[run.kept[*i] as usize].endpoint.name();
        format!("{}/{}", name.namespace, name.name).into()
    };
    let mut attributes = vec![
        ("llm_d.epp.picker.candidate_endpoints", Value::from(n)),
        ("llm_d.epp.picker.top_endpoints", Value::Texts(best.iter().map(name).collect())),
        ("llm_d.epp.picker.top_scores", Value::Floats(best.iter().map(|i| run.totals[*i]).collect())),
    ];
    asked(request, &mut attributes);
    spans.push(span("pick_endpoints".into(), whole, at(scored), at(scored + 1), attributes));
    spans
}

/// Which model was asked for, and by which request, where these are known.
fn asked(request: &Request, attributes: &mut Attributes) {
    let known = [("gen_ai.request.model", &request.target_model), ("gen_ai.request.id", &request.id)];
    attributes.extend(known.into_iter().filter(|(_, v)| !v.is_empty()).map(|(name, v)| (name, Value::from(v))));
}
