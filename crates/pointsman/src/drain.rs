//! `pointsman drain` and `undrain`: an endpoint taken out by hand, and back in.

use std::io::Write as _;

use clap::Args;
use serde_json::Value;

use crate::admin_client::{Target, converse, segment};
use crate::failure::{Exit, Failure};
use crate::terminal::clean;

pub(crate) const DRAIN_EXAMPLES: &str = "\
Examples:
  pointsman drain B
  pointsman drain 10.0.0.7:8000 --admin 10.0.0.5:9090";

pub(crate) const UNDRAIN_EXAMPLES: &str = "\
Examples:
  pointsman undrain B
  pointsman undrain 10.0.0.7:8000 --admin 10.0.0.5:9090";

/// Which endpoint, of which Pointsman.
#[derive(Args, Debug)]
pub(crate) struct Drain {
    /// Its name, namespace/name or host:port, as `pointsman status` shows them
    endpoint: String,
    #[command(flatten)]
    target: Target,
}

/// Takes it out (`out`) or back in, and says what came of it.
pub(crate) fn run(options: &Drain, out: bool) -> Result<Exit, Failure> {
    let verb = if out { "drain" } else { "undrain" };
    let path = format!("/api/endpoints/{}/{verb}", segment(&options.endpoint));
    let answer: Value = converse(options.target.post(&path))?.read()?;
    let endpoint = &answer["endpoint"];
    let name = clean(endpoint["name"].as_str().unwrap_or(&options.endpoint));
    let text = match (out, answer["changed"].as_bool().unwrap_or(true)) {
        (true, true) => {
            let running = endpoint["in_flight"].as_u64().unwrap_or(0);
            let rest = if running == 0 {
                "nothing is in flight there".into()
            } else {
                format!("{running} in flight there will end by themselves")
            };
            format!("{name} gets no new requests; {rest}")
        }
        (true, false) => format!("{name} was drained already"),
        (false, changed) => {
            let was = if changed { "is no longer drained" } else { "was not drained" };
            match endpoint["reason"].as_str() {
                Some(reason) => format!("{name} {was}, but still not ready: {}", clean(reason)),
                None => format!("{name} {was}, and ready"),
            }
        }
    };
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(Exit::Fine)
}
