//! Who may ask, and who may change things.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{Method, StatusCode};

/// The rules that every request to the listener must pass.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Names and addresses that `Host` may have besides `localhost`, the loopback addresses and the address listened on. A port is ignored.
    pub allowed_hosts: Vec<String>,
    /// Token that must come as `Authorization: Bearer`; `None`: nobody is asked for one.
    pub token: Option<String>,
    /// Nothing can be changed.
    pub read_only: bool,
}

/// Why a request is turned away.
#[derive(Debug, PartialEq, Eq)]
pub struct Denied {
    /// 400, 401, 403.
    pub status: StatusCode,
    /// What to do about it.
    pub message: String,
}

fn denied(status: StatusCode, message: impl Into<String>) -> Denied {
    Denied { status, message: message.into() }
}

impl Guard {
    /// Whether a request that arrived on `listen` may be answered.
    ///
    /// # Errors
    /// 400 without a usable `Host`, 403 for a `Host` or an `Origin` that is not ours or a change in read-only mode, 401 without the token.
    pub fn admit(&self, listen: SocketAddr, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Denied> {
        let host = single(headers, HOST.as_str()).and_then(|text| text.parse::<Authority>().ok());
        let Some(host) = host else {
            return Err(denied(StatusCode::BAD_REQUEST, "one Host header is needed"));
        };
        if !self.answers_to(listen, host.host()) {
            let message =
                format!("Host {} is not one of ours; allow it with --admin-allowed-host", clipped(host.host()));
            return Err(denied(StatusCode::FORBIDDEN, message));
        }
        let foreign = headers.get_all(ORIGIN).iter().any(|origin| !same_origin(origin.to_str().unwrap_or(""), &host));
        let cross_site = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site");
        if foreign || (cross_site && *method != Method::GET) {
            return Err(denied(StatusCode::FORBIDDEN, "requests from other sites' pages are not answered"));
        }
        if !is_public(path) && !self.has_token(headers) {
            return Err(denied(StatusCode::UNAUTHORIZED, "the admin token is needed: Authorization: Bearer <token>"));
        }
        if self.read_only && *method != Method::GET && *method != Method::HEAD && !only_asks(path) {
            return Err(denied(StatusCode::FORBIDDEN, "this listener is read-only (--admin-read-only)"));
        }
        Ok(())
    }

    fn answers_to(&self, listen: SocketAddr, host: &str) -> bool {
        let bare = bare(host);
        if bare.eq_ignore_ascii_case("localhost") {
            return true;
        }
        if let Ok(address) = bare.parse::<IpAddr>() {
            // A page can rebind its own name, never somebody's address. So where all addresses are listened on, all are ours.
            let ours = listen.ip();
            if address.is_loopback() || address == ours || ours.is_unspecified() {
                return true;
            }
        }
        self.allowed_hosts.iter().any(|allowed| {
            let authority = allowed.parse::<Authority>();
            let allowed = authority.as_ref().map_or(allowed.as_str(), |a| a.host());
            self::bare(allowed).eq_ignore_ascii_case(bare)
        })
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let given = single(headers, AUTHORIZATION.as_str()).and_then(|value| {
            let (scheme, given) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| given.trim())
        });
        given.is_some_and(|given| equal(given.as_bytes(), token.as_bytes()))
    }
}

/// What needs no token: a liveness probe learns nothing but that we live, and the console's files are the same everywhere (they ask for the token).
fn is_public(path: &str) -> bool {
    matches!(path, "/" | "/healthz" | "/favicon.svg") || path.starts_with("/assets/")
}

/// What is posted and changes nothing.
fn only_asks(path: &str) -> bool {
    path == "/api/rescore"
}

/// The value of a header that must not come twice.
fn single<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() {
        return None;
    }
    first.to_str().ok()
}

fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
}

/// Whether an `Origin` names the host the request was sent to. TLS may end in front of us, so the scheme does not count.
fn same_origin(origin: &str, host: &Authority) -> bool {
    let Some(rest) = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) else { return false };
    rest.parse::<Authority>().is_ok_and(|a| a.as_str().eq_ignore_ascii_case(host.as_str()))
}

/// Takes the same time wherever two texts of one length differ: the token cannot be guessed letter by letter.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (x, y)| differ | (x ^ y)) == 0
}

fn clipped(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen() -> SocketAddr {
        "127.0.0.1:9090".parse().unwrap()
    }

    fn ask(guard: &Guard, listen: SocketAddr, method: Method, headers: &[(&'static str, &str)]) -> Result<(), u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        guard.admit(listen, &method, "/api/endpoints", &map).map_err(|d| d.status.as_u16())
    }

    fn get(headers: &[(&'static str, &str)]) -> Result<(), u16> {
        ask(&Guard::default(), listen(), Method::GET, headers)
    }

    #[test]
    fn a_host_must_be_one_we_answer_to_whatever_its_port() {
        for ours in ["localhost", "LOCALHOST:9090", "127.0.0.1", "127.0.0.1:1234", "[::1]:9090", "127.0.0.5"] {
            assert_eq!(get(&[("host", ours)]), Ok(()), "{ours}");
        }
        for foreign in
            ["evil.example", "evil.example:9090", "10.0.0.1:9090", "localhost.evil.example", "127.0.0.1.evil.example"]
        {
            assert_eq!(get(&[("host", foreign)]), Err(403), "{foreign}");
        }
    }

    #[test]
    fn a_missing_or_repeated_or_broken_host_is_a_bad_request() {
        for headers in [&[][..], &[("host", "localhost"), ("host", "localhost")], &[("host", "a b")], &[("host", "")]] {
            assert_eq!(get(headers), Err(400), "{headers:?}");
        }
    }

    #[test]
    fn a_name_can_be_allowed_and_a_wildcard_listener_answers_to_any_address_but_no_name() {
        let guard = Guard { allowed_hosts: vec!["ops.example:9090".into(), "fd00::7".into()], ..Guard::default() };
        assert_eq!(ask(&guard, listen(), Method::GET, &[("host", "OPS.example")]), Ok(()));
        assert_eq!(ask(&guard, listen(), Method::GET, &[("host", "[fd00::7]:9090")]), Ok(()));
        assert_eq!(ask(&guard, listen(), Method::GET, &[("host", "evil.example")]), Err(403));
        let any: SocketAddr = "0.0.0.0:9090".parse().unwrap();
        assert_eq!(ask(&Guard::default(), any, Method::GET, &[("host", "10.1.2.3:9090")]), Ok(()));
        assert_eq!(ask(&Guard::default(), any, Method::GET, &[("host", "evil.example")]), Err(403));
    }

    #[test]
    fn an_origin_must_be_the_host_that_was_asked() {
        assert_eq!(get(&[("host", "localhost:9090"), ("origin", "http://localhost:9090")]), Ok(()));
        for origin in ["http://evil.example", "http://localhost:8080", "null", "", "http://localhost:9090.evil.example"]
        {
            assert_eq!(get(&[("host", "localhost:9090"), ("origin", origin)]), Err(403), "{origin}");
        }
        let cross = [("host", "localhost:9090"), ("sec-fetch-site", "cross-site")];
        assert_eq!(ask(&Guard::default(), listen(), Method::POST, &cross), Err(403));
    }

    #[test]
    fn a_token_is_compared_whole() {
        let guard = Guard { token: Some("s3cret".into()), ..Guard::default() };
        let with = |value: &str| ask(&guard, listen(), Method::GET, &[("host", "localhost"), ("authorization", value)]);
        assert_eq!(with("Bearer s3cret"), Ok(()));
        assert_eq!(with("bearer s3cret"), Ok(()));
        for wrong in ["Bearer s3cre", "Bearer s3cret2", "Bearer ", "s3cret", "Basic s3cret", "Bearer S3CRET"] {
            assert_eq!(with(wrong), Err(401), "{wrong}");
        }
        assert_eq!(ask(&guard, listen(), Method::GET, &[("host", "localhost")]), Err(401));
        let mut host = HeaderMap::new();
        host.insert("host", "localhost".parse().unwrap());
        assert_eq!(guard.admit(listen(), &Method::GET, "/healthz", &host), Ok(()));
    }

    #[test]
    fn a_read_only_listener_lets_nothing_be_changed() {
        let guard = Guard { read_only: true, ..Guard::default() };
        assert_eq!(ask(&guard, listen(), Method::GET, &[("host", "localhost")]), Ok(()));
        assert_eq!(ask(&guard, listen(), Method::HEAD, &[("host", "localhost")]), Ok(()));
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            assert_eq!(ask(&guard, listen(), method, &[("host", "localhost")]), Err(403));
        }
    }
}
