//! `disagg-profile-handler`: one request served by several engines: one encodes its images, one computes its prompt, one decodes.
//!
//! Decode first: the decode profile runs; then the encode profile if its decider says yes, then the prefill profile if its decider says yes, with the decode
//! endpoint as the peer. A stage without a decider is off. Prefill first: the prefill profile runs always, then encode (its decider sees no endpoint), then
//! decode with the prefill endpoint as the peer. The request goes to the decode endpoint; headers tell it the others.
//!
//! A stage is declined (its decider said no), failed (nobody could be picked), or it ran. Where decoding fails the request is refused. A failed encode stage
//! is left out. A failed prefill stage refuses the request when decoding comes first, and is left out when prefilling does; `onPrefillUnavailable` says
//! otherwise. Source: disaggregation specification 2.2 and its `Wart:` lines.

use super::nobody_decodes;
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
            "What a wanted prefill stage that finds nobody does to the request: refuse it (`fail`, the default of `decode-first`) or let the decode \
             endpoint compute the prompt (`local`, the default of `prefill-first`).",
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
    if handler.prefill.decider.is_some() && handler.prefill.profile.is_none() {
        b.warning("deciders", "there is no prefill profile: its decider is never asked");
    }
    if handler.encode.decider.is_some() && handler.encode.profile.is_none() {
        b.warning("deciders", "there is no encode profile: its decider is never asked");
    }
    let prefills = order == Order::PrefillFirst || handler.prefill.decider.is_some();
    let encodes = handler.encode.decider.is_some();
    let reach =
        [handler.decode, handler.prefill.profile.filter(|_| prefills), handler.encode.profile.filter(|_| encodes)];
    Instance {
        handler: Some(Arc::new(handler)),
        hooks: Some(Arc::new(DisaggHeadersHandler::default())),
        reach: Some(reach.into_iter().flatten().collect()),
        ..Instance::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deciders::always_disagg_pd_decider::AlwaysDisaggPdDecider;
    use crate::testing::{Staging, compiled};
    use pointsman_core::{DropReason, ErrorCode, headers};
    use pointsman_scheduling::{ProfileRun, Stage};
    use std::sync::atomic::{AtomicUsize, Ordering};

    const DECODE: usize = 0;
    const PREFILL: usize = 1;
    const ENCODE: usize = 2;

    #[derive(Default)]
    struct Says(bool, AtomicUsize);

    impl Decider for Says {
        fn decide(&self, _: &Request, _: &Facts, _: Option<u32>) -> bool {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0
        }
    }

    fn side(profile: usize, says: bool) -> Side {
        Side { profile: Some(profile), decider: Some(Arc::new(Says(says, AtomicUsize::new(0)))) }
    }

    fn handler(order: Order, prefill: bool, encode: bool) -> DisaggProfileHandler {
        DisaggProfileHandler {
            order,
            decode: Some(DECODE),
            prefill: side(PREFILL, prefill),
            encode: side(ENCODE, encode),
            prefill_or_fail: order == Order::DecodeFirst,
        }
    }

    fn ran(candidate: u32) -> Option<Stage> {
        Some(Stage::Ran(ProfileRun { picked: vec![candidate], ..ProfileRun::default() }))
    }

    fn failed() -> Option<Stage> {
        Some(Stage::Failed(Refusal::all_filtered()))
    }

    /// A profile that ran, and its peer.
    type Ran = (usize, Option<u32>);

    /// Runs the handler to its end; profile `p` picks candidate `p + 10`, but for those that fail. The order of the runs, each with its peer.
    fn play(handler: &DisaggProfileHandler, fails: &[usize]) -> (Vec<Ran>, Result<Answer, Refusal>) {
        let mut staging = Staging::new(3);
        let mut order = Vec::new();
        loop {
            let next = staging.next(handler);
            if next.is_empty() {
                return (order, staging.answer(handler));
            }
            for p in next {
                order.push((p, staging.peer));
                staging.done[p] = if fails.contains(&p) { failed() } else { ran(p as u32 + 10) };
            }
        }
    }

    #[test]
    fn e2_decode_runs_then_prefill_beside_it() {
        let (order, answer) = play(&handler(Order::DecodeFirst, true, false), &[]);
        assert_eq!(order, [(DECODE, None), (PREFILL, Some(10))]);
        let answer = answer.expect("an answer");
        assert_eq!(
            (answer.primary, answer.others, answer.decision),
            (DECODE, vec![(PREFILL, Role::Prefill)], Some("prefill-decode"))
        );
    }

    #[test]
    fn e3_without_a_prefill_endpoint_the_request_is_refused_or_decoded_only() {
        let mut handler = handler(Order::DecodeFirst, true, false);
        let refusal = play(&handler, &[PREFILL]).1.expect_err("refused");
        assert_eq!((refusal.code, refusal.reason), (ErrorCode::ResourceExhausted, Some(DropReason::Saturated)));
        assert!(refusal.message.contains("prefill"), "{}", refusal.message);
        handler.prefill_or_fail = false;
        let answer = play(&handler, &[PREFILL]).1.expect("an answer");
        assert_eq!((answer.others, answer.decision), (vec![], Some("decode-only")));
    }

    #[test]
    fn e4_prefill_first_shows_decode_its_peer_and_does_without() {
        let handler = handler(Order::PrefillFirst, false, false);
        let (order, answer) = play(&handler, &[]);
        assert_eq!(order, [(PREFILL, None), (DECODE, Some(11))]);
        assert_eq!(answer.expect("an answer").decision, Some("prefill-decode"));
        let (order, answer) = play(&handler, &[PREFILL]);
        assert_eq!(order, [(PREFILL, None), (DECODE, None)]);
        assert_eq!(answer.expect("an answer").decision, Some("decode-only"));
    }

    #[test]
    fn e5_encode_comes_before_prefill_and_all_three_count() {
        let (order, answer) = play(&handler(Order::DecodeFirst, true, true), &[]);
        assert_eq!(order, [(DECODE, None), (ENCODE, None), (PREFILL, Some(10))]);
        let answer = answer.expect("an answer");
        assert_eq!(answer.decision, Some("encode-prefill-decode"));
        assert_eq!(answer.others, [(PREFILL, Role::Prefill), (ENCODE, Role::Encode)]);
        // A failed encode stage is left out.
        let answer = play(&handler(Order::DecodeFirst, true, true), &[ENCODE]).1.expect("an answer");
        assert_eq!(answer.decision, Some("prefill-decode"));
    }

    #[test]
    fn e6_a_decider_is_asked_once_and_a_stage_without_one_is_off() {
        let says = Arc::new(Says::default());
        let mut handler = handler(Order::DecodeFirst, true, false);
        handler.encode.decider = Some(says.clone());
        let (order, answer) = play(&handler, &[]);
        assert_eq!((order.len(), says.1.load(Ordering::Relaxed)), (2, 1));
        assert_eq!(answer.expect("an answer").decision, Some("prefill-decode"));
        handler.prefill.decider = None;
        assert_eq!(play(&handler, &[]).1.expect("an answer").decision, Some("decode-only"));
        handler.prefill.decider = Some(Arc::new(AlwaysDisaggPdDecider));
        assert_eq!(play(&handler, &[]).1.expect("an answer").decision, Some("prefill-decode"));
    }

    #[test]
    fn a_request_that_nobody_decodes_is_refused_with_what_its_profile_says() {
        for order in [Order::DecodeFirst, Order::PrefillFirst] {
            assert_eq!(play(&handler(order, true, true), &[DECODE]).1, Err(Refusal::all_filtered()));
        }
        let nobody = DisaggProfileHandler::default();
        assert!(play(&nobody, &[]).0.is_empty());
    }

    #[test]
    fn e9_stage_orders_have_many_spellings() {
        for name in ["", "decode", "Decode-First", "decode_first"] {
            assert_eq!(Order::named(name), Some(Order::DecodeFirst), "{name}");
        }
        for name in ["prefill", "Prefill_First", "PREFILLFIRST"] {
            assert_eq!(Order::named(name), Some(Order::PrefillFirst), "{name}");
        }
        assert_eq!(Order::named("encode-first"), None);
    }

    fn document(parameters: &str) -> String {
        format!(
            "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n- type: always-disagg-pd-decider\n\
             - {{type: disagg-profile-handler, parameters: {parameters}}}\nschedulingProfiles:\n\
             - {{name: decode, plugins: [{{pluginRef: queue-scorer}}]}}\n- {{name: prefill, plugins: [{{pluginRef: queue-scorer}}]}}\n"
        )
    }

    #[test]
    fn e9_what_cannot_be_meant_is_a_fault_at_its_place() {
        for (parameters, fault) in [
            ("{deciders: {prefill: nope}}", "no decider is named `nope`"),
            ("{deciders: {prefill: queue-scorer}}", "`queue-scorer` is a `queue-scorer`, and no decider"),
            ("{deciderPluginName: always-disagg-pd-decidr}", "did you mean `always-disagg-pd-decider`?"),
            ("{profiles: {decode: decode}, deciderPluginName: always-disagg-pd-decider}", "cannot be mixed"),
            ("{stageOrder: prefill-first, deciders: {prefill: always-disagg-pd-decider}}", "always runs"),
            ("{stageOrder: sideways}", "`stageOrder` must be"),
        ] {
            let faults = compiled(&document(parameters)).err().unwrap_or_default();
            assert!(faults.iter().any(|f| f.contains(fault)), "{parameters}: {faults:?}");
            assert!(faults.iter().all(|f| f.starts_with("6:")), "{parameters}: {faults:?}");
        }
    }

    #[test]
    fn both_forms_name_profiles_and_deciders() {
        for parameters in [
            "{}",
            "{stageOrder: Prefill_First}",
            "{deciders: {prefill: always-disagg-pd-decider}}",
            "{decodeProfile: decode, prefillProfile: prefill, deciderPluginName: always-disagg-pd-decider}",
            "{prefillDeciderPluginName: always-disagg-pd-decider, onPrefillUnavailable: local}",
        ] {
            assert!(compiled(&document(parameters)).is_ok(), "{parameters}");
        }
    }

    #[test]
    fn a_profile_that_never_runs_is_worth_a_warning() {
        let warnings = |parameters| compiled(&document(parameters)).expect("it compiles").1;
        let unreachable = |warnings: &[String]| warnings.iter().filter(|w| w.contains("is never run")).count();
        assert_eq!(unreachable(&warnings("{}")), 1);
        assert_eq!(unreachable(&warnings("{deciders: {prefill: always-disagg-pd-decider}}")), 0);
        assert_eq!(unreachable(&warnings("{stageOrder: prefill-first}")), 0);
        let renamed = warnings("{profiles: {decode: other}}");
        assert!(renamed.iter().any(|w| w.contains("no decode profile")), "{renamed:?}");
    }

    #[test]
    fn the_names_of_the_headers_are_those_of_the_sidecar() {
        assert_eq!((headers::PREFILLER, headers::ENCODERS), ("x-prefiller-host-port", "x-encoder-hosts-ports"));
    }
}
