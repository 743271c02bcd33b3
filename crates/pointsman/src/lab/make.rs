//! `pointsman trace make`: a generated workload as a trace, for other fleets and other tools to play.

use std::io::{BufWriter, Write as _};

use clap::Args;

use crate::failure::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  pointsman trace make shared-prefix:groups=20,rate=8 > requests.jsonl
  pointsman trace make 64-percent --seed 2 | gzip > requests.jsonl.gz";

/// Which workload.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Make {
    /// The workload, as `race --workload` takes it
    #[arg(value_name = "NAME[:KEY=VALUE,..]")]
    workload: String,
    /// Seed that all of it follows from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Prints one line per request.
pub(crate) fn run(options: &Make) -> Result<Exit, Failure> {
    let workload = super::setup::spec(&options.workload)?.generate(options.seed);
    let lines = workload.trace().ok_or_else(|| {
        Failure::usage(format!("{} is no trace: requests of it wait for others", options.workload))
            .next("race plays it: pointsman race --workload")
    })?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}
