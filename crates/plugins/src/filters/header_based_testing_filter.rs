//! `header-based-testing-filter`: keep the endpoints that a request header names; for conformance tests only.
//!
//! The header `test-epp-endpoint-selection` is a comma list of `IP` or `IP:port`, IPv6 with or without brackets. An entry without a port means all
//! ports of the address. Without the header, or with a blank one, nobody is left. Source: plugin specification 5.9 (its `Wart:` on several ports of one
//! address is decided as it recommends).

use crate::build::Instance;
use crate::row::{Kind, Row, Stability};
use pointsman_fleet::EndpointMeta;
use pointsman_scheduling::record::Reason;
use pointsman_scheduling::{Cycle, Filter, Scope};

/// The header.
pub const HEADER: &str = "test-epp-endpoint-selection";

/// Keeps what the header names.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeaderBasedTestingFilter;

impl Filter for HeaderBasedTestingFilter {
    fn filter(&self, cycle: &Cycle<'_>, scope: Scope<'_>, drop: &mut dyn FnMut(usize, Reason)) {
        let named = cycle.request.header(HEADER).unwrap_or_default();
        for (i, (_, candidate)) in scope.iter().enumerate() {
            if !named.split(',').any(|entry| names(entry.trim(), &candidate.endpoint.meta)) {
                drop(i, Reason::Text("the header test-epp-endpoint-selection does not name it"));
            }
        }
    }
}

fn names(entry: &str, endpoint: &EndpointMeta) -> bool {
    let bare = entry.strip_prefix('[').and_then(|e| e.strip_suffix(']')).unwrap_or(entry);
    bare == endpoint.address || entry == endpoint.host_port()
}

/// Its row.
pub const ROW: Row = Row {
    build: Some(|_| Instance::filter(HeaderBasedTestingFilter)),
    ..Row::new(
        "header-based-testing-filter",
        &[Kind::Filter],
        Stability::Beta,
        "Keeps the endpoints that the header `test-epp-endpoint-selection` names; for conformance tests only.",
    )
};

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_core::EndpointName;

    #[test]
    fn an_entry_names_an_address_or_one_port_of_it() {
        let four = EndpointMeta::new(EndpointName::new("default", "a"), "10.0.0.1", 8000);
        let six = EndpointMeta::new(EndpointName::new("default", "b"), "fd00::1", 8000);
        for (entry, is_four, is_six) in [
            ("10.0.0.1", true, false),
            ("10.0.0.1:8000", true, false),
            ("10.0.0.1:8001", false, false),
            ("fd00::1", false, true),
            ("[fd00::1]", false, true),
            ("[fd00::1]:8000", false, true),
            ("[fd00::1]:9", false, false),
            ("", false, false),
        ] {
            assert_eq!((names(entry, &four), names(entry, &six)), (is_four, is_six), "{entry}");
        }
    }
}
