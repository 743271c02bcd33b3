//! `pointsman engine`: a simulated vLLM of its own.

use clap::Args;
use pointsman_engine::EngineOptions;
use tokio::net::TcpListener;

use crate::failure::{Exit, Failure};
use crate::listen::{cannot_listen, stop_signal};
use crate::logging::Logging;

const EXAMPLES: &str = "\
Examples:
  pointsman engine --port 8001
  pointsman engine --port 8002 --profile 70b-4xh100 --kv-cache-size 5000";

/// The engine and its log.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Engine {
    #[command(flatten)]
    options: EngineOptions,
    #[command(flatten)]
    logging: Logging,
}

/// Runs it until told to stop.
pub(crate) fn run(engine: Engine) -> Result<Exit, Failure> {
    engine.logging.start()();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::new("cannot start the runtime").why(e))?;
    runtime.block_on(async {
        let address = (engine.options.host, engine.options.port).into();
        let listener = TcpListener::bind(address).await.map_err(|e| cannot_listen(address, "--port", &e))?;
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, model = engine.options.model, "simulated engine is listening");
        }
        let stop = async {
            stop_signal().await;
            tracing::info!("stopping: running requests may finish");
            tokio::spawn(async {
                stop_signal().await;
                std::process::exit(3);
            });
        };
        pointsman_engine::serve(listener, engine.options, stop)
            .await
            .map_err(|e| Failure::usage("the engine cannot run with these options").why(e))?;
        Ok(Exit::Fine)
    })
}
