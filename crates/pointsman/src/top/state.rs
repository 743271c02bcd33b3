//! What is shown, and what keys do to it.

use std::collections::HashSet;
use std::time::Instant;

use serde::Deserialize;

use crate::explain::Record;
use crate::failure::Failure;
use crate::status::Endpoint;

/// A page of decisions, newest first.
#[derive(Deserialize)]
pub(super) struct Page {
    pub(super) decisions: Vec<Record>,
}

/// What one look brought.
pub(super) struct Seen {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) decisions: Vec<Record>,
}

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Redraw,
    Hold,
    Order,
    Scroll(i32),
}

/// The order of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Joined,
    Waiting,
    KvCache,
    InFlight,
}

impl Order {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Joined => "as joined",
            Self::Waiting => "most waiting first",
            Self::KvCache => "fullest cache first",
            Self::InFlight => "most in flight first",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Joined => Self::Waiting,
            Self::Waiting => Self::KvCache,
            Self::KvCache => Self::InFlight,
            Self::InFlight => Self::Joined,
        }
    }
}

/// Everything the screen needs.
pub(super) struct Top {
    pub(super) address: String,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) decisions: Vec<Record>,
    /// Why the server is away, and since when.
    pub(super) away: Option<(String, Instant)>,
    /// Whether anything was ever seen.
    pub(super) met: bool,
    pub(super) held: bool,
    pub(super) order: Order,
    pub(super) scroll: usize,
    /// Decisions a second: at the last looks, when and how many were new. More than a page of new ones is told as "at least".
    new: Vec<(Instant, usize, bool)>,
}

/// Looks over which the rate is told.
const LOOKS: usize = 10;

impl Top {
    pub(super) fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            endpoints: Vec::new(),
            decisions: Vec::new(),
            away: None,
            met: false,
            held: false,
            order: Order::Joined,
            scroll: 0,
            new: Vec::new(),
        }
    }

    pub(super) fn saw(&mut self, seen: Result<Seen, Failure>) {
        match seen {
            Err(failure) => {
                if self.away.is_none() {
                    // Only what happened; what to do about it is in the words of the screen.
                    let why = failure.to_string().lines().take(2).map(str::trim).collect::<Vec<_>>().join(" ");
                    self.away = Some((why.replace("error: ", ""), Instant::now()));
                    self.new.clear();
                }
            }
            Ok(_) if self.held => self.away = None,
            Ok(seen) => {
                self.away = None;
                if self.met {
                    let known: HashSet<&str> = self.decisions.iter().map(|d| &*d.id).collect();
                    let new = seen.decisions.iter().filter(|d| !known.contains(&*d.id)).count();
                    let all_new = new > 0 && new == seen.decisions.len();
                    self.new.push((Instant::now(), new, all_new));
                    if self.new.len() > LOOKS {
                        self.new.remove(0);
                    }
                }
                self.met = true;
                (self.endpoints, self.decisions) = (seen.endpoints, seen.decisions);
                self.sort();
            }
        }
    }

    pub(super) fn press(&mut self, key: Key) {
        match key {
            Key::Hold => self.held = !self.held,
            Key::Order => {
                self.order = self.order.next();
                self.sort();
            }
            Key::Scroll(by) => {
                let last = self.endpoints.len().saturating_sub(1);
                self.scroll = self.scroll.saturating_add_signed(by as isize).min(last);
            }
            Key::Quit | Key::Redraw => {}
        }
    }

    fn sort(&mut self) {
        let by = |value: fn(&Endpoint) -> f64| move |a: &Endpoint, b: &Endpoint| value(b).total_cmp(&value(a));
        match self.order {
            // The next look brings them in this order.
            Order::Joined => {}
            Order::Waiting => self.endpoints.sort_by(by(|e| e.waiting.unwrap_or(-1.0))),
            Order::KvCache => self.endpoints.sort_by(by(|e| e.kv_cache_usage.unwrap_or(-1.0))),
            Order::InFlight => self.endpoints.sort_by(by(|e| e.in_flight as f64)),
        }
    }

    /// `12.0 requests/s`, once there were two looks.
    pub(super) fn rate(&self) -> Option<String> {
        let (first, last) = (self.new.first()?, self.new.last()?);
        let seconds = last.0.duration_since(first.0).as_secs_f64();
        let count: usize = self.new.iter().skip(1).map(|(_, n, _)| n).sum();
        let at_least = if self.new.iter().skip(1).any(|(.., all)| *all) { "at least " } else { "" };
        (seconds > 0.0).then(|| format!("{at_least}{:.1} requests/s", count as f64 / seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(waiting: &[f64], ids: &[&str]) -> Result<Seen, Failure> {
        let endpoint = |w: &f64| Endpoint { waiting: Some(*w), ready: true, ..Endpoint::default() };
        let decision = |id: &&str| Record { id: (*id).to_owned(), ..Record::default() };
        Ok(Seen { endpoints: waiting.iter().map(endpoint).collect(), decisions: ids.iter().map(decision).collect() })
    }

    #[test]
    fn a_server_that_goes_away_leaves_what_was_seen_and_is_found_again() {
        let mut top = Top::new("here");
        top.saw(seen(&[1.0], &["1"]));
        top.saw(Err(Failure::new("cannot reach it").why("refused").next("start it")));
        assert_eq!(
            (top.away.as_ref().map(|(why, _)| &**why), top.endpoints.len()),
            (Some("cannot reach it why:  refused"), 1)
        );
        top.saw(seen(&[1.0, 2.0], &["2", "1"]));
        assert!(top.away.is_none() && top.endpoints.len() == 2);
    }

    #[test]
    fn a_picture_that_is_held_stays_and_one_that_is_sorted_stays_sorted() {
        let mut top = Top::new("here");
        top.saw(seen(&[1.0, 3.0, 2.0], &["1"]));
        top.press(Key::Order);
        let waiting = |top: &Top| top.endpoints.iter().filter_map(|e| e.waiting).collect::<Vec<_>>();
        assert_eq!(waiting(&top), [3.0, 2.0, 1.0]);
        top.saw(seen(&[5.0, 6.0], &["1"]));
        assert_eq!(waiting(&top), [6.0, 5.0]);
        top.press(Key::Hold);
        top.saw(seen(&[9.0], &["1"]));
        assert_eq!(waiting(&top), [6.0, 5.0]);
    }

    #[test]
    fn scrolling_ends_at_the_last_endpoint() {
        let mut top = Top::new("here");
        top.press(Key::Scroll(5));
        assert_eq!(top.scroll, 0);
        top.saw(seen(&[1.0, 3.0, 2.0], &[]));
        top.press(Key::Scroll(50));
        assert_eq!(top.scroll, 2);
        top.press(Key::Scroll(-1));
        assert_eq!(top.scroll, 1);
    }
}
