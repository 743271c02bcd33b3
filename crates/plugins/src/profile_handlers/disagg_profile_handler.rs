//! `disagg-profile-handler`: one request served by several engines: one encodes its images, one computes its prompt,
//! one decodes.
//!
//! Decode first: the decode profile runs; then the encode profile if its decider says yes, then the prefill profile if
//! its decider says yes, with the decode endpoint as the peer. A stage without a decider is off. Prefill first: the
//! prefill profile runs always, then encode (its decider sees no endpoint), then decode with the prefill endpoint as
//! the peer. The request goes to the decode endpoint; headers tell it the others.
//!
//! A stage is declined (its decider said no), failed (nobody could be picked), or it ran. Where decoding fails the
//! request is refused. A failed encode stage is left out. A failed prefill stage refuses the request when decoding
//! comes first, and is left out when prefilling does; `onPrefillUnavailable` says otherwise. Source: disaggregation
//! specification 2.2 and its `Wart:` lines.

#[cfg(test)]
mod tests;

use super::{STAGE_PLUGINS, STAGES, nobody_decodes};
use crate::build::{Build, Instance};
use crate::hooks::disagg_headers_handler::DisaggHeadersHandler;
use crate::row::{Kind, Need, Row, Stability};
use pointsman_config::{Param, ParamKind, Params};
use pointsman_core::Refusal;
use pointsman_scheduling::{Answer, DataKind, Decider, Facts, ProfileHandler, Request, Role, Stages};
use std::sync::Arc;

/// Which stage comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    DecodeFirst,
    PrefillFirst,
}

impl Order {
    /// By its name, whatever its case, dashes and underscores.
    fn named(name: &str) -> Option<Self> {
        let plain: String = name.chars().filter(|c| !matches!(c, '-' | '_')).collect();
        match plain.to_ascii_lowercase().as_str() {
            "" | "decode" | "decodefirst" => Some(Self::DecodeFirst),
            "prefill" | "prefillfirst" => Some(Self::PrefillFirst),
            _ => None,
        }
    }
}

/// A stage beside decoding.
#[derive(Clone, Default)]
struct Side {
    profile: Option<usize>,
    decider: Option<Arc<dyn Decider>>,
}

impl Side {
    /// The profile to run now, if its decider says yes; if it says no, the profile is declined.
    fn due(&self, stages: &mut Stages<'_>, peer: Option<u32>) -> Option<usize> {
        let profile = self.profile.filter(|&p| !stages.evaluated(p))?;
        if self.decider.as_ref().is_some_and(|d| d.decide(stages.request, stages.facts, peer)) {
            return Some(profile);
        }
        stages.decline(profile);
        None
    }

    /// Its profile, where it found somebody.
    fn found(&self, stages: &Stages<'_>) -> Option<usize> {
        self.profile.filter(|&p| stages.pick(p).is_some())
    }
}

/// Runs up to three profiles.
#[derive(Default)]
pub struct DisaggProfileHandler {
    order: Order,
    decode: Option<usize>,
    prefill: Side,
    encode: Side,
    /// Whether a prefill stage that finds nobody refuses the request.
    prefill_or_fail: bool,
}

impl DisaggProfileHandler {
    fn decode_first(&self, stages: &mut Stages<'_>) {
        let Some(decode) = self.decode else { return };
        if !stages.evaluated(decode) {
            stages.next.push(decode);
            return;
        }
        let Some(target) = stages.pick(decode) else { return };
        if let Some(encode) = self.encode.due(stages, Some(target)) {
            stages.next.push(encode);
        } else if let Some(prefill) = self.prefill.due(stages, Some(target)) {
            *stages.peer = Some(target);
            stages.next.push(prefill);
        }
    }

    fn prefill_first(&self, stages: &mut Stages<'_>) {
        let Some(decode) = self.decode.filter(|&d| !stages.evaluated(d)) else { return };
        if let Some(prefill) = self.prefill.profile.filter(|&p| !stages.evaluated(p)) {
            stages.next.push(prefill);
        } else if let Some(encode) = self.encode.due(stages, None) {
            stages.next.push(encode);
        } else {
            *stages.peer = self.prefill.found(stages).and_then(|p| stages.pick(p));
            stages.next.push(decode);
        }
    }
}

impl ProfileHandler for DisaggProfileHandler {
    fn next(&self, stages: &mut Stages<'_>) {
        match self.order {
            Order::DecodeFirst => self.decode_first(stages),
            Order::PrefillFirst => self.prefill_first(stages),
        }
    }

    fn answer(&self, stages: &Stages<'_>) -> Result<Answer, Refusal> {
        let Some(decode) = self.decode.filter(|&d| stages.pick(d).is_some()) else {
            return Err(nobody_decodes(stages, self.decode));
        };
        let unavailable = self.prefill.profile.filter(|_| self.prefill_or_fail).and_then(|p| stages.failure(p));
        if let Some(refusal) = unavailable {
            let message = format!("failed to find available prefill workers: {}", refusal.message);
            return Err(Refusal { message: message.into(), ..refusal.clone() });
        }
        let (prefill, encode) = (self.prefill.found(stages), self.encode.found(stages));
        let decision = match (encode, prefill) {
            (None, None) => "decode-only",
            (None, Some(_)) => "prefill-decode",
            (Some(_), None) => "encode-decode",
            (Some(_), Some(_)) => "encode-prefill-decode",
        };
        let others = [(prefill, Role::Prefill), (encode, Role::Encode)];
        Ok(Answer {
            primary: decode,
            others: others.into_iter().filter_map(|(p, role)| Some((p?, role))).collect(),
            port: None,
            decision: Some(decision),
        })
    }

    fn holds_enough(&self, request: &Request, facts: &Facts, candidate: u32) -> Option<bool> {
        self.prefill.decider.as_ref()?.holds_enough(request, facts, candidate)
    }
}

const PROFILES: ParamKind = ParamKind::Object(&[
    Param::new("decode", ParamKind::String, "Profile that picks who decodes.").default("\"decode\""),
    Param::new("prefill", ParamKind::String, "Profile that picks who computes the prompt.").default("\"prefill\""),
    Param::new("encode", ParamKind::String, "Profile that picks who encodes images, videos and sounds.")
        .default("\"encode\""),
]);

const DECIDERS: ParamKind = ParamKind::Object(&[
    Param::new(
        "prefill",
        ParamKind::String,
        "Decider that is asked before the prefill profile runs; none: it never does.",
    ),
    Param::new(
        "encode",
        ParamKind::String,
        "Decider that is asked before the encode profile runs; none: it never does.",
    ),
]);

/// Parameters of the old, flat form, and where they stand now.
const FLAT: &[&str] = &[
    "decodeProfile",
    "prefillProfile",
    "encodeProfile",
    "prefillDeciderPluginName",
    "encodeDeciderPluginName",
    "deciderPluginName",
];

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("stageOrder", ParamKind::String, "`decode-first` or `prefill-first`.").default("\"decode-first\""),
        Param::new("profiles", PROFILES, "Profiles of the stages.").default("{}"),
        Param::new("deciders", DECIDERS, "Deciders of the stages.").default("{}"),
        Param::new(
            "onPrefillUnavailable",
            ParamKind::Enum(&["fail", "local"]),
            "What becomes of a request when a wanted prefill stage finds nobody: it is refused (`fail`, the default of \
             `decode-first`), or the decode endpoint computes the prompt (`local`, the default of `prefill-first`).",
        ),
        Param::new("decodeProfile", ParamKind::String, "Old place of `profiles.decode`.")
            .deprecated("use `profiles.decode`"),
        Param::new("prefillProfile", ParamKind::String, "Old place of `profiles.prefill`.")
            .deprecated("use `profiles.prefill`"),
        Param::new("encodeProfile", ParamKind::String, "Old place of `profiles.encode`.")
            .deprecated("use `profiles.encode`"),
        Param::new("prefillDeciderPluginName", ParamKind::String, "Old place of `deciders.prefill`.")
            .deprecated("use `deciders.prefill`"),
        Param::new("encodeDeciderPluginName", ParamKind::String, "Old place of `deciders.encode`.")
            .deprecated("use `deciders.encode`"),
        Param::new("deciderPluginName", ParamKind::String, "Older place of `deciders.prefill`.")
            .deprecated("use `deciders.prefill`"),
    ],
    needs: &[Need::required(DataKind::PrefixMatch), Need::required(DataKind::TokenizedPrompt)],
    example: "{deciders: {prefill: prefix-based-pd-decider}}",
    example_needs: STAGE_PLUGINS,
    example_profiles: STAGES,
    build: Some(build),
    ..Row::new(
        "disagg-profile-handler",
        &[Kind::ProfileHandler, Kind::Hook],
        Stability::Beta,
        "Serves a request with several engines: one encodes, one computes the prompt, one decodes.",
    )
};

/// Where a stage's names are written: the object or the parameters themselves, and the key there.
type Place<'a> = (&'a Params, &'static str);

/// The places of the stages' profiles and deciders, in the form that is used.
fn places<'a>(params: &'a Params, none: &'a Params) -> [[Place<'a>; 2]; 3] {
    if FLAT.iter().any(|name| params.given(name)) {
        let prefill =
            if params.given("prefillDeciderPluginName") { "prefillDeciderPluginName" } else { "deciderPluginName" };
        return [
            [(params, "decodeProfile"), (none, "prefill")],
            [(params, "prefillProfile"), (params, prefill)],
            [(params, "encodeProfile"), (params, "encodeDeciderPluginName")],
        ];
    }
    let (profiles, deciders) = (params.object("profiles").unwrap_or(none), params.object("deciders").unwrap_or(none));
    ["decode", "prefill", "encode"].map(|stage| {
        let decider = if stage == "decode" { (none, "prefill") } else { (deciders, stage) };
        [(profiles, stage), decider]
    })
}

fn build(b: &mut Build<'_>) -> Instance {
    let params = b.params;
    for nested in ["profiles", "deciders"] {
        if let Some(flat) = FLAT.iter().find(|flat| params.given(flat))
            && params.given(nested)
        {
            b.fault(nested, &format!("`{nested}` and the old `{flat}` cannot be mixed"));
        }
    }
    let order = Order::named(params.str("stageOrder")).unwrap_or_else(|| {
        b.fault("stageOrder", "`stageOrder` must be `decode-first` or `prefill-first`");
        Order::default()
    });
    let ParamKind::Object(deciders) = DECIDERS else { return Instance::default() };
    let none = Params::defaults(deciders);
    let [[decode, _], [prefill, prefill_decider], [encode, encode_decider]] = places(params, &none);
    let profile = |b: &Build<'_>, (params, key): Place<'_>, default: &str| {
        b.profile(Some(params.str(key)).filter(|n| !n.is_empty()).unwrap_or(default))
    };
    let handler = DisaggProfileHandler {
        order,
        decode: profile(b, decode, "decode"),
        prefill: Side {
            profile: profile(b, prefill, "prefill"),
            decider: b.decider_in(prefill_decider.0, prefill_decider.1),
        },
        encode: Side {
            profile: profile(b, encode, "encode"),
            decider: b.decider_in(encode_decider.0, encode_decider.1),
        },
        prefill_or_fail: match params.str("onPrefillUnavailable") {
            "" => order == Order::DecodeFirst,
            policy => policy == "fail",
        },
    };
    if order == Order::PrefillFirst && !prefill_decider.0.str(prefill_decider.1).is_empty() {
        b.fault_in(
            prefill_decider.0,
            prefill_decider.1,
            "with `stageOrder: prefill-first` the prefill profile always runs: leave its decider out",
        );
    }
    if handler.decode.is_none() {
        b.warning("profiles", "there is no decode profile: every request will be refused");
    }
    let prefills = order == Order::PrefillFirst || handler.prefill.decider.is_some();
    let encodes = handler.encode.decider.is_some();
    let reach =
        [handler.decode, handler.prefill.profile.filter(|_| prefills), handler.encode.profile.filter(|_| encodes)];
    let reach: Vec<usize> = reach.into_iter().flatten().collect();
    // A profile that is never run is likely the one that is missed here, and is told of by itself.
    if (0..b.profiles.len()).all(|p| reach.contains(&p)) {
        for (stage, side) in [("prefill", &handler.prefill), ("encode", &handler.encode)] {
            if side.decider.is_some() && side.profile.is_none() {
                b.warning("deciders", &format!("there is no {stage} profile: its decider is never asked"));
            }
        }
    }
    Instance {
        handler: Some(Arc::new(handler)),
        hooks: Some(Arc::new(DisaggHeadersHandler::default())),
        reach: Some(reach),
        ..Instance::default()
    }
}
