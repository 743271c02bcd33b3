//! `pd-profile-handler` (deprecated): decode, and prefill beside it when the decider says yes.
//!
//! With `primaryPort` the request goes to that port of the decode endpoint, and `x-data-parallel-host-port` names the
//! endpoint itself. The prefill endpoint is told by `prefill-header-handler` only. A prefill stage that finds nobody is
//! left out. Source: disaggregation specification 2.3.

use super::{STAGE_PLUGINS, STAGES, nobody_decodes};
use crate::build::{Build, Instance};
use crate::row::{Kind, Need, PREFIX_PRODUCER, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_core::Refusal;
use pointsman_scheduling::{Answer, DataKind, Decider, Facts, ProfileHandler, Request, Role, Stages};
use std::sync::Arc;

/// Runs up to two profiles.
pub struct PdProfileHandler {
    decode: Option<usize>,
    prefill: Option<usize>,
    decider: Option<Arc<dyn Decider>>,
    port: Option<u16>,
}

impl ProfileHandler for PdProfileHandler {
    fn next(&self, stages: &mut Stages<'_>) {
        let Some(decode) = self.decode else { return };
        if !stages.evaluated(decode) {
            stages.next.push(decode);
            return;
        }
        let Some(target) = stages.pick(decode) else { return };
        let Some(prefill) = self.prefill.filter(|&p| !stages.evaluated(p)) else { return };
        if self.decider.as_ref().is_some_and(|d| d.decide(stages.request, stages.facts, Some(target))) {
            *stages.peer = Some(target);
            stages.next.push(prefill);
        } else {
            stages.decline(prefill);
        }
    }

    fn answer(&self, stages: &Stages<'_>) -> Result<Answer, Refusal> {
        let Some(decode) = self.decode.filter(|&d| stages.pick(d).is_some()) else {
            return Err(nobody_decodes(stages, self.decode));
        };
        let prefill = self.prefill.filter(|&p| stages.pick(p).is_some());
        Ok(Answer {
            primary: decode,
            others: prefill.map(|p| (p, Role::Prefill)).into_iter().collect(),
            port: self.port,
            decision: Some(if prefill.is_some() { "prefill-decode" } else { "decode-only" }),
        })
    }

    fn holds_enough(&self, request: &Request, facts: &Facts, candidate: u32) -> Option<bool> {
        self.decider.as_ref()?.holds_enough(request, facts, candidate)
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("decodeProfile", ParamKind::String, "Profile that picks who decodes.").default("\"decode\""),
        Param::new("prefillProfile", ParamKind::String, "Profile that picks who computes the prompt.")
            .default("\"prefill\""),
        Param::new("deciderPluginName", ParamKind::String, "Decider that is asked before the prefill profile runs.")
            .default("\"prefix-based-pd-decider\""),
        Param::new(
            "primaryPort",
            ParamKind::Integer { min: Some(0), max: Some(65535) },
            "Port that decode endpoints are reached at in place of their own; 0: their own.",
        )
        .default("0"),
        PREFIX_PRODUCER,
        Param::new("prefixPluginType", ParamKind::String, "Not used.").deprecated("it is ignored"),
        Param::new("prefixPluginName", ParamKind::String, "Not used.").deprecated("it is ignored"),
    ],
    needs: &[
        Need::named(DataKind::PrefixMatch, "prefixMatchInfoProducerName"),
        Need::required(DataKind::TokenizedPrompt),
    ],
    deprecated: Some("use `disagg-profile-handler`"),
    example_needs: STAGE_PLUGINS,
    example_profiles: STAGES,
    build: Some(build),
    ..Row::new(
        "pd-profile-handler",
        &[Kind::ProfileHandler],
        Stability::Beta,
        "Lets one engine compute the prompt and another one decode.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let params = b.params;
    let handler = PdProfileHandler {
        decode: b.profile(params.str("decodeProfile")),
        prefill: b.profile(params.str("prefillProfile")),
        decider: b.decider_in(params, "deciderPluginName"),
        port: u16::try_from(params.u64("primaryPort")).ok().filter(|&p| p > 0),
    };
    if handler.decode.is_none() {
        b.warning("decodeProfile", "there is no decode profile: every request will be refused");
    }
    let reach = [handler.decode, handler.prefill].into_iter().flatten().collect();
    Instance { handler: Some(Arc::new(handler)), reach: Some(reach), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deciders::always_disagg_pd_decider::AlwaysDisaggPdDecider;
    use crate::testing::Staging;
    use pointsman_scheduling::{ProfileRun, Stage};

    fn ran(candidate: u32) -> Option<Stage> {
        Some(Stage::Ran(ProfileRun { picked: vec![candidate], ..ProfileRun::default() }))
    }

    #[test]
    fn decode_runs_then_prefill_when_the_decider_says_yes() {
        let yes: Arc<dyn Decider> = Arc::new(AlwaysDisaggPdDecider);
        for (decider, prefills) in [(Some(yes), true), (None, false)] {
            let handler = PdProfileHandler { decode: Some(1), prefill: Some(0), decider, port: Some(8200) };
            let mut staging = Staging::new(2);
            assert_eq!(staging.next(&handler), [1]);
            staging.done[1] = ran(4);
            assert_eq!(staging.next(&handler), if prefills { vec![0] } else { vec![] });
            if prefills {
                assert_eq!(staging.peer, Some(4));
                staging.done[0] = ran(5);
            }
            assert!(staging.next(&handler).is_empty());
            let answer = staging.answer(&handler).expect("an answer");
            assert_eq!((answer.primary, answer.port), (1, Some(8200)));
            assert_eq!(answer.decision, Some(if prefills { "prefill-decode" } else { "decode-only" }));
            assert_eq!(answer.others.len(), usize::from(prefills));
        }
    }

    #[test]
    fn a_prefill_stage_that_finds_nobody_is_left_out() {
        let decider: Option<Arc<dyn Decider>> = Some(Arc::new(AlwaysDisaggPdDecider));
        let handler = PdProfileHandler { decode: Some(0), prefill: Some(1), decider, port: None };
        let mut staging = Staging::new(2);
        staging.done = vec![ran(0), Some(Stage::Failed(Refusal::all_filtered()))];
        assert_eq!(staging.answer(&handler).expect("an answer").decision, Some("decode-only"));
        staging.done = vec![Some(Stage::Failed(Refusal::all_filtered())), None];
        assert!(staging.next(&handler).is_empty());
        assert_eq!(staging.answer(&handler), Err(Refusal::all_filtered()));
    }
}
