//! The handler loop: which profiles run, and whose picks are the answer (plugin specification 2.2).

use crate::{Cycle, Named, Profile, ProfileHandler, ProfileRun, Scope};
use pointsman_core::{Clock, ErrorCode, Refusal};

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
    /// Result of each profile that ran, by profile number, in declaration order.
    pub runs: Vec<(usize, ProfileRun)>,
    /// Number of the primary profile, or why there is none.
    pub primary: Result<usize, Refusal>,
}

impl Scheduled {
    /// The primary profile's run.
    #[must_use]
    pub fn primary_run(&self) -> Option<&ProfileRun> {
        let primary = *self.primary.as_ref().ok()?;
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
        let mut runs: Vec<Option<Result<ProfileRun, Refusal>>> = self.profiles.iter().map(|_| None).collect();
        let mut failed: Vec<(usize, ProfileRun)> = Vec::new();
        let mut next = Vec::with_capacity(1);
        // A handler that never stops asking is a bug; it must not hang a request.
        for _ in 0..2 * self.profiles.len() + 2 {
            next.clear();
            let then = clock.now();
            self.handler.next(cycle.request, &runs, &mut next);
            self.handler.timing.observe(clock.now().since(then).as_nanos() as f64 / 1e9);
            if next.is_empty() {
                break;
            }
            for &p in &next {
                let Some(profile) = self.profiles.get(p) else { continue };
                runs[p] = Some(match profile.run(cycle, scope, rng, clock) {
                    Ok(run) => Ok(run),
                    Err(refused) => {
                        let (refusal, run) = *refused;
                        failed.push((p, run));
                        Err(refusal)
                    }
                });
            }
        }
        let primary = if runs.iter().all(Option::is_none) {
            Err(Refusal::new(
                ErrorCode::ResourceExhausted,
                format!(
                    "failed to find target endpoint: failed to run any scheduler profile for request {}",
                    cycle.request.id
                ),
            ))
        } else {
            self.handler.primary(&runs)
        };
        let mut done: Vec<(usize, ProfileRun)> = runs
            .into_iter()
            .enumerate()
            .filter_map(|(p, r)| r.and_then(Result::ok).map(|r| (p, r)))
            .chain(failed)
            .collect();
        done.sort_by_key(|(p, _)| *p);
        Scheduled { runs: done, primary }
    }
}
