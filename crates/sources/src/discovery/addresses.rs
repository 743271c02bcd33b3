//! Endpoints given as addresses on the command line.

use std::net::{Ipv4Addr, Ipv6Addr};

use pointsman_core::EndpointName;
use pointsman_fleet::{EndpointMeta, Scheme};

/// What is wrong with an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// An empty place in the list.
    #[error("an endpoint is missing between two commas")]
    Empty,
    /// Without a port, and no scheme that implies one.
    #[error("`{0}` has no port; write `{0}:8000`, say")]
    NoPort(String),
    /// The port is not one.
    #[error("`{address}`: `{port}` is not a port (1 to 65535)")]
    Port {
        /// The address as given.
        address: String,
        /// What stands for the port.
        port: String,
    },
    /// The host is none.
    #[error("`{address}`: `{host}` is neither an IP address nor a host name{hint}")]
    Host {
        /// The address as given.
        address: String,
        /// What stands for the host.
        host: String,
        /// A way out, where one is likely.
        hint: &'static str,
    },
    /// Another scheme than `http` and `https`.
    #[error("`{address}`: `{scheme}` is not supported; use http or https")]
    Scheme {
        /// The address as given.
        address: String,
        /// The scheme.
        scheme: String,
    },
    /// An endpoint is an address, not a page.
    #[error("`{0}` has a path; an endpoint is `host:port` only")]
    Path(String),
    /// Given twice.
    #[error("`{0}` is given twice")]
    Twice(String),
}

/// Endpoints of a list `host:port[,host:port...]`, each with `http://` or `https://` before it if wanted. An IPv6 address stands in brackets.
/// An endpoint is named by its `host:port`, in the namespace `default`.
///
/// # Errors
/// All faults of the list, in order.
pub fn endpoints_of(list: &str) -> Result<Vec<EndpointMeta>, Vec<AddressError>> {
    let (mut endpoints, mut faults) = (Vec::<EndpointMeta>::new(), Vec::new());
    for address in list.split(',').map(str::trim) {
        match endpoint_of(address) {
            Ok(meta) if endpoints.iter().any(|e| e.name == meta.name) => {
                faults.push(AddressError::Twice(meta.name.name.to_string()));
            }
            Ok(meta) => endpoints.push(meta),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(endpoints) } else { Err(faults) }
}

fn endpoint_of(address: &str) -> Result<EndpointMeta, AddressError> {
    if address.is_empty() {
        return Err(AddressError::Empty);
    }
    let (scheme, rest) = match address.split_once("://") {
        None => (None, address),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Some(Scheme::Http), rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Some(Scheme::Https), rest),
        Some((scheme, _)) => return Err(AddressError::Scheme { address: address.into(), scheme: scheme.into() }),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#']) {
        return Err(AddressError::Path(address.into()));
    }
    let (host, port) = split(rest);
    let port = match (port, scheme) {
        (Some(port), _) => {
            let number = port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse().ok()).flatten();
            let bad = || AddressError::Port { address: address.into(), port: port.into() };
            number.filter(|p: &u16| *p > 0).ok_or_else(bad)?
        }
        (None, Some(Scheme::Http)) => 80,
        (None, Some(Scheme::Https)) => 443,
        (None, None) => return Err(AddressError::NoPort(rest.into())),
    };
    let bad = |hint| AddressError::Host { address: address.into(), host: host.into(), hint };
    let bare = match host.strip_prefix('[').map(|h| h.strip_suffix(']')) {
        Some(inner) => inner.filter(|h| h.parse::<Ipv6Addr>().is_ok()).ok_or_else(|| bad(""))?,
        None if host.contains(':') => return Err(bad("; write an IPv6 address in brackets, `[::1]:8000`")),
        None if host.parse::<Ipv4Addr>().is_ok() || is_host_name(host) => host,
        None => return Err(bad("")),
    };
    let name = if bare.contains(':') { format!("[{bare}]:{port}") } else { format!("{bare}:{port}") };
    let mut meta = EndpointMeta::new(EndpointName::new("default", name), bare, port);
    meta.scheme = scheme.unwrap_or_default();
    Ok(meta)
}

/// Host and port at the last colon that is not inside brackets or part of a bare IPv6 address.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => (host, Some(port)),
        _ => (text, text.contains(':').then_some("1").filter(|_| !text.ends_with(']'))),
    }
}

/// Letters, digits, `-`, `_` in parts between dots; the last part is not a number, or a mistyped IPv4 address would pass.
fn is_host_name(text: &str) -> bool {
    let sound = |part: &str| {
        (1..=63).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && text.split('.').all(sound) && !last.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gives_host_port_scheme_and_a_name() {
        for (given, address, port, scheme, name) in [
            ("127.0.0.1:8000", "127.0.0.1", 8000, Scheme::Http, "127.0.0.1:8000"),
            ("http://engine-0.svc:8000/", "engine-0.svc", 8000, Scheme::Http, "engine-0.svc:8000"),
            ("https://engine_1", "engine_1", 443, Scheme::Https, "engine_1:443"),
            ("HTTP://localhost", "localhost", 80, Scheme::Http, "localhost:80"),
            ("[::1]:8000", "::1", 8000, Scheme::Http, "[::1]:8000"),
            ("https://[fd00::7]", "fd00::7", 443, Scheme::Https, "[fd00::7]:443"),
        ] {
            let metas = endpoints_of(given).unwrap_or_else(|e| panic!("{given}: {e:?}"));
            let meta = &metas[0];
            assert_eq!(
                (meta.address.as_str(), meta.port, meta.scheme, &*meta.name.name, &*meta.name.namespace),
                (address, port, scheme, name, "default"),
                "{given}"
            );
            assert_eq!(meta.host_port(), name);
        }
    }

    #[test]
    fn several_keep_their_order_and_every_fault_is_told() {
        let names =
            |list: &str| endpoints_of(list).map(|m| m.iter().map(|m| m.name.name.to_string()).collect::<Vec<_>>());
        assert_eq!(names("b:1, a:2,c:3"), Ok(vec!["b:1".into(), "a:2".into(), "c:3".into()]));
        assert_eq!(names("a:1,,b,a:1").map_err(|e| e.len()), Err(3));
    }

    #[test]
    fn faults_say_what_is_wrong_and_how_to_write_it() {
        for (given, want) in [
            ("", "an endpoint is missing between two commas"),
            ("engine", "`engine` has no port; write `engine:8000`, say"),
            ("[::1]", "`[::1]` has no port; write `[::1]:8000`, say"),
            ("a:0", "`a:0`: `0` is not a port (1 to 65535)"),
            ("a:65536", "`a:65536`: `65536` is not a port (1 to 65535)"),
            ("a:+80", "`a:+80`: `+80` is not a port (1 to 65535)"),
            ("a:", "`a:`: `` is not a port (1 to 65535)"),
            ("10.0.0.300:1", "`10.0.0.300:1`: `10.0.0.300` is neither an IP address nor a host name"),
            (":1", "`:1`: `` is neither an IP address nor a host name"),
            (
                "fd00::7:8000",
                "`fd00::7:8000`: `fd00::7:8000` is neither an IP address nor a host name; write an IPv6 address in brackets, `[::1]:8000`",
            ),
            ("[::g]:1", "`[::g]:1`: `[::g]` is neither an IP address nor a host name"),
            ("grpc://a:1", "`grpc://a:1`: `grpc` is not supported; use http or https"),
            ("http://a:1/v1", "`http://a:1/v1` has a path; an endpoint is `host:port` only"),
            ("a:1,a:1", "`a:1` is given twice"),
        ] {
            let faults = endpoints_of(given).expect_err(given);
            assert_eq!(faults[0].to_string(), want, "{given}");
        }
    }
}
