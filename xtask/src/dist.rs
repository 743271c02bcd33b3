//! `cargo xtask dist`: what a release hands out.
//!
//! A static binary, in `dist/image` for the container and in `dist/pointsman-VERSION-TARGET.tar.gz` with completions, manual pages, the systemd unit and the
//! licence, and the archive's SHA-256 beside it. Linked against musl where that target is installed, else against a static glibc.

mod elf;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::workspace;

/// In order of preference.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "x86_64-unknown-linux-gnu"];
const SHELLS: [(&str, &str); 3] = [("bash", "pointsman.bash"), ("zsh", "_pointsman"), ("fish", "pointsman.fish")];

/// What to build for.
#[derive(Args)]
pub(crate) struct Options {
    /// Rust target; its standard library must be installed, and for another processor a linker, too. Default: the first of
    /// x86_64-unknown-linux-musl and x86_64-unknown-linux-gnu that is installed
    #[arg(long)]
    target: Option<String>,
}

/// Builds, packs, and says what lies where.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let target = match &options.target {
        Some(target) if !installed(target)? => {
            bail!("the standard library of {target} is not installed: rustup target add {target}")
        }
        Some(target) => target.clone(),
        None => default_target()?,
    };
    let binary = build(&target)?;
    let linked = elf::read(&std::fs::read(&binary).context("the binary")?).context("the binary is no ELF file")?;
    if let Some(loader) = linked.interpreter {
        bail!("{} is not static: it asks for {loader}", binary.display());
    }
    let helper = if linked.machine == elf::HOST { binary.clone() } else { crate::pointsman::build()? };

    let dist = workspace::root().join("dist");
    let name = format!("pointsman-{}-{target}", env!("CARGO_PKG_VERSION"));
    let folder = dist.join(&name);
    empty(&folder)?;
    program(&binary, &folder)?;
    complete(&helper, &folder)?;
    for file in ["packaging/pointsman.service", "LICENSE", "README.md", "CHANGELOG.md"] {
        let from = workspace::root().join(file);
        let to = folder.join(from.file_name().context("a file's name")?);
        std::fs::copy(&from, &to).with_context(|| format!("cannot copy {file}"))?;
    }
    let image = dist.join("image");
    empty(&image)?;
    program(&binary, &image)?;

    let archive = format!("{name}.tar.gz");
    pack(&dist, &name, &archive)?;
    let sum = output(Command::new("sha256sum").arg(&archive).current_dir(&dist))?;
    std::fs::write(dist.join(format!("{archive}.sha256")), &sum).context("cannot write the checksum")?;
    let size = std::fs::metadata(dist.join(&archive)).context("the archive")?.len();
    println!("dist/{archive}   {:.1} MB", size as f64 / 1e6);
    println!("dist/{archive}.sha256   {}", sum.split(' ').next().unwrap_or_default());
    println!("dist/image   for packaging/Dockerfile");
    Ok(true)
}

/// Whether rustc has the standard library of `target`.
fn installed(target: &str) -> Result<bool> {
    let folder = output(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
    Ok(Path::new(folder.trim()).is_dir())
}

fn default_target() -> Result<String> {
    for target in TARGETS {
        if installed(target)? {
            return Ok(target.to_owned());
        }
    }
    bail!("neither {} nor {} is installed: rustup target add {}", TARGETS[0], TARGETS[1], TARGETS[0])
}

/// The static release binary.
fn build(target: &str) -> Result<PathBuf> {
    eprintln!("building for {target} ...");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--quiet", "--package", "pointsman", "--target", target])
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C strip=symbols")
        .current_dir(workspace::root())
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the release build for {target} failed; another processor needs its linker and C compiler, too");
    }
    Ok(workspace::target().join(target).join("release/pointsman"))
}

/// The binary, and the link by which it is the Endpoint Picker.
fn program(binary: &Path, folder: &Path) -> Result<()> {
    std::fs::copy(binary, folder.join("pointsman")).context("cannot copy the binary")?;
    symlink("pointsman", folder.join("epp")).context("cannot make the link epp")
}

/// Completions and manual pages, by the commands that write them.
fn complete(helper: &Path, folder: &Path) -> Result<()> {
    let completions = folder.join("completions");
    std::fs::create_dir_all(&completions).context("cannot make a folder")?;
    for (shell, file) in SHELLS {
        let script = output(Command::new(helper).args(["completions", shell]))?;
        std::fs::write(completions.join(file), script).with_context(|| format!("cannot write {file}"))?;
    }
    output(Command::new(helper).arg("man").arg(folder.join("man"))).map(drop)
}

/// The same archive for the same files, whoever packs it and when.
fn pack(dist: &Path, folder: &str, archive: &str) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "-czf", archive, folder]);
    output(tar.current_dir(dist)).map(drop)
}

fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Runs a command to its end, for its output.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("its output is not UTF-8")
}
