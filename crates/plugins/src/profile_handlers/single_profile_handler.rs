//! `single-profile-handler`: runs the one profile once. Source: plugin specification 8.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_core::{ErrorCode, Refusal};
use pointsman_scheduling::{Answer, ProfileHandler, Stage, Stages};
use std::sync::Arc;

/// Runs one profile.
#[derive(Debug)]
pub struct SingleProfileHandler;

impl ProfileHandler for SingleProfileHandler {
    fn next(&self, stages: &mut Stages<'_>) {
        stages.next.extend((0..stages.done.len()).filter(|&p| stages.done[p].is_none()));
    }

    fn answer(&self, stages: &Stages<'_>) -> Result<Answer, Refusal> {
        match &*stages.done {
            [Some(Stage::Ran(_))] => Ok(Answer::one(0)),
            [Some(Stage::Failed(refusal))] => Err(refusal.clone()),
            _ => Err(Refusal::new(ErrorCode::Internal, "single-profile-handler needs exactly one profile")),
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new(
        "single-profile-handler",
        &[Kind::ProfileHandler],
        Stability::Beta,
        "Runs the one scheduling profile once.",
    )
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance { handler: Some(Arc::new(SingleProfileHandler)), single_profile: true, ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Staging;
    use pointsman_scheduling::ProfileRun;

    #[test]
    fn the_profile_runs_once_and_its_refusal_is_the_answer() {
        let mut staging = Staging::new(1);
        assert_eq!(staging.next(&SingleProfileHandler), [0]);
        staging.done[0] = Some(Stage::Failed(Refusal::all_filtered()));
        assert!(staging.next(&SingleProfileHandler).is_empty());
        assert_eq!(staging.answer(&SingleProfileHandler), Err(Refusal::all_filtered()));
        staging.done[0] = Some(Stage::Ran(ProfileRun::default()));
        assert_eq!(staging.answer(&SingleProfileHandler), Ok(Answer::one(0)));
    }
}
