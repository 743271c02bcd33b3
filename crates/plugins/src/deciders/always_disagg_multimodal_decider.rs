//! `always-disagg-multimodal-decider`: another engine encodes the images, videos and sounds of every request that has
//! some.
//!
//! Says yes when the body holds at least one such item, in whatever shape its API gives it; no tokenizer is needed to
//! see them. Without parameters. Source: disaggregation specification 2.5 and its `Wart:` line.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Stability};
use pointsman_scheduling::{DataKind, Decider, Facts, Request};
use std::sync::Arc;

/// Says yes to requests with multimodal items.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysDisaggMultimodalDecider;

impl Decider for AlwaysDisaggMultimodalDecider {
    fn decide(&self, request: &Request, _: &Facts, _: Option<u32>) -> bool {
        !request.items.is_empty()
    }
}

/// Its row.
pub const ROW: Row = Row {
    needs: &[Need::required(DataKind::TokenizedPrompt)],
    build: Some(build),
    ..Row::new(
        "always-disagg-multimodal-decider",
        &[Kind::Decider],
        Stability::Beta,
        "Lets another engine encode the images, videos and sounds of a request.",
    )
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance { decider: Some(Arc::new(AlwaysDisaggMultimodalDecider)), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_scheduling::MediaItem;

    #[test]
    fn it_says_yes_to_requests_with_items_only() {
        let mut request = Request::default();
        let says = |request: &Request| AlwaysDisaggMultimodalDecider.decide(request, &Facts::default(), None);
        assert!(!says(&request));
        request.items.push(MediaItem { modality: "image".into(), hash: 1 });
        assert!(says(&request));
    }
}
