//! What the gateway keeps for each endpoint.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::HeaderValue;
use hyper::client::conn::http1;
use parking_lot::Mutex;
use pointsman_fleet::{Endpoint, Fleet, FleetEvent};

use super::Kept;
use crate::ejection::Record;

/// The writing end of one HTTP/1.1 connection.
pub(crate) type Sender = http1::SendRequest<Kept>;

/// Idle connections kept per endpoint; what comes back beyond is closed.
const MAX_IDLE: usize = 512;

/// One endpoint's connections, headers and failures.
#[derive(Debug)]
pub(crate) struct Link {
    /// `host`.
    pub(crate) authority: HeaderValue,
    /// Its name, for `x-pointsman-endpoint`.
    pub(crate) name: HeaderValue,
    /// Its failures.
    pub(crate) record: Arc<Record>,
    idle: Mutex<Vec<(Sender, Instant)>>,
    keep: Duration,
}

impl Link {
    fn new(endpoint: &Endpoint, keep: Duration) -> Self {
        // Neither can hold anything else than visible characters when it comes from discovery; a name that does is shown empty.
        let value = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
        Self {
            authority: value(endpoint.host_port()),
            name: value(&endpoint.name().name),
            record: Arc::default(),
            idle: Mutex::default(),
            keep,
        }
    }

    /// A connection that was used before and is still open, the one used last first.
    pub(crate) fn take(&self) -> Option<Sender> {
        let mut idle = self.idle.lock();
        while let Some((sender, since)) = idle.pop() {
            if since.elapsed() > self.keep {
                // All others are older still.
                idle.clear();
                return None;
            }
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    /// Gives a connection back whose response was read to its end.
    pub(crate) fn give_back(self: &Arc<Self>, mut sender: Sender) {
        if sender.is_ready() {
            self.put(sender);
        } else if !sender.is_closed() {
            // Its task has yet to see the end of the exchange.
            let link = Arc::clone(self);
            tokio::spawn(async move {
                if sender.ready().await.is_ok() {
                    link.put(sender);
                }
            });
        }
    }

    fn put(&self, sender: Sender) {
        let mut idle = self.idle.lock();
        if idle.first().is_some_and(|(oldest, since)| oldest.is_closed() || since.elapsed() > self.keep) {
            idle.retain(|(sender, since)| !sender.is_closed() && since.elapsed() <= self.keep);
        }
        if idle.len() < MAX_IDLE {
            idle.push((sender, Instant::now()));
        }
    }

    fn close_idle(&self) {
        self.idle.lock().clear();
    }
}

/// The links of a fleet, found without a lock.
#[derive(Debug)]
pub(crate) struct Links {
    by_id: ArcSwap<HashMap<u64, Arc<Link>>>,
    keep: Duration,
}

impl Links {
    /// Links for a fleet; those of endpoints that leave are dropped with their connections.
    pub(crate) fn new(fleet: &Fleet, keep: Duration) -> Arc<Self> {
        let links = Arc::new(Self { by_id: ArcSwap::default(), keep });
        let weak = Arc::downgrade(&links);
        fleet.subscribe(Box::new(move |event| {
            let Some(links) = weak.upgrade() else { return };
            match event {
                FleetEvent::Added(_) => {}
                // It may be spoken to differently from now on.
                FleetEvent::Updated(endpoint) => {
                    if let Some(link) = links.by_id.load().get(&endpoint.id) {
                        link.close_idle();
                    }
                }
                FleetEvent::Removed(endpoint) => links.remove(endpoint),
            }
        }));
        links
    }

    /// The link of an endpoint.
    pub(crate) fn of(&self, endpoint: &Endpoint) -> Arc<Link> {
        if let Some(link) = self.by_id.load().get(&endpoint.id) {
            return Arc::clone(link);
        }
        let new = Arc::new(Link::new(endpoint, self.keep));
        if endpoint.left() {
            return new;
        }
        self.insert(endpoint, new)
    }

    fn insert(&self, endpoint: &Endpoint, new: Arc<Link>) -> Arc<Link> {
        let mut found = Arc::clone(&new);
        self.by_id.rcu(|map| {
            let mut map = HashMap::clone(map);
            found = Arc::clone(map.entry(endpoint.id).or_insert_with(|| Arc::clone(&new)));
            map
        });
        // Had it left before this, the news of it came too early to remove what was put in here.
        if endpoint.left() {
            self.remove(endpoint);
        }
        found
    }

    fn remove(&self, endpoint: &Endpoint) {
        self.by_id.rcu(|map| {
            let mut map = HashMap::clone(map);
            map.remove(&endpoint.id);
            map
        });
    }
}

#[cfg(test)]
mod tests {
    use pointsman_core::{EndpointName, ManualClock};
    use pointsman_fleet::EndpointMeta;

    use super::*;

    #[test]
    fn an_endpoint_that_leaves_while_its_link_is_made_leaves_none() {
        let fleet = Fleet::new(Arc::new(ManualClock::default()));
        let links = Links::new(&fleet, Duration::from_secs(60));
        let name = EndpointName::new("default", "e0");
        fleet.upsert(EndpointMeta::new(name.clone(), "127.0.0.1", 8000));
        let endpoint = Arc::clone(&fleet.snapshot().endpoints[0]);
        assert!(Arc::ptr_eq(&links.of(&endpoint), &links.of(&endpoint)));
        fleet.remove(&name);
        assert!(links.by_id.load().is_empty());
        // As if it had left right after it was looked at.
        links.insert(&endpoint, Arc::new(Link::new(&endpoint, links.keep)));
        assert!(links.by_id.load().is_empty());
    }
}
