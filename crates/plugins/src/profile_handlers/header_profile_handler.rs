//! `header-profile-handler`: the profile that a header names, as a coordinator in front of the picker asks for it.
//!
//! The header's value is trimmed; blank or absent means `defaultProfile`. The header's name compares in lower case, the
//! profile's as it is. A single configured profile runs whatever the header says. A name that no profile has is
//! answered 400. Source: plugin specification 8, disaggregation specification 2.4.

use crate::build::{Build, Instance};
use crate::header_names::{Use, header_name};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_core::{ErrorCode, Refusal};
use pointsman_scheduling::{Answer, ProfileHandler, Request, Stages};
use std::sync::Arc;

/// Longest name that a refusal repeats, in characters.
const SHOWN: usize = 64;

/// Runs the profile that a header names.
#[derive(Debug)]
pub struct HeaderProfileHandler {
    header: Box<str>,
    default: Box<str>,
    profiles: Vec<Arc<str>>,
}

impl HeaderProfileHandler {
    fn wanted<'a>(&'a self, request: &'a Request) -> &'a str {
        request.header(&self.header).map(str::trim).filter(|name| !name.is_empty()).unwrap_or(&self.default)
    }

    fn profile(&self, request: &Request) -> Option<usize> {
        match &self.profiles[..] {
            [_] => Some(0),
            several => {
                let wanted = self.wanted(request);
                several.iter().position(|name| **name == *wanted)
            }
        }
    }
}

impl ProfileHandler for HeaderProfileHandler {
    fn next(&self, stages: &mut Stages<'_>) {
        stages.next.extend(self.profile(stages.request).filter(|&p| !stages.evaluated(p)));
    }

    fn answer(&self, stages: &Stages<'_>) -> Result<Answer, Refusal> {
        match self.profile(stages.request) {
            Some(p) if stages.ran(p).is_some() => Ok(Answer::one(p)),
            Some(p) => Err(stages.failure(p).cloned().unwrap_or_else(|| self.nothing_ran(stages.request))),
            None => Err(self.nothing_ran(stages.request)),
        }
    }

    fn nothing_ran(&self, request: &Request) -> Refusal {
        let name: String = self.wanted(request).chars().take(SHOWN).collect();
        let message = format!("no scheduling profile is named `{name}`, which is asked for by header {}", self.header);
        Refusal::new(ErrorCode::BadRequest, message)
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("headerName", ParamKind::String, "Header that names the profile.").default("\"EPP-Profile\""),
        Param::new("defaultProfile", ParamKind::String, "Profile of requests without that header.")
            .default("\"decode\""),
    ],
    build: Some(build),
    ..Row::new(
        "header-profile-handler",
        &[Kind::ProfileHandler],
        Stability::Alpha,
        "Runs the scheduling profile that a header names.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let handler = HeaderProfileHandler {
        header: header_name(b, b.params, "headerName", Use::Read).into(),
        default: b.params.str("defaultProfile").into(),
        profiles: b.profiles.to_vec(),
    };
    if handler.header.is_empty() {
        b.fault("headerName", "`headerName` must not be empty");
    }
    if handler.profiles.len() > 1 && b.profile(&handler.default).is_none() {
        let message = format!("there is no profile `{}`: requests without the header will be refused", handler.default);
        b.warning("defaultProfile", &message);
    }
    Instance { handler: Some(Arc::new(handler)), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Staging;
    use pointsman_scheduling::{ProfileRun, Stage};

    fn handler(profiles: &[&str]) -> HeaderProfileHandler {
        HeaderProfileHandler {
            header: "epp-profile".into(),
            default: "decode".into(),
            profiles: profiles.iter().map(|p| Arc::from(*p)).collect(),
        }
    }

    fn staging(profiles: usize, header: Option<&str>) -> Staging {
        let mut staging = Staging::new(profiles);
        staging.request.headers = header.map(|v| ("epp-profile".into(), v.into())).into_iter().collect();
        staging
    }

    #[test]
    fn e13_the_header_names_the_profile() {
        let two = handler(&["prefill", "decode"]);
        for (header, wanted) in [(None, 1), (Some("  "), 1), (Some(" prefill "), 0), (Some("decode"), 1)] {
            let mut staging = staging(2, header);
            assert_eq!(staging.next(&two), [wanted], "{header:?}");
            staging.done[wanted] = Some(Stage::Ran(ProfileRun::default()));
            assert!(staging.next(&two).is_empty());
            assert_eq!(staging.answer(&two), Ok(Answer::one(wanted)));
            staging.done[wanted] = Some(Stage::Failed(Refusal::all_filtered()));
            assert_eq!(staging.answer(&two), Err(Refusal::all_filtered()));
        }
    }

    #[test]
    fn e13_a_name_that_no_profile_has_is_the_clients_error() {
        let two = handler(&["prefill", "decode"]);
        let mut staging = staging(2, Some("Prefill"));
        assert!(staging.next(&two).is_empty());
        let refusal = two.nothing_ran(&staging.request);
        assert_eq!(refusal.code, ErrorCode::BadRequest);
        assert!(refusal.message.contains("`Prefill`"), "{}", refusal.message);
        assert_eq!(staging.answer(&two), Err(refusal));
    }

    #[test]
    fn e13_a_single_profile_runs_whatever_the_header_says() {
        assert_eq!(staging(1, Some("nope")).next(&handler(&["other"])), [0]);
    }
}
