//! The handler loop: which profiles run, and whose picks are the answer (plugin specification 2.2).

use crate::{Answer, Cycle, Named, Profile, ProfileHandler, ProfileRun, Scope, Stage, Stages};
use pointsman_core::{Clock, Refusal};

/// A compiled profile handler with its profiles.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// The handler.
    pub handler: Named<dyn ProfileHandler>,
    /// Profiles in declaration order.
    pub profiles: Vec<Profile>,
}

/// What scheduling one request did, whether or not it found an endpoint.
#[derive(Debug)]
pub struct Scheduled {
    /// Each profile that ran, by number, in declaration order.
    pub runs: Vec<(usize, ProfileRun)>,
    /// What they come to, or why to nothing.
    pub answer: Result<Answer, Refusal>,
}

impl Scheduled {
    /// The primary profile's run.
    #[must_use]
    pub fn primary_run(&self) -> Option<&ProfileRun> {
        let primary = self.answer.as_ref().ok()?.primary;
        self.runs.iter().find(|(p, _)| *p == primary).map(|(_, r)| r)
    }
}

impl Scheduler {
    /// Schedules one request among the candidates of `scope`.
    #[must_use]
    pub fn schedule(
        &self,
        cycle: &Cycle<'_>,
        scope: Scope<'_>,
        rng: &mut fastrand::Rng,
        clock: &dyn Clock,
    ) -> Scheduled {
        let mut done: Vec<Option<Stage>> = self.profiles.iter().map(|_| None).collect();
        let mut failed: Vec<(usize, ProfileRun)> = Vec::new();
        let mut next = Vec::with_capacity(1);
        let mut peer = cycle.peer;
        let (request, facts, candidates) = (cycle.request, cycle.facts, scope.all);
        // A handler that never stops asking is a bug; it must not hang a request.
        for _ in 0..2 * self.profiles.len() + 2 {
            next.clear();
            let then = clock.now();
            self.handler.next(&mut Stages {
                request,
                facts,
                candidates,
                done: &mut done,
                next: &mut next,
                peer: &mut peer,
            });
            self.handler.timing.lap(clock, then);
            if next.is_empty() {
                break;
            }
            let cycle = Cycle { peer, ..*cycle };
            for &p in &next {
                let Some(profile) = self.profiles.get(p) else { continue };
                done[p] = Some(match profile.run(&cycle, scope, rng, clock) {
                    Ok(run) => Stage::Ran(run),
                    Err(refused) => {
                        let (refusal, run) = *refused;
                        failed.push((p, run));
                        Stage::Failed(refusal)
                    }
                });
            }
        }
        next.clear();
        let answer = if done.iter().all(Option::is_none) {
            Err(self.handler.nothing_ran(request))
        } else {
            self.handler.answer(&Stages {
                request,
                facts,
                candidates,
                done: &mut done,
                next: &mut next,
                peer: &mut peer,
            })
        };
        let ran = |stage| match stage {
            Some(Stage::Ran(run)) => Some(run),
            _ => None,
        };
        let mut runs: Vec<(usize, ProfileRun)> = done
            .into_iter()
            .enumerate()
            .filter_map(|(p, stage)| ran(stage).map(|run| (p, run)))
            .chain(failed)
            .collect();
        runs.sort_by_key(|(p, _)| *p);
        Scheduled { runs, answer }
    }
}
