//! Engines that die and return in the middle of a run.

use pointsman_core::Nanos;
use pointsman_sim::Stats;

use super::outcome::{Ended, Sample};
use super::run::{Due, Run};
use crate::policy::Over;

impl Run<'_> {
    /// What ran in the engine is lost. Requests that had said nothing yet are placed again, as a gateway does.
    pub(super) fn die(&mut self, pod: u32) {
        let at = pod as usize;
        if !self.alive[at] {
            return;
        }
        self.advance(at);
        let inside: Vec<u32> = (0..self.samples.len())
            .filter(|n| {
                let sample = &self.samples[*n];
                sample.ended == Ended::Open && (sample.pod == pod || sample.prefill == Some(pod))
            })
            .map(|n| n as u32)
            .filter(|n| self.engines[at].cancel(u64::from(*n)))
            .collect();
        self.past[at] = self.stats(at);
        self.engines[at] = self.options.engine(at, crate::mix(self.seed ^ self.serial));
        self.alive[at] = false;
        self.scheduled[at] = None;
        self.changed[at] = false;
        self.push(self.now.plus(self.options.notice), Due::Noticed(pod));
        for number in inside {
            if self.samples[number as usize].first == Nanos(0) {
                self.again(number);
            } else {
                self.end(number, Ended::Broken, true);
            }
        }
    }

    /// A request whose engine is dead goes elsewhere.
    pub(super) fn again(&mut self, number: u32) {
        let Sample { pod, prefill, prompt, .. } = self.samples[number as usize];
        for met in prefill.into_iter().chain([pod]) {
            self.notice(met as usize);
        }
        self.release(number);
        self.policy.ended(self.now, number, &Over { complete: false, prompt, cached: 0, output: 0 });
        self.place(number);
    }

    /// From here on routers know.
    pub(super) fn notice(&mut self, pod: usize) {
        let before = self.up.len();
        if !self.alive[pod] {
            self.up.retain(|up| *up != pod);
        }
        if self.up.len() < before {
            self.policy.gone(pod);
        }
    }

    /// The engine is there again. Routers read its metrics at once.
    pub(super) fn live(&mut self, pod: u32) {
        let at = pod as usize;
        if self.alive[at] {
            return;
        }
        // Routers that had not noticed do now: its cache is empty.
        self.notice(at);
        self.alive[at] = true;
        self.up.push(at);
        self.up.sort_unstable();
        self.policy.back(at);
        self.scrape(pod);
    }

    /// Counters of all lives of an engine.
    pub(super) fn stats(&self, pod: usize) -> Stats {
        let (past, now) = (&self.past[pod], self.engines[pod].stats());
        Stats {
            prefix_queries: past.prefix_queries + now.prefix_queries,
            prefix_hits: past.prefix_hits + now.prefix_hits,
            preemptions: past.preemptions + now.preemptions,
            steps: past.steps + now.steps,
            generated: past.generated + now.generated,
        }
    }

    pub(super) fn preemptions(&self) -> u64 {
        (0..self.engines.len()).map(|pod| self.stats(pod).preemptions).sum()
    }
}
