//! Child processes that never outlive the job that started them.
//!
//! Each child leads its own process group and is stopped through it, because vLLM forks workers that would otherwise
//! stay behind. Only groups made here are ever signalled.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// How long a child may take to leave after being asked, before it is killed.
const GRACE: Duration = Duration::from_secs(15);

/// A running child with its log; dropped, it is stopped together with everything it forked.
pub(crate) struct Process {
    name: String,
    log: PathBuf,
    child: Child,
    gone: bool,
}

impl Process {
    /// Starts `command`, both output streams going to `folder/NAME.log` (appended, so that a restart keeps the past).
    pub(crate) fn start(name: impl Into<String>, folder: &Path, command: &mut Command) -> Result<Self> {
        let name = name.into();
        let log = folder.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log);
        let out = out.with_context(|| format!("cannot write {}", log.display()))?;
        let err = out.try_clone().context("cannot share the log file")?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name} ({})", command.get_program().to_string_lossy()))?;
        Ok(Self { name, log, child, gone: false })
    }

    /// Fails, with the end of its log, when the child has already left.
    pub(crate) fn must_be_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("cannot ask for the state of a child")? {
            bail!("{} ended ({status}); the end of {}:\n{}", self.name, self.log.display(), tail(&self.log, 15));
        }
        Ok(())
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where its output goes.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Asks it to leave and does not wait.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// `kill -9`, at once, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        self.gone = true;
    }

    /// Asks it to leave, waits, and kills the group in the end, whether or not its leader has left by itself.
    pub(crate) fn stop(&mut self) {
        if self.gone {
            return;
        }
        self.signal(Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill();
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // An error says that the group is gone already, which is what is wanted.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A loopback port that was free a moment ago.
///
/// Somebody may take it before the child listens; the child then ends with an error that its log shows.
pub(crate) fn free_port() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free loopback port")?;
    listener.local_addr().context("a bound listener has an address")
}

/// The last `lines` lines of a file, or as much as can be read.
fn tail(path: &Path, lines: usize) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("xtask-process-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
        folder
    }

    #[test]
    fn a_dropped_child_takes_what_it_forked_with_it() {
        let folder = folder("drop");
        let script = "sleep 300 & echo $!; wait";
        let process = Process::start("forker", &folder, Command::new("sh").args(["-c", script])).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        let forked = loop {
            let text = std::fs::read_to_string(process.log()).unwrap();
            if let Some(line) = text.lines().next() {
                break line.trim().to_owned();
            }
            assert!(Instant::now() < deadline, "the child never printed the id of what it forked");
            std::thread::sleep(Duration::from_millis(10));
        };
        drop(process);
        // The signal is on its way when the drop returns; a busy machine takes a moment to act on it.
        let stat = || std::fs::read_to_string(format!("/proc/{forked}/stat")).unwrap_or_default();
        let gone = |stat: &str| stat.is_empty() || stat.contains(") Z ");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !gone(&stat()) {
            assert!(Instant::now() < deadline, "still running: {}", stat());
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn a_child_that_ended_is_reported_with_the_end_of_its_log() {
        let folder = folder("ended");
        let mut process =
            Process::start("short", &folder, Command::new("sh").args(["-c", "echo the reason; exit 3"])).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        let error = loop {
            if let Err(error) = process.must_be_alive() {
                break error.to_string();
            }
            assert!(Instant::now() < deadline, "the child never ended");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(error.contains("the reason") && error.contains("exit status: 3"), "{error}");
        let _ = std::fs::remove_dir_all(folder);
    }
}
