//! From the samples of one page to values.

use super::{Engine, Field};
use crate::data_layer::extractor::Missing;
use pointsman_fleet::{LoraInfo, Scraped};
use pointsman_wire::exposition::{Labels, Sample};
use std::borrow::Cow;
use std::sync::Arc;

/// One spec's samples, joined.
#[derive(Clone, Copy, Debug)]
struct Joined {
    value: f64,
    newest: Option<i64>,
}

/// One engine's adapters: the series with the largest value, which is a creation time.
#[derive(Debug)]
struct Adapters {
    engine: Option<String>,
    at: f64,
    max: Option<u32>,
    active: String,
    waiting: String,
}

/// The values of a page while it is read.
pub(super) struct Accumulated<'e> {
    engine: &'e Engine,
    joined: Vec<Option<Joined>>,
    adapters: Vec<Adapters>,
    block_size: Option<u64>,
    num_blocks: Option<u64>,
    errors: u32,
}

impl<'e> Accumulated<'e> {
    pub(super) fn new(engine: &'e Engine) -> Self {
        Self {
            engine,
            joined: vec![None; engine.fields.len()],
            adapters: Vec::new(),
            block_size: None,
            num_blocks: None,
            errors: 0,
        }
    }

    pub(super) fn sample(&mut self, sample: &Sample<'_>) {
        let Some(&field) = self.engine.fields.get(sample.index) else { return };
        match field {
            Field::Lora => self.lora(sample),
            Field::CacheInfo => self.cache_info(&sample.labels),
            _ if !sample.value.is_finite() => {}
            // Its spec can name a rank, or several.
            Field::Custom(_) => self.join(field, sample),
            _ if other_rank(&sample.labels) => {}
            _ => self.join(field, sample),
        }
    }

    fn join(&mut self, field: Field, sample: &Sample<'_>) {
        let new = Joined { value: sample.value, newest: sample.timestamp };
        let slot = &mut self.joined[sample.index];
        *slot = Some(match (*slot, new.newest) {
            (None, _) => new,
            // A time stamp says which series is current; only without any are they all.
            (Some(old), Some(at)) => {
                if old.newest.is_none_or(|t| at > t) {
                    new
                } else {
                    old
                }
            }
            (Some(old), None) if old.newest.is_some() => old,
            (Some(old), None) => Joined {
                value: match field {
                    Field::Waiting | Field::Running | Field::NumBlocks => old.value + new.value,
                    Field::Custom(_) => old.value,
                    _ => old.value.max(new.value),
                },
                newest: None,
            },
        });
    }

    fn lora(&mut self, sample: &Sample<'_>) {
        let label = |name: &str| sample.labels.get(name);
        let engine = label("engine");
        let at = if sample.value.is_nan() { f64::NEG_INFINITY } else { sample.value };
        let position = self.adapters.iter().position(|a| a.engine.as_deref() == engine.as_deref());
        if position.is_some_and(|p| at <= self.adapters[p].at) {
            return;
        }
        let max = label("max_lora").map(|text| text.trim().parse().map_err(|_| ()));
        let text = |name: &str| label(name).map(Cow::into_owned).unwrap_or_default();
        let new = Adapters {
            engine: engine.map(Cow::into_owned),
            at,
            max: max.and_then(Result::ok),
            active: text("running_lora_adapters"),
            waiting: text("waiting_lora_adapters"),
        };
        match position {
            Some(p) => self.adapters[p] = new,
            None if self.adapters.len() < 64 => self.adapters.push(new),
            None => {}
        }
    }

    fn cache_info(&mut self, labels: &Labels<'_>) {
        if other_rank(labels) {
            return;
        }
        for (name, value, sum) in [
            (&self.engine.block_size_label, &mut self.block_size, false),
            (&self.engine.num_blocks_label, &mut self.num_blocks, true),
        ] {
            let Some(text) = labels.get(name) else { continue };
            match text.trim().parse::<u64>() {
                Ok(new) => {
                    *value = Some(if sum { value.unwrap_or(0).saturating_add(new) } else { value.unwrap_or(new) })
                }
                Err(_) => self.errors += 1,
            }
        }
    }

    /// The values, how many could not be read, and which of the required ones.
    pub(super) fn finish(mut self) -> (Scraped, u32, Missing) {
        let pick = |field: Field| -> Option<f64> {
            let joined = self.engine.fields.iter().zip(&self.joined).filter(|(f, _)| **f == field);
            joined.filter_map(|(_, j)| *j).map(|j| j.value).next()
        };
        let whole = |field: Field| pick(field).filter(|v| *v >= 1.0).map(|v| v as u64);
        let attribute = |(n, key): (usize, &Arc<str>)| Some((Arc::clone(key), pick(Field::Custom(n))?));
        let mut scraped = Scraped {
            waiting: pick(Field::Waiting),
            running: pick(Field::Running),
            kv_usage: pick(Field::KvUsage),
            lora: None,
            block_size: self.block_size.or_else(|| whole(Field::BlockSize)),
            num_blocks: self.num_blocks.or_else(|| whole(Field::NumBlocks)),
            attributes: self.engine.attributes.iter().enumerate().filter_map(attribute).collect(),
        };
        self.errors += (self.engine.attributes.len() - scraped.attributes.len()) as u32;
        // An engine kind without a family for a signal does not miss it.
        let lacks = |field: Field, value: Option<f64>| value.is_none() && self.engine.fields.contains(&field);
        let missing = Missing {
            waiting: lacks(Field::Waiting, scraped.waiting),
            running: lacks(Field::Running, scraped.running),
            kv_usage: lacks(Field::KvUsage, scraped.kv_usage),
        };
        self.errors += [missing.waiting, missing.running, missing.kv_usage].map(u32::from).iter().sum::<u32>();
        if !self.adapters.is_empty() {
            self.errors += self.adapters.iter().filter(|a| a.max.is_none()).count() as u32;
            let max = self.adapters.iter().filter_map(|a| a.max).sum();
            let names = |list: fn(&Adapters) -> &str| -> Vec<Arc<str>> {
                let all = self.adapters.iter().flat_map(move |a| list(a).split(','));
                all.map(str::trim).filter(|n| !n.is_empty()).map(Arc::from).collect()
            };
            scraped.lora = Some(LoraInfo::new(max, names(|a| &a.active), names(|a| &a.waiting)));
        }
        (scraped, self.errors, missing)
    }
}

/// Whether a series is of a tensor- or pipeline-parallel rank other than 0: it repeats what rank 0 says.
fn other_rank(labels: &Labels<'_>) -> bool {
    ["tp_rank", "pp_rank"].iter().any(|name| labels.get(name).is_some_and(|rank| rank != "0"))
}
