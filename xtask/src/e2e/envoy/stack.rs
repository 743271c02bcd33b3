//! What the cases run against: a real Envoy, one picker or two, and simulated engines, all on loopback ports of the
//! system's choice.
//!
//! The build of Envoy that is used here ends when the thread that started it does, so everything is started from the main
//! thread, on which the whole job runs.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::client::Client;
use crate::pointsman::Engine;
use crate::process::{Process, free_port};
use crate::workspace;

/// How long each process may take until it answers.
const START: Duration = Duration::from_secs(20);

/// The bootstrap that was recorded with; only ports and what [`Plan`] names differ.
const BOOTSTRAP: &str = "testdata/fixtures/envoy/envoy-fail-closed.yaml";

/// The model that engines serve.
pub(super) const MODEL: &str = "demo";

/// Binaries and a folder for logs.
pub(super) struct Tools {
    /// `pointsman`.
    pub(super) pointsman: PathBuf,
    /// Envoy.
    pub(super) envoy: PathBuf,
    /// Logs and configurations.
    pub(super) folder: PathBuf,
    /// A client with connections of its own.
    pub(super) client: Client,
}

/// How a stack differs from the ordinary one.
pub(super) struct Plan {
    /// Names its logs.
    pub(super) name: &'static str,
    /// Simulated engines.
    pub(super) engines: usize,
    /// Their flags.
    pub(super) engine_flags: &'static [&'static str],
    /// Pickers that Envoy may ask.
    pub(super) pickers: usize,
    /// Further flags of theirs.
    pub(super) picker_flags: &'static [&'static str],
    /// Further plugins, in YAML, each a line of a list.
    pub(super) plugins: &'static str,
    /// Further sections of the configuration, in YAML.
    pub(super) sections: &'static str,
    /// The proxy says which endpoint served: the engine's own name for itself goes into metadata that is forwarded.
    pub(super) reports_served: bool,
}

/// Engines that answer at once with the text they were asked, however long the prompt.
const ECHO: &[&str] = &[
    "--profile",
    "none",
    "--mode",
    "echo",
    "--max-request-body-size-mb",
    "16",
    "--max-model-len",
    "4000000",
    "--kv-cache-size",
    "400000",
];

impl Plan {
    /// Three engines that answer at once with the text they were asked, one picker, the default configuration.
    pub(super) const ORDINARY: Self = Self {
        name: "ordinary",
        engines: 3,
        engine_flags: ECHO,
        pickers: 1,
        picker_flags: &["--drain-timeout", "0s", "--hard-stop-timeout", "5s"],
        plugins: "",
        sections: "",
        reports_served: false,
    };
}

/// A running stack; dropped, all of it stops.
pub(super) struct Stack {
    // Fields are dropped in order: the proxy first, so that nothing reports a picker or an engine that left.
    envoy: Process,
    /// Where clients are served.
    pub(super) address: SocketAddr,
    /// The pickers.
    pub(super) pickers: Vec<Picker>,
    /// The engines.
    pub(super) engines: Vec<Engine>,
    plan: Plan,
}

/// A running `pointsman epp`.
pub(super) struct Picker {
    process: Process,
    name: String,
    ports: [SocketAddr; 3],
}

impl Stack {
    /// Starts everything and waits until a request passes through all of it.
    pub(super) async fn start(tools: &Tools, plan: Plan) -> Result<Self> {
        let mut engines = Vec::new();
        for number in 0..plan.engines {
            engines.push(engine(tools, &plan, number, free_port()?)?);
        }
        for engine in &mut engines {
            engine.ready(&tools.client).await?;
        }
        let addresses: Vec<SocketAddr> = engines.iter().map(|engine| engine.address).collect();
        let config = picker_configuration(tools, &plan, &addresses)?;
        let mut pickers = Vec::new();
        for number in 0..plan.pickers {
            let name = format!("{}-epp-{number}", plan.name);
            let ports = [free_port()?, free_port()?, free_port()?];
            pickers.push(Picker { process: picker(tools, &plan, &name, &config, ports)?, name, ports });
        }
        for picker in &mut pickers {
            picker.ready(&tools.client).await?;
        }
        let (address, admin) = (free_port()?, free_port()?);
        let asked: Vec<SocketAddr> = pickers.iter().map(|picker| picker.ports[0]).collect();
        let bootstrap = bootstrap(&plan, address, admin, &asked)?;
        let file = tools.folder.join(format!("{}-envoy.yaml", plan.name));
        std::fs::write(&file, bootstrap).with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = Command::new(&tools.envoy);
        command.arg("-c").arg(&file).args(["--concurrency", "1", "-l", "warning"]);
        // Without it, instances on one machine would need numbers of their own for the memory they share.
        command.arg("--disable-hot-restart");
        let mut envoy = Process::start(format!("{}-envoy", plan.name), &tools.folder, &mut command)?;
        let ready = format!("http://{admin}/ready");
        answers(&tools.client, &ready, &mut envoy).await?;
        Ok(Self { envoy, address, pickers, engines, plan })
    }

    /// A URL of the proxy.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Starts a killed engine again, where it was.
    pub(super) async fn restart_engine(&mut self, tools: &Tools, number: usize) -> Result<()> {
        let address = self.engines[number].address;
        self.engines[number] = engine(tools, &self.plan, number, address)?;
        self.engines[number].ready(&tools.client).await
    }

    /// Starts a killed picker again, on the same ports.
    pub(super) async fn restart_picker(&mut self, tools: &Tools, number: usize) -> Result<()> {
        let config = tools.folder.join(format!("{}-epp.yaml", self.plan.name));
        let Picker { name, ports, .. } = &self.pickers[number];
        let process = picker(tools, &self.plan, name, &config, *ports)?;
        self.pickers[number].process = process;
        self.pickers[number].ready(&tools.client).await
    }

    /// Fails when a process that should run does not.
    pub(super) fn must_be_alive(&mut self) -> Result<()> {
        self.envoy.must_be_alive()?;
        self.pickers.iter_mut().try_for_each(|picker| picker.process.must_be_alive())
    }
}

impl Picker {
    /// Its metrics page.
    pub(super) async fn metrics(&self, client: &Client) -> Result<String> {
        let reply = client.get(&format!("http://{}/metrics", self.ports[2])).await?;
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// Requests in flight by its own counts: per endpoint, which a producer keeps, and by model.
    pub(super) async fn in_flight(&self, client: &Client) -> Result<f64> {
        let page = self.metrics(client).await?;
        let counts = ["llm_d_epp_inflight_requests{", "inference_objective_running_requests{"];
        let lines = page.lines().filter(|line| counts.iter().any(|count| line.starts_with(count)));
        let values = lines.filter_map(|line| line.rsplit_once(' '));
        Ok(values.filter_map(|(_, value)| value.parse::<f64>().ok()).sum())
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks it to leave.
    pub(super) fn terminate(&self) {
        self.process.terminate();
    }

    /// Whether it has left.
    pub(super) fn has_left(&mut self) -> bool {
        self.process.must_be_alive().is_err()
    }

    async fn ready(&mut self, client: &Client) -> Result<()> {
        answers(client, &format!("http://{}/metrics", self.ports[2]), &mut self.process).await?;
        // Its gRPC ports open when its endpoints are loaded.
        let deadline = Instant::now() + START;
        while tokio::net::TcpStream::connect(self.ports[0]).await.is_err() {
            self.process.must_be_alive()?;
            if Instant::now() > deadline {
                bail!("{} opened no port within {START:?}; see {}", self.name, self.process.log().display());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

/// Waits until `url` is answered with 200.
async fn answers(client: &Client, url: &str, process: &mut Process) -> Result<()> {
    let deadline = Instant::now() + START;
    while !client.get(url).await.is_ok_and(|reply| reply.status == 200) {
        process.must_be_alive()?;
        if Instant::now() > deadline {
            bail!("{url} was not ready within {START:?}; see {}", process.log().display());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn engine(tools: &Tools, plan: &Plan, number: usize, address: SocketAddr) -> Result<Engine> {
    let own = address.to_string();
    let mut flags = vec!["--model", MODEL, "--pod-name", &own];
    flags.extend(plan.engine_flags);
    Engine::start(&tools.pointsman, &tools.folder, &format!("{}-engine-{number}", plan.name), address, &flags)
}

fn picker(tools: &Tools, plan: &Plan, name: &str, config: &Path, ports: [SocketAddr; 3]) -> Result<Process> {
    let mut command = Command::new(&tools.pointsman);
    command.arg("epp").arg("--config-file").arg(config);
    command.args(["--pool-name", "e2e", "--pool-namespace", "default", "--secure-serving=false"]);
    command.args(["--admin-listen", "off"]);
    for (flag, address) in ["--grpc-port", "--grpc-health-port", "--metrics-port"].iter().zip(ports) {
        command.args([*flag, &address.port().to_string()]);
    }
    command.args(plan.picker_flags);
    Process::start(name, &tools.folder, &mut command)
}

/// Writes the picker's configuration and the file of its endpoints.
fn picker_configuration(tools: &Tools, plan: &Plan, engines: &[SocketAddr]) -> Result<PathBuf> {
    let mut list = String::from("endpoints:\n");
    if engines.is_empty() {
        list = "endpoints: []\n".into();
    }
    for (number, engine) in engines.iter().enumerate() {
        let (address, port) = (engine.ip(), engine.port());
        let _ = writeln!(list, "- {{name: engine-{number}, address: \"{address}\", port: \"{port}\"}}");
    }
    let endpoints = tools.folder.join(format!("{}-endpoints.yaml", plan.name));
    let config = tools.folder.join(format!("{}-epp.yaml", plan.name));
    let path = endpoints.display().to_string();
    let text = format!(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n\
         - {{type: file-discovery, parameters: {{path: {path:?}}}}}\n{}\
         {}dataLayer:\n  discovery: {{pluginRef: file-discovery}}\n",
        plan.plugins, plan.sections
    );
    for (path, text) in [(&endpoints, &list), (&config, &text)] {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(config)
}

/// The recorded bootstrap with this stack's ports.
fn bootstrap(plan: &Plan, listen: SocketAddr, admin: SocketAddr, pickers: &[SocketAddr]) -> Result<String> {
    let path = workspace::root().join(BOOTSTRAP);
    let mut text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut replace = |from: &str, to: &str| {
        if !text.contains(from) {
            bail!("{BOOTSTRAP} no longer holds {from:?}");
        }
        text = text.replace(from, to);
        Ok(())
    };
    replace("port_value: 19000", &format!("port_value: {}", admin.port()))?;
    replace("port_value: 18000", &format!("port_value: {}", listen.port()))?;
    let endpoint = "        - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 9002}}}\n";
    let all = pickers.iter().map(|picker| endpoint.replace("9002", &picker.port().to_string()));
    replace(endpoint, &all.collect::<String>())?;
    // Every ten seconds, and once a minute until the first request, would make cases that stop a picker last as long.
    replace("interval: 10s", "interval: 1s\n      no_traffic_interval: 1s")?;
    replace("codec_type: AUTO\n", "codec_type: AUTO\n          http_protocol_options: {enable_trailers: true}\n")?;
    if plan.reports_served {
        let forward =
            "message_timeout: 1000s\n              metadata_options: {forwarding_namespaces: {untyped: [envoy.lb]}}\n";
        replace("message_timeout: 1000s\n", forward)?;
        let router = "          - name: envoy.filters.http.router\n";
        replace(router, &format!("{SERVED}{router}"))?;
    }
    Ok(text)
}

/// Between the processor and the engines, so that its metadata is there when the processor is told of the response.
const SERVED: &str = r#"          - name: envoy.filters.http.header_to_metadata
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
              response_rules:
              - header: x-inference-pod
                on_header_present: {metadata_namespace: envoy.lb, key: x-gateway-destination-endpoint-served, type: STRING}
"#;
