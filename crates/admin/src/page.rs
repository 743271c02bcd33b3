//! The console's files: a page that asks this listener for everything else.

use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, HeaderMap, HeaderName,
    HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, VARY,
};
use hyper::{Method, StatusCode};
use pointsman_console::{FALLBACK, File, file, page};

use crate::Guard;
use crate::reply::{Reply, with_type};
use crate::routes::{Ask, admitted, not_allowed};

/// Nothing inline, nothing from elsewhere, nobody's frame.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

/// What of the console lies at a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Page {
    File(&'static File),
    Fallback,
}

impl Page {
    /// `/` is the page for who takes HTML, which a browser does and curl does not.
    pub(crate) fn at(path: &str, headers: &HeaderMap) -> Option<Self> {
        if path == "/" {
            let html = |value: &HeaderValue| value.to_str().is_ok_and(|v| v.contains("text/html"));
            let wanted = headers.get_all(ACCEPT).iter().any(html);
            return wanted.then(|| page().map_or(Self::Fallback, Self::File));
        }
        let name = path.strip_prefix('/')?;
        (path.starts_with("/assets/") || name == "favicon.svg").then(|| file(name)).flatten().map(Self::File)
    }

    pub(crate) fn answer(self, guard: &Guard, ask: &Ask<'_>) -> Reply {
        if let Err(denied) = admitted(guard, ask) {
            return *denied;
        }
        if *ask.method != Method::GET && *ask.method != Method::HEAD {
            return not_allowed(&[Method::GET, Method::HEAD]);
        }
        let mut reply = match self {
            Self::File(file) => of_file(file, ask.headers),
            Self::Fallback => with_type(StatusCode::OK, "text/html; charset=utf-8", FALLBACK),
        };
        let headers = reply.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
        headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
        reply
    }
}

fn of_file(file: &'static File, headers: &HeaderMap) -> Reply {
    let named = |name: &HeaderName, wanted: &str| {
        headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).any(|v| {
            v.split(',').any(|part| {
                let (value, quality) = part.split_once(';').unwrap_or((part, ""));
                (value.trim() == wanted || value.trim().trim_start_matches("W/") == wanted) && quality.trim() != "q=0"
            })
        })
    };
    let mut reply = if named(&IF_NONE_MATCH, file.etag) {
        with_type(StatusCode::NOT_MODIFIED, file.content_type(), "")
    } else if named(&ACCEPT_ENCODING, "gzip") {
        let mut reply = with_type(StatusCode::OK, file.content_type(), file.gzip);
        reply.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        reply
    } else {
        with_type(StatusCode::OK, file.content_type(), file.plain())
    };
    let kept = if file.is_immutable() { "public, max-age=31536000, immutable" } else { "no-cache" };
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    reply.headers_mut().insert(ETAG, HeaderValue::from_static(file.etag));
    reply
}
