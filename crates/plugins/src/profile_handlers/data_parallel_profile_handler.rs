//! `data-parallel-profile-handler` (deprecated): runs the one profile, and sends requests to one port of the picked
//! endpoints.
//!
//! The request goes to `primaryPort` of the picked endpoint; `x-data-parallel-host-port` names the endpoint itself, so
//! that a proxy there can pass it on to the rank that was picked. 0 means that endpoints keep their own port, and
//! nothing is told. Source: disaggregation specification 2.4 and its `Wart:` line.

use super::single_profile_handler::SingleProfileHandler;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_core::Refusal;
use pointsman_scheduling::{Answer, ProfileHandler, Stages};
use std::sync::Arc;

/// Runs one profile, and names a port.
#[derive(Debug)]
pub struct DataParallelProfileHandler {
    port: Option<u16>,
}

impl ProfileHandler for DataParallelProfileHandler {
    fn next(&self, stages: &mut Stages<'_>) {
        SingleProfileHandler.next(stages);
    }

    fn answer(&self, stages: &Stages<'_>) -> Result<Answer, Refusal> {
        SingleProfileHandler.answer(stages).map(|answer| Answer { port: self.port, ..answer })
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[Param::new(
        "primaryPort",
        ParamKind::Integer { min: Some(0), max: Some(65535) },
        "Port that endpoints are reached at in place of their own; 0: their own.",
    )
    .default("8000")],
    deprecated: Some("use `single-profile-handler`, with an endpoint for each rank"),
    build: Some(build),
    ..Row::new(
        "data-parallel-profile-handler",
        &[Kind::ProfileHandler],
        Stability::Beta,
        "Sends requests to one port of the picked endpoints, and tells the rank in a header.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let port = u16::try_from(b.params.u64("primaryPort")).ok().filter(|&p| p > 0);
    if port.is_none() {
        b.warning("primaryPort", "with `primaryPort: 0` endpoints keep their own port");
    }
    let handler = DataParallelProfileHandler { port };
    Instance { handler: Some(Arc::new(handler)), single_profile: true, ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Staging;
    use pointsman_scheduling::{ProfileRun, Stage};

    #[test]
    fn the_profile_runs_once_and_the_port_is_told() {
        let mut staging = Staging::new(1);
        let handler = DataParallelProfileHandler { port: Some(8000) };
        assert_eq!(staging.next(&handler), [0]);
        staging.done[0] = Some(Stage::Failed(Refusal::all_filtered()));
        assert_eq!(staging.answer(&handler), Err(Refusal::all_filtered()));
        staging.done[0] = Some(Stage::Ran(ProfileRun::default()));
        assert_eq!(staging.answer(&handler), Ok(Answer { port: Some(8000), ..Answer::one(0) }));
    }
}
