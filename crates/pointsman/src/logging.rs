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
    ///
    /// The result, called when the start is over, lets lines through that would only be noise before: the banner says of the endpoints at that
    /// moment what a line for each of them would.
    pub(crate) fn start(&self) -> Box<dyn FnOnce()> {
        let own = match self.verbose {
            0 => "warn,pointsman=info",
            1 => "info,pointsman=debug",
            _ => "debug,pointsman=trace",
        };
        // Our crates are `pointsman_*`: a directive of that prefix means all of them.
        let wanted = EnvFilter::try_from_default_env().ok();
        let quiet = wanted.is_none() && self.verbose == 0 && matches!(self.log_format, Format::Text);
        let first = if quiet { format!("{own},pointsman_sources=error") } else { own.to_owned() };
        let log = tracing_subscriber::fmt()
            .with_env_filter(wanted.unwrap_or_else(|| EnvFilter::new(first)))
            .with_writer(std::io::stderr)
            // A line that cannot be written is lost, and nothing else: with its reader gone, telling stderr about it would end the task that logs.
            .log_internal_errors(false)
            .with_ansi(Paint::stderr().is_on() && matches!(self.log_format, Format::Text));
        match self.log_format {
            Format::Json => log.json().init(),
            Format::Text => {
                let log = log.with_target(self.verbose > 0).with_filter_reloading();
                let handle = log.reload_handle();
                log.init();
                if quiet {
                    // It fails only when there is no subscriber any more, and then nobody misses a line.
                    return Box::new(move || drop(handle.reload(EnvFilter::new(own))));
                }
            }
        }
        Box::new(|| ())
    }
}
