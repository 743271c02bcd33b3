//! The loads that are measured, and what is wanted of each.

use std::time::Duration;

/// A load and its aims.
pub(super) struct Row {
    /// How `--only` names it.
    pub(super) name: &'static str,
    /// As the table shows it.
    pub(super) title: &'static str,
    /// Engines whose pages are read at the same time.
    pub(super) engines: u32,
    /// What is sent.
    pub(super) kind: Kind,
    /// What is wanted.
    pub(super) aims: &'static [(Figure, Aim)],
}

/// What a load sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// This many requests of this size at a time.
    Closed {
        /// Bytes of a body.
        size: usize,
        /// Requests under way.
        concurrency: usize,
    },
    /// Requests of this size at this rate.
    Open {
        /// Bytes of a body.
        size: usize,
        /// Per second.
        rate: u32,
    },
    /// Event streams.
    Events {
        /// Streams at the same time.
        streams: usize,
        /// Events per second of all together.
        rate: u32,
    },
    /// Nothing.
    Idle,
}

/// Events of one stream.
pub(super) const EVENTS: usize = 10_000;

/// Something measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// Requests (or events) per second.
    Rate,
    /// The same per second of processor time, which says what a processor of its own would do on a machine that others use too.
    RatePerCore,
    /// Last body byte to decision, median, ms.
    DecisionP50,
    /// The same, 95 in 100.
    DecisionP95,
    /// The same, 99 in 100.
    DecisionP99,
    /// Intended start to end of a request, 99 in 100, ms; of an event, its delay.
    TotalP99,
    /// Processor time per request, ms.
    Cpu,
    /// The same less what the idle server takes for its engines.
    CpuWithoutScraping,
    /// Processor time per event, microseconds.
    CpuPerEvent,
    /// Processors used.
    Cores,
    /// Pages fetched of those due.
    Pages,
    /// Most resident memory, MiB.
    Memory,
}

impl Figure {
    /// With its unit.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Rate => "per second",
            Self::RatePerCore => "per second of CPU",
            Self::DecisionP50 => "decision p50, ms",
            Self::DecisionP95 => "decision p95, ms",
            Self::DecisionP99 => "decision p99, ms",
            Self::TotalP99 => "start to end p99, ms",
            Self::Cpu => "CPU per request, ms",
            Self::CpuWithoutScraping => "the same without scraping, ms",
            Self::CpuPerEvent => "CPU per event, µs",
            Self::Cores => "cores",
            Self::Pages => "pages made / due",
            Self::Memory => "peak RSS, MiB",
        }
    }
}

/// What is wanted of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Aim {
    /// At least this share of the echo's.
    AtLeast(f64),
    /// At most this many times the echo's.
    AtMost(f64),
    /// Below this, whatever the echo's.
    Below(f64),
    /// At least this, whatever the echo's.
    From(f64),
}

impl Aim {
    /// Whether it is met by `own`, the echo having `echo`.
    pub(super) fn met(self, own: f64, echo: f64) -> bool {
        match self {
            Self::AtLeast(share) => own >= share * echo,
            Self::AtMost(times) => own <= times * echo,
            Self::Below(most) => own < most,
            Self::From(least) => own >= least,
        }
    }
}

const SMALL: usize = 1_024;
const LONG: usize = 220_000;

use Aim::{AtLeast, AtMost, Below, From};
use Figure::{Cores, Cpu, CpuPerEvent, DecisionP50, DecisionP99, Memory, Pages, RatePerCore, TotalP99};

/// All of them.
pub(super) const ROWS: [Row; 12] = [
    Row {
        name: "1k",
        title: "1 KB bodies, closed loop",
        engines: 10,
        kind: Kind::Closed { size: SMALL, concurrency: 32 },
        aims: &[(RatePerCore, AtLeast(0.8)), (Memory, Below(25.0))],
    },
    Row {
        name: "220k",
        title: "220 KB bodies, closed loop",
        engines: 10,
        kind: Kind::Closed { size: LONG, concurrency: 16 },
        aims: &[(RatePerCore, AtLeast(0.7)), (Memory, Below(40.0))],
    },
    Row {
        name: "220k-50",
        title: "220 KB bodies at 50/s",
        engines: 10,
        kind: Kind::Open { size: LONG, rate: 50 },
        aims: &[(DecisionP99, AtMost(2.0)), (Memory, Below(40.0))],
    },
    Row {
        name: "450k",
        title: "450 KB bodies at 10/s",
        engines: 10,
        kind: Kind::Open { size: 450_000, rate: 10 },
        aims: &[(Cpu, AtMost(1.5)), (Memory, Below(60.0))],
    },
    Row {
        name: "4m",
        title: "4.4 MB bodies at 1/s",
        engines: 10,
        kind: Kind::Open { size: 4_400_000, rate: 1 },
        aims: &[(Cpu, AtMost(1.5)), (DecisionP50, Below(2.0)), (Memory, Below(60.0))],
    },
    Row {
        name: "events",
        title: "streams of 10,000 events, 50,000 events/s",
        engines: 10,
        kind: Kind::Events { streams: 25, rate: 50_000 },
        aims: &[(CpuPerEvent, AtMost(1.2)), (TotalP99, AtMost(2.0))],
    },
    Row {
        name: "rate-10",
        title: "200 requests/s, 10 engines",
        engines: 10,
        kind: Kind::Open { size: SMALL, rate: 200 },
        aims: &[(Cores, AtMost(2.0))],
    },
    Row {
        name: "rate-100",
        title: "200 requests/s, 100 engines",
        engines: 100,
        kind: Kind::Open { size: SMALL, rate: 200 },
        aims: &[(Cores, AtMost(2.0))],
    },
    Row {
        name: "rate-500",
        title: "200 requests/s, 500 engines",
        engines: 500,
        kind: Kind::Open { size: SMALL, rate: 200 },
        aims: &[(Cores, AtMost(2.0)), (Memory, Below(60.0))],
    },
    Row {
        name: "idle-10",
        title: "idle, 10 engines",
        engines: 10,
        kind: Kind::Idle,
        aims: &[(Cores, AtMost(2.0)), (Pages, From(0.99))],
    },
    Row {
        name: "idle-100",
        title: "idle, 100 engines",
        engines: 100,
        kind: Kind::Idle,
        aims: &[(Cores, AtMost(2.0)), (Pages, From(0.99))],
    },
    Row {
        name: "idle-500",
        title: "idle, 500 engines",
        engines: 500,
        kind: Kind::Idle,
        aims: &[(Cores, AtMost(2.0)), (Pages, From(0.99)), (Memory, Below(60.0))],
    },
];

impl Kind {
    /// Bytes of a request's body.
    pub(super) fn size(self) -> usize {
        match self {
            Self::Closed { size, .. } | Self::Open { size, .. } => size,
            Self::Events { .. } | Self::Idle => SMALL,
        }
    }

    /// How long the load lasts, `usual` where nothing speaks for more.
    pub(super) fn time(self, usual: Duration) -> Duration {
        match self {
            // A few requests per second need longer for the same certainty.
            Self::Open { rate, .. } if rate < 20 => usual * 2,
            _ => usual,
        }
    }
}

/// What `--only` takes.
pub(super) fn names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(ROWS.iter().map(|row| row.name))
}
