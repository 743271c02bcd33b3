//! The layers of the architecture, enforced from what Cargo says of the workspace.
//!
//! Development dependencies are left out: a test may stand on anything, a simulated engine included.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The layer of every crate, bottom to top. A crate may depend on crates of lower layers only.
const LAYERS: [(&str, u8); 21] = [
    ("pointsman-core", 0),
    ("pointsman-wire", 1),
    ("pointsman-prefix", 1),
    ("pointsman-config", 1),
    ("pointsman-fleet", 1),
    ("pointsman-grpc", 1),
    ("pointsman-trace", 1),
    ("pointsman-profiling", 1),
    ("pointsman-console", 1),
    ("pointsman-scheduling", 2),
    ("pointsman-sim", 2),
    ("pointsman-telemetry", 2),
    ("pointsman-plugins", 3),
    ("pointsman-router", 4),
    ("pointsman-sources", 4),
    ("pointsman-lab", 5),
    ("pointsman-gateway", 5),
    ("pointsman-extproc", 5),
    ("pointsman-admin", 5),
    ("pointsman-engine", 6),
    ("pointsman", 7),
];

/// Crates that are no part of the product: nothing may depend on them, nor they on it.
const CHORES: [&str; 1] = ["xtask"];

/// The pure crates: no I/O, no tasks, no clock but an injected one. The simulator lives by that.
const LOGIC: [&str; 10] = [
    "pointsman-core",
    "pointsman-wire",
    "pointsman-prefix",
    "pointsman-config",
    "pointsman-fleet",
    "pointsman-trace",
    "pointsman-scheduling",
    "pointsman-plugins",
    "pointsman-sim",
    "pointsman-lab",
];

/// Who may know the laboratory.
const MAY_USE_SIM: [&str; 3] = ["pointsman-engine", "pointsman-lab", "pointsman"];

/// What a simulated engine may stand on: it is an engine, and must share nothing with the router but how bytes are read.
const ENGINE_MAY_USE: [&str; 3] = ["pointsman-core", "pointsman-sim", "pointsman-wire"];

struct Package {
    folder: PathBuf,
    /// Normal and build dependencies, by package name.
    dependencies: BTreeSet<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in a folder of the workspace")
}

fn workspace() -> BTreeMap<String, Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .map(|package| {
            let name = package["name"].as_str().expect("a name").to_owned();
            let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            let dependencies = dependencies
                .iter()
                .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
                .map(|dependency| dependency["name"].as_str().expect("a name").to_owned())
                .collect();
            (name, Package { folder: manifest.parent().expect("a folder").to_path_buf(), dependencies })
        })
        .collect()
}

#[test]
fn every_crate_has_a_layer_and_depends_on_lower_ones_only() {
    let layers: BTreeMap<&str, u8> = LAYERS.into_iter().collect();
    let mut faults = Vec::new();
    for (name, package) in workspace() {
        if CHORES.contains(&name.as_str()) {
            let product = package.dependencies.iter().filter(|used| layers.contains_key(used.as_str()));
            faults.extend(product.map(|used| format!("{name} is a chore and depends on {used}")));
            continue;
        }
        let Some(layer) = layers.get(name.as_str()) else {
            faults.push(format!("{name} has no layer: give it one in this test and in ARCHITECTURE.md"));
            continue;
        };
        for used in &package.dependencies {
            match layers.get(used.as_str()) {
                Some(below) if below >= layer => faults.push(format!("{name} ({layer}) depends on {used} ({below})")),
                None if CHORES.contains(&used.as_str()) => faults.push(format!("{name} depends on {used}")),
                _ => {}
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn only_the_laboratory_the_simulated_engine_and_the_binary_know_the_engine_model() {
    for (name, package) in workspace() {
        let knows = package.dependencies.contains("pointsman-sim");
        assert!(!knows || MAY_USE_SIM.contains(&name.as_str()), "{name} depends on pointsman-sim");
    }
}

#[test]
fn the_simulated_engine_shares_only_the_reading_of_bytes_with_the_router() {
    let workspace = workspace();
    let engine = workspace.get("pointsman-engine").expect("the crate exists");
    for used in engine.dependencies.iter().filter(|used| workspace.contains_key(*used)) {
        assert!(ENGINE_MAY_USE.contains(&used.as_str()), "pointsman-engine depends on {used}");
    }
}

#[test]
fn logic_crates_depend_on_no_runtime_and_no_network_stack() {
    let runtimes = ["tokio", "hyper", "h2", "rustls", "mio", "async-", "reqwest", "ureq", "socket2"];
    let workspace = workspace();
    for name in LOGIC {
        let package = workspace.get(name).unwrap_or_else(|| panic!("{name} exists"));
        for used in &package.dependencies {
            assert!(!runtimes.iter().any(|runtime| used.starts_with(runtime)), "{name} depends on {used}");
        }
    }
}

#[test]
fn logic_crates_do_no_io_spawn_nothing_and_read_no_clock() {
    let forbidden = [
        "std::fs",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "std::process",
        "std::thread",
        "thread::spawn",
        "thread::sleep",
        "Instant::now",
        "SystemTime::now",
        "Instant::elapsed",
    ];
    let workspace = workspace();
    let mut faults = Vec::new();
    for name in LOGIC {
        let package = workspace.get(name).unwrap_or_else(|| panic!("{name} exists"));
        for file in rust_files(&package.folder.join("src")) {
            // The one place where the real clock enters, to be injected everywhere else.
            if name == "pointsman-core" && file.ends_with("clock.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&file).expect("a source file is text");
            // Tests stand at the end of a file, or in a file of their own, and may do what they like.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            if file.file_stem().is_some_and(|stem| stem == "tests") || code.contains("#![cfg(test)]") {
                continue;
            }
            for (at, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
                let hits = forbidden.iter().filter(|word| line.contains(**word));
                faults.extend(hits.map(|word| format!("{}:{}: {word}", file.display(), at + 1)));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return files };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}
