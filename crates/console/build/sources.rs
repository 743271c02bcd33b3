//! What the console is built from, and running npm on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// Longest that one step of npm may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// The sources of the console.
pub(crate) struct Sources {
    /// Files and folders whose change means another build.
    pub(crate) watch: Vec<PathBuf>,
    /// Stands for the content of all of them.
    pub(crate) stamp: String,
    /// Stands for the packages they need.
    pub(crate) packages: String,
}

impl Sources {
    pub(crate) fn of(root: &Path) -> Self {
        let mut files = Vec::new();
        let top = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];
        let mut watch: Vec<PathBuf> = top.iter().map(|name| root.join(name)).collect();
        files.extend(watch.iter().filter(|path| path.exists()).cloned());
        // Cargo looks at the times of folders, too: a new file is a change.
        for folder in ["src", "public"] {
            collect(&root.join(folder), &mut watch, &mut files);
        }
        files.sort();
        let mut hash = Fnv::default();
        for file in &files {
            hash.add(file.strip_prefix(root).unwrap_or(file).to_string_lossy().as_bytes());
            hash.add(&fs::read(file).unwrap_or_default());
        }
        let mut packages = Fnv::default();
        packages.add(&fs::read(root.join("package-lock.json")).unwrap_or_default());
        watch.retain(|path| path.exists());
        Self { watch, stamp: hash.text(), packages: packages.text() }
    }

    /// Whether what lies in `node_modules` belongs to another lock file.
    pub(crate) fn packages_changed(&self, root: &Path) -> bool {
        fs::read_to_string(root.join("node_modules/.stamp")).map_or(true, |stamp| stamp != self.packages)
    }
}

fn collect(folder: &Path, watch: &mut Vec<PathBuf>, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    watch.push(folder.to_owned());
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, watch, files);
        } else {
            watch.push(path.clone());
            files.push(path);
        }
    }
}

/// FNV-1a: tells versions of a file apart, which is all that is wanted.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&bytes.len().to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

/// A file that says that somebody builds. One that is older than any build can take is nobody's.
pub(crate) struct Lock(Option<PathBuf>);

impl Lock {
    pub(crate) fn take(path: &Path) -> Self {
        for _ in 0..PATIENCE.as_secs() * 2 {
            match fs::OpenOptions::new().write(true).create_new(true).open(path) {
                Ok(_) => return Self(Some(path.to_owned())),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    let made = fs::metadata(path).and_then(|m| m.modified()).unwrap_or_else(|_| SystemTime::now());
                    if made.elapsed().is_ok_and(|age| age > PATIENCE * 2) {
                        let _ = fs::remove_file(path);
                    }
                    std::thread::sleep(Duration::from_millis(500));
                }
                // A tree that cannot be written to cannot be built in; npm will say so.
                Err(_) => return Self(None),
            }
        }
        Self(None)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

/// Runs one step of npm, bounded in time; why it failed.
pub(crate) fn npm(root: &Path, args: &[&str]) -> Result<(), String> {
    let step = format!("npm {}", args[..args.len().min(2)].join(" "));
    let mut child = Command::new("npm")
        .args(args)
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|_| "Node and npm are not installed".to_owned())?;
    // npm tells of itself on stderr, the compiler of faults on stdout.
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let errors =
        std::thread::spawn(move || stderr.map(std::io::read_to_string).and_then(Result::ok).unwrap_or_default());
    let said = std::thread::spawn(move || {
        let output = stdout.map(std::io::read_to_string).and_then(Result::ok).unwrap_or_default();
        output + &errors.join().unwrap_or_default()
    });
    for _ in 0..PATIENCE.as_millis() / 50 {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) => {
                let said = said.join().unwrap_or_default();
                let lines: Vec<&str> = said.lines().map(str::trim).filter(|l| !l.is_empty()).take(6).collect();
                let why = if lines.is_empty() { "it does not say why".to_owned() } else { lines.join("; ") };
                return Err(format!("{step} failed: {}", why.chars().take(400).collect::<String>()));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(50)),
            Err(error) => return Err(format!("{step}: {error}")),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("{step} took longer than {PATIENCE:?}"))
}
