//! `endpoint-notification-source`: endpoints that join and leave.
//!
//! Every plugin that keeps state of endpoints hears of those that leave in any case, so that binding one to this source changes nothing; it is
//! accepted because upstream needs it. What can be bound are plugins that keep state of endpoints: readers of pages cannot. Source: plugin specification
//! 12, request-lifecycle 8.2.

use super::source::Source;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new(
        "endpoint-notification-source",
        &[Kind::DataSource],
        Stability::Beta,
        "Tells plugins of endpoints that join and leave, which they hear of without it too.",
    )
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance { source: Some(Source::EndpointEvents), ..Instance::default() }
}
