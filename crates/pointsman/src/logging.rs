//! Log lines on stderr: events that a person would want, never one per request.

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::terminal::Paint;

/// How to log.
#[derive(Args, Clone, Debug)]
pub(crate) struct Logging {
    /// Form of log lines
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    log_format: Format,
    /// Log more: -v adds debug lines, -vv traces (RUST_LOG has the last word)
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Logging {
    /// Starts logging. Called once, before anything logs.
    pub(crate) fn start(&self) {
        let own = match self.verbose {
            0 => "warn,pointsman=info",
            1 => "info,pointsman=debug",
            _ => "debug,pointsman=trace",
        };
        // Our crates are `pointsman_*`: a directive of that prefix means all of them.
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(own));
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        match self.log_format {
            Format::Text => log.with_ansi(Paint::stderr().is_on()).with_target(self.verbose > 0).init(),
            Format::Json => log.with_ansi(false).json().init(),
        }
    }
}
