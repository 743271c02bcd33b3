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

/// Connections to one port of an endpoint, with its headers and failures. The failures are those of the endpoint, whatever the port.
#[derive(Debug)]
pub(crate) struct Link {
    /// `host`.
    pub(crate) authority: HeaderValue,
    /// Where its connections go.
    pub(crate) port: u16,
    /// Its name, for `x-pointsman-endpoint`.
    pub(crate) name: HeaderValue,
    /// Its failures.
    pub(crate) record: Arc<Record>,
    idle: Mutex<Vec<(Sender, Instant)>>,
    keep: Duration,
}

impl Link {
    fn new(endpoint: &Endpoint, port: Option<u16>, record: Arc<Record>, keep: Duration) -> Self {
        // Neither can hold anything else than visible characters when it comes from discovery; a name that does is shown empty.
        let value = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
        Self {
            authority: match port {
                None => value(endpoint.host_port()),
                Some(port) => value(&endpoint.meta.host_and(port)),
            },
            port: port.unwrap_or(endpoint.meta.port),
            name: value(&endpoint.name().name),
            record,
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

/// An endpoint's id, and the port in place of its own.
type Key = (u64, Option<u16>);

/// The links of a fleet, found without a lock.
#[derive(Debug)]
pub(crate) struct Links {
    by_id: ArcSwap<HashMap<Key, Arc<Link>>>,
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
                    links
                        .by_id
                        .load()
                        .iter()
                        .filter(|((id, _), _)| *id == endpoint.id)
                        .for_each(|(_, l)| l.close_idle());
                }
                FleetEvent::Removed(endpoint) => links.remove(endpoint),
            }
        }));
        links
    }

    /// The link of an endpoint, or of another port of it than its own.
    pub(crate) fn of(&self, endpoint: &Endpoint, port: Option<u16>) -> Arc<Link> {
        let port = port.filter(|port| *port != endpoint.meta.port);
        let key = (endpoint.id, port);
        if let Some(link) = self.by_id.load().get(&key) {
            return Arc::clone(link);
        }
        let record = port.map(|_| Arc::clone(&self.of(endpoint, None).record)).unwrap_or_default();
        let new = Arc::new(Link::new(endpoint, port, record, self.keep));
        if endpoint.left() {
            return new;
        }
        self.insert(endpoint, key, new)
    }

    fn insert(&self, endpoint: &Endpoint, key: Key, new: Arc<Link>) -> Arc<Link> {
        let mut found = Arc::clone(&new);
        self.by_id.rcu(|map| {
            let mut map = HashMap::clone(map);
            found = Arc::clone(map.entry(key).or_insert_with(|| Arc::clone(&new)));
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
            map.retain(|(id, _), _| *id != endpoint.id);
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
        assert!(Arc::ptr_eq(&links.of(&endpoint, None), &links.of(&endpoint, None)));
        links.of(&endpoint, Some(9000));
        fleet.remove(&name);
        assert!(links.by_id.load().is_empty());
        // As if it had left right after it was looked at.
        let link = Arc::new(Link::new(&endpoint, None, Arc::default(), links.keep));
        links.insert(&endpoint, (endpoint.id, None), link);
        assert!(links.by_id.load().is_empty());
    }

    #[test]
    fn another_port_has_connections_of_its_own_and_the_failures_of_its_endpoint() {
        let fleet = Fleet::new(Arc::new(ManualClock::default()));
        let links = Links::new(&fleet, Duration::from_secs(60));
        fleet.upsert(EndpointMeta::new(EndpointName::new("default", "e0"), "fd00::1", 8003));
        let endpoint = Arc::clone(&fleet.snapshot().endpoints[0]);
        let (own, front) = (links.of(&endpoint, None), links.of(&endpoint, Some(8000)));
        assert!(!Arc::ptr_eq(&own, &front) && Arc::ptr_eq(&own.record, &front.record));
        assert!(Arc::ptr_eq(&front, &links.of(&endpoint, Some(8000))));
        assert!(Arc::ptr_eq(&own, &links.of(&endpoint, Some(8003))), "its own port by its number");
        assert_eq!((own.port, own.authority.as_bytes()), (8003, &b"[fd00::1]:8003"[..]));
        assert_eq!((front.port, front.authority.as_bytes()), (8000, &b"[fd00::1]:8000"[..]));
    }
}
