//! `always-disagg-pd-decider`: another engine computes every prompt.
//!
//! Says yes always. Without parameters. Source: disaggregation specification 2.5.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_scheduling::{Decider, Facts, Request};
use std::sync::Arc;

/// Says yes.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysDisaggPdDecider;

impl Decider for AlwaysDisaggPdDecider {
    fn decide(&self, _: &Request, _: &Facts, _: Option<u32>) -> bool {
        true
    }
}

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new(
        "always-disagg-pd-decider",
        &[Kind::Decider],
        Stability::Beta,
        "Lets another engine compute every prompt.",
    )
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance { decider: Some(Arc::new(AlwaysDisaggPdDecider)), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_yes_whatever_is_known() {
        assert!(AlwaysDisaggPdDecider.decide(&Request::default(), &Facts::default(), None));
    }
}
