//! Reading the engines' metrics, in turn and at equal intervals.

use std::time::Duration;

use pointsman_core::Nanos;

use super::run::Run;
use crate::BEGIN;
use crate::policy::Gauges;

impl Run<'_> {
    pub(super) fn interval(&self) -> Duration {
        self.options.scrape.max(Duration::from_millis(1))
    }

    /// The engine whose metrics are read by then, and with it the time of that. While nothing can have changed, all readings but the last of each engine are
    /// left out: they would say the same again.
    pub(super) fn scraped_before(&mut self, next: Nanos) -> Option<u32> {
        let interval = self.interval().as_nanos() as u64;
        let &(first, _) = self.scrapes.front()?;
        let turns = next.0.saturating_sub(first.0) / interval;
        if turns > 1 && self.changed.iter().all(|changed| !changed) {
            let left_out = (turns - 1) * interval;
            let readings = (turns - 1) as f64 * self.up.len() as f64;
            self.course.idle(first, Nanos(first.0 + left_out), readings);
            for (at, _) in &mut self.scrapes {
                at.0 += left_out;
            }
        }
        let (at, pod) = self.scrapes.pop_front_if(|(at, _)| *at <= next)?;
        self.now = at;
        self.scrapes.push_back((Nanos(at.0.saturating_add(interval)), pod));
        Some(pod)
    }

    pub(super) fn scrape(&mut self, pod: u32) {
        let at = pod as usize;
        if !self.alive[at] {
            return;
        }
        self.advance(at);
        let engine = &self.engines[at];
        self.gauges[at] =
            Gauges { waiting: engine.waiting(), running: engine.running(), kv_usage: engine.kv_usage(), at: self.now };
        if self.now > BEGIN {
            self.course.reading(self.now, engine.waiting(), engine.kv_usage());
        }
        self.changed[at] = engine.inside() > 0 || engine.held_blocks() > 0;
        self.policy.scraped(self.now, at, &self.engines[at]);
    }
}
