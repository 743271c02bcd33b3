//! `single-profile-handler`: runs the one profile once. Source: plugin specification 8.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_core::{ErrorCode, Refusal};
use pointsman_scheduling::{ProfileHandler, ProfileRun, Request};
use std::sync::Arc;

/// Runs one profile.
#[derive(Debug)]
pub struct SingleProfileHandler;

impl ProfileHandler for SingleProfileHandler {
    fn next(&self, _: &Request, runs: &[Option<Result<ProfileRun, Refusal>>], next: &mut Vec<usize>) {
        next.extend((0..runs.len()).filter(|&p| runs[p].is_none()));
    }

    fn primary(&self, runs: &[Option<Result<ProfileRun, Refusal>>]) -> Result<usize, Refusal> {
        match runs {
            [Some(Ok(_))] => Ok(0),
            [Some(Err(refusal))] => Err(refusal.clone()),
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

    #[test]
    fn the_profile_runs_once_and_its_refusal_is_the_answer() {
        let mut next = Vec::new();
        SingleProfileHandler.next(&Request::default(), &[None], &mut next);
        assert_eq!(next, [0]);
        let refused = [Some(Err(Refusal::all_filtered()))];
        next.clear();
        SingleProfileHandler.next(&Request::default(), &refused, &mut next);
        assert!(next.is_empty());
        assert_eq!(SingleProfileHandler.primary(&refused), Err(Refusal::all_filtered()));
        assert_eq!(SingleProfileHandler.primary(&[Some(Ok(ProfileRun::default()))]), Ok(0));
    }
}
