//! The binary under test: built once, started as a gateway or as a simulated engine, asked through its admin API.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::client::Client;
use crate::process::{Process, free_port};
use crate::workspace;

/// How long a gateway or a simulated engine may take until it answers.
const START: Duration = Duration::from_secs(20);

/// Names another binary to run the jobs with, such as one of an earlier release to compare with.
const BINARY: &str = "POINTSMAN_BINARY";

/// Builds the release binary and says where it lies. With `POINTSMAN_BINARY` set, that one is taken as it is.
pub(crate) fn build() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os(BINARY).filter(|path| !path.is_empty()) {
        eprintln!("running {} ({BINARY})", binary.display());
        return Ok(binary.into());
    }
    eprintln!("building target/release/pointsman ...");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "--package", "pointsman"])
        .current_dir(workspace::root())
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the release build of pointsman failed");
    }
    Ok(workspace::target().join("release/pointsman"))
}

/// A running `pointsman serve`.
pub(crate) struct Gateway {
    process: Process,
    listen: SocketAddr,
    admin: SocketAddr,
    /// Name and address of each endpoint; answers name endpoints, and a name need not be an address.
    names: Vec<(String, String)>,
}

impl Gateway {
    /// Starts a gateway in front of `endpoints` and waits until it and they are ready.
    ///
    /// `config` is an `EndpointPickerConfig` file; without one the gateway's own default applies.
    pub(crate) async fn start(
        client: &Client,
        binary: &Path,
        folder: &Path,
        name: &str,
        endpoints: &[SocketAddr],
        config: Option<&Path>,
    ) -> Result<Self> {
        let (listen, admin) = (free_port()?, free_port()?);
        let list: Vec<String> = endpoints.iter().map(SocketAddr::to_string).collect();
        let mut command = Command::new(binary);
        command.arg("serve").args(["--listen", &listen.to_string(), "--admin-listen", &admin.to_string()]);
        command.args(["--endpoints", &list.join(",")]);
        if let Some(config) = config {
            command.arg("--config-file").arg(config);
        }
        let process = Process::start(name, folder, &mut command)?;
        let mut gateway = Self { process, listen, admin, names: Vec::new() };
        let deadline = Instant::now() + START;
        loop {
            gateway.process.must_be_alive()?;
            if let Ok(states) = gateway.endpoints(client).await
                && states.len() == endpoints.len()
                && states.iter().all(|state| state.ready)
                && client.get(&gateway.url("/readyz")).await.is_ok_and(|reply| reply.status == 200)
            {
                gateway.names = states.into_iter().map(|state| (state.name, state.address)).collect();
                return Ok(gateway);
            }
            if Instant::now() > deadline {
                bail!("{name} was not ready within {START:?}; see {}", gateway.process.log().display());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A URL of the gateway.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listen)
    }

    /// The address of an endpoint that an answer names; the name itself where it is none of the pool.
    pub(crate) fn address_of(&self, name: &str) -> String {
        let known = self.names.iter().find(|(own, _)| own == name);
        known.map_or(name, |(_, address)| address).to_owned()
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its resident memory.
    pub(crate) fn resident_mib(&self) -> Result<f64> {
        crate::bench::resident_memory(self.process.id())
    }

    /// The configuration in force, from `GET /api/config`.
    pub(crate) async fn config(&self, client: &Client) -> Result<Value> {
        client.get_json(&format!("http://{}/api/config", self.admin)).await
    }

    /// How many documents were read again, whatever became of them.
    pub(crate) async fn reloads(&self, client: &Client) -> Result<u64> {
        let page = client.get(&format!("http://{}/metrics", self.admin)).await?;
        let text = String::from_utf8_lossy(&page.body);
        let lines = text.lines().filter(|line| line.starts_with("pointsman_config_reloads_total{"));
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64)
    }

    /// What the gateway holds of each endpoint, from `GET /api/endpoints`.
    pub(crate) async fn endpoints(&self, client: &Client) -> Result<Vec<EndpointState>> {
        let answer = client.get_json(&format!("http://{}/api/endpoints", self.admin)).await?;
        let rows = rows(&answer, "endpoints").context("/api/endpoints holds no list")?;
        Ok(rows.iter().map(EndpointState::of).collect())
    }

    /// The outcome of one decision, once the request has ended. `None` when the record is gone or does not end.
    pub(crate) async fn outcome(&self, client: &Client, decision: &str) -> Option<Recorded> {
        if decision.is_empty() {
            return None;
        }
        let url = format!("http://{}/api/decisions/{decision}", self.admin);
        // The record is closed by the end of the response, which the client may see a moment earlier.
        for _ in 0..20 {
            if let Ok(record) = client.get_json(&url).await
                && let Some(recorded) = Recorded::of(&record)
            {
                return Some(recorded);
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        None
    }

    /// The outcomes of the latest `limit` decisions that have ended.
    pub(crate) async fn outcomes(&self, client: &Client, limit: usize) -> Result<Vec<Recorded>> {
        let answer = client.get_json(&format!("http://{}/api/decisions?limit={limit}", self.admin)).await?;
        let rows = rows(&answer, "decisions").context("/api/decisions holds no list")?;
        Ok(rows.iter().filter_map(Recorded::of).collect())
    }
}

/// A list that is the whole answer, or stands under `key` in it.
fn rows<'a>(answer: &'a Value, key: &str) -> Option<&'a Vec<Value>> {
    answer.as_array().or_else(|| answer.get(key).and_then(Value::as_array))
}

/// An endpoint as the admin API shows it.
#[derive(Debug)]
pub(crate) struct EndpointState {
    /// The name under which answers and records speak of it.
    name: String,
    /// `host:port`.
    pub(crate) address: String,
    /// Whether requests may go there.
    pub(crate) ready: bool,
    /// Why it is not ready, when it is not.
    pub(crate) reason: String,
}

impl EndpointState {
    fn of(row: &Value) -> Self {
        let text = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let ready = row.get("ready").and_then(Value::as_bool).unwrap_or(false);
        Self { name: text("name"), address: text("address"), ready, reason: text("reason") }
    }
}

/// What a decision record says became of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Prompt tokens that the router expected in the endpoint's cache.
    pub(crate) predicted: u64,
    /// Prompt tokens that the engine reported as cached, when it did.
    pub(crate) cached: Option<u64>,
    /// How often another endpoint had to be tried.
    pub(crate) retries: u64,
}

impl Recorded {
    /// Reads a record; `None` while its request has not ended.
    fn of(record: &Value) -> Option<Self> {
        let outcome = record.get("outcome").filter(|outcome| outcome.is_object())?;
        let status = outcome.get("status").and_then(Value::as_u64);
        let error = outcome.get("error").and_then(Value::as_str);
        if status.is_none() && error.is_none() {
            return None;
        }
        let count = |key: &str| outcome.get(key).and_then(Value::as_u64);
        Some(Self {
            predicted: count("cached_tokens_predicted").unwrap_or(0),
            cached: count("cached_tokens"),
            retries: count("retries").unwrap_or(0),
        })
    }
}

/// A running `pointsman engine`.
pub(crate) struct Engine {
    process: Process,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Engine {
    /// Starts a simulated engine on `address`; it is ready only after [`Engine::ready`].
    pub(crate) fn start(binary: &Path, folder: &Path, name: &str, address: SocketAddr, flags: &[&str]) -> Result<Self> {
        let mut command = Command::new(binary);
        command.args(["engine", "--port", &address.port().to_string()]).args(flags);
        Ok(Self { process: Process::start(name, folder, &mut command)?, address })
    }

    /// Waits until it answers its health check.
    pub(crate) async fn ready(&mut self, client: &Client) -> Result<()> {
        let deadline = Instant::now() + START;
        let url = format!("http://{}/health", self.address);
        while !client.get(&url).await.is_ok_and(|reply| reply.status == 200) {
            self.process.must_be_alive()?;
            if Instant::now() > deadline {
                bail!("no healthy engine within {START:?}; see {}", self.process.log().display());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_counts_once_its_request_has_ended() {
        assert_eq!(Recorded::of(&json!({"id": "d", "outcome": null})), None);
        assert_eq!(Recorded::of(&json!({"id": "d", "outcome": {"endpoint": "a", "status": null}})), None);
        let ended =
            json!({"outcome": {"status": 200, "cached_tokens_predicted": 64, "cached_tokens": null, "retries": 1}});
        assert_eq!(Recorded::of(&ended), Some(Recorded { predicted: 64, cached: None, retries: 1 }));
    }
}
