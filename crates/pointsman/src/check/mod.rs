//! `pointsman check`: what is wrong with a configuration, all of it, before anything is started; and whether engines fit it.

mod doctor;
pub(crate) mod show;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use pointsman_config::{Fault, Faults, Severity, render};
use pointsman_plugins::{CompileOptions, Compiled, DefaultProfile, Judged, LearnedStates, compile, judge};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::terminal::Paint;

const EXAMPLES: &str = "\
Examples:
  pointsman check epp.yaml
  pointsman check --show epp.yaml
  pointsman check --against http://10.0.0.1:8000,http://10.0.0.2:8000 epp.yaml";

/// A file larger than this is no configuration.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// What to check.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
#[command(after_help = "Ends with 0 when every file can be used (and the engines fit it), with 1 when not.")]
pub(crate) struct Check {
    /// EndpointPickerConfig files, YAML or JSON, also inside of a ConfigMap or of Helm values; `-` is standard input
    #[arg(required_unless_present = "against", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Ask these engines whether they fit the configuration (without a file: the default)
    #[arg(long, value_name = "URL[,URL...]")]
    against: Option<String>,
    /// Take warnings for errors
    #[arg(long)]
    strict: bool,
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

impl Check {
    fn compile_options(&self) -> CompileOptions {
        let default = match self.default {
            DefaultOf::Serve => DefaultProfile::Serve,
            DefaultOf::Epp => DefaultProfile::Epp,
        };
        CompileOptions { allow_experimental: self.allow_experimental_plugins, default, states: Arc::default() }
    }
}

/// Checks every file and prints all that is wrong.
pub(crate) fn run(options: &Check) -> Result<Exit, Failure> {
    // Whoever names engines in a wrong way should not read a report first.
    let engines = options.against.as_deref().map(doctor::engines).transpose()?;
    let mut out = std::io::stdout().lock();
    let mut exit = Exit::Fine;
    let (mut report, mut usable) = (Vec::new(), Vec::new());
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
        let mut judged = judge(&bytes, &options.compile_options());
        if options.strict {
            judged.harden();
        }
        if !judged.is_usable() {
            exit = Exit::No;
        }
        if options.json {
            report.push(as_json(&name, &judged, options.show));
        } else {
            out.write_all(as_text(&name, &bytes, &judged, options.show).as_bytes())?;
        }
        usable.extend(judged.documents.into_iter().filter_map(|d| d.compiled));
    }
    let Some(engines) = engines else {
        if options.json {
            writeln!(out, "{:#}", Value::Array(report))?;
        }
        out.flush()?;
        return Ok(exit);
    };
    if options.files.is_empty() {
        usable.extend(compile(b"", &options.compile_options(), &mut Faults::new()));
    }
    let examined = match &usable[..] {
        // What is wrong with the files comes first.
        _ if exit != Exit::Fine => None,
        [one] => Some(doctor::examine(one, &engines)?),
        several => {
            let what = format!("{} configurations were given, and engines fit one", several.len());
            return Err(Failure::usage(what).next("name one file that holds one"));
        }
    };
    if let Some(examined) = &examined
        && !examined.fits(options.strict)
    {
        exit = Exit::No;
    }
    if options.json {
        let against = examined.as_ref().map(doctor::Examined::as_json);
        writeln!(out, "{:#}", json!({"files": report, "against": against}))?;
    } else if let Some(examined) = &examined {
        out.write_all(examined.as_text(Paint::stdout()).as_bytes())?;
    }
    out.flush()?;
    Ok(exit)
}

fn as_text(name: &str, bytes: &[u8], judged: &Judged, show: bool) -> String {
    let mut out = String::new();
    if !judged.faults.is_empty() {
        out.push_str(&render(name, &String::from_utf8_lossy(bytes), &judged.faults, Paint::stdout().is_on()));
    } else {
        // With --show the document is the output; it must be usable as it is.
        let mark = if show { "# " } else { "" };
        let several = match judged.documents.len() {
            1 => String::new(),
            n => format!(" in {n} configurations"),
        };
        out.push_str(&format!("{mark}{name}: no faults{several}\n"));
    }
    for (i, compiled) in judged.documents.iter().filter_map(|d| d.compiled.as_ref()).enumerate().filter(|_| show) {
        if i > 0 {
            out.push_str("---\n");
        }
        out.push_str(&show::document(&compiled.effective));
    }
    out
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
            "severity": "error", "code": "unreadable", "line": null, "column": null, "end_line": null,
            "end_column": null, "path": "",
            "message": format!("cannot be read: {}", self.reason), "label": "", "help": null,
        });
        json!({"file": self.name, "usable": false, "errors": 1, "warnings": 0, "faults": [fault],
            "documents": []})
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

fn as_json(name: &str, judged: &Judged, show: bool) -> Value {
    let faults: Vec<Value> = judged.faults.sorted().into_iter().map(fault_as_json).collect();
    let documents: Vec<Value> = judged
        .documents
        .iter()
        .map(|d| {
            let mut document = json!({"at": d.at, "usable": d.usable});
            if let Some(compiled) = d.compiled.as_ref().filter(|_| show) {
                document["effective"] = compiled.effective.clone();
            }
            document
        })
        .collect();
    let mut file = json!({
        "file": name,
        "usable": judged.is_usable(),
        "errors": judged.faults.errors(),
        "warnings": judged.faults.warnings(),
        "faults": faults,
    });
    if let [one] = &documents[..]
        && let Some(effective) = one.get("effective")
    {
        file["effective"] = effective.clone();
    }
    file["documents"] = documents.into();
    file
}

fn fault_as_json(f: &Fault) -> Value {
    json!({
        "severity": match f.severity { Severity::Error => "error", Severity::Warning => "warning" },
        "code": f.code.as_str(),
        "line": f.span.line,
        "column": f.span.column,
        "end_line": f.span.end_line,
        "end_column": f.span.end_column,
        "path": f.path,
        "message": f.message,
        "label": f.full_label(),
        "help": f.help,
    })
}
