//! Names of headers that configurations give.

use crate::build::Build;
use pointsman_config::Params;

/// Headers that frame a message, or that whoever sends it sets by itself: a plugin that set one would break the response.
const NOT_TO_SET: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-request-id",
];

/// What is done with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is looked for in requests.
    Read,
    /// It is set on responses.
    Set,
}

/// The name that `param` of `params` holds, in lower case; reports one that cannot be a header's, or cannot be set.
pub(crate) fn header_name(b: &mut Build<'_>, params: &Params, param: &str, what: Use) -> String {
    let name = params.str(param).trim().to_ascii_lowercase();
    if let Some(wrong) = wrong(&name, what) {
        b.fault_in(params, param, &format!("`{param}` {wrong}"));
    }
    name
}

fn wrong(name: &str, what: Use) -> Option<String> {
    if name.is_empty() {
        return Some("must not be empty".to_owned());
    }
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if let Some(c) = name.chars().find(|c| !token(*c)) {
        return Some(format!("is to be the name of a header, which has no {c:?} in it"));
    }
    (what == Use::Set && NOT_TO_SET.contains(&name)).then(|| {
        format!(
            "must not be `{name}`, which is not a plugin's to set: choose a name of your own, such as `x-session-token`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_a_name_and_those_of_the_message_are_not_set() {
        for name in ["x-session-token", "session_id", "content-type"] {
            assert_eq!(wrong(name, Use::Read), None, "{name}");
        }
        assert_eq!(wrong("x-session-token", Use::Set), None);
        for name in ["", "a b", ":status", "é", "x:"] {
            assert!(wrong(name, Use::Read).is_some(), "{name}");
        }
        for name in NOT_TO_SET {
            assert!(wrong(name, Use::Set).is_some_and(|w| w.contains(name)), "{name}");
        }
    }
}
