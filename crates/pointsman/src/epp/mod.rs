//! `pointsman epp`: the Endpoint Picker that an Envoy-family gateway asks, in the place of llm-d's.
//!
//! It puts the same pool and sources as `serve` behind the external processor. The order of the start: flags, configuration, files, ports, and only then tasks;
//! the external processor and the health service open their ports after the endpoints are loaded. The order of the stop (request-lifecycle
//! 6.5): not ready at once, serving for the drain time, no new streams, and an end to those that are left.

mod certificates;
mod flags;
mod health;
mod json_log;
mod selector;
mod units;

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pointsman_admin::MetricsPort;
use pointsman_config::render;
use pointsman_extproc::{ExtProc, Shared};
use pointsman_grpc::health::Health;
use pointsman_grpc::{Server, ServerOptions, Service};
use pointsman_plugins::{Compiled, DefaultProfile, LearnedStates};
use pointsman_router::{Pool, PoolOptions};
use pointsman_sources::{SHORTEST_TICK, TlsOptions};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::catalogue::Catalogue;
use crate::check::{checked, read};
use crate::decision_log::DecisionLog;
use crate::failure::{Exit, Failure};
use crate::lab::server::Races;
use crate::listen::{StopSignals, cannot_listen, reached};
use crate::reload::{Origin, shadow};
use crate::telemetry::Traces;
use crate::terminal::Paint;
use crate::wiring::{Wanted, Wiring, first_look, keep_house, with_waits};
use certificates::{Certificates, Policy};
pub(crate) use flags::Epp;
use health::{Draining, HealthPort, ServingPort};

/// For health answers that are under way when everything else has ended.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// Runs until told to stop. Everything that is refused ends with exit code 1, as upstream's refusals do.
pub(crate) fn run(options: Epp) -> Result<Exit, Failure> {
    json_log::start(options.verbosity());
    start(options).map_err(|failure| failure.exit(Exit::No))
}

fn start(options: Epp) -> Result<Exit, Failure> {
    if let Some(word) = options.words.first() {
        tracing::warn!(word, "this word has no effect: the value of a boolean flag is written --flag=false");
    }
    options.check()?;
    let states = Arc::<LearnedStates>::default();
    let Some((compiled, origin)) = configuration(&options, Arc::clone(&states))? else { return Ok(Exit::No) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("pointsman")
        .enable_all()
        .build()
        .map_err(|e| Failure::new("cannot start the runtime").why(e))?;
    let ended = runtime.block_on(serve(options, compiled, origin, states));
    runtime.shutdown_timeout(Duration::from_millis(100));
    ended
}

/// The configuration; `None` when it is refused, and said why.
fn configuration(options: &Epp, states: Arc<LearnedStates>) -> Result<Option<(Compiled, Origin)>, Failure> {
    let (file, bytes) = match (&options.config_file, &options.config_text) {
        (Some(path), _) => read(path)?,
        (None, Some(text)) => ("--config-text".to_owned(), text.clone().into_bytes()),
        (None, None) if options.preset.is_some() => {
            let name = options.preset.as_deref().unwrap_or_default();
            (format!("--preset {name}"), crate::preset::document(name))
        }
        (None, None) => ("built-in default".to_owned(), Vec::new()),
    };
    let (compiled, faults) = checked(&bytes, options.allow_experimental_plugins, DefaultProfile::Epp, states);
    if !faults.is_empty() {
        let text = render(&file, &String::from_utf8_lossy(&bytes), &faults, Paint::stderr().is_on());
        std::io::stderr().write_all(text.as_bytes())?;
    }
    let Some(compiled) = compiled else { return Ok(None) };
    if compiled.discovery.is_none() {
        return Err(Failure::new("Kubernetes discovery is not available yet")
            .why(format!("{file} has no dataLayer.discovery, so endpoints would come from the cluster"))
            .next(if options.preset.is_some() {
                "print the preset (`pointsman preset NAME > epp.yaml`), declare a file-discovery plugin in it and name that in dataLayer.discovery.pluginRef, then use --config-file; or use `pointsman serve --endpoints`"
            } else {
            "declare a file-discovery plugin and name it in dataLayer.discovery.pluginRef, or use `pointsman serve --endpoints`"
            }));
    }
    let origin = Origin {
        file: options.config_file.clone(),
        document: bytes,
        allow_experimental: options.allow_experimental_plugins,
        default: DefaultProfile::Epp,
        watch: options.watch_config_file,
    };
    Ok(Some((compiled, origin)))
}

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Serving,
    Stopping,
    Stopped,
}

async fn serve(options: Epp, compiled: Compiled, origin: Origin, states: Arc<LearnedStates>) -> Result<Exit, Failure> {
    let mut signals = StopSignals::catch()?;
    let ports = options.ports()?;
    let grpc_tls = grpc_certificates(&options)?;
    let metrics_tls = metrics_certificates(&options)?;
    let wanted =
        Wanted { tls: TlsOptions { insecure_skip_verify: true, ..TlsOptions::default() }, ..Wanted::default() };
    let wiring = Wiring::prepare(&wanted, &compiled)?;
    let log = options
        .decision_log
        .as_deref()
        .map(|path| DecisionLog::start(path, options.decision_log_sample))
        .transpose()?;
    let log = log.map(Arc::new);
    let traces = Traces::start(options.tracing)?;
    let pool = Pool::new(
        with_waits(PoolOptions { tracer: traces.tracer(), ..pool_options(&options, states) }, &compiled),
        compiled,
    );

    let metrics = bind(&options, ports.metrics, "--metrics-port").await?;
    let admin = match options.admin()? {
        Some(address) => {
            Some(TcpListener::bind(address).await.map_err(|e| cannot_listen(address, "--admin-listen", &e))?)
        }
        None => None,
    };
    let grpc = bind(&options, ports.grpc, "--grpc-port").await?;
    let health = bind(&options, ports.health, "--grpc-health-port").await?;
    if options.refresh_metrics_interval < SHORTEST_TICK {
        let requested = options.refresh_metrics_interval.as_secs_f64();
        tracing::info!(requested, effective = 0.05, "Warning: refresh-metrics-interval below minimum, clamped");
    }
    let feed = wiring.start(|tls| options.sources(tls), &pool, Vec::new())?;
    if let Some(file) = &options.shadow_config_file {
        shadow(&pool, file, options.allow_experimental_plugins, DefaultProfile::Epp)?;
    }
    keep_house(&pool, &feed, log.as_ref(), origin);

    let (stage, stages) = watch::channel(Stage::Serving);
    let draining = Draining::default();
    let port = MetricsPort { tls: metrics_tls.map(|c| c.source()), pprof: options.enable_pprof };
    let metrics_address = address(&metrics);
    tokio::spawn(pointsman_admin::serve_metrics(
        metrics,
        Arc::clone(&pool),
        port,
        reached(stages.clone(), Stage::Stopped),
    ));
    let admin_address = admin.as_ref().map(address);
    if let Some(listener) = admin {
        let guard = pointsman_admin::Guard {
            allowed_hosts: options.admin_allowed_host.clone(),
            token: options.admin_token.clone(),
            read_only: options.admin_read_only,
        };
        let stop = reached(stages.clone(), Stage::Stopped);
        let console =
            pointsman_admin::Admin { guard, extensions: vec![Arc::new(Catalogue), Arc::new(Races::new(&pool))] };
        tokio::spawn(pointsman_admin::serve(listener, Arc::clone(&pool), console, stop));
    }

    let shared = Shared::new(Arc::clone(&pool), options.extproc()?);
    let threads = options.threads.map_or_else(cores, usize::from);
    let serving: Arc<dyn Health> = Arc::new(ServingPort(draining.clone()));
    let picker = server(Arc::new(ExtProc::new(shared, serving)), threads, grpc_tls.map(|c| c.source()))?;
    let asked: Arc<dyn Health> = Arc::new(HealthPort(draining.clone()));
    let asked = server(Arc::new(ExtProc::health_only(asked)), 0, None)?;
    first_look(&pool).await;
    tracing::info!(
        grpc = %address(&grpc),
        health = %address(&health),
        metrics = %metrics_address,
        admin = admin_address.map_or_else(|| "off".to_owned(), |a| a.to_string()),
        tls = options.secure_serving,
        threads,
        endpoints = pool.fleet.load().endpoints.len(),
        "serving"
    );
    let picker_stop = reached(stages.clone(), Stage::Stopping);
    let picker = tokio::spawn(picker.serve(grpc, picker_stop, options.hard_stop_timeout));
    let asked = tokio::spawn(asked.serve(health, reached(stages, Stage::Stopped), LAST_ANSWERS));

    signals.next().await;
    draining.begin();
    let seconds = options.drain_timeout.as_secs_f64();
    tracing::info!(seconds, "stopping: not ready any more, serving for the drain time; a second signal ends it");
    tokio::select! {
        () = tokio::time::sleep(options.drain_timeout) => {}
        () = signals.next() => tracing::warn!("the drain was cut short by a second signal"),
    }
    // Whoever cannot wait for open streams either.
    tokio::spawn(async move {
        signals.next().await;
        std::process::exit(3);
    });
    stage.send_replace(Stage::Stopping);
    let _ = picker.await;
    stage.send_replace(Stage::Stopped);
    let _ = asked.await;
    drop(feed);
    traces.stop().await;
    if let Some(log) = &log {
        log.close();
    }
    tracing::info!("stopped");
    Ok(Exit::Fine)
}

fn pool_options(options: &Epp, states: Arc<LearnedStates>) -> PoolOptions {
    PoolOptions {
        name: options.pool_name.clone(),
        states,
        record_bytes: usize::try_from(options.record_bytes).unwrap_or(usize::MAX),
        show_prompts: options.show_prompts,
        stale_after: options.metrics_staleness_threshold,
        ..PoolOptions::default()
    }
}

fn server(
    service: Arc<dyn Service>,
    threads: usize,
    tls: Option<pointsman_grpc::TlsSource>,
) -> Result<Server, Failure> {
    Server::new(service, &ServerOptions { threads, tls }).map_err(|e| Failure::new("cannot start a thread").why(e))
}

fn grpc_certificates(options: &Epp) -> Result<Option<Certificates>, Failure> {
    let policy = Policy::new(&options.tls_min_version, &options.tls_cipher_suites, options.client_ca_file.as_deref())?;
    if !options.secure_serving {
        return Ok(None);
    }
    if options.cert_path.is_empty() {
        return policy.self_signed().map(Some);
    }
    policy.directory("--cert-path", Path::new(&options.cert_path), options.enable_cert_reload).map(Some)
}

fn metrics_certificates(options: &Epp) -> Result<Option<Certificates>, Failure> {
    let open_tls = !options.metrics_cert_dir.is_empty() && options.metrics_client_ca_file.is_none();
    if options.metrics_endpoint_auth == Some(true) || open_tls {
        tracing::warn!(
            "the metrics port asks nobody for a token: --metrics-endpoint-auth needs Kubernetes, which checks tokens"
        );
    }
    if options.metrics_cert_dir.is_empty() {
        return Ok(None);
    }
    let policy = Policy::new("", &[], options.metrics_client_ca_file.as_deref())?.http1();
    policy.directory("--metrics-cert-dir", Path::new(&options.metrics_cert_dir), true).map(Some)
}

async fn bind(options: &Epp, port: u16, flag: &str) -> Result<TcpListener, Failure> {
    let wanted = options.bind_address.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    match TcpListener::bind((wanted, port)).await {
        Ok(listener) => Ok(listener),
        // A machine without IPv6.
        Err(error) if options.bind_address.is_none() && error.kind() != std::io::ErrorKind::AddrInUse => {
            let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
            TcpListener::bind(address).await.map_err(|e| cannot_listen(address, flag, &e))
        }
        Err(error) => Err(cannot_listen(SocketAddr::from((wanted, port)), flag, &error)),
    }
}

fn address(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().unwrap_or_else(|_| SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
}

/// Cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
