//! Another configuration's profiles, scored on live traffic without effect: how often would they have chosen otherwise, and what would have come of it?
//!
//! They see the same candidates at the same moment, and read what the plugins of the configuration in force have learned, where type and name are the
//! same. What was said of the request by whoever held it back or read its headers they are told, too. None of their hooks run: nothing is charged, recorded or learned on their behalf. So what they predict for their own choice
//! is what was known at that moment, not what a fleet would look like that they had been steering all along.

use crate::pool::Pool;
use pointsman_config::Faults;
use pointsman_core::Nanos;
use pointsman_plugins::{Compiled, DefaultProfile, NamedPlugin};
use pointsman_scheduling::record::Shadowed;
use pointsman_scheduling::{Candidate, Cycle, Facts, PrefixMatch, Request, Scope};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Profiles that are scored beside those in force.
pub struct Shadow {
    /// What was compiled.
    pub compiled: Compiled,
    counts: Arc<Counts>,
}

impl std::fmt::Debug for Shadow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shadow").field("compiled", &self.compiled).finish_non_exhaustive()
    }
}

/// How the two choices compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    Same,
    Tied,
    Different,
    Nobody,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct By {
    agreement: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct At {
    choice: &'static str,
    signal: &'static str,
}

/// How the two choices compare; sums over all requests for which both found an endpoint.
pub(crate) struct Counts {
    decisions: Family<By, Counter>,
    sums: Family<At, Sum>,
    /// The decisions by [`Agreement`]; a request counts here, and looks nothing up.
    by: [Counter; 4],
    /// The sums by choice and signal.
    at: [[Sum; 4]; 2],
}

type Sum = Counter<f64, AtomicU64>;

/// In the order of [`Agreement`].
const AGREEMENTS: [&str; 4] = ["same", "tied", "different", "nobody"];
const CHOICES: [&str; 2] = ["live", "shadow"];
const SIGNALS: [&str; 4] = ["predicted_cached_tokens", "waiting", "running", "in_flight"];

impl Default for Counts {
    fn default() -> Self {
        let (decisions, sums) = (Family::<By, Counter>::default(), Family::<At, Sum>::default());
        let by = AGREEMENTS.map(|agreement| decisions.get_or_create_owned(&By { agreement }));
        let at = CHOICES.map(|choice| SIGNALS.map(|signal| sums.get_or_create_owned(&At { choice, signal })));
        Self { decisions, sums, by, at }
    }
}

impl Counts {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Decisions by whether the shadow profiles chose the same endpoint";
        registry.register("pointsman_shadow_decisions", help, self.decisions.clone());
        let help =
            "Sums over decisions of what was known of the endpoint chosen, live and in the shadow; unknown counts 0";
        registry.register("pointsman_shadow_chosen", help, self.sums.clone());
    }

    fn decided(&self, agreement: Agreement) {
        self.by[agreement as usize].inc();
    }
}

impl Shadow {
    /// Schedules the request once more, and compares. `live` is the candidate chosen, `cached` the prompt tokens it is believed to hold.
    pub(crate) fn compare(
        &self,
        pool: &Pool,
        (in_force, told): (&Compiled, &Facts),
        (request, all): (&Request, Scope<'_>),
        (now, seed): (Nanos, u64),
        (live, cached): (u32, u64),
    ) -> Shadowed {
        let mut facts = self.compiled.columns.facts();
        self.compiled.hear(in_force, told, &mut facts);
        self.compiled.producers.iter().for_each(|p| p.produce(request, all, now, &mut facts));
        let cycle = Cycle { request, facts: &facts, now, peer: None, seed, shadow: true };
        let mut rng = fastrand::Rng::with_seed(seed);
        let scheduled = self.compiled.scheduler.schedule(&cycle, all, &mut rng, &*pool.clock);
        let run = scheduled.primary_run().filter(|run| !run.picked.is_empty());
        let Some(run) = run else {
            self.counts.decided(Agreement::Nobody);
            return Shadowed { endpoint: None, differs: true };
        };
        let pick = run.picked[0];
        let agreement = match pick {
            _ if pick == live => Agreement::Same,
            _ if run.ties.contains(&live) => Agreement::Tied,
            _ => Agreement::Different,
        };
        self.counts.decided(agreement);
        let tokens = request.prompt_tokens();
        // Both choices are measured alike: by what the configuration in force knows, where it looks at prefixes.
        let known = told.any::<PrefixMatch>().or_else(|| facts.any());
        let held = known.and_then(|p| p.get(pick as usize)).map_or(0, |p| p.tokens(tokens));
        for (sums, (candidate, cached)) in self.counts.at.iter().zip([(live, cached), (pick, held)]) {
            let c: &Candidate<'_> = &all.all[candidate as usize];
            let values = [cached as f64, c.waiting().unwrap_or(0.0), c.running().unwrap_or(0.0), c.in_flight as f64];
            for (sum, value) in sums.iter().zip(values).filter(|(_, value)| *value > 0.0) {
                sum.inc_by(value);
            }
        }
        let endpoint = all.all[pick as usize].endpoint;
        Shadowed {
            endpoint: Some(Arc::clone(endpoint.meta.host_port_shared())),
            differs: agreement == Agreement::Different,
        }
    }
}

impl Pool {
    /// Scores the profiles of `document` on every request from now on, without effect. `None` when the document has faults; else
    /// the plugins of which nobody learns anything, since those in force have none of that type and name.
    pub fn shadow(
        &self,
        document: &[u8],
        allow_experimental: bool,
        default: DefaultProfile,
        faults: &mut Faults,
    ) -> Option<Vec<Arc<str>>> {
        let known = self.states.kept();
        let compiled = self.recompile(document, allow_experimental, default, faults)?;
        let begun = self.states.kept();
        let blind = |p: &&NamedPlugin| {
            let key = (p.type_name, Arc::clone(&p.name));
            !known.contains(&key) && begun.contains(&key)
        };
        let blind = compiled.plugins.iter().filter(blind).map(|p| Arc::clone(&p.name)).collect();
        self.shadow.store(Some(Arc::new(Shadow { compiled, counts: Arc::clone(&self.shadow_counts) })));
        Some(blind)
    }

    /// How often the shadow profiles would have chosen otherwise, and what was known of the endpoints; `None` without any.
    #[must_use]
    pub fn shadow_report(&self) -> Option<Value> {
        let shadow = self.shadow.load_full()?;
        let counts = &shadow.counts;
        let [same, tied, different, nobody] = counts.by.each_ref().map(Counter::get);
        let compared = same + tied + different;
        let all = compared + nobody;
        let share = |n: u64| if all == 0 { Value::Null } else { json!(n as f64 / all as f64) };
        let mean = |sums: &[Sum; 4]| {
            let of = |sum: &Sum| if compared == 0 { Value::Null } else { json!(sum.get() / compared as f64) };
            Value::Object(SIGNALS.into_iter().zip(sums).map(|(s, sum)| (s.to_owned(), of(sum))).collect())
        };
        let [live, shadowed] = counts.at.each_ref().map(mean);
        Some(json!({
            "decisions": all,
            "same": same, "tied": tied, "different": different, "nobody": nobody,
            "different_share": share(different),
            "mean": {"live": live, "shadow": shadowed},
            "config": shadow.compiled.effective,
        }))
    }
}
