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

/// Runs the handler to its end; profile `p` picks candidate `p + 10`, but for those that fail. The order of the
/// runs, each with its peer.
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
