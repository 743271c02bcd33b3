//! `disagg-headers-handler`, also `prefill-header-handler` (both deprecated): tell the decode endpoint which engines
//! work for it.
//!
//! `x-prefiller-host-port` is the `host:port` of the first endpoint that the prefill profile picked,
//! `x-encoder-hosts-ports` those of all that the encode profile picked, separated by commas. A profile that did not
//! run, or found nobody, gives no header; what the client sent under these names never passes. `disagg-profile-handler`
//! does the same by itself. Source: disaggregation specification 2.2, 2.3 and their `Wart:` lines.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_core::headers::{ENCODERS, PREFILLER};
use pointsman_scheduling::{AddedHeaders, Chosen, Held, Hooks, Role, StagePick};
use std::sync::Arc;

/// Writes the headers. A stage is known by what its engines do, or by its profile where one is named.
#[derive(Debug, Default)]
pub struct DisaggHeadersHandler {
    prefill: Option<Arc<str>>,
    encode: Option<Arc<str>>,
}

/// The pick of a profile, or of a role where no profile is named.
pub(crate) fn pick<'a>(others: &'a [StagePick], profile: Option<&Arc<str>>, role: Role) -> Option<&'a StagePick> {
    match profile {
        Some(profile) => others.iter().find(|stage| stage.profile == *profile),
        None => StagePick::of(others, role),
    }
}

/// Sets a header in place of any other of its name.
pub(crate) fn set(headers: &mut AddedHeaders, name: &'static str, value: String) {
    headers.retain(|(other, _)| *other != name);
    headers.push((name, value));
}

impl Hooks for DisaggHeadersHandler {
    fn chosen(&self, chosen: &Chosen<'_>, headers: &mut AddedHeaders) -> Option<Box<dyn Held>> {
        if let Some(prefill) = pick(chosen.others, self.prefill.as_ref(), Role::Prefill) {
            set(headers, PREFILLER, prefill.endpoints[0].host_port().to_owned());
        }
        if let Some(encode) = pick(chosen.others, self.encode.as_ref(), Role::Encode) {
            let list: Vec<&str> = encode.endpoints.iter().map(|e| e.host_port()).collect();
            set(headers, ENCODERS, list.join(","));
        }
        None
    }
}

const PARAMS: &[Param] = &[
    Param::new("prefillProfile", ParamKind::String, "Profile that picks who computes the prompt.")
        .default("\"prefill\""),
    Param::new("encodeProfile", ParamKind::String, "Profile that picks who encodes images, videos and sounds.")
        .default("\"encode\""),
];

/// Its row.
pub const ROW: Row = Row {
    params: PARAMS,
    deprecated: Some("`disagg-profile-handler` writes these headers by itself"),
    build: Some(build),
    ..Row::new(
        "disagg-headers-handler",
        &[Kind::Hook],
        Stability::Beta,
        "Tells the decode endpoint which engines compute the prompt and encode for it.",
    )
};

/// The row of the other name.
pub const OLD_ROW: Row = Row {
    params: PARAMS,
    deprecated: Some("`disagg-profile-handler` writes these headers by itself"),
    build: Some(build),
    ..Row::new("prefill-header-handler", &[Kind::Hook], Stability::Beta, "Other name of `disagg-headers-handler`.")
};

fn build(b: &mut Build<'_>) -> Instance {
    let named = |param: &str| b.params.given(param).then(|| Arc::from(b.params.str(param)));
    let hook = DisaggHeadersHandler { prefill: named("prefillProfile"), encode: named("encodeProfile") };
    Instance { hooks: Some(Arc::new(hook)), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, chosen, endpoint};

    fn bench() -> Bench {
        Bench::new(["d", "p", "e1", "e2"].map(endpoint))
    }

    #[test]
    fn every_stage_that_found_somebody_is_told() {
        let hook = DisaggHeadersHandler::default();
        assert_eq!(chosen(&bench(), &hook, 0, &[]).0, []);
        let others: &[(&str, Role, &[usize])] = &[("p", Role::Prefill, &[1, 0]), ("e", Role::Encode, &[2, 3])];
        let told = chosen(&bench(), &hook, 0, others).0;
        assert_eq!(
            told,
            [(PREFILLER, "10.0.0.2:8000".to_owned()), (ENCODERS, "10.0.0.3:8000,10.0.0.4:8000".to_owned()),]
        );
    }

    #[test]
    fn a_named_profile_is_looked_for_by_its_name() {
        let hook = DisaggHeadersHandler { prefill: Some("fill".into()), encode: None };
        assert_eq!(chosen(&bench(), &hook, 0, &[("p", Role::Prefill, &[1])]).0, []);
        assert_eq!(chosen(&bench(), &hook, 0, &[("fill", Role::Any, &[1])]).0.len(), 1);
    }

    #[test]
    fn a_header_stands_once() {
        let mut headers = vec![(PREFILLER, "a".to_owned()), (ENCODERS, "b".to_owned())];
        set(&mut headers, PREFILLER, "c".to_owned());
        assert_eq!(headers, [(ENCODERS, "b".to_owned()), (PREFILLER, "c".to_owned())]);
    }
}
