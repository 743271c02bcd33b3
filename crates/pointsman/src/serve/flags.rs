//! The flags of `pointsman serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use pointsman_gateway::{EjectionOptions, GatewayOptions, ServerTls};
use pointsman_plugins::LearnedStates;
use pointsman_router::PoolOptions;
use pointsman_sources::{HealthOptions, SHORTEST_TICK, SourcesOptions, TlsClient, TlsOptions};
use pointsman_trace::Tracer;

use crate::failure::Failure;
use crate::listen::prompts_stay_here;
use crate::logging::Logging;

const EXAMPLES: &str = "\
Examples:
  pointsman serve
  pointsman serve --endpoints 10.0.0.1:8000,10.0.0.2:8000 --config-file epp.yaml";

/// Everything that can be set on a gateway. Durations have a unit (`50ms`, `2s`, `1m30s`), sizes may have one (`64MiB`).
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Address of the gateway
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDR")]
    pub(super) listen: SocketAddr,

    /// Engines: host:port, or https://host:port, separated by commas
    #[arg(long, value_name = "ADDR,..", help_heading = "Endpoints")]
    pub(super) endpoints: Option<String>,
    /// File that lists the engines, followed when it changes
    #[arg(long, value_name = "FILE", conflicts_with = "endpoints", help_heading = "Endpoints")]
    pub(super) endpoints_file: Option<PathBuf>,
    /// Simulated engines with frozen metrics
    #[arg(long, value_enum, conflicts_with_all = ["endpoints", "endpoints_file", "config_file", "config_text"], value_name = "NAME", help_heading = "Endpoints")]
    pub(super) demo: Option<DemoName>,
    /// Path of the engines' health check; one that answers 404 says nothing. Default: per engine, /v2/health/ready for Triton, /health for all others
    #[arg(long, value_parser = path, value_name = "PATH", help_heading = "Endpoints")]
    health_path: Option<String>,
    /// Time between two health checks of an engine
    #[arg(long, default_value = "1s", value_parser = at_least_10ms, value_name = "TIME", help_heading = "Endpoints")]
    health_interval: Duration,
    /// For an engine to answer a health check
    #[arg(long, default_value = "1s", value_parser = at_least_10ms, value_name = "TIME", help_heading = "Endpoints")]
    health_timeout: Duration,
    /// Failed health checks in a row after which an engine gets no more requests; one good one brings it back
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N", help_heading = "Endpoints")]
    health_failures: u32,
    /// Time between two looks at the list of models that an engine serves; a LoRA adapter loaded at run time is unknown for as long
    #[arg(long, default_value = "2s", value_parser = at_least_10ms, value_name = "TIME", help_heading = "Endpoints")]
    models_interval: Duration,
    /// Time between two readings of an engine's metrics (at least 50ms)
    #[arg(long, default_value = "50ms", value_parser = duration, value_name = "TIME", help_heading = "Endpoints")]
    pub(super) refresh_metrics_interval: Duration,
    /// For an engine to show its metrics, connecting included
    #[arg(long, default_value = "1s", value_parser = at_least_10ms, value_name = "TIME", help_heading = "Endpoints")]
    scrape_timeout: Duration,
    /// Age at which metrics count as unknown; 0 keeps them for ever
    #[arg(long, default_value = "2s", value_parser = duration, value_name = "TIME", help_heading = "Endpoints")]
    pub(super) metrics_staleness_threshold: Duration,

    /// EndpointPickerConfig file
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    pub(super) config_file: Option<PathBuf>,
    /// The same as text
    #[arg(long, conflicts_with = "config_file", value_name = "YAML", help_heading = "Configuration")]
    pub(super) config_text: Option<String>,
    /// Weights to begin with; `pointsman preset` lists them
    #[arg(long, conflicts_with_all = ["config_file", "config_text", "demo"], value_parser = crate::preset::names(), value_name = "NAME", help_heading = "Configuration")]
    pub(super) preset: Option<String>,
    /// Put the file in force anew whenever it changes; SIGHUP does so at any time
    #[arg(long, requires = "config_file", help_heading = "Configuration")]
    pub(super) watch_config_file: bool,
    /// Second configuration, whose profiles are scored on every request without effect: GET /api/shadow tells how often they would have chosen otherwise
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    pub(super) shadow_config_file: Option<PathBuf>,
    /// Accept plugins that are not stable yet
    #[arg(long, help_heading = "Configuration")]
    pub(super) allow_experimental_plugins: bool,

    /// Address of the admin listener: API and metrics
    #[arg(long, default_value = "127.0.0.1:9090", value_name = "ADDR", help_heading = "Admin")]
    pub(super) admin_listen: SocketAddr,
    /// Further name by which the admin listener is reached (can be repeated)
    #[arg(long, value_name = "HOST", help_heading = "Admin")]
    pub(super) admin_allowed_host: Vec<String>,
    /// Token to ask for; better given in the environment, where `ps` does not show it
    #[arg(long, env = "POINTSMAN_ADMIN_TOKEN", hide_env_values = true, value_parser = token, value_name = "TOKEN", help_heading = "Admin")]
    pub(super) admin_token: Option<String>,
    /// Let nothing be changed through the admin listener
    #[arg(long, help_heading = "Admin")]
    pub(super) admin_read_only: bool,

    /// Whether responses say which endpoint served them, and the id of the decision
    #[arg(long, value_enum, default_value_t = Switch::On, value_name = "SWITCH", help_heading = "Records")]
    pub(super) decision_headers: Switch,
    /// File to which finished decisions are appended, one JSON object a line; reopened on SIGHUP
    #[arg(long, value_name = "FILE", help_heading = "Records")]
    pub(super) decision_log: Option<PathBuf>,
    /// Share of decisions that are logged, 0 to 1
    #[arg(long, default_value = "1.0", value_parser = share, value_name = "SHARE", help_heading = "Records")]
    pub(super) decision_log_sample: f64,
    /// Record the salted hashes of prompt blocks, so that own traffic can be replayed without its text
    #[arg(long, help_heading = "Records")]
    pub(super) record_block_hashes: bool,
    /// Keep how prompts begin (4 KiB of each) in the records, where everyone who may ask the admin listener sees it; the decision log has it too
    #[arg(long, help_heading = "Records")]
    pub(super) show_prompts: bool,
    /// Memory for decision records, at least 64KiB
    #[arg(long, default_value = "8MiB", value_parser = at_least_64kib, value_name = "SIZE", help_heading = "Records")]
    pub(super) record_bytes: u64,

    #[command(flatten)]
    pub(super) gateway: Gateway,

    /// Pass a trace on to the engines, with a span of our own in between; the OTEL_* variables say where spans go (default: nowhere)
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Records")]
    pub(super) tracing: bool,

    /// Threads that serve. Default: one per core
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    pub(super) threads: Option<u16>,
    #[command(flatten)]
    pub(super) logging: Logging,
}

/// Bounds and time-outs of the gateway.
#[derive(Args, Debug)]
#[command(next_help_heading = "Gateway")]
pub(super) struct Gateway {
    /// Further endpoints tried when one fails before the first byte of its response
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(..=100), value_name = "N")]
    retries: u32,
    /// Largest request body; beyond it 413
    #[arg(long, default_value = "64MiB", value_parser = bytes, value_name = "SIZE")]
    max_body_bytes: u64,
    /// Request bodies held at the same time over all requests; beyond it 503
    #[arg(long, default_value = "1GiB", value_parser = bytes, value_name = "SIZE")]
    buffer_budget_bytes: u64,
    /// Largest request head; beyond it 431
    #[arg(long, default_value = "64KiB", value_parser = bytes, value_name = "SIZE")]
    max_header_bytes: u64,
    /// Client connections at the same time; further ones wait
    #[arg(long, default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "N")]
    max_connections: u32,
    /// For the head of a request to arrive
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME")]
    header_read_timeout: Duration,
    /// Longest silence inside a request body; beyond it 408
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "TIME")]
    body_read_timeout: Duration,
    /// How long a client connection may be idle
    #[arg(long, default_value = "180s", value_parser = duration, value_name = "TIME")]
    keep_alive_timeout: Duration,
    /// To connect to an engine
    #[arg(long, default_value = "2s", value_parser = duration, value_name = "TIME")]
    connect_timeout: Duration,
    /// From sending a request to the head of its response; beyond it 504
    #[arg(long, default_value = "600s", value_parser = duration, value_name = "TIME")]
    response_header_timeout: Duration,
    /// Longest silence inside a response
    #[arg(long, default_value = "600s", value_parser = duration, value_name = "TIME")]
    response_idle_timeout: Duration,
    /// How long an engine's connection is kept for the next request
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "TIME")]
    engine_keep_alive_timeout: Duration,
    /// For GET /v1/models to collect the engines' lists
    #[arg(long, default_value = "2s", value_parser = duration, value_name = "TIME")]
    models_timeout: Duration,
    /// How long a stop waits for running responses
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "TIME")]
    pub(super) drain_timeout: Duration,
    /// Failures in a row (502, 503, 504, no answer) after which an endpoint is put aside; one that cannot be connected to is put aside at once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N")]
    ejection_failures: u32,
    /// For how long at first; each further time without a success between is twice as long
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME")]
    ejection_time: Duration,
    /// The longest time
    #[arg(long, default_value = "300s", value_parser = duration, value_name = "TIME")]
    ejection_max_time: Duration,
    /// Certificate chain of the gateway (PEM); clients then speak TLS
    #[arg(long, requires = "tls_key", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, requires = "tls_cert", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Authorities that sign the certificates of https:// engines (PEM). Default: the system's
    #[arg(long, value_name = "FILE")]
    pub(super) engine_ca: Option<PathBuf>,
    /// Accept any certificate of an https:// engine
    #[arg(long)]
    pub(super) engine_insecure: bool,
}

/// Demonstrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DemoName {
    /// Six engines frozen in the state of the worked example, weights prefix .40, KV cache .25, queue .25, LoRA .10
    Deck,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}

impl Serve {
    /// What the gateway is told.
    pub(super) fn gateway_options(&self) -> GatewayOptions {
        let g = &self.gateway;
        GatewayOptions {
            retries: g.retries,
            decision_headers: self.decision_headers == Switch::On,
            max_body_bytes: g.max_body_bytes,
            buffer_budget_bytes: g.buffer_budget_bytes,
            max_header_bytes: usize::try_from(g.max_header_bytes).unwrap_or(usize::MAX),
            max_connections: g.max_connections as usize,
            header_read_timeout: g.header_read_timeout,
            body_read_timeout: g.body_read_timeout,
            keep_alive_timeout: g.keep_alive_timeout,
            connect_timeout: g.connect_timeout,
            response_header_timeout: g.response_header_timeout,
            response_idle_timeout: g.response_idle_timeout,
            engine_keep_alive_timeout: g.engine_keep_alive_timeout,
            drain_timeout: g.drain_timeout,
            models_timeout: g.models_timeout,
            tls: g.tls_cert.clone().zip(g.tls_key.clone()).map(|(cert, key)| ServerTls { cert, key }),
            engine_ca: g.engine_ca.clone(),
            engine_insecure: g.engine_insecure,
            ejection: EjectionOptions {
                failures: g.ejection_failures,
                base: g.ejection_time,
                max: g.ejection_max_time.max(g.ejection_time),
                ..EjectionOptions::default()
            },
        }
    }

    /// What is asked of every engine, and how often.
    pub(super) fn sources_options(&self, tls: TlsClient) -> SourcesOptions {
        SourcesOptions {
            base_interval: self.refresh_metrics_interval.max(SHORTEST_TICK),
            scrape_timeout: self.scrape_timeout,
            health: Some(HealthOptions {
                path: self.health_path.clone(),
                interval: self.health_interval,
                timeout: self.health_timeout,
                failures: self.health_failures,
            }),
            models_interval: Some(self.models_interval),
            ..SourcesOptions::new(tls)
        }
    }

    /// What the pool is told.
    pub(super) fn pool(&self, states: Arc<LearnedStates>, tracer: Option<Arc<Tracer>>) -> PoolOptions {
        PoolOptions {
            states,
            tracer,
            record_bytes: usize::try_from(self.record_bytes).unwrap_or(usize::MAX),
            record_block_hashes: self.record_block_hashes,
            show_prompts: self.show_prompts,
            stale_after: self.metrics_staleness_threshold,
            ..PoolOptions::default()
        }
    }

    /// How engines that speak TLS are trusted.
    pub(super) fn engine_tls(&self) -> TlsOptions {
        TlsOptions {
            insecure_skip_verify: self.gateway.engine_insecure,
            ca: self.gateway.engine_ca.clone(),
            client_cert: None,
        }
    }

    /// Says that an interval is longer than asked for, where it is.
    pub(super) fn raised(&self) -> Option<String> {
        let (asked, least) = (self.refresh_metrics_interval, SHORTEST_TICK);
        (asked < least)
            .then(|| format!("--refresh-metrics-interval {asked:?} was raised to {least:?}, the shortest there is"))
    }

    /// Whether clients speak TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.gateway.tls_cert.is_some()
    }

    /// What clap cannot check.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.listen == self.admin_listen && self.listen.port() != 0 {
            return Err(Failure::usage(format!("--listen and --admin-listen are both {}", self.listen))
                .next("give them different ports: the admin listener is not for clients"));
        }
        prompts_stay_here(self.show_prompts, Some(self.admin_listen), self.admin_token.as_deref())
    }
}

/// A duration as Go writes it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match pointsman_config::units::parse_duration(text) {
        Ok(nanos) => u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| "a time cannot be negative".to_owned()),
        Err(_) => Err("write a number with its unit: 50ms, 2s, 1m30s".to_owned()),
    }
}

/// A duration that is neither nothing nor next to it: an interval or a time-out of 0 would be one no engine can meet.
pub(crate) fn at_least_10ms(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time >= Duration::from_millis(10) { Ok(time) } else { Err("the shortest time here is 10ms".to_owned()) }
}

/// A size in bytes, bare or with a unit.
/// Records are always on: a ring too small for any would make the ids of answers lead nowhere.
pub(crate) fn at_least_64kib(text: &str) -> Result<u64, String> {
    bytes(text).and_then(|n| if n < 64 << 10 { Err("64KiB is the least".to_owned()) } else { Ok(n) })
}

pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "write a number of bytes, or one with its unit: 64KiB, 8MiB, 1GiB".to_owned();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "KiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        "GiB" | "Gi" => 1 << 30,
        "kB" | "k" | "K" | "KB" => 1_000,
        "MB" | "M" => 1_000_000,
        "GB" | "G" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).filter(|bytes| *bytes <= 1 << 46).ok_or_else(|| "that is too much".to_owned())
}

pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share is a number from 0 to 1".to_owned())
}

pub(crate) fn path(text: &str) -> Result<String, String> {
    let sound = text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic());
    if sound { Ok(text.to_owned()) } else { Err("a path begins with / and holds no blanks".to_owned()) }
}

pub(crate) fn token(text: &str) -> Result<String, String> {
    let sound = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    if sound { Ok(text.to_owned()) } else { Err("a token is not empty and holds no blanks".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    fn serve(args: &[&str]) -> Serve {
        match Cli::try_parse_from(["pointsman", "serve"].iter().chain(args)).expect("valid flags").command {
            Command::Serve(serve) => *serve,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_flags_the_gateway_has_its_documented_defaults() {
        let (ours, theirs) = (serve(&[]).gateway_options(), GatewayOptions::default());
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    }

    #[test]
    fn without_flags_engines_are_asked_as_the_sources_do_by_themselves() {
        let tls = TlsClient::insecure();
        let (ours, theirs) = (serve(&[]).sources_options(tls.clone()), SourcesOptions::new(tls));
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        assert_eq!(ours.health, theirs.health);
        assert_eq!(serve(&[]).raised(), None);
    }

    #[test]
    fn every_flag_about_asking_engines_reaches_the_sources() {
        let flags = serve(&[
            "--health-path=/ping",
            "--health-interval=2s",
            "--health-timeout=300ms",
            "--health-failures=5",
            "--scrape-timeout=400ms",
            "--models-interval=1m",
            "--refresh-metrics-interval=200ms",
        ]);
        let options = flags.sources_options(TlsClient::insecure());
        let health = HealthOptions {
            path: Some("/ping".into()),
            interval: Duration::from_secs(2),
            timeout: Duration::from_millis(300),
            failures: 5,
        };
        assert_eq!(options.health, Some(health));
        assert_eq!(options.scrape_timeout, Duration::from_millis(400));
        assert_eq!(options.models_interval, Some(Duration::from_secs(60)));
        assert_eq!((options.base_interval, flags.raised()), (Duration::from_millis(200), None));
        for bad in [
            "--health-interval=0",
            "--health-timeout=1ms",
            "--health-failures=0",
            "--scrape-timeout=0",
            "--models-interval=0s",
        ] {
            assert!(Cli::try_parse_from(["pointsman", "serve", bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_interval_below_50_ms_is_raised_and_that_is_said() {
        let flags = serve(&["--refresh-metrics-interval=20ms"]);
        assert_eq!(flags.sources_options(TlsClient::insecure()).base_interval, Duration::from_millis(50));
        let said = flags.raised().expect("it was raised");
        assert!(said.contains("20ms was raised to 50ms"), "{said}");
    }

    #[test]
    fn sizes_and_times_have_units() {
        for (text, want) in [("1", 1), ("64KiB", 65_536), ("8MiB", 8 << 20), ("1GiB", 1 << 30), ("2MB", 2_000_000)] {
            assert_eq!(bytes(text), Ok(want), "{text}");
        }
        assert!(at_least_64kib("64KiB").is_ok() && at_least_64kib("65535").is_err());
        for bad in ["", "x", "8 bits", "-1", "99999999999GiB"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert!(duration("50").is_err() && duration("-1s").is_err() && duration("soon").is_err());
    }

    #[test]
    fn one_address_cannot_be_both_listeners() {
        assert!(serve(&["--listen", "127.0.0.1:9090"]).check().is_err());
        assert!(serve(&["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]).check().is_ok());
    }

    #[test]
    fn prompts_are_shown_elsewhere_only_to_who_has_the_token() {
        let open = ["--show-prompts", "--admin-listen", "0.0.0.0:9090"];
        assert!(serve(&open).check().is_err());
        assert!(serve(&[&open[..], &["--admin-token", "s3cret"]].concat()).check().is_ok());
        assert!(serve(&["--show-prompts"]).check().is_ok());
        assert!(serve(&["--admin-listen", "0.0.0.0:9090"]).check().is_ok());
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }
}
