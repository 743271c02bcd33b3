//! A started `pointsman serve`, and ways to talk to it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A started process; dropped, it is gone.
pub(crate) struct Serve {
    child: Child,
    pub(crate) gateway: String,
    pub(crate) admin: String,
    pub(crate) banner: String,
    pub(crate) stderr: Receiver<String>,
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serve {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_in(args, &[], Stdio::inherit())
    }

    /// With these variables, its stdout going there.
    pub(crate) fn start_in(args: &[&str], variables: &[(&str, &str)], stdout: Stdio) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pointsman"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .args(args)
            .envs(variables.iter().copied())
            .stdout(stdout)
            .env_remove("POINTSMAN_ADMIN_TOKEN")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let (sender, stderr) = channel();
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut banner = String::new();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !banner.contains("Why that engine?") {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = stderr.recv_timeout(left).unwrap_or_else(|e| panic!("{e} after:\n{banner}"));
            banner.push_str(&line);
            banner.push('\n');
        }
        let address = |label: &str| {
            let line = banner.lines().find(|l| l.trim_start().starts_with(label)).expect("a line of the banner");
            line.split_whitespace().nth(1).and_then(|url| url.split("://").nth(1)).expect("a URL").to_owned()
        };
        let (gateway, admin) = (address("gateway"), address("console"));
        Self { child, gateway, admin, banner, stderr }
    }

    /// Its stdout, where it was started with a pipe.
    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("a pipe")
    }

    /// Stops reading what it says: after the next line its stderr is a pipe without a reader.
    pub(crate) fn deafen(&mut self) {
        self.stderr = channel().1;
    }

    pub(crate) fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
        command.args(args).args(["--admin", &self.admin]).output().expect("the program runs")
    }

    pub(crate) fn text(&self, args: &[&str]) -> String {
        let output = self.command(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Sends a chat completion to it and gives status, head and body.
    pub(crate) fn chat(&self, model: &str, prompt: &str) -> (u16, String, Value) {
        chat(&self.gateway, model, prompt)
    }

    /// The newest decision, once its request is over.
    pub(crate) fn last(&self) -> Value {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let record: Value = serde_json::from_str(&self.text(&["explain", "last", "--json"])).expect("JSON");
            if !record["outcome"]["ended"].is_null() {
                return record;
            }
            assert!(Instant::now() < deadline, "the request never ended: {record}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
    }

    pub(crate) fn wait(&mut self, at_most: Duration) -> Option<i32> {
        let deadline = Instant::now() + at_most;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

/// Sends a request and gives status, head (in lower case) and the JSON object of the body.
pub(crate) fn exchange(address: &str, method: &str, path: &str, body: &str) -> (u16, String, Value) {
    let answer = talk(address, method, path, body);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    // A chunked body is one object here: what stands between the first and the last brace.
    let object = body.find('{').zip(body.rfind('}')).map(|(from, to)| &body[from..=to]);
    (status, head.to_ascii_lowercase(), object.and_then(|o| serde_json::from_str(o).ok()).unwrap_or_default())
}

/// Posts a request and gives all that comes back, as it comes.
pub(crate) fn text_of(address: &str, path: &str, body: &str) -> String {
    talk(address, "POST", path, body)
}

fn talk(address: &str, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out can be set");
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// Sends a chat completion.
pub(crate) fn chat(gateway: &str, model: &str, prompt: &str) -> (u16, String, Value) {
    let body = json!({"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": prompt}]}).to_string();
    exchange(gateway, "POST", "/v1/chat/completions", &body)
}
