//! `prefix-based-pd-decider`: another engine computes prompts of which the chosen one holds too little.
//!
//! With `t` tokens in the prompt, of which the decode endpoint is believed to hold `c`: yes when `t - c >=
//! nonCachedTokens`. No when `nonCachedTokens` is 0 (the decider is off), when no endpoint is chosen yet, when `t <
//! promptTokens` or `t < nonCachedTokens`, and when nothing is known of what the endpoint holds. A request with
//! `prefer: if-available` is refused (412) where the answer is yes. Source: disaggregation specification 2.5, 2.7 and
//! their `Wart:` lines.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, PREFIX_PRODUCER, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::{ColumnId, DataKind, Decider, Facts, PrefixMatch, Request};
use std::sync::Arc;

/// Says yes to prompts that are mostly unknown to the decode endpoint.
#[derive(Debug)]
pub struct PrefixBasedPdDecider {
    non_cached: u64,
    prompt: u64,
    matches: Option<ColumnId<PrefixMatch>>,
}

impl Decider for PrefixBasedPdDecider {
    fn decide(&self, _: &Request, facts: &Facts, candidate: Option<u32>) -> bool {
        let tokens = facts.tokens.unwrap_or(0);
        if self.non_cached == 0 || tokens < self.prompt.max(self.non_cached) {
            return false;
        }
        let known = self.matches.and_then(|id| facts.column(id));
        let Some(m) = candidate.and_then(|c| known?.get(c as usize)) else { return false };
        // The last block of a match may be padded: what is held can seem longer than the prompt.
        tokens - m.tokens(tokens) >= self.non_cached
    }

    fn holds_enough(&self, request: &Request, facts: &Facts, candidate: u32) -> Option<bool> {
        (self.non_cached > 0).then(|| !self.decide(request, facts, Some(candidate)))
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new(
            "nonCachedTokens",
            ParamKind::COUNT,
            "Tokens that the decode endpoint must lack for another one to compute the prompt; 0: never.",
        )
        .default("0"),
        Param::new("promptTokens", ParamKind::COUNT, "Tokens that a prompt must have for that.").default("0"),
        PREFIX_PRODUCER,
    ],
    needs: &[
        Need::named(DataKind::PrefixMatch, "prefixMatchInfoProducerName"),
        Need::required(DataKind::TokenizedPrompt),
    ],
    formula: "tokens - cached tokens >= nonCachedTokens",
    example: "{nonCachedTokens: 256}",
    build: Some(build),
    ..Row::new(
        "prefix-based-pd-decider",
        &[Kind::Decider],
        Stability::Beta,
        "Lets another engine compute prompts of which the decode endpoint holds too little.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let non_cached = b.params.u64("nonCachedTokens");
    if non_cached == 0 {
        b.warning("nonCachedTokens", "`nonCachedTokens: 0` means never: no prompt is computed by another engine");
    }
    let decider = PrefixBasedPdDecider {
        non_cached,
        prompt: b.params.u64("promptTokens"),
        matches: b.column("prefixMatchInfoProducerName"),
    };
    Instance { decider: Some(Arc::new(decider)), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_scheduling::Columns;
    use proptest::prelude::*;

    fn says(non_cached: u64, prompt: u64, tokens: u64, m: Option<PrefixMatch>, candidate: Option<u32>) -> bool {
        let mut columns = Columns::default();
        let id = columns.column::<PrefixMatch>();
        let mut facts = columns.facts();
        facts.tokens = Some(tokens).filter(|&t| t > 0);
        if let Some(m) = m {
            facts.fill(id, vec![m]);
        }
        let decider = PrefixBasedPdDecider { non_cached, prompt, matches: Some(id) };
        decider.decide(&Request::default(), &facts, candidate)
    }

    fn m(matched: u32, block_tokens: u32) -> PrefixMatch {
        PrefixMatch { matched, total: 1000, block_tokens }
    }

    #[test]
    fn the_table_of_the_specification_holds() {
        for (non_cached, prompt, tokens, matched, block, want) in [
            (512, 0, 4096, 240, 16, false),
            (256, 0, 4096, 240, 16, true),
            (16, 0, 15, 0, 16, false),
            (16, 0, 16, 0, 16, true),
            (16, 1024, 1000, 0, 16, false),
            (8, 0, 100, 7, 16, false),
            (0, 0, 100_000, 0, 16, false),
            (512, 0, 1000, 8, 64, false),
            (512, 0, 1000, 7, 64, true),
        ] {
            let says = says(non_cached, prompt, tokens, Some(m(matched, block)), Some(0));
            assert_eq!(says, want, "{non_cached} {prompt} {tokens} {matched}x{block}");
        }
    }

    #[test]
    fn without_an_endpoint_or_a_match_the_answer_is_no() {
        assert!(!says(16, 0, 4096, Some(m(0, 16)), None));
        assert!(!says(16, 0, 4096, None, Some(0)));
        assert!(!says(16, 0, 4096, Some(m(0, 16)), Some(9)));
        assert!(!says(16, 0, 0, Some(m(0, 16)), Some(0)));
    }

    proptest! {
        #[test]
        fn holding_more_never_turns_a_no_into_a_yes(
            non_cached in 0u64..5000, prompt in 0u64..5000, tokens in 0u64..10_000, less in 0u32..200, more in 0u32..200,
        ) {
            let (less, more) = (less.min(more), less.max(more));
            if says(non_cached, prompt, tokens, Some(m(more, 64)), Some(0)) {
                prop_assert!(says(non_cached, prompt, tokens, Some(m(less, 64)), Some(0)));
            }
        }
    }
}
