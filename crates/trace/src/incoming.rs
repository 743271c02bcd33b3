//! What a request says of the trace it is part of.

use crate::{SpanContext, baggage, state};

/// Header of the span that a request was sent by.
pub const TRACEPARENT: &str = "traceparent";
/// Header of what other tracing systems wish to know later.
pub const TRACESTATE: &str = "tracestate";
/// Header of what the client wishes everybody on the way to know.
pub const BAGGAGE: &str = "baggage";

/// The headers by which a trace travels. Where a request is traced, a transport replaces the client's copies of all three.
pub const HEADERS: [&str; 3] = [TRACEPARENT, TRACESTATE, BAGGAGE];

/// A header that travels on as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Carried {
    /// It was not there, or is not valid.
    #[default]
    None,
    /// The header at that place.
    At(usize),
    /// Several lines, made one.
    Joined(Box<str>),
}

impl Carried {
    /// The value, of the headers that were read.
    #[must_use]
    pub fn value<'a>(&'a self, headers: &'a [(Box<str>, Box<str>)]) -> Option<&'a str> {
        match self {
            Self::None => None,
            Self::At(place) => headers.get(*place).map(|(_, value)| &**value),
            Self::Joined(value) => Some(value),
        }
    }
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    /// The client's span. `None`: the trace begins here.
    pub parent: Option<SpanContext>,
    /// `tracestate`, which only means something beside a valid `traceparent`.
    pub state: Carried,
    /// `baggage`.
    pub baggage: Carried,
}

impl Incoming {
    /// Reads the headers of a request, whose names are in lower case. Two `traceparent`s are none: nobody can say which one is meant.
    #[must_use]
    pub fn read(headers: &[(Box<str>, Box<str>)]) -> Self {
        let mut parents = headers.iter().filter(|(name, _)| &**name == TRACEPARENT);
        let parent = match (parents.next(), parents.next()) {
            (Some((_, value)), None) => SpanContext::parse(value.trim()),
            _ => None,
        };
        let all = usize::MAX;
        let state =
            parent.map_or(Carried::None, |_| carried(headers, TRACESTATE, all, state::members, state::is_count));
        let count = |n: usize| (1..=baggage::MAX_MEMBERS).contains(&n);
        Self { parent, state, baggage: carried(headers, BAGGAGE, baggage::MAX_BYTES, baggage::members, count) }
    }
}

fn carried(
    headers: &[(Box<str>, Box<str>)],
    name: &str,
    longest: usize,
    members: impl Fn(&str) -> Option<usize>,
    is_count: impl Fn(usize) -> bool,
) -> Carried {
    let lines = || headers.iter().enumerate().filter(|(_, (n, _))| &**n == name).map(|(place, (_, v))| (place, &**v));
    let Some((first, _)) = lines().next() else { return Carried::None };
    let (mut count, mut bytes) = (0, 0);
    for (_, line) in lines() {
        let Some(more) = members(line) else { return Carried::None };
        count += more;
        bytes += line.len() + 1;
    }
    if !is_count(count) || bytes - 1 > longest {
        return Carried::None;
    }
    if lines().nth(1).is_none() {
        return Carried::At(first);
    }
    Carried::Joined(lines().map(|(_, line)| line).collect::<Vec<_>>().join(",").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(pairs: &[(&str, &str)]) -> Vec<(Box<str>, Box<str>)> {
        pairs.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect()
    }

    #[test]
    fn state_and_baggage_travel_on_as_they_came_and_lines_of_one_header_are_joined() {
        let h = headers(&[
            ("traceparent", PARENT),
            ("tracestate", "a=b"),
            ("baggage", "k=v"),
            ("x", "y"),
            ("baggage", "l=w"),
        ]);
        let read = Incoming::read(&h);
        assert_eq!(read.parent, SpanContext::parse(PARENT));
        assert_eq!(read.state, Carried::At(1));
        assert_eq!(read.state.value(&h), Some("a=b"));
        assert_eq!(read.baggage.value(&h), Some("k=v,l=w"));
    }

    #[test]
    fn an_invalid_or_second_traceparent_is_none_and_takes_the_state_with_it() {
        for parents in [&[("traceparent", "00-x")][..], &[("traceparent", PARENT), ("traceparent", PARENT)]] {
            let mut pairs = parents.to_vec();
            pairs.extend([("tracestate", "a=b"), ("baggage", "k=v")]);
            let h = headers(&pairs);
            let read = Incoming::read(&h);
            assert_eq!((read.parent, read.state), (None, Carried::None));
            assert_eq!(read.baggage.value(&h), Some("k=v"));
        }
    }

    #[test]
    fn what_is_not_valid_does_not_travel_on() {
        let h = headers(&[("traceparent", PARENT), ("tracestate", "nothing"), ("baggage", "k")]);
        let read = Incoming::read(&h);
        assert_eq!((read.state, read.baggage), (Carried::None, Carried::None));
        let long = format!("k={}", "v".repeat(8191));
        assert_eq!(Incoming::read(&headers(&[("baggage", &long)])).baggage, Carried::None);
    }
}
