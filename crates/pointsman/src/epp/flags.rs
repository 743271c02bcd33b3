//! The flags of `pointsman epp`: those of llm-d's Endpoint Picker, by the same names and with the same defaults, and a few of our own.
//!
//! Values of flags that only fit at run time (a port in range, a size) are refused with exit code 1, wrong types and unknown flags with 2, as
//! upstream does (request-lifecycle 6.1).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pointsman_extproc::{Compat, ExtProcOptions};
use pointsman_sources::{HealthOptions, SHORTEST_TICK, SourcesOptions, TlsClient};

use super::selector;
use super::units::quantity;
use crate::failure::{Exit, Failure};
use crate::listen::prompts_stay_here;
use crate::serve::flags::{at_least_10ms, at_least_64kib, bytes, duration, path, share, token};

const EXAMPLES: &str = "\
Examples:
  pointsman epp --pool-name vllm --config-file epp.yaml
  pointsman epp --pool-name vllm --config-file epp.yaml --secure-serving=false --grpc-port 9002";

/// What a bare boolean flag means; others are written `--flag=true` or `--flag=false`, as Go's flags are.
const BARE: &str = "true";

/// Everything that can be set on the Endpoint Picker. Durations have a unit (`50ms`, `2s`, `1m30s`). Of a flag given twice the last counts, as
/// in Go: charts add a user's flags to their own. Lists add up.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Epp {
    /// Port of the external processor that Envoy asks
    #[arg(long, default_value_t = 9002, value_name = "PORT")]
    grpc_port: i64,
    /// Port of the gRPC health service, without TLS
    #[arg(long, default_value_t = 9003, value_name = "PORT")]
    grpc_health_port: i64,
    /// Port of metrics and profiles
    #[arg(long, default_value_t = 9090, value_name = "PORT")]
    metrics_port: i64,
    /// Address that all three ports are opened on [default: all addresses]
    #[arg(long, value_name = "IP")]
    pub(super) bind_address: Option<std::net::IpAddr>,

    /// Name of the InferencePool; this or --endpoint-selector
    #[arg(long, default_value = "", value_name = "NAME", hide_default_value = true, help_heading = "Pool")]
    pub(super) pool_name: String,
    /// Its namespace
    #[arg(long, default_value = "", value_name = "NAME", hide_default_value = true, help_heading = "Pool")]
    pub(super) pool_namespace: String,
    /// Its API group
    #[arg(long, default_value = "inference.networking.k8s.io", value_name = "GROUP", help_heading = "Pool")]
    pub(super) pool_group: String,
    /// Label selector of the engines' pods, in place of a pool
    #[arg(long, default_value = "", value_name = "SELECTOR", hide_default_value = true, help_heading = "Pool")]
    pub(super) endpoint_selector: String,
    /// Ports of the engines, with --endpoint-selector: 3000,3001
    #[arg(long, value_delimiter = ',', value_name = "PORT,..", help_heading = "Pool")]
    endpoint_target_ports: Vec<i64>,
    /// Let only one of several replicas report ready
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = BARE, value_name = "BOOL", help_heading = "Pool")]
    pub(super) ha_enable_leader_election: bool,

    /// EndpointPickerConfig file
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    pub(super) config_file: Option<PathBuf>,
    /// The same as text
    #[arg(long, value_name = "YAML", help_heading = "Configuration")]
    pub(super) config_text: Option<String>,
    /// Weights to begin with; `pointsman preset` lists them
    #[arg(long, conflicts_with_all = ["config_file", "config_text"], value_parser = crate::preset::names(), value_name = "NAME", help_heading = "Configuration")]
    pub(super) preset: Option<String>,
    /// Put the file in force anew whenever it changes; SIGHUP does so at any time
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = BARE, value_name = "BOOL", help_heading = "Configuration")]
    pub(super) watch_config_file: bool,
    /// Second configuration, whose profiles are scored on every request without effect: GET /api/shadow tells how often they would have chosen otherwise
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    pub(super) shadow_config_file: Option<PathBuf>,
    /// Accept plugins that are not stable yet
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = BARE, value_name = "BOOL", help_heading = "Configuration")]
    pub(super) allow_experimental_plugins: bool,

    /// Ignore the endpoints that the proxy says may serve a request
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = BARE, value_name = "BOOL", help_heading = "Requests")]
    disable_endpoint_subset_filter: bool,
    /// Tell the proxy the score of every endpoint, in dynamic metadata
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = BARE, value_name = "BOOL", help_heading = "Requests")]
    emit_endpoint_scores: bool,
    /// Tell the client the id of the decision, in the response header x-pointsman-decision
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = BARE, value_name = "BOOL", help_heading = "Requests")]
    emit_decision_id: bool,
    /// Largest gRPC message taken: 10MiB, 25MB [default: 4MiB]
    #[arg(long, default_value = "", value_name = "SIZE", hide_default_value = true, help_heading = "Requests")]
    grpc_max_recv_msg_size: String,
    /// Accepted; messages sent are never that long
    #[arg(long, default_value = "", value_name = "SIZE", hide_default_value = true, help_heading = "Requests")]
    grpc_max_send_msg_size: String,
    /// Largest request body; beyond it 413. 0: any
    #[arg(long, default_value = "0", value_parser = bytes, value_name = "SIZE", help_heading = "Requests")]
    max_body_bytes: u64,
    /// Request bodies held at the same time over all requests; beyond it 503
    #[arg(long, default_value = "4GiB", value_parser = bytes, value_name = "SIZE", help_heading = "Requests")]
    buffer_budget_bytes: u64,
    /// Old ways of llm-d's picker to keep, separated by commas (docs/migrate-from-llm-d.md says what each means)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WAY,..", help_heading = "Requests")]
    compat: Vec<Way>,

    /// Time between two readings of an engine's metrics (at least 50ms)
    #[arg(long, default_value = "50ms", value_parser = duration, value_name = "TIME", help_heading = "Engines")]
    pub(super) refresh_metrics_interval: Duration,
    /// Accepted; the pool's gauges are computed whenever they are read
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "TIME", help_heading = "Engines")]
    pub(super) refresh_prometheus_metrics_interval: Duration,
    /// Age at which metrics count as unknown; 0 keeps them for ever
    #[arg(long, default_value = "2s", value_parser = duration, value_name = "TIME", help_heading = "Engines")]
    pub(super) metrics_staleness_threshold: Duration,
    /// For an engine to show its metrics, connecting included
    #[arg(long, default_value = "1s", value_parser = at_least_10ms, value_name = "TIME", help_heading = "Engines")]
    scrape_timeout: Duration,
    /// Ask engines for their health: an engine that does not answer gets no requests
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = BARE, action = clap::ArgAction::Set, value_name = "BOOL", help_heading = "Engines")]
    engine_health_checks: bool,
    /// Path of the engines' health check; one that answers 404 says nothing. Default: per engine
    #[arg(long, value_parser = path, value_name = "PATH", help_heading = "Engines")]
    health_path: Option<String>,
    /// Time between two health checks of an engine
    #[arg(long, default_value = "1s", value_parser = at_least_10ms, value_name = "TIME", help_heading = "Engines")]
    health_interval: Duration,
    /// For an engine to answer a health check
    #[arg(long, default_value = "1s", value_parser = at_least_10ms, value_name = "TIME", help_heading = "Engines")]
    health_timeout: Duration,
    /// Failed health checks in a row after which an engine gets no more requests
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N", help_heading = "Engines")]
    health_failures: u32,

    /// TLS on the external processor's port
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = BARE, action = clap::ArgAction::Set, value_name = "BOOL", help_heading = "Serving")]
    pub(super) secure_serving: bool,
    /// Directory of tls.crt and tls.key [default: a certificate that signs itself]
    #[arg(long, default_value = "", value_name = "DIR", hide_default_value = true, help_heading = "Serving")]
    pub(super) cert_path: String,
    /// Follow the files of --cert-path when they change
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = BARE, value_name = "BOOL", help_heading = "Serving")]
    pub(super) enable_cert_reload: bool,
    /// Authorities whose client certificates the proxy must show (PEM); with --secure-serving
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(super) client_ca_file: Option<PathBuf>,
    /// Least version of TLS: VersionTLS12 or VersionTLS13
    #[arg(long, default_value = "", value_name = "VERSION", hide_default_value = true, help_heading = "Serving")]
    pub(super) tls_min_version: String,
    /// Cipher suites of TLS 1.2, by their names in Go
    #[arg(long, value_delimiter = ',', value_name = "NAME,..", help_heading = "Serving")]
    pub(super) tls_cipher_suites: Vec<String>,
    /// Accepted; the external processor's port always answers health checks
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = BARE, value_name = "BOOL", help_heading = "Serving")]
    pub(super) health_checking: bool,
    /// After SIGTERM: not ready at once, yet serving for this long
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "TIME", help_heading = "Serving")]
    pub(super) drain_timeout: Duration,
    /// After that: for open streams to end by themselves
    #[arg(long, default_value = "90s", value_parser = duration, value_name = "TIME", help_heading = "Serving")]
    pub(super) hard_stop_timeout: Duration,
    /// Threads that serve. Default: one per core
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N", help_heading = "Serving")]
    pub(super) threads: Option<u16>,

    /// Ask whoever reads metrics for a token that the cluster knows
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = BARE, value_name = "BOOL", help_heading = "Observability")]
    pub(super) metrics_endpoint_auth: Option<bool>,
    /// Directory of tls.crt and tls.key for the metrics port
    #[arg(long, default_value = "", value_name = "DIR", hide_default_value = true, help_heading = "Observability")]
    pub(super) metrics_cert_dir: String,
    /// Authorities whose client certificates readers of metrics must show (PEM)
    #[arg(long, value_name = "FILE", help_heading = "Observability")]
    pub(super) metrics_client_ca_file: Option<PathBuf>,
    /// CPU and heap profiles on the metrics port
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = BARE, action = clap::ArgAction::Set, value_name = "BOOL", help_heading = "Observability")]
    pub(super) enable_pprof: bool,
    /// Metrics of the gRPC streams
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = BARE, value_name = "BOOL", help_heading = "Observability")]
    pub(super) enable_grpc_stream_metrics: bool,
    /// Trace context for engines, and spans where an exporter is set (OTEL_TRACES_EXPORTER=otlp)
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = BARE, action = clap::ArgAction::Set, value_name = "BOOL", help_heading = "Observability")]
    pub(super) tracing: bool,
    /// Address of the admin listener (API of explain and status), or `off`
    #[arg(long, default_value = "127.0.0.1:9091", value_name = "ADDR", help_heading = "Observability")]
    admin_listen: String,
    /// Further name by which the admin listener is reached (can be repeated)
    #[arg(long, value_name = "HOST", help_heading = "Observability")]
    pub(super) admin_allowed_host: Vec<String>,
    /// Token that the admin listener asks for; better given in the environment
    #[arg(long, env = "POINTSMAN_ADMIN_TOKEN", hide_env_values = true, value_parser = token, value_name = "TOKEN", help_heading = "Observability")]
    pub(super) admin_token: Option<String>,
    /// Let nothing be changed through the admin listener
    #[arg(long, help_heading = "Observability")]
    pub(super) admin_read_only: bool,
    /// File to which finished decisions are appended, one JSON object a line; reopened on SIGHUP
    #[arg(long, value_name = "FILE", help_heading = "Observability")]
    pub(super) decision_log: Option<PathBuf>,
    /// Share of decisions that are logged, 0 to 1
    #[arg(long, default_value = "1.0", value_parser = share, value_name = "SHARE", help_heading = "Observability")]
    pub(super) decision_log_sample: f64,
    /// Keep how prompts begin (4 KiB of each) in the records, where everyone who may ask the admin listener sees it; the decision log has it too
    #[arg(long, help_heading = "Observability")]
    pub(super) show_prompts: bool,
    /// Memory for decision records, at least 64KiB
    #[arg(long, default_value = "8MiB", value_parser = at_least_64kib, value_name = "SIZE", help_heading = "Observability")]
    pub(super) record_bytes: u64,

    /// Verbosity: 1 to 3 info, 4 debug, 5 and more trace
    #[arg(
        short = 'v',
        long = "v",
        default_value_t = 2,
        allow_negative_numbers = true,
        value_name = "N",
        help_heading = "Logging"
    )]
    v: i64,
    /// Level that has the last word: debug, info, error, panic, or a verbosity
    #[arg(long, value_parser = zap_level, value_name = "LEVEL", help_heading = "Logging")]
    zap_log_level: Option<i64>,
    /// Accepted; output is JSON on stderr
    #[arg(long, value_parser = ["json", "console"], value_name = "ENCODER", help_heading = "Logging")]
    zap_encoder: Option<String>,
    /// Accepted
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = BARE, value_name = "BOOL", help_heading = "Logging")]
    zap_devel: Option<bool>,
    /// Accepted
    #[arg(long, value_parser = ["info", "error", "panic"], value_name = "LEVEL", help_heading = "Logging")]
    zap_stacktrace_level: Option<String>,
    /// Accepted
    #[arg(long, value_parser = ["epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano"], value_name = "ENCODING", help_heading = "Logging")]
    zap_time_encoding: Option<String>,

    #[command(flatten)]
    gone: Gone,
    /// A word after a boolean flag, which Go's flags pass over.
    #[arg(hide = true)]
    pub(super) words: Vec<String>,
}

/// Flags that upstream refuses, too.
#[derive(Args, Debug)]
#[command(next_help_heading = "No longer possible")]
struct Gone {
    #[arg(long, hide = true)]
    total_queued_requests_metric: Option<String>,
    #[arg(long, hide = true)]
    total_running_requests_metric: Option<String>,
    #[arg(long, hide = true)]
    kv_cache_usage_percentage_metric: Option<String>,
    #[arg(long, hide = true)]
    lora_info_metric: Option<String>,
    #[arg(long, hide = true)]
    cache_info_metric: Option<String>,
}

impl Gone {
    fn used(&self) -> Option<&'static str> {
        [
            ("total-queued-requests-metric", &self.total_queued_requests_metric),
            ("total-running-requests-metric", &self.total_running_requests_metric),
            ("kv-cache-usage-percentage-metric", &self.kv_cache_usage_percentage_metric),
            ("lora-info-metric", &self.lora_info_metric),
            ("cache-info-metric", &self.cache_info_metric),
        ]
        .into_iter()
        .find_map(|(name, value)| value.as_ref().map(|_| name))
    }
}

/// Old ways, as they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// All of these
    All,
    /// Set every header again, pseudo-headers included; of several of one name the last
    SetAllHeaders,
    /// Let the client's control headers reach the engine
    KeepControlHeaders,
    /// Let a subset hint admit all ports of an address
    SubsetAnyPort,
    /// Do not heed the subset hint for requests without a body
    SubsetNotForBodyless,
}

impl Way {
    fn means(self) -> &'static [Compat] {
        match self {
            Self::All => Compat::ALL,
            Self::SetAllHeaders => &[Compat::SetAllHeaders],
            Self::KeepControlHeaders => &[Compat::KeepControlHeaders],
            Self::SubsetAnyPort => &[Compat::SubsetAnyPort],
            Self::SubsetNotForBodyless => &[Compat::SubsetNotForBodyless],
        }
    }
}

/// The ports that are listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) grpc: u16,
    pub(super) health: u16,
    pub(super) metrics: u16,
}

impl Epp {
    /// What is wrong with the flags taken together.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let refuse = |what: &str, next: &str| Err(Failure::new(what).next(next).exit(Exit::No));
        if let Some(name) = self.gone.used() {
            let what = format!("flag \"{name}\" is deprecated and cannot be used");
            return refuse(&what, "configure metrics via engineConfigs in EndpointPickerConfig instead");
        }
        prompts_stay_here(self.show_prompts, self.admin()?, self.admin_token.as_deref())?;
        if self.pool_name.is_empty() == self.endpoint_selector.is_empty() {
            return refuse(
                "either pool-name or endpoint-selector must be set",
                "give one of --pool-name and --endpoint-selector",
            );
        }
        if !self.endpoint_selector.is_empty() {
            selector::parse(&self.endpoint_selector)
                .map_err(|e| Failure::new("--endpoint-selector is not a label selector").why(e).exit(Exit::No))?;
            let mut ports = self.endpoint_target_ports.clone();
            ports.sort_unstable();
            ports.dedup();
            if ports.is_empty() || ports.len() > 8 {
                return refuse(
                    "flag \"endpoint-target-ports\" should have length from 1 to 8",
                    "list the engines' ports: 8000,8001",
                );
            }
        }
        if let Some(port) = self.endpoint_target_ports.iter().find(|port| !(1..=65_535).contains(*port)) {
            return refuse(
                &format!("--endpoint-target-ports: {port} is not a port"),
                "a port is a number from 1 to 65535",
            );
        }
        if self.config_file.is_some() && self.config_text.is_some() {
            return refuse(
                "both the \"config-file\" and \"config-text\" flags cannot be set at the same time",
                "give one of them",
            );
        }
        if self.metrics_client_ca_file.is_some() && self.metrics_cert_dir.is_empty() {
            return refuse(
                "--metrics-client-ca-file needs --metrics-cert-dir",
                "client certificates are shown over TLS only",
            );
        }
        if !self.metrics_cert_dir.is_empty()
            && self.metrics_endpoint_auth == Some(false)
            && self.metrics_client_ca_file.is_none()
        {
            return refuse(
                "--metrics-cert-dir needs --metrics-endpoint-auth or --metrics-client-ca-file",
                "leave TLS away, or say who may read",
            );
        }
        if self.client_ca_file.is_some() && !self.secure_serving {
            return refuse("--client-ca-file needs --secure-serving", "client certificates are shown over TLS only");
        }
        if self.ha_enable_leader_election {
            tracing::warn!(
                "--ha-enable-leader-election has no effect without Kubernetes: this replica reports ready by itself"
            );
        }
        self.ports().map(drop)?;
        self.extproc().map(drop)?;
        self.admin().map(drop)
    }

    pub(super) fn ports(&self) -> Result<Ports, Failure> {
        let port = |flag: &str, value: i64| {
            u16::try_from(value).map_err(|_| {
                Failure::new(format!("{flag}: {value} is not a port"))
                    .next("a port is a number from 0 to 65535; 0 lets the system choose")
                    .exit(Exit::No)
            })
        };
        Ok(Ports {
            grpc: port("--grpc-port", self.grpc_port)?,
            health: port("--grpc-health-port", self.grpc_health_port)?,
            metrics: port("--metrics-port", self.metrics_port)?,
        })
    }

    /// Address of the admin listener; `None`: there is none.
    pub(super) fn admin(&self) -> Result<Option<std::net::SocketAddr>, Failure> {
        if self.admin_listen == "off" {
            return Ok(None);
        }
        self.admin_listen.parse().map(Some).map_err(|_| {
            Failure::new(format!("--admin-listen: {} is not an address", self.admin_listen))
                .next("write IP:port, such as 127.0.0.1:9091, or off")
                .exit(Exit::No)
        })
    }

    /// What the transport is told.
    pub(super) fn extproc(&self) -> Result<ExtProcOptions, Failure> {
        let size = |flag: &str, text: &str| {
            quantity(text).map_err(|why| {
                Failure::new(format!("{flag}: {text} is not a size"))
                    .why(why)
                    .next("write 10MiB, 25MB or 4194304")
                    .exit(Exit::No)
            })
        };
        let receive = size("--grpc-max-recv-msg-size", &self.grpc_max_recv_msg_size)?;
        size("--grpc-max-send-msg-size", &self.grpc_max_send_msg_size)?;
        let compat: BTreeSet<Compat> = self.compat.iter().flat_map(|way| way.means()).copied().collect();
        let defaults = ExtProcOptions::default();
        Ok(ExtProcOptions {
            emit_endpoint_scores: self.emit_endpoint_scores,
            emit_decision_id: self.emit_decision_id,
            stream_metrics: self.enable_grpc_stream_metrics,
            subset_filter: !self.disable_endpoint_subset_filter,
            max_message_bytes: if receive == 0 { defaults.max_message_bytes } else { receive },
            max_body_bytes: self.max_body_bytes,
            buffer_budget_bytes: self.buffer_budget_bytes,
            compat,
        })
    }

    /// What is asked of every engine, and how often.
    pub(super) fn sources(&self, tls: TlsClient) -> SourcesOptions {
        SourcesOptions {
            base_interval: self.refresh_metrics_interval.max(SHORTEST_TICK),
            scrape_timeout: self.scrape_timeout,
            health: self.engine_health_checks.then(|| HealthOptions {
                path: self.health_path.clone(),
                interval: self.health_interval,
                timeout: self.health_timeout,
                failures: self.health_failures,
            }),
            // Upstream routes a model that no engine lists, and lets the engine say so.
            models_interval: None,
            ..SourcesOptions::new(tls)
        }
    }

    /// The verbosity in force.
    pub(super) fn verbosity(&self) -> i64 {
        match self.zap_log_level {
            Some(level) => level,
            None if self.v < 0 => 2,
            None => self.v,
        }
    }
}

/// Zap's names for levels, as verbosities; errors are -1, panics -2.
fn zap_level(text: &str) -> Result<i64, String> {
    match text.to_ascii_lowercase().as_str() {
        "debug" => Ok(4),
        "info" => Ok(2),
        "error" => Ok(-1),
        "panic" => Ok(-2),
        other => other.parse().ok().filter(|n| *n > 0).ok_or_else(|| format!("invalid log level \"{text}\"")),
    }
}
