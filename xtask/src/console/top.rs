//! `pointsman top` in a terminal of tmux: two sizes, keys, and a server that dies and returns.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use bytes::Bytes;

use crate::client::Client;
use crate::completion::complete;
use crate::process::{Process, free_port};
use crate::report::{Tally, check};
use crate::{tools, workspace};

/// For anything to be seen.
const PATIENCE: Duration = Duration::from_secs(15);

const PROMPT: &[u8] = br#"{"model":"demo","prompt":"Which way?","max_tokens":4}"#;

/// Runs it.
pub(super) async fn run(binary: &Path, tally: &mut Tally) -> Result<()> {
    println!("top");
    if !tools::works("tmux", &["-V"]) {
        check(tally, false, "top was looked at: tmux is not installed (Debian: apt-get install tmux)");
        return Ok(());
    }
    let folder = workspace::scratch("top")?;
    let (gateway, admin) = (free_port()?.to_string(), free_port()?.to_string());
    let serve = |name: &str| {
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", &gateway, "--admin-listen", &admin]);
        Process::start(name, &folder, &mut command)
    };
    let mut server = serve("server")?;
    let (client, url) = (Client::new(), format!("http://{gateway}/v1/completions"));
    for (width, height) in [(80, 24), (200, 60)] {
        let what = |text: &str| format!("top at {width}x{height} {text}");
        let terminal = Terminal::open(binary, &admin, width, height)?;
        check(tally, terminal.shows("5 of 6 ready").await, what("shows the fleet"));
        let text = terminal.text()?;
        let whole = ["not ready", "kv cache", "q ends"].iter().all(|word| text.contains(word));
        check(tally, whole && text.lines().all(|line| line.chars().count() <= width), what("shows the table"));
        terminal.press("s")?;
        check(tally, terminal.shows("most waiting first").await, what("changes its order"));
        server.kill();
        check(tally, terminal.shows("away for").await, what("says that the server died"));
        check(tally, terminal.text()?.contains("not ready"), what("keeps what it saw"));
        server = serve("server again")?;
        check(tally, terminal.shows("5 of 6 ready").await, what("finds it again"));
        let answer = complete(&client, &url, Bytes::from_static(PROMPT), PATIENCE).await;
        // A wide terminal has room for the id, any for the endpoint and the status.
        let shown = if width > 100 { answer.decision } else { answer.endpoint };
        let row = terminal.shows_row(&[&shown, "200"]).await;
        check(tally, row && !shown.is_empty(), what("shows what the new server decided"));
        terminal.press("q")?;
        check(tally, terminal.shows("ended 0").await, what("ends with q"));
    }
    server.stop();
    Ok(())
}

/// A session of tmux on a server of its own; gone when dropped.
struct Terminal(String);

impl Terminal {
    fn open(binary: &Path, admin: &str, width: usize, height: usize) -> Result<Self> {
        let terminal = Self(format!("pointsman-top-{}-{width}", std::process::id()));
        let command = format!("'{}' top --admin {admin}; echo ended $?; sleep 60", binary.display());
        let (width, height) = (width.to_string(), height.to_string());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, &command])?;
        Ok(terminal)
    }

    fn tmux(&self, args: &[&str]) -> Result<String> {
        let output = Command::new("tmux").args(["-L", &self.0]).args(args).output().context("cannot run tmux")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn press(&self, key: &str) -> Result<()> {
        self.tmux(&["send-keys", key]).map(|_| ())
    }

    fn text(&self) -> Result<String> {
        self.tmux(&["capture-pane", "-p"])
    }

    async fn shows(&self, text: &str) -> bool {
        self.shows_row(&[text]).await
    }

    /// Waits for a line with all of these words.
    async fn shows_row(&self, words: &[&str]) -> bool {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let text = self.text().unwrap_or_default();
            if text.lines().any(|line| words.iter().all(|word| line.contains(word))) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        println!("{}", self.text().unwrap_or_default());
        false
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}
