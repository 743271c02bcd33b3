//! What an engine says about itself: one field, one update time, readable without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use parking_lot::Mutex;
use pointsman_core::Nanos;

use crate::LoraInfo;

/// What one reading of an engine's metrics page gave. A field that the page lacked is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scraped {
    /// Requests that wait.
    pub waiting: Option<f64>,
    /// Requests that run.
    pub running: Option<f64>,
    /// Share of KV-cache blocks in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// LoRA adapters.
    pub lora: Option<LoraInfo>,
    /// Tokens per KV-cache block.
    pub block_size: Option<u64>,
    /// KV-cache blocks in all.
    pub num_blocks: Option<u64>,
    /// Further numbers, by [`attribute_key`].
    pub attributes: Vec<(Arc<str>, f64)>,
}

/// Key of a number about an endpoint: what it is called, and the instance name of the plugin that reads it (empty where that does not matter).
#[must_use]
pub fn attribute_key(name: &str, producer: &str) -> Arc<str> {
    format!("{name}/{producer}").into()
}

/// The load signals of one engine, read once per request and endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineView {
    /// Requests that wait; whole. 0 when unknown.
    pub waiting: f64,
    /// Requests that run; whole. 0 when unknown.
    pub running: f64,
    /// Share of KV-cache blocks in use, 0 to 1. 0 when unknown.
    pub kv_usage: f64,
    /// When `waiting` was last read; 0 = never.
    pub waiting_at: Nanos,
    /// When `running` was last read; 0 = never.
    pub running_at: Nanos,
    /// When `kv_usage` was last read; 0 = never.
    pub kv_usage_at: Nanos,
}

impl EngineView {
    /// Whether `waiting` was ever read.
    #[must_use]
    pub fn known_waiting(&self) -> bool {
        self.waiting_at.0 != 0
    }

    /// Whether `running` was ever read.
    #[must_use]
    pub fn known_running(&self) -> bool {
        self.running_at.0 != 0
    }

    /// Whether `kv_usage` was ever read.
    #[must_use]
    pub fn known_kv(&self) -> bool {
        self.kv_usage_at.0 != 0
    }

    /// When the known signal that is oldest was read; 0 when none is known.
    #[must_use]
    pub fn oldest(&self) -> Nanos {
        let known = [self.waiting_at, self.running_at, self.kv_usage_at].into_iter().filter(|at| at.0 != 0);
        known.min().unwrap_or_default()
    }

    /// Age of the known signal that is oldest; `None` when none is known.
    #[must_use]
    pub fn age(&self, now: Nanos) -> Option<Duration> {
        let oldest = self.oldest();
        (oldest.0 != 0).then(|| now.since(oldest))
    }
}

/// A number and when it was read. A reader may see a new value with the time of the one before: it is then fresher
/// than it looks.
#[derive(Debug, Default)]
struct Signal {
    bits: AtomicU64,
    at: AtomicU64,
}

impl Signal {
    fn write(&self, value: f64, now: Nanos) {
        self.bits.store(value.to_bits(), Ordering::Relaxed);
        self.at.store(now.0, Ordering::Release);
    }

    fn read(&self) -> (f64, Nanos) {
        let at = Nanos(self.at.load(Ordering::Acquire));
        (f64::from_bits(self.bits.load(Ordering::Relaxed)), at)
    }
}

/// A further number and its key.
type Attribute = (Arc<str>, Arc<Signal>);

/// State of one engine, written by the sources, read by every request.
#[derive(Debug)]
pub struct EngineState {
    waiting: Signal,
    running: Signal,
    kv_usage: Signal,
    lora: ArcSwap<LoraInfo>,
    lora_at: AtomicU64,
    block_size: AtomicU64,
    num_blocks: AtomicU64,
    scraped_at: AtomicU64,
    error: Mutex<Option<Arc<str>>>,
    /// Few, and in most fleets none. The list is replaced when one is read for the first time; known ones are written in place.
    attributes: ArcSwap<Vec<Attribute>>,
    models: ArcSwapOption<Vec<Arc<str>>>,
    engine: Mutex<Option<Arc<str>>>,
}

impl Default for EngineState {
    /// Nothing known.
    fn default() -> Self {
        Self {
            waiting: Signal::default(),
            running: Signal::default(),
            kv_usage: Signal::default(),
            lora: ArcSwap::from_pointee(LoraInfo::default()),
            lora_at: AtomicU64::new(0),
            block_size: AtomicU64::new(0),
            num_blocks: AtomicU64::new(0),
            scraped_at: AtomicU64::new(0),
            error: Mutex::new(None),
            attributes: ArcSwap::default(),
            models: ArcSwapOption::empty(),
            engine: Mutex::new(None),
        }
    }
}

impl EngineState {
    /// Takes over what was read, field by field, and tells whether anything was usable; only then does it count as a
    /// good scrape.
    ///
    /// Numbers that are not finite are ignored (the field ages), counts are truncated to whole
    /// requests, KV usage is held within 0 to 1. A page that told load but no LoRA clears the adapters: an engine that
    /// restarted without them must not keep attracting them.
    pub fn apply(&self, now: Nanos, scraped: &Scraped) -> bool {
        let now = Nanos(now.0.max(1));
        let mut load = false;
        for (signal, value, whole) in [
            (&self.waiting, scraped.waiting, true),
            (&self.running, scraped.running, true),
            (&self.kv_usage, scraped.kv_usage, false),
        ] {
            let Some(value) = value.filter(|v| v.is_finite()) else { continue };
            // `+ 0.0` turns the -0.0 that truncation can leave into 0.0.
            signal.write(if whole { value.trunc() } else { value.clamp(0.0, 1.0) } + 0.0, now);
            load = true;
        }
        let mut usable = load;
        if scraped.lora.is_some() || load {
            let said = scraped.lora.as_ref();
            let have = self.lora.load();
            if said.map_or(**have != LoraInfo::default(), |said| *said != **have) {
                self.lora.store(Arc::new(said.cloned().unwrap_or_default()));
            }
            if said.is_some() {
                self.lora_at.store(now.0, Ordering::Relaxed);
                usable = true;
            }
        }
        for (field, value) in [(&self.block_size, scraped.block_size), (&self.num_blocks, scraped.num_blocks)] {
            if let Some(value) = value {
                field.store(value, Ordering::Relaxed);
                usable = true;
            }
        }
        usable |= self.note(now, &scraped.attributes);
        if usable {
            self.scraped_at.store(now.0, Ordering::Release);
            let mut error = self.error.lock();
            if error.is_some() {
                *error = None;
            }
        }
        usable
    }

    /// Takes over further numbers, from a page that is not what the engine says of its load, and tells whether any was usable. `until`: up to when they are as new as
    /// they can be, which for a page that is fetched rarely is later than now.
    pub fn note(&self, until: Nanos, attributes: &[(Arc<str>, f64)]) -> bool {
        let until = Nanos(until.0.max(1));
        let mut usable = false;
        for (key, value) in attributes.iter().filter(|(_, value)| value.is_finite()) {
            self.signal(key).write(*value, until);
            usable = true;
        }
        usable
    }

    /// The place of a further number, made where there is none.
    fn signal(&self, key: &Arc<str>) -> Arc<Signal> {
        loop {
            let known = self.attributes.load();
            if let Some((_, signal)) = known.iter().find(|(known, _)| known == key) {
                return Arc::clone(signal);
            }
            let new = Arc::new(Signal::default());
            let grown: Vec<Attribute> = known.iter().cloned().chain([(Arc::clone(key), Arc::clone(&new))]).collect();
            let before = self.attributes.compare_and_swap(&known, Arc::new(grown));
            // Another source may have added one meanwhile.
            if Arc::ptr_eq(&before, &known) {
                return new;
            }
        }
    }

    /// Notes that a scrape failed. What was known stays and ages.
    pub fn fail(&self, error: impl Into<Arc<str>>) {
        *self.error.lock() = Some(error.into());
    }

    /// The load signals, now.
    #[must_use]
    pub fn view(&self) -> EngineView {
        let (waiting, waiting_at) = self.waiting.read();
        let (running, running_at) = self.running.read();
        let (kv_usage, kv_usage_at) = self.kv_usage.read();
        EngineView { waiting, running, kv_usage, waiting_at, running_at, kv_usage_at }
    }

    /// A further number by its [`attribute_key`], and when it was read (or until when it was as new as it can be).
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<(f64, Nanos)> {
        let known = self.attributes.load();
        let (_, signal) = known.iter().find(|(known, _)| **known == *key)?;
        // One that is being written for the first time is not known yet.
        Some(signal.read()).filter(|(_, at)| at.0 != 0)
    }

    /// LoRA adapters; empty when the engine told of none.
    pub fn lora(&self) -> Guard<Arc<LoraInfo>> {
        self.lora.load()
    }

    /// When the engine last told of LoRA adapters; 0 = never.
    #[must_use]
    pub fn lora_at(&self) -> Nanos {
        Nanos(self.lora_at.load(Ordering::Relaxed))
    }

    /// Tokens per KV-cache block; `None` when unknown.
    #[must_use]
    pub fn cache_block_size(&self) -> Option<u64> {
        Some(self.block_size.load(Ordering::Relaxed)).filter(|v| *v > 0)
    }

    /// KV-cache blocks in all; `None` when unknown.
    #[must_use]
    pub fn cache_num_blocks(&self) -> Option<u64> {
        Some(self.num_blocks.load(Ordering::Relaxed)).filter(|v| *v > 0)
    }

    /// When a scrape last gave anything usable; 0 = never.
    #[must_use]
    pub fn scraped_at(&self) -> Nanos {
        Nanos(self.scraped_at.load(Ordering::Acquire))
    }

    /// Why the last scrape failed; `None` after a good one.
    #[must_use]
    pub fn last_error(&self) -> Option<Arc<str>> {
        self.error.lock().clone()
    }

    /// The models that the engine lists; `None` when unknown.
    #[must_use]
    pub fn models(&self) -> Option<Arc<Vec<Arc<str>>>> {
        self.models.load_full()
    }

    /// Whether the engine lists a model; `None` when its list is unknown.
    #[must_use]
    pub fn serves(&self, model: &str) -> Option<bool> {
        self.models.load().as_ref().map(|models| models.iter().any(|have| **have == *model))
    }

    /// Takes over the list of models, in the engine's order; `None` makes it unknown.
    pub fn set_models(&self, models: Option<Vec<Arc<str>>>) {
        if self.models.load().as_deref() != models.as_ref() {
            self.models.store(models.map(Arc::new));
        }
    }

    /// Kind of engine (`vllm`, `sglang`, ...); `None` when not yet decided.
    #[must_use]
    pub fn engine(&self) -> Option<Arc<str>> {
        self.engine.lock().clone()
    }

    /// Names the kind of engine.
    pub fn set_engine(&self, kind: impl Into<Arc<str>>) {
        *self.engine.lock() = Some(kind.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(waiting: f64, running: f64, kv_usage: f64) -> Scraped {
        Scraped { waiting: Some(waiting), running: Some(running), kv_usage: Some(kv_usage), ..Scraped::default() }
    }

    #[test]
    fn an_engine_never_scraped_is_unknown_and_not_idle() {
        let view = EngineState::default().view();
        assert!(!view.known_waiting() && !view.known_running() && !view.known_kv());
        assert_eq!((view.oldest(), view.age(Nanos(99))), (Nanos(0), None));
    }

    #[test]
    fn counts_are_truncated_and_kv_usage_stays_within_one() {
        for (given, want) in [
            ((3.9, 2.0, 0.25), (3.0, 2.0, 0.25)),
            ((-4.0, -0.5, -0.1), (-4.0, 0.0, 0.0)),
            ((1e300, 0.0, 37.0), (1e300, 0.0, 1.0)),
        ] {
            let engine = EngineState::default();
            assert!(engine.apply(Nanos(5), &load(given.0, given.1, given.2)));
            let view = engine.view();
            assert_eq!((view.waiting, view.running, view.kv_usage), want);
            assert!(view.running.is_sign_positive());
        }
    }

    #[test]
    fn numbers_that_are_not_finite_leave_the_field_to_age() {
        let engine = EngineState::default();
        engine.apply(Nanos(5), &load(1.0, 2.0, 0.5));
        assert!(engine.apply(Nanos(9), &load(f64::NAN, 7.0, f64::INFINITY)));
        let view = engine.view();
        assert_eq!((view.waiting, view.running, view.kv_usage), (1.0, 7.0, 0.5));
        assert_eq!((view.waiting_at, view.running_at, view.kv_usage_at), (Nanos(5), Nanos(9), Nanos(5)));
        assert_eq!(view.age(Nanos(12)), Some(Duration::from_nanos(7)));
    }

    #[test]
    fn a_page_with_nothing_usable_is_not_a_good_scrape() {
        let engine = EngineState::default();
        engine.fail("connection refused");
        assert!(!engine.apply(Nanos(5), &Scraped { waiting: Some(f64::NAN), ..Scraped::default() }));
        assert_eq!((engine.scraped_at(), engine.last_error().as_deref()), (Nanos(0), Some("connection refused")));
        assert!(engine.apply(Nanos(6), &Scraped { waiting: Some(0.0), ..Scraped::default() }));
        assert_eq!((engine.scraped_at(), engine.last_error()), (Nanos(6), None));
        engine.fail("status 500");
        assert_eq!(engine.scraped_at(), Nanos(6));
        assert!(engine.view().known_waiting());
    }

    #[test]
    fn equal_adapters_are_not_stored_again() {
        let engine = EngineState::default();
        let lora = || Some(LoraInfo::new(4, ["a".into()], []));
        engine.apply(Nanos(5), &Scraped { lora: lora(), ..Scraped::default() });
        let first = Arc::clone(&engine.lora());
        engine.apply(Nanos(6), &Scraped { lora: lora(), ..Scraped::default() });
        assert!(Arc::ptr_eq(&first, &engine.lora()));
        assert_eq!(engine.lora_at(), Nanos(6));
    }

    #[test]
    fn adapters_go_when_the_family_disappears_from_a_good_page() {
        let engine = EngineState::default();
        let lora = Some(LoraInfo::new(4, ["a".into()], []));
        engine.apply(Nanos(5), &Scraped { lora, ..load(0.0, 0.0, 0.0) });
        engine.apply(Nanos(6), &Scraped::default());
        assert!(engine.lora().is_active("a"), "an empty page says nothing");
        engine.apply(Nanos(7), &load(0.0, 0.0, 0.0));
        assert_eq!(**engine.lora(), LoraInfo::default());
    }

    #[test]
    fn cache_configuration_stays_when_a_page_lacks_it() {
        let engine = EngineState::default();
        assert_eq!((engine.cache_block_size(), engine.cache_num_blocks()), (None, None));
        engine.apply(Nanos(5), &Scraped { block_size: Some(16), num_blocks: Some(27_280), ..Scraped::default() });
        engine.apply(Nanos(6), &load(0.0, 0.0, 0.0));
        assert_eq!((engine.cache_block_size(), engine.cache_num_blocks()), (Some(16), Some(27_280)));
    }

    #[test]
    fn an_unknown_model_list_is_not_an_empty_one() {
        let engine = EngineState::default();
        assert_eq!((engine.models(), engine.serves("m")), (None, None));
        engine.set_models(Some(vec!["m".into(), "m-lora".into()]));
        assert_eq!((engine.serves("m-lora"), engine.serves("x")), (Some(true), Some(false)));
        let first = engine.models().expect("just set");
        engine.set_models(Some(vec!["m".into(), "m-lora".into()]));
        assert!(Arc::ptr_eq(&first, &engine.models().expect("still set")));
        engine.set_models(Some(vec![]));
        assert_eq!(engine.serves("m"), Some(false));
        engine.set_models(None);
        assert_eq!(engine.serves("m"), None);
    }

    #[test]
    fn further_numbers_are_kept_by_key_and_are_no_word_of_the_engine() {
        let engine = EngineState::default();
        let (heat, cost) = (attribute_key("heat", "a"), attribute_key("cost", ""));
        engine.fail("connection refused");
        assert!(engine.note(Nanos(5), &[(Arc::clone(&heat), 0.5), (Arc::clone(&cost), f64::NAN)]));
        assert_eq!((engine.attribute("heat/a"), engine.attribute("cost/")), (Some((0.5, Nanos(5))), None));
        assert_eq!((engine.scraped_at(), engine.last_error().as_deref()), (Nanos(0), Some("connection refused")));
        assert!(engine.apply(Nanos(7), &Scraped { attributes: vec![(heat, 0.75)], ..Scraped::default() }));
        assert_eq!((engine.attribute("heat/a"), engine.last_error()), (Some((0.75, Nanos(7))), None));
    }

    #[test]
    fn a_known_number_is_renewed_in_place_and_a_reader_is_never_in_the_way() {
        let engine = EngineState::default();
        engine.note(Nanos(5), &[("heat/a".into(), 0.5)]);
        let reader = engine.attributes.load();
        engine.note(Nanos(6), &[("heat/a".into(), 0.75)]);
        assert!(Arc::ptr_eq(&reader, &engine.attributes.load()));
        engine.note(Nanos(7), &[("cost/".into(), 2.0)]);
        assert_eq!((reader.len(), engine.attributes.load().len()), (1, 2));
        assert_eq!(engine.attribute("heat/a"), Some((0.75, Nanos(6))));
    }

    #[test]
    fn sources_that_note_new_numbers_at_the_same_time_lose_none() {
        let engine = EngineState::default();
        let note = |source: usize| {
            for n in 0..50 {
                engine
                    .note(Nanos(1), &[(attribute_key(&n.to_string(), ""), 1.0), (format!("{source}/{n}").into(), 2.0)]);
            }
        };
        std::thread::scope(|threads| (0..4).for_each(|source| drop(threads.spawn(move || note(source)))));
        let (all, known) = (engine.attributes.load(), |key: &str| engine.attribute(key).is_some());
        assert_eq!(all.len(), 50 + 4 * 50);
        assert!(all.iter().all(|(key, _)| known(key)));
    }

    #[test]
    fn a_reading_at_time_zero_is_still_known() {
        let engine = EngineState::default();
        engine.apply(Nanos(0), &load(1.0, 1.0, 0.1));
        assert!(engine.view().known_waiting());
    }
}
