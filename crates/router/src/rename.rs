//! Whether a response names another model than its client asked for, and can be made to name that one.

use pointsman_scheduling::Request;
use pointsman_wire::rewrite::ModelRewriter;

/// A rewriter for the response to `request` with these headers' values. `None`: both models are the same, or one is not known, or the response is
/// neither JSON nor an event stream that can be looked into.
pub(crate) fn rewriter(
    request: &Request,
    content_type: Option<&str>,
    content_encoding: Option<&str>,
) -> Option<Box<ModelRewriter>> {
    let (target, incoming) = (&*request.target_model, &*request.incoming_model);
    if target == incoming || target.is_empty() || incoming.is_empty() {
        return None;
    }
    let plain = content_encoding.is_none_or(|c| c.trim().is_empty() || c.trim().eq_ignore_ascii_case("identity"));
    let kind = content_type.filter(|_| plain)?.to_ascii_lowercase();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let events = kind == "text/event-stream";
    (events || kind == "application/json" || kind.ends_with("+json"))
        .then(|| Box::new(ModelRewriter::new(target, incoming, events)))
}
