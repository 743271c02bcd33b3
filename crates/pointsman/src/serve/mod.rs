//! `pointsman serve`: a pool, the sources that feed it, the gateway and the admin listener, put together.
//!
//! The order is chosen so that what is wrong is said before anything is visible from outside: flags and configuration, files, ports, and only then
//! tasks. The gateway stops first and the admin listener last, so that a drain can be watched.

mod banner;
mod configuration;
mod demo;
pub(crate) mod flags;

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pointsman_gateway::Gateway;
use pointsman_plugins::{DefaultProfile, LearnedStates};
use pointsman_router::Pool;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::catalogue::Catalogue;
use crate::decision_log::DecisionLog;
use crate::failure::{Exit, Failure};
use crate::lab::server::Races;
use crate::listen::{cannot_listen, reached, stop_signal};
use crate::reload::shadow;
use crate::telemetry::Traces;
use crate::terminal::Paint;
use crate::wiring::{Wanted, Wiring, first_look, keep_house, with_waits};
use banner::Banner;
use configuration::{Configuration, Rejected};
pub(crate) use flags::Serve;

/// Runs until told to stop.
pub(crate) fn run(options: Serve) -> Result<Exit, Failure> {
    options.check()?;
    let states = Arc::<LearnedStates>::default();
    let configuration = match configuration::load(&options, Arc::clone(&states)) {
        Ok(configuration) => configuration,
        Err(Rejected::Faults(text)) => {
            std::io::stderr().write_all(text.as_bytes())?;
            return Ok(Exit::No);
        }
        Err(Rejected::Unreadable(failure)) => return Err(failure),
    };
    std::io::stderr().write_all(configuration.warnings.as_bytes())?;
    let started = options.logging.start();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = options.threads {
        runtime.worker_threads(usize::from(threads));
    }
    let runtime = runtime.enable_all().build().map_err(|e| Failure::new("cannot start the runtime").why(e))?;
    let ended = runtime.block_on(serve(options, configuration, states, started));
    // Simulated engines and polls may still be there; nobody waits for them.
    runtime.shutdown_timeout(Duration::from_millis(100));
    ended
}

async fn serve(
    options: Serve,
    configuration: Configuration,
    states: Arc<LearnedStates>,
    started: impl FnOnce(),
) -> Result<Exit, Failure> {
    let Configuration { name, compiled, origin, .. } = configuration;
    let profiles = compiled.scheduler.profiles.clone();
    let wanted = Wanted {
        endpoints: options.endpoints.as_deref(),
        endpoints_file: options.endpoints_file.as_deref(),
        tls: options.engine_tls(),
    };
    let wiring = Wiring::prepare(&wanted, &compiled)?;
    let log = options
        .decision_log
        .as_deref()
        .map(|path| DecisionLog::start(path, options.decision_log_sample))
        .transpose()?;
    let traces = Traces::start(options.tracing)?;
    let pool = Pool::new(with_waits(options.pool(states, traces.tracer()), &compiled), compiled);
    let gateway = Gateway::new(Arc::clone(&pool), options.gateway_options()).map_err(|e| {
        Failure::new("the gateway cannot start").why(e).next("look at --tls-cert, --tls-key and --engine-ca")
    })?;
    let (listener, listen) = bind(options.listen, "--listen").await?;
    let (admin_listener, admin) = bind(options.admin_listen, "--admin-listen").await?;

    let demo = if wiring.has_endpoints() { None } else { Some(demo::start(options.demo).await?) };
    let simulated = demo.as_ref().map(|demo| demo.endpoints.clone());
    if let Some(raised) = options.raised() {
        tracing::warn!("{raised}");
    }
    let feed = wiring.start(|tls| options.sources_options(tls), &pool, simulated.unwrap_or_default())?;
    let log = log.map(Arc::new);
    if let Some(file) = &options.shadow_config_file {
        shadow(&pool, file, options.allow_experimental_plugins, DefaultProfile::Serve)?;
    }
    keep_house(&pool, &feed, log.as_ref(), origin);

    let (stop, stopped) = watch::channel(Stage::Running);
    tokio::spawn(signals(stop.clone()));
    let guard = pointsman_admin::Guard {
        allowed_hosts: options.admin_allowed_host.clone(),
        token: options.admin_token.clone(),
        read_only: options.admin_read_only,
    };
    if !admin.ip().is_loopback() && guard.token.is_none() {
        tracing::warn!(%admin, "the admin listener can be reached from elsewhere and asks nobody for a token (--admin-token)");
    }
    let admin_stop = reached(stopped.clone(), Stage::Drained);
    let console = pointsman_admin::Admin { guard, extensions: vec![Arc::new(Catalogue), Arc::new(Races::new(&pool))] };
    let admin_task = tokio::spawn(pointsman_admin::serve(admin_listener, Arc::clone(&pool), console, admin_stop));
    let gateway_stop = reached(stopped, Stage::Draining);
    let gateway_task = tokio::spawn(async move { gateway.serve(listener, gateway_stop).await });

    first_look(&pool).await;
    let banner = Banner {
        simulated: demo.is_some(),
        frozen: options.demo.is_some(),
        gateway: listen,
        tls: options.is_tls(),
        admin,
        fleet: &pool.fleet.snapshot(),
        configuration: &name,
        profiles: &profiles,
    };
    let _ = std::io::stderr().write_all(banner.render(Paint::stderr()).as_bytes());
    started();

    let served = gateway_task.await;
    stop.send_replace(Stage::Drained);
    let _ = admin_task.await;
    drop(feed);
    traces.stop().await;
    if let Some(log) = &log {
        log.close();
    }
    match served {
        Ok(()) => Ok(Exit::Fine),
        Err(error) => {
            Err(Failure::new("the gateway stopped in a way it never should").why(error).next("please report this"))
        }
    }
}

async fn bind(address: SocketAddr, flag: &str) -> Result<(TcpListener, SocketAddr), Failure> {
    let listener = TcpListener::bind(address).await.map_err(|e| cannot_listen(address, flag, &e))?;
    let bound = listener.local_addr().unwrap_or(address);
    Ok((listener, bound))
}

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Running,
    Draining,
    Drained,
}

/// The first signal begins the drain, the second one ends the process.
async fn signals(stop: watch::Sender<Stage>) {
    stop_signal().await;
    tracing::info!("stopping: running requests may finish; a second signal stops at once");
    stop.send_if_modified(|stage| {
        let begins = *stage == Stage::Running;
        if begins {
            *stage = Stage::Draining;
        }
        begins
    });
    stop_signal().await;
    tracing::warn!("stopped at once: requests under way were cut off");
    std::process::exit(3);
}
