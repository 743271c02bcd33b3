//! LoRA adapters of an engine.

use std::sync::Arc;

/// Which adapters an engine runs and which wait for a place (`vllm:lora_requests_info`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoraInfo {
    max_active: u32,
    active: Box<[Arc<str>]>,
    waiting: Box<[Arc<str>]>,
}

impl LoraInfo {
    /// From the adapters that run, those that wait, and how many may run at once (0: unknown). Names are sorted and
    /// made unique.
    pub fn new(
        max_active: u32,
        active: impl IntoIterator<Item = Arc<str>>,
        waiting: impl IntoIterator<Item = Arc<str>>,
    ) -> Self {
        Self { max_active, active: sorted(active), waiting: sorted(waiting) }
    }

    /// How many adapters may run at once (`max_lora`); 0 when the engine did not say.
    #[must_use]
    pub fn max_active(&self) -> u32 {
        self.max_active
    }

    /// Adapters that run, by name.
    #[must_use]
    pub fn active(&self) -> &[Arc<str>] {
        &self.active
    }

    /// Adapters that wait, by name.
    #[must_use]
    pub fn waiting(&self) -> &[Arc<str>] {
        &self.waiting
    }

    /// Whether the adapter runs.
    #[must_use]
    pub fn is_active(&self, adapter: &str) -> bool {
        has(&self.active, adapter)
    }

    /// Whether the adapter waits.
    #[must_use]
    pub fn is_waiting(&self, adapter: &str) -> bool {
        has(&self.waiting, adapter)
    }
}

fn sorted(names: impl IntoIterator<Item = Arc<str>>) -> Box<[Arc<str>]> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}

fn has(names: &[Arc<str>], wanted: &str) -> bool {
    names.binary_search_by(|name| (**name).cmp(wanted)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_sets() {
        let info = LoraInfo::new(2, ["b".into(), "a".into(), "b".into()], ["c".into()]);
        assert_eq!(info, LoraInfo::new(2, ["a".into(), "b".into()], ["c".into()]));
        assert!(info.is_active("a") && info.is_active("b") && !info.is_active("c"));
        assert!(info.is_waiting("c") && !info.is_waiting("a"));
        assert_eq!((info.max_active(), info.active().len(), info.waiting().len()), (2, 2, 1));
    }
}
