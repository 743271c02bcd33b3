//! `pointsman check --against`: live engines are asked whether they fit the configuration.
//!
//! What engines tell ([`ask`]) and what the configuration counts on ([`wants`]) are put side by side ([`findings`]); nothing is sent
//! but `GET`. Each finding says what to change, and on which side.

mod ask;
mod findings;
mod wants;

use std::fmt::Write as _;

use pointsman_fleet::EndpointMeta;
use pointsman_plugins::Compiled;
use pointsman_sources::endpoints_of;
use serde_json::{Value, json};

use crate::admin_client::converse;
use crate::failure::Failure;
use crate::terminal::{Paint, clean, count};
use ask::Told;
use findings::{Finding, Gravity};
use wants::Wants;

/// The engines of a command line.
pub(super) fn engines(list: &str) -> Result<Vec<EndpointMeta>, Failure> {
    endpoints_of(list).map_err(|faults| {
        let all = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        Failure::usage("the engines of --against cannot be used").why(all)
    })
}

/// What was asked, and what came of it.
pub(super) struct Examined {
    told: Vec<Told>,
    findings: Vec<Finding>,
}

/// Asks all engines, at the same time.
pub(super) fn examine(compiled: &Compiled, engines: &[EndpointMeta]) -> Result<Examined, Failure> {
    let wants = Wants::of(compiled);
    let told = converse(async { Ok(ask::all(engines, &wants).await) })?;
    let findings = findings::of(&wants, &told);
    Ok(Examined { told, findings })
}

impl Examined {
    fn of(&self, gravity: Gravity) -> u64 {
        self.findings.iter().filter(|f| f.gravity == gravity).count() as u64
    }

    /// Whether requests would be routed as meant.
    pub(super) fn fits(&self, strict: bool) -> bool {
        self.of(Gravity::Error) == 0 && !(strict && self.of(Gravity::Warning) > 0)
    }

    pub(super) fn as_text(&self, paint: Paint) -> String {
        let mut out = String::new();
        for told in &self.told {
            let _ = writeln!(out, "{}: {}", paint.bold(&told.name), clean(&told.summary()));
        }
        for f in &self.findings {
            let (word, tone) = match f.gravity {
                Gravity::Error => ("error", paint.bad("error")),
                Gravity::Warning => ("warning", paint.bold("warning")),
                Gravity::Note => ("note", paint.dim("note")),
            };
            let about = f.engines.join(", ");
            let between = if about.is_empty() { "" } else { ": " };
            let _ = writeln!(out, "{tone}: {about}{between}{}", clean(&f.message));
            let indent = " ".repeat(word.len() + 2);
            for (side, change) in [("the engine", &f.engine_side), ("the configuration", &f.configuration_side)] {
                if !change.is_empty() {
                    let _ = writeln!(out, "{indent}change {side}: {}", clean(change));
                }
            }
        }
        let (errors, warnings) = (self.of(Gravity::Error), self.of(Gravity::Warning));
        let _ = match (errors, warnings) {
            (0, 0) => writeln!(out, "{}: they fit the configuration", count(self.told.len() as u64, "engine")),
            _ => writeln!(
                out,
                "{}: {}, {}",
                count(self.told.len() as u64, "engine"),
                count(errors, "error"),
                count(warnings, "warning")
            ),
        };
        out
    }

    pub(super) fn as_json(&self) -> Value {
        let findings = self.findings.iter().map(|f| {
            json!({
                "severity": match f.gravity {
                    Gravity::Error => "error",
                    Gravity::Warning => "warning",
                    Gravity::Note => "note",
                },
                "code": f.code,
                "engines": f.engines,
                "message": f.message,
                "change_engine": f.engine_side,
                "change_configuration": f.configuration_side,
            })
        });
        json!({
            "fits": self.fits(false),
            "engines": self.told.iter().map(Told::as_json).collect::<Vec<_>>(),
            "findings": findings.collect::<Vec<_>>(),
        })
    }
}
