//! The process under test: started in a folder of its own, on ports that the system chose, and gone when the test is over.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Every port chosen by the system, on this machine only.
pub(crate) const FREE_PORTS: [&str; 10] = [
    "--grpc-port",
    "0",
    "--grpc-health-port",
    "0",
    "--metrics-port",
    "0",
    "--bind-address",
    "127.0.0.1",
    "--admin-listen",
    "127.0.0.1:0",
];

/// Endpoints from `endpoints.yaml`, rated by their queues.
pub(crate) const CONFIG: &str = "\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: file-discovery
  parameters: {path: endpoints.yaml, watchFile: true}
- type: queue-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
dataLayer:
  discovery: {pluginRef: file-discovery}
";

/// An endpoints file of these `host:port`, named a, b, ..
pub(crate) fn endpoints(addresses: &[&str]) -> String {
    let entry = |(name, address): (char, &&str)| {
        let (host, port) = address.rsplit_once(':').expect("host:port");
        format!("- {{name: {name}, address: {host}, port: \"{port}\"}}\n")
    };
    let all: String = ('a'..='z').zip(addresses).map(entry).collect();
    format!("endpoints:\n{all}")
}

/// A folder with `config.yaml` and an `endpoints.yaml` of one endpoint that nobody listens at.
pub(crate) fn folder(config: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "config.yaml", config);
    write(folder.path(), "endpoints.yaml", &endpoints(&["127.0.0.11:8000"]));
    folder
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("the file can be written");
}

/// `pointsman epp` in that folder, without the environment's say.
pub(crate) fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in ["POINTSMAN_ADMIN_TOKEN", "RUST_LOG", "OTEL_TRACES_EXPORTER", "NAMESPACE"] {
        command.env_remove(variable);
    }
    command
}

pub(crate) fn pointsman() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_pointsman"))
}

/// How a process that was not accepted ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs to the end.
pub(crate) fn run(mut command: Command) -> Ended {
    let output = command.output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A started process; dropped, it is gone.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::null()).spawn().expect("the program runs");
        let (sender, lines) = channel();
        let reader = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        std::thread::spawn(move || reader.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, seen: Vec::new() }
    }

    /// The first line for which `wanted` has a result; `None` when the process ends without one.
    pub(crate) fn line<T>(&mut self, wanted: impl Fn(&str) -> Option<T>) -> Option<T> {
        if let Some(found) = self.seen.iter().find_map(|line| wanted(line)) {
            return Some(found);
        }
        let deadline = Instant::now() + LONG;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let found = wanted(&line);
                    self.seen.push(line);
                    if found.is_some() {
                        return found;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("no such line within a minute:\n{}", self.said()),
            }
        }
    }

    /// The JSON log line with this message.
    pub(crate) fn logged(&mut self, msg: &str) -> Option<Value> {
        self.line(|line| serde_json::from_str::<Value>(line).ok().filter(|line| line["msg"] == msg))
    }

    /// Everything it said so far.
    pub(crate) fn said(&mut self) -> String {
        self.seen.extend(self.lines.try_iter());
        self.seen.join("\n")
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it can be asked").is_none()
    }

    /// Its exit code, when it ends in time.
    pub(crate) async fn wait(&mut self, at_most: Duration) -> Option<i32> {
        let deadline = Instant::now() + at_most;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                return status.code();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    }
}

/// A serving Endpoint Picker.
pub(crate) struct Epp {
    pub(crate) process: Process,
    pub(crate) folder: TempDir,
    pub(crate) grpc: SocketAddr,
    pub(crate) health: SocketAddr,
    pub(crate) metrics: SocketAddr,
    pub(crate) admin: String,
}

impl Epp {
    /// With [`CONFIG`] and these endpoints, and these flags besides.
    pub(crate) fn start(addresses: &[&str], flags: &[&str]) -> Self {
        let folder = folder(CONFIG);
        write(folder.path(), "endpoints.yaml", &endpoints(addresses));
        Self::start_in(folder, flags)
    }

    /// With the files in `folder`.
    pub(crate) fn start_in(folder: TempDir, flags: &[&str]) -> Self {
        let mut command = command(pointsman(), folder.path());
        command.arg("epp").args(FREE_PORTS).args(["--pool-name", "pool", "--config-file", "config.yaml"]).args(flags);
        let mut process = Process::spawn(command);
        let Some(serving) = process.logged("serving") else { panic!("it does not serve:\n{}", process.said()) };
        let address = |key: &str| serving[key].as_str().and_then(|a| a.parse().ok()).expect("an address");
        let (grpc, health, metrics) = (address("grpc"), address("health"), address("metrics"));
        let admin = serving["admin"].as_str().expect("an address").to_owned();
        Self { process, folder, grpc, health, metrics, admin }
    }

    /// A client command of the program, sent to its admin listener.
    pub(crate) fn ask(&self, args: &[&str]) -> Ended {
        let mut asked = command(pointsman(), self.folder.path());
        asked.args(args).args(["--admin", &self.admin]);
        run(asked)
    }
}
