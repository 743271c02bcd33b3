//! Which endpoint each session is bound to.
//!
//! A session is known by a keyed hash of its identifier: nothing that a client sends is kept, identifiers cost the same however long they are, and nobody can
//! make two of them meet. Bindings end when they were not used for their time to live, which is looked at whenever one is read or written, so that nothing
//! has to sweep. When there is no room, the one that was used least recently goes. An endpoint is known by its name: one that comes back under its name
//! gets its sessions back.

use crate::lru::Lru;
use parking_lot::Mutex;
use pointsman_core::{EndpointName, Nanos};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Parts with a lock each.
pub(super) const SHARDS: usize = 16;

/// How many bindings are kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Time without a request after which a binding ends.
    pub(super) ttl: Duration,
    /// Bindings at most; a multiple of [`SHARDS`], else the multiple below.
    pub(super) capacity: usize,
}

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Session(u128);

/// What a session is bound to.
#[derive(Debug)]
struct Binding {
    endpoint: EndpointName,
    seen: Nanos,
    /// The last request that did not find the endpoint among its candidates.
    missed_by: Option<u64>,
}

#[derive(Debug, Default)]
struct Shard {
    /// The latest time that anybody told.
    now: Nanos,
    bindings: Lru<Session, Binding>,
}

impl Shard {
    fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    fn expired(&self, binding: &Binding, ttl: Duration) -> bool {
        self.now.since(binding.seen) > ttl
    }

    fn bind(&mut self, session: Session, endpoint: EndpointName) {
        self.bindings.put(session, Binding { endpoint, seen: self.now, missed_by: None });
    }

    /// Lets go of what has expired, and of what there is no room for.
    fn trim(&mut self, limits: Limits) {
        let room = (limits.capacity / SHARDS).max(1);
        while let Some(oldest) = self.bindings.oldest() {
            let expired = self.bindings.get(&oldest).is_none_or(|b| self.expired(b, limits.ttl));
            if !expired && self.bindings.len() <= room {
                break;
            }
            self.bindings.remove(&oldest);
        }
    }
}

/// All bindings of one plugin instance.
#[derive(Debug)]
pub(super) struct Sessions {
    keys: [RandomState; 2],
    shards: [Mutex<Shard>; SHARDS],
}

impl Default for Sessions {
    fn default() -> Self {
        Self { keys: [RandomState::new(), RandomState::new()], shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Sessions {
    /// The session of that identifier.
    pub(super) fn session(&self, identifier: &str) -> Session {
        let [high, low] = self.keys.each_ref().map(|key| u128::from(key.hash_one(identifier)));
        Session(high << 64 | low)
    }

    fn shard(&self, session: Session) -> &Mutex<Shard> {
        &self.shards[session.0 as usize % SHARDS]
    }

    /// Where `place` finds the endpoint that a session is bound to, without a trace.
    pub(super) fn look(
        &self,
        session: Session,
        now: Nanos,
        ttl: Duration,
        place: impl FnOnce(&EndpointName) -> Option<usize>,
    ) -> Option<usize> {
        let shard = &*self.shard(session).lock();
        let binding = shard.bindings.get(&session)?;
        if now.max(shard.now).since(binding.seen) > ttl { None } else { place(&binding.endpoint) }
    }

    /// The same for `request`. That it did not find the endpoint there is remembered: it may bind the session anew.
    pub(super) fn find(
        &self,
        session: Session,
        request: u64,
        now: Nanos,
        ttl: Duration,
        place: impl FnOnce(&EndpointName) -> Option<usize>,
    ) -> Option<usize> {
        let shard = &mut *self.shard(session).lock();
        shard.advance(now);
        let expired = shard.bindings.get(&session).is_some_and(|b| shard.expired(b, ttl));
        if expired {
            shard.bindings.remove(&session);
        }
        let binding = shard.bindings.get_mut(&session)?;
        let found = place(&binding.endpoint);
        match found {
            None => binding.missed_by = Some(request),
            Some(_) if binding.missed_by == Some(request) => binding.missed_by = None,
            Some(_) => {}
        }
        found
    }

    /// A request of the session goes to `endpoint`: binds it when it is bound to none, or to one that this request missed. `true` when it was bound anew.
    pub(super) fn chosen(
        &self,
        session: Session,
        request: u64,
        received: Nanos,
        endpoint: &EndpointName,
        limits: Limits,
    ) -> bool {
        let shard = &mut *self.shard(session).lock();
        shard.advance(received);
        let bound = shard.bindings.get(&session).filter(|b| !shard.expired(b, limits.ttl));
        let (same, free) = match bound {
            Some(binding) => (binding.endpoint == *endpoint, binding.missed_by == Some(request)),
            None => (false, true),
        };
        if same || free {
            shard.bind(session, endpoint.clone());
            shard.trim(limits);
        }
        free && !same
    }

    /// Ends a binding that did not serve.
    pub(super) fn unbind(&self, session: Session, endpoint: &EndpointName) {
        let shard = &mut *self.shard(session).lock();
        if shard.bindings.get(&session).is_some_and(|b| b.endpoint == *endpoint) {
            shard.bindings.remove(&session);
        }
    }

    /// How many sessions each endpoint has, in the order of names.
    pub(super) fn by_endpoint(&self) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        for shard in &self.shards {
            for (_, binding) in shard.lock().bindings.iter() {
                *all.entry(binding.endpoint.to_string()).or_default() += 1;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { ttl: Duration::from_secs(300), capacity: 160 };

    fn second(s: u64) -> Nanos {
        Nanos(s * 1_000_000_000)
    }

    fn name(name: &str) -> EndpointName {
        EndpointName::new("default", name)
    }

    /// Which endpoint a session is bound to, as a request sees it that has all of them as candidates.
    fn bound(sessions: &Sessions, session: Session, now: Nanos) -> Option<String> {
        let mut found = None;
        sessions.find(session, 0, now, LIMITS.ttl, |endpoint| {
            found = Some(endpoint.name.to_string());
            Some(0)
        });
        found
    }

    #[test]
    fn a_session_is_bound_by_its_first_request_and_keeps_its_endpoint() {
        let sessions = Sessions::default();
        let s = sessions.session("alice");
        assert_eq!(bound(&sessions, s, second(1)), None);
        assert!(sessions.chosen(s, 1, second(1), &name("a"), LIMITS));
        assert_eq!(bound(&sessions, s, second(2)).as_deref(), Some("a"));
        assert!(!sessions.chosen(s, 2, second(2), &name("b"), LIMITS), "bound elsewhere, and it was there");
        assert_eq!(bound(&sessions, s, second(3)).as_deref(), Some("a"));
        assert_eq!(bound(&sessions, sessions.session("bob"), second(3)), None);
    }

    #[test]
    fn only_a_request_that_missed_the_endpoint_binds_anew() {
        let sessions = Sessions::default();
        let s = sessions.session("alice");
        sessions.chosen(s, 1, second(1), &name("a"), LIMITS);
        assert_eq!(sessions.find(s, 2, second(2), LIMITS.ttl, |_| None), None);
        assert!(!sessions.chosen(s, 3, second(2), &name("c"), LIMITS), "another request");
        assert!(sessions.chosen(s, 2, second(2), &name("b"), LIMITS));
        assert_eq!(bound(&sessions, s, second(3)).as_deref(), Some("b"));
        assert!(!sessions.chosen(s, 2, second(3), &name("c"), LIMITS), "it did so once");
    }

    #[test]
    fn a_request_that_finds_the_endpoint_later_did_not_miss_it() {
        let sessions = Sessions::default();
        let s = sessions.session("alice");
        sessions.chosen(s, 1, second(1), &name("a"), LIMITS);
        sessions.find(s, 2, second(2), LIMITS.ttl, |_| None);
        sessions.find(s, 2, second(2), LIMITS.ttl, |_| Some(0));
        assert!(!sessions.chosen(s, 2, second(2), &name("b"), LIMITS));
    }

    #[test]
    fn a_binding_ends_when_it_was_not_used_for_its_time_to_live() {
        let sessions = Sessions::default();
        let s = sessions.session("alice");
        sessions.chosen(s, 1, second(1), &name("a"), LIMITS);
        assert!(bound(&sessions, s, second(301)).is_some(), "at the limit");
        sessions.chosen(s, 2, second(301), &name("a"), LIMITS);
        assert!(bound(&sessions, s, second(601)).is_some(), "used in between");
        assert_eq!(bound(&sessions, s, second(602)), None);
        assert!(sessions.by_endpoint().is_empty(), "and it is gone");
    }

    #[test]
    fn a_binding_is_undone_where_the_endpoint_did_not_serve() {
        let sessions = Sessions::default();
        let s = sessions.session("alice");
        sessions.chosen(s, 1, second(1), &name("a"), LIMITS);
        sessions.unbind(s, &name("b"));
        assert!(bound(&sessions, s, second(2)).is_some());
        sessions.unbind(s, &name("a"));
        assert_eq!(bound(&sessions, s, second(2)), None);
    }

    proptest! {
        #[test]
        fn never_more_than_fit_and_the_last_ones_stay(identifiers in prop::collection::vec("[a-z]{1,6}", 1..400)) {
            let sessions = Sessions::default();
            for (i, identifier) in identifiers.iter().enumerate() {
                let session = sessions.session(identifier);
                sessions.chosen(session, i as u64, second(1), &name("a"), LIMITS);
                prop_assert!(bound(&sessions, session, second(1)).is_some());
                let kept: usize = sessions.by_endpoint().values().sum();
                prop_assert!(kept <= LIMITS.capacity);
            }
        }
    }
}
