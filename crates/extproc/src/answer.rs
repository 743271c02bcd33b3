//! Decisions and refusals in the words of the proxy (request-lifecycle 1.4, 1.8).

use pointsman_core::headers::{self, is_control};
use pointsman_core::{DropReason, Refusal};
use pointsman_grpc::{Out, Writer};
use pointsman_router::{Refused, Routed, TraceHeaders};
use pointsman_scheduling::{Attribute, Served};

use crate::options::{Compat, ExtProcOptions};
use crate::proto::metadata::ServedMetadata;
use crate::proto::request::Headers;
use crate::proto::response::{self, member, remove_header, set_header, text};

/// Namespace of the metadata that names the destination.
const LB: &str = "envoy.lb";
/// Key of the endpoints' scores in it.
const SCORES: &str = "x-gateway-destination-endpoint-scores";

/// Set on every response, so that one can see that it was looked at.
const WENT_INTO_RESPONSE: &str = "x-went-into-resp-headers";

/// A routed request, as the proxy is told of it.
pub(crate) struct Destination<'a> {
    pub(crate) options: &'a ExtProcOptions,
    pub(crate) routed: &'a Routed,
    /// `host:port`, or several in order, separated by commas.
    pub(crate) list: String,
    pub(crate) forged: &'a [(Box<str>, Box<str>)],
    pub(crate) made_id: bool,
    /// Bytes of the body that goes on, where the proxy does not count them itself.
    pub(crate) content_length: Option<u64>,
    /// Whether the body was looked into.
    pub(crate) scored: bool,
}

/// The endpoints of a routed request, best first.
pub(crate) fn list(routed: &Routed) -> String {
    let mut list = String::new();
    for endpoint in routed.destinations() {
        if !list.is_empty() {
            list.push(',');
        }
        match routed.port() {
            None => list.push_str(endpoint.meta.host_port()),
            Some(port) => list.push_str(&endpoint.meta.host_and(port)),
        }
    }
    list
}

impl Destination<'_> {
    /// The header mutation.
    pub(crate) fn mutation(&self, w: &mut Writer) {
        set_header(w, headers::DESTINATION, self.list.as_bytes());
        if let Some(length) = self.content_length.filter(|length| *length > 0) {
            set_header(w, "Content-Length", length.to_string().as_bytes());
        }
        let added = self.routed.added_headers();
        for (name, value) in added {
            set_header(w, name, value.as_bytes());
        }
        let sent = self.routed.request_headers();
        let trace = self.routed.trace_headers();
        for (name, value) in trace.iter().flat_map(TraceHeaders::iter) {
            set_header(w, name, value.as_bytes());
        }
        // What a body-less request came with was never stored, upstream.
        if self.scored && self.options.keeps(Compat::SetAllHeaders) {
            self.set_again(w, sent, trace.is_some());
        } else if self.made_id {
            self.set_id(w, sent);
        }
        if !self.options.keeps(Compat::KeepControlHeaders) {
            let mut removed: Vec<&str> = Vec::new();
            for (name, _) in sent.iter().chain(self.forged).filter(|(name, _)| is_control(name)) {
                // What is set anew must not be removed as well: that would leave the order of the two to the proxy.
                let set = &**name == headers::DESTINATION || added.iter().any(|(set, _)| *set == &**name);
                if !set && !removed.contains(&&**name) {
                    removed.push(name);
                    remove_header(w, name);
                }
            }
        }
        // What of the client's trace is not valid does not travel on.
        if let Some(trace) = &trace {
            let kept = |name: &str| trace.iter().any(|(kept, _)| kept == name);
            let came = |name: &str| sent.iter().any(|(other, _)| &**other == name);
            pointsman_trace::HEADERS.iter().filter(|n| came(n) && !kept(n)).for_each(|name| remove_header(w, name));
        }
    }

    fn set_id(&self, w: &mut Writer, sent: &[(Box<str>, Box<str>)]) {
        if let Some((name, value)) = sent.iter().rev().find(|(name, _)| &**name == headers::REQUEST_ID) {
            set_header(w, name, value.as_bytes());
        }
    }

    /// Every header once, the last of those of one name, but for those that the picker owns.
    fn set_again(&self, w: &mut Writer, sent: &[(Box<str>, Box<str>)], traced: bool) {
        for (i, (name, value)) in sent.iter().enumerate() {
            let later = sent[i + 1..].iter().any(|(other, _)| other == name);
            let ours = is_system_owned(name) || traced && pointsman_trace::HEADERS.contains(&&**name);
            if !later && !ours {
                set_header(w, name, value.as_bytes());
            }
        }
        for (name, value) in self.forged.iter().filter(|(name, _)| &**name == SCORES) {
            set_header(w, name, value.as_bytes());
        }
    }

    /// The dynamic metadata.
    pub(crate) fn metadata(&self, fields: &mut Writer) {
        member(fields, LB, |value| {
            value.message(5, |fields| {
                member(fields, headers::DESTINATION, |value| text(value, &self.list));
                if self.options.emit_endpoint_scores && self.scored {
                    member(fields, SCORES, |value| {
                        value.message(5, |fields| {
                            for (endpoint, score) in self.routed.scores() {
                                member(fields, endpoint, |value| value.double(2, score));
                            }
                        });
                    });
                }
            });
        });
    }
}

/// Dynamic metadata of what plugins made of a response, one struct for each namespace.
pub(crate) fn attributes(list: &[Attribute], w: &mut Writer) {
    for (i, first) in list.iter().enumerate() {
        if list[..i].iter().any(|other| other.namespace == first.namespace) {
            continue;
        }
        member(w, &first.namespace, |value| {
            value.message(5, |fields| {
                for attribute in list[i..].iter().filter(|a| a.namespace == first.namespace) {
                    member(fields, &attribute.name, |value| value.double(2, attribute.value as f64));
                }
            });
        });
    }
}

/// Names that upstream never sets again (request-lifecycle 1.1).
pub(crate) fn is_system_owned(name: &str) -> bool {
    name == "content-length" || is_control(name)
}

/// Tells the client that its request is not routed.
pub(crate) fn refused(out: &mut Out, options: &ExtProcOptions, refused: &Refused) {
    let id = options.emit_decision_id.then(|| refused.decision.id.to_string());
    refusal(out, &refused.refusal, id.as_deref());
}

pub(crate) fn refusal(out: &mut Out, refusal: &Refusal, decision: Option<&str>) {
    let reason = refusal.reason.map(DropReason::as_str).map(|reason| (headers::DROP_REASON, reason));
    let decision = decision.map(|id| (headers::POINTSMAN_DECISION, id));
    let told: Vec<(&str, &str)> = reason.into_iter().chain(decision).collect();
    response::immediate(out, refusal.code.status(), &refusal.to_string(), &told);
}

/// The mutation of a response's headers.
pub(crate) fn response_mutation(
    w: &mut Writer,
    options: &ExtProcOptions,
    routed: &Routed,
    sent: &Headers,
    served: &ServedMetadata,
) {
    set_header(w, WENT_INTO_RESPONSE, b"true");
    if options.emit_decision_id {
        set_header(w, headers::POINTSMAN_DECISION, routed.decision().id.to_string().as_bytes());
    }
    let served = match served {
        ServedMetadata::NoNamespace => Served::NoNamespace,
        ServedMetadata::NoKey => Served::NoKey,
        ServedMetadata::Endpoint(endpoint) => Served::Endpoint(endpoint),
    };
    if routed.rewrites_response() {
        // Its length may change with the model's name.
        remove_header(w, "content-length");
    }
    routed.response_headers(served, &mut |name, value| set_header(w, name, value.as_bytes()));
    if options.keeps(Compat::SetAllHeaders) {
        let mut list: Vec<(&[u8], &[u8])> = Vec::new();
        // It was read before.
        let _ = sent.for_each(|name, value| {
            list.retain(|(other, _)| *other != name);
            list.push((name, value));
        });
        for (name, value) in list {
            let name = String::from_utf8_lossy(name);
            if !is_system_owned(&name.to_ascii_lowercase()) {
                set_header(w, &name, value);
            }
        }
    }
}
