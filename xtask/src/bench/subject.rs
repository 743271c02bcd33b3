//! The server under test: the echo or `pointsman epp`, on a processor of its own.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use super::engines::{self, Engines};
use super::exchange;
use super::machine::{self, Cores};
use super::script::{Reply, Script};
use super::stream::Connection;
use crate::process::{Process, free_port};

/// How long a server may take until it answers, and until it has read every engine's page.
const START: Duration = Duration::from_secs(30);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Server {
    /// The do-nothing picker on tonic
    Echo,
    /// The same on one thread instead of tokio's work-stealing runtime
    EchoOneThread,
    /// `pointsman epp`
    Epp,
}

impl Server {
    /// As tables show it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::EchoOneThread => "echo-one-thread",
            Self::Epp => "pointsman",
        }
    }
}

/// What servers are started from.
pub(super) struct Bench {
    /// Where they run.
    pub(super) cores: Cores,
    /// The engines they fetch pages from.
    pub(super) engines: Engines,
    /// The binary of `pointsman`.
    pub(super) pointsman: Option<PathBuf>,
    /// Logs and configuration files.
    pub(super) folder: PathBuf,
    /// More flags for `pointsman epp`.
    pub(super) epp_flags: Vec<String>,
}

/// A running server.
pub(super) struct Subject {
    process: Process,
    /// Where it serves ext-proc.
    pub(super) address: SocketAddr,
}

impl Subject {
    /// Starts a server over `count` engines and waits until it decides and has read every page once.
    pub(super) async fn start(bench: &Bench, server: Server, count: u32) -> Result<Self> {
        let address = free_port()?;
        let mut command = match server {
            Server::Echo => echo(bench, address, count, false)?,
            Server::EchoOneThread => echo(bench, address, count, true)?,
            Server::Epp => epp(bench, address, count)?,
        };
        let pages = bench.engines.pages();
        machine::bind(bench.cores.server)?;
        let process = Process::start(server.name(), &bench.folder, &mut command);
        machine::bind(bench.cores.load)?;
        let mut subject = Self { process: process?, address };
        let probe = Script::chat(1_024, 0, Reply::json());
        let deadline = Instant::now() + START;
        loop {
            subject.process.must_be_alive()?;
            let pages = bench.engines.pages() - pages;
            let answer = async {
                let connection = Connection::open(address).await?;
                exchange::whole(&connection, &probe, 0).await
            };
            let answer = tokio::time::timeout(Duration::from_secs(2), answer).await;
            if pages >= u64::from(count) && matches!(answer, Ok(Ok(_))) {
                return Ok(subject);
            }
            if Instant::now() > deadline {
                let log = subject.process.log().display();
                bail!("{} was not ready within {START:?} ({pages} pages, {answer:?}); see {log}", server.name());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Fails when it has ended.
    pub(super) fn must_be_alive(&mut self) -> Result<()> {
        self.process.must_be_alive()
    }

    /// Processor time it has used.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        machine::processor_time(self.id())
    }
}

impl Drop for Subject {
    /// A picker asked to leave would first drain, which nobody here waits for.
    fn drop(&mut self) {
        self.process.kill();
    }
}

fn echo(bench: &Bench, address: SocketAddr, count: u32, one_thread: bool) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("this program has a path")?);
    command.arg("echo").args(["--grpc-port", &address.port().to_string(), "--engines", &count.to_string()]);
    command.args(["--page-port", &bench.engines.port.to_string()]);
    if one_thread {
        command.arg("--one-thread");
    }
    Ok(command)
}

/// `pointsman epp` with the configuration it has by default, but for where its endpoints come from.
fn epp(bench: &Bench, address: SocketAddr, count: u32) -> Result<Command> {
    let binary = bench.pointsman.as_ref().context("no binary of pointsman was built")?;
    let config = configuration(&bench.folder, (0..count).map(|engine| engines::address(engine, bench.engines.port)))?;
    let mut command = Command::new(binary);
    command.arg("epp").arg("--config-file").arg(config);
    command.args(["--pool-name", "bench", "--pool-namespace", "default", "--secure-serving=false"]);
    command.args(["--grpc-port", &address.port().to_string()]);
    command.args(["--grpc-health-port", &free_port()?.port().to_string()]);
    command.args(["--metrics-port", &free_port()?.port().to_string(), "--admin-listen", "off"]);
    command.args(&bench.epp_flags);
    Ok(command)
}

/// Writes a configuration whose endpoints stand in a file, and that file; the rest is left to the defaults.
fn configuration(folder: &Path, endpoints: impl Iterator<Item = SocketAddr>) -> Result<PathBuf> {
    let mut list = String::from("endpoints:\n");
    for (number, endpoint) in endpoints.enumerate() {
        let (address, port) = (endpoint.ip(), endpoint.port());
        let _ = writeln!(list, "- {{name: engine-{number}, address: \"{address}\", port: \"{port}\"}}");
    }
    let endpoints = folder.join("endpoints.yaml");
    let config = folder.join("epp.yaml");
    let text = format!(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n\
         - {{type: file-discovery, parameters: {{path: {:?}}}}}\n\
         dataLayer:\n  discovery: {{pluginRef: file-discovery}}\n",
        endpoints.display().to_string()
    );
    for (path, text) in [(&endpoints, &list), (&config, &text)] {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(config)
}
