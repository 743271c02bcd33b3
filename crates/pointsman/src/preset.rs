//! `pointsman preset`: weights to begin with, as a full document.

use std::io::Write as _;

use clap::Args;
use clap::builder::PossibleValuesParser;
use pointsman_plugins::presets::{PRESETS, Preset};

use crate::failure::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  pointsman preset
  pointsman preset chatbot > epp.yaml
  pointsman serve --preset chatbot";

/// Which preset.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Print {
    /// Its name; without one they are listed
    #[arg(value_parser = names(), value_name = "NAME")]
    name: Option<String>,
}

/// Accepts the name of a preset.
pub(crate) fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(PRESETS.iter().map(|p| clap::builder::PossibleValue::new(p.name).help(p.doc)))
}

/// The document of a preset that was [named](names).
pub(crate) fn document(name: &str) -> Vec<u8> {
    Preset::named(name).map_or_else(Vec::new, |p| p.document().into_bytes())
}

/// Prints the document, or the list.
pub(crate) fn run(options: &Print) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    match &options.name {
        Some(name) => out.write_all(&document(name))?,
        None => {
            writeln!(out, "{:18} {:>6} {:>6} {:>6} {:>6}", "preset", "prefix", "kv", "queue", "lora")?;
            for p in PRESETS {
                writeln!(
                    out,
                    "{:18} {:6.2} {:6.2} {:6.2} {:6.2}  {}",
                    p.name, p.prefix, p.kv_cache, p.queue, p.lora, p.doc
                )?;
            }
        }
    }
    Ok(Exit::Fine)
}
