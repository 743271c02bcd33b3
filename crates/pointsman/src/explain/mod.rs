//! `pointsman explain`: why that engine?

mod follow;
mod record;
mod render;
mod table;
#[cfg(test)]
mod tests;

use std::io::Write as _;

use clap::Args;

use crate::admin_client::{Target, converse, segment};
use crate::failure::{Exit, Failure};
use crate::terminal::Paint;
pub(crate) use record::Record;
pub(crate) use table::short_name;

const EXAMPLES: &str = "\
Examples:
  pointsman explain last
  pointsman explain --follow";

/// What to explain.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Explain {
    /// Id of the decision (response header x-pointsman-decision), or `last`
    #[arg(default_value = "last", value_name = "ID")]
    id: String,
    /// Print one line for each decision as it happens, until interrupted
    #[arg(long, short)]
    follow: bool,
    /// Print the record as JSON (with --follow: one per line)
    #[arg(long)]
    json: bool,
    /// Show what was known of each endpoint, too
    #[arg(long, conflicts_with_all = ["json", "follow"])]
    signals: bool,
    #[command(flatten)]
    target: Target,
}

/// Prints it.
pub(crate) fn run(options: &Explain) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    if options.follow {
        converse(follow::follow(&options.target, options.json, &mut out))?;
        return Ok(Exit::Fine);
    }
    let answer = converse(options.target.get(&format!("/api/decisions/{}", segment(&options.id))))?;
    if options.json {
        out.write_all(&answer.0)?;
        out.write_all(b"\n")?;
    } else {
        let record: Record = answer.read()?;
        out.write_all(render::render(&record, options.signals, Paint::stdout()).as_bytes())?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}
