//! `pointsman check`: what is wrong with a configuration, all of it, before anything is started.

mod show;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use pointsman_config::{Fault, Faults, Severity, render};
use pointsman_plugins::{CompileOptions, Compiled, DefaultProfile, LearnedStates, compile};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::terminal::Paint;

const EXAMPLES: &str = "\
Examples:
  pointsman check epp.yaml
  pointsman check --show epp.yaml";

/// A file larger than this is no configuration.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// What to check.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES, after_help = "Ends with 0 when every file can be used, with 1 when one cannot.")]
pub(crate) struct Check {
    /// EndpointPickerConfig files, YAML or JSON; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print the configuration as it would be in force, what nobody wrote marked
    #[arg(long)]
    show: bool,
    /// Print the faults (and with --show the configuration) as JSON
    #[arg(long)]
    json: bool,
    /// Accept plugins that are not stable yet
    #[arg(long)]
    allow_experimental_plugins: bool,
    /// What an empty file means: the default of `serve`, or that of the Go endpoint picker
    #[arg(long, value_enum, default_value_t = DefaultOf::Serve)]
    default: DefaultOf,
}

/// Whose default.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum DefaultOf {
    Serve,
    Epp,
}

/// Checks every file and prints all that is wrong.
pub(crate) fn run(options: &Check) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    let default = match options.default {
        DefaultOf::Serve => DefaultProfile::Serve,
        DefaultOf::Epp => DefaultProfile::Epp,
    };
    let mut exit = Exit::Fine;
    let mut report = Vec::new();
    for file in &options.files {
        let (name, bytes) = match read(file) {
            Ok(found) => found,
            Err(unreadable) => {
                exit = Exit::No;
                if options.json {
                    report.push(unreadable.as_json());
                } else {
                    writeln!(out, "{unreadable}")?;
                }
                continue;
            }
        };
        let (compiled, faults) = checked(&bytes, options.allow_experimental_plugins, default, Arc::default());
        if compiled.is_none() {
            exit = Exit::No;
        }
        let effective = compiled.as_ref().filter(|_| options.show).map(|c| &c.effective);
        if options.json {
            report.push(as_json(&name, &faults, compiled.is_some(), effective));
            continue;
        }
        if !faults.is_empty() {
            out.write_all(
                render(&name, &String::from_utf8_lossy(&bytes), &faults, Paint::stdout().is_on()).as_bytes(),
            )?;
        } else if options.show {
            // The document is the output; it must be usable as it is.
            writeln!(out, "# {name}: no faults")?;
        } else {
            writeln!(out, "{name}: no faults")?;
        }
        if let Some(effective) = effective {
            out.write_all(show::document(effective).as_bytes())?;
        }
    }
    if options.json {
        writeln!(out, "{:#}", Value::Array(report))?;
    }
    out.flush()?;
    Ok(exit)
}

/// Compiles a document; start-up and reload use this too, so that all three say the same.
pub(crate) fn checked(
    bytes: &[u8],
    allow_experimental: bool,
    default: DefaultProfile,
    states: Arc<LearnedStates>,
) -> (Option<Compiled>, Faults) {
    let mut faults = Faults::new();
    let compiled = compile(bytes, &CompileOptions { allow_experimental, default, states }, &mut faults);
    (compiled, faults)
}

/// A file that could not be read, and why. Displays as one line that begins like a fault's: with the file.
#[derive(Debug)]
pub(crate) struct Unreadable {
    name: String,
    reason: String,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: cannot be read: {}", self.name, self.reason)
    }
}

impl Unreadable {
    /// One fault without a place, in the shape of the others.
    fn as_json(&self) -> Value {
        let fault = json!({
            "severity": "error", "line": null, "column": null, "path": "",
            "message": format!("cannot be read: {}", self.reason), "label": "", "help": null,
        });
        json!({"file": self.name, "usable": false, "errors": 1, "warnings": 0, "faults": [fault]})
    }
}

impl From<Unreadable> for Failure {
    fn from(unreadable: Unreadable) -> Self {
        Self::new(format!("cannot read the configuration {}", unreadable.name)).why(unreadable.reason)
    }
}

/// Reads a configuration file and says what to call it.
pub(crate) fn read(file: &Path) -> Result<(String, Vec<u8>), Unreadable> {
    let mut bytes = Vec::new();
    let (name, result) = if file.as_os_str() == "-" {
        ("<stdin>".to_owned(), std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes))
    } else {
        let opened = std::fs::File::open(file).and_then(|f| f.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        (file.display().to_string(), opened)
    };
    let reason = match result {
        Ok(_) if bytes.len() as u64 > MAX_BYTES => {
            format!("it has more than {} MiB, too much for a configuration", MAX_BYTES >> 20)
        }
        Ok(_) => return Ok((name, bytes)),
        Err(error) => error.to_string(),
    };
    Err(Unreadable { name, reason })
}

fn as_json(name: &str, faults: &Faults, usable: bool, effective: Option<&Value>) -> Value {
    let one = |f: &&Fault| {
        json!({
            "severity": match f.severity { Severity::Error => "error", Severity::Warning => "warning" },
            "line": f.span.line,
            "column": f.span.column,
            "path": f.path,
            "message": f.message,
            "label": f.label,
            "help": f.help,
        })
    };
    let list: Vec<Value> = faults.sorted().iter().map(one).collect();
    let mut file = json!({"file": name, "usable": usable, "errors": faults.errors(), "warnings": faults.warnings(), "faults": list});
    if let Some(effective) = effective {
        file["effective"] = effective.clone();
    }
    file
}
