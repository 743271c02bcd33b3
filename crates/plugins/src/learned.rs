//! What plugins learn at run time, kept outside the compiled configuration so that a reload keeps it.

use parking_lot::Mutex;
use pointsman_fleet::{Endpoint, Snapshot};
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// Endpoints in a dump at most, as upstream has it.
pub const DUMPED: usize = 100;

/// State that outlives a configuration.
pub trait Learned: Any + Send + Sync {
    /// An endpoint has left the fleet: what is known of it goes at once.
    fn endpoint_left(&self, _endpoint: &Endpoint) {}
    /// Called about once a second, for whatever follows the engines slowly.
    fn refresh(&self, _fleet: &Snapshot) {}
    /// What is known, for a person: of at most [`DUMPED`] endpoints. `None` where there is nothing to see.
    fn dump(&self, _fleet: &Snapshot) -> Option<serde_json::Value> {
        None
    }
}

type Key = (&'static str, Arc<str>);

/// Learned state by plugin type and instance name.
#[derive(Default)]
pub struct LearnedStates(Mutex<HashMap<Key, Arc<dyn Learned>>>);

impl fmt::Debug for LearnedStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.lock().keys()).finish()
    }
}

impl LearnedStates {
    /// The state of an instance, made by `new` the first time it is asked for.
    pub fn of<T: Learned>(&self, type_name: &'static str, name: &Arc<str>, new: impl FnOnce() -> T) -> Arc<T> {
        let mut states = self.0.lock();
        let state = states.entry((type_name, Arc::clone(name))).or_insert_with(|| Arc::new(new()));
        let any: Arc<dyn Any + Send + Sync> = Arc::clone(state) as _;
        any.downcast().expect("one plugin type keeps one type of state")
    }

    /// Tells every state that an endpoint has left.
    pub fn endpoint_left(&self, endpoint: &Endpoint) {
        self.all().iter().for_each(|s| s.endpoint_left(endpoint));
    }

    /// Lets every state follow the fleet.
    pub fn refresh(&self, fleet: &Snapshot) {
        self.all().iter().for_each(|s| s.refresh(fleet));
    }

    /// Types and names of which something is kept.
    #[must_use]
    pub fn kept(&self) -> HashSet<(&'static str, Arc<str>)> {
        self.0.lock().keys().cloned().collect()
    }

    /// Lets go of what no longer has a plugin: `stays` says of which type and name it is kept.
    pub fn retain(&self, stays: impl Fn(&'static str, &str) -> bool) {
        self.0.lock().retain(|(type_name, name), _| stays(type_name, name));
    }

    /// What an instance has learned, for a person.
    #[must_use]
    pub fn dump(&self, type_name: &'static str, name: &Arc<str>, fleet: &Snapshot) -> Option<serde_json::Value> {
        let state = self.0.lock().get(&(type_name, Arc::clone(name))).cloned();
        state.and_then(|state| state.dump(fleet))
    }

    fn all(&self) -> Vec<Arc<dyn Learned>> {
        self.0.lock().values().cloned().collect()
    }
}
