//! `session-id-producer`: which session a request belongs to, by a header or a cookie.
//!
//! The value of the header `headerName` (any case), or of the first cookie named `cookieName` (as it is), trimmed;
//! blank or absent means no session. Exactly one of the two must be set. Source: plugin specification 9.8.

use crate::build::{Build, Instance};
use crate::header_names::{Use, header_name};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_core::Nanos;
use pointsman_scheduling::{DataKind, Facts, Producer, Request, Scope, TextId};
use std::sync::Arc;

/// Where the session stands.
#[derive(Debug)]
enum From {
    /// In the header of that (lower-case) name.
    Header(Box<str>),
    /// In the cookie of that name.
    Cookie(Box<str>),
}

impl From {
    fn read<'a>(&self, request: &'a Request) -> Option<&'a str> {
        let value = match self {
            Self::Header(name) => request.header(name),
            Self::Cookie(wanted) => {
                let lines = request.headers.iter().filter(|(name, _)| &**name == "cookie");
                let mut cookies = lines.flat_map(|(_, line)| line.split(';')).filter_map(|c| c.split_once('='));
                cookies.find(|(name, _)| name.trim() == &**wanted).map(|(_, value)| value)
            }
        };
        value.map(str::trim).filter(|v| !v.is_empty())
    }
}

/// Publishes the session.
#[derive(Debug)]
pub struct SessionIdProducer {
    from: From,
    text: Option<TextId>,
}

impl Producer for SessionIdProducer {
    fn produce(&self, request: &Request, _: Scope<'_>, _: Nanos, facts: &mut Facts) {
        if let (Some(text), Some(session)) = (self.text, self.from.read(request)) {
            facts.set_text(text, session);
        }
    }
}

/// What cannot be left out.
const ONE_OF: &str = "exactly one of `headerName` and `cookieName` must be set";

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("headerName", ParamKind::String, "Header that names the session."),
        Param::new("cookieName", ParamKind::String, "Cookie that names the session."),
    ],
    makes: &[DataKind::SessionId],
    default_producer: true,
    must_be_declared: Some(ONE_OF),
    example: "{headerName: x-session-id}",
    build: Some(build),
    ..Row::new(
        "session-id-producer",
        &[Kind::Producer],
        Stability::Beta,
        "Reads from a header or a cookie which session a request belongs to.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let (header, cookie) = (b.params.str("headerName").trim(), b.params.str("cookieName").trim());
    let from = match (header, cookie) {
        ("", "") => {
            b.fault("headerName", ONE_OF);
            return Instance::default();
        }
        (_, "") => From::Header(header_name(b, b.params, "headerName", Use::Read).into()),
        ("", cookie) => From::Cookie(cookie.into()),
        _ => {
            b.fault("cookieName", ONE_OF);
            return Instance::default();
        }
    };
    let producer = SessionIdProducer { from, text: b.own_text(DataKind::SessionId) };
    Instance { producer: Some(Arc::new(producer)), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::compiled;

    fn read(from: &From, headers: &[(&str, &str)]) -> Option<String> {
        let headers = headers.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
        from.read(&Request { headers, ..Request::default() }).map(str::to_owned)
    }

    #[test]
    fn a_header_names_the_session() {
        let from = From::Header("x-session".into());
        assert_eq!(read(&from, &[("x-session", " s1 ")]).as_deref(), Some("s1"));
        assert_eq!(read(&from, &[("x-session", "  ")]), None);
        assert_eq!(read(&from, &[("x-other", "s1")]), None);
    }

    #[test]
    fn the_first_cookie_of_the_name_counts_in_its_own_case() {
        let from = From::Cookie("sid".into());
        assert_eq!(read(&from, &[("cookie", "a=1; SID=2;sid= 3 ; sid=4")]).as_deref(), Some("3"));
        assert_eq!(read(&from, &[("cookie", "a=1"), ("cookie", "sid=x=y")]).as_deref(), Some("x=y"));
        assert_eq!(read(&from, &[("cookie", "sid")]), None);
        assert_eq!(read(&from, &[("sid", "3")]), None);
    }

    #[test]
    fn exactly_one_place_must_be_named() {
        for (parameters, good) in [
            ("{}", false),
            ("{headerName: a, cookieName: b}", false),
            ("{headerName: \"\"}", false),
            ("{headerName: a}", true),
            ("{cookieName: b}", true),
        ] {
            let document = format!(
                "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n\
                 - {{type: session-id-producer, parameters: {parameters}}}\nschedulingProfiles:\n\
                 - {{name: default, plugins: [{{pluginRef: queue-scorer}}]}}\n"
            );
            let faults = compiled(&document).err().unwrap_or_default();
            assert_eq!(faults.is_empty(), good, "{parameters}: {faults:?}");
            assert!(faults.iter().all(|f| f.contains("exactly one of")), "{faults:?}");
        }
    }
}
