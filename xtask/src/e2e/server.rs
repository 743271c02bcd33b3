//! A real vLLM server on a loopback port.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::client::Client;
use crate::process::{Process, free_port};
use crate::workspace;

/// A server starts in one minute on idle cores; on busy ones with another beside it, in several.
const START: Duration = Duration::from_secs(420);

/// The name under which the tiny model is served.
pub(crate) const MODEL: &str = "tiny";

/// The name of its LoRA adapter.
pub(crate) const ADAPTER: &str = "adapter-a";

/// A running server.
pub(crate) struct Server {
    process: Process,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a server; it is ready only after [`all_ready`].
    pub(crate) fn start(vllm: &Path, folder: &Path, name: &str) -> Result<Self> {
        let address = free_port()?;
        let fixtures = workspace::root().join("testdata/fixtures/vllm");
        let adapter = format!("{ADAPTER}={}", fixtures.join("model-adapter-a").display());
        let mut command = Command::new(vllm);
        command.arg("serve").arg(fixtures.join("model"));
        command.args(["--served-model-name", MODEL, "--host", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args([
            "--load-format",
            "dummy",
            "--dtype",
            "bfloat16",
            "--max-model-len",
            "4096",
            "--max-num-seqs",
            "8",
        ]);
        command.args(["--block-size", "32", "--enforce-eager", "--enable-prefix-caching"]);
        command.args(["--enable-prompt-tokens-details"]);
        command.args(["--enable-lora", "--max-loras", "2", "--max-lora-rank", "8", "--lora-modules", &adapter]);
        command.envs([
            ("VLLM_CPU_KVCACHE_SPACE", "1"),
            ("VLLM_CPU_OMP_THREADS_BIND", "nobind"),
            ("OMP_NUM_THREADS", "1"),
            ("PYTHONHASHSEED", "0"),
            ("HF_HUB_OFFLINE", "1"),
            ("TRANSFORMERS_OFFLINE", "1"),
            ("VLLM_NO_USAGE_STATS", "1"),
            ("DO_NOT_TRACK", "1"),
            // Resetting the prefix cache between runs exists in development mode only.
            ("VLLM_SERVER_DEV_MODE", "1"),
        ]);
        command.current_dir(folder);
        Ok(Self { process: Process::start(name, folder, &mut command)?, address })
    }

    /// A URL of the server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Fails when it has ended.
    pub(crate) fn must_be_alive(&mut self) -> Result<()> {
        self.process.must_be_alive()
    }

    /// Drops every cached block.
    pub(crate) async fn reset_prefix_cache(&self, client: &Client) -> Result<()> {
        // A block that a request has only just released is free a moment later.
        for _ in 0..20 {
            let reply = client.post(&self.url("/reset_prefix_cache"), None).await?;
            let refused = reply.json().is_ok_and(|body| body.get("success") == Some(&false.into()));
            if reply.status == 200 && !refused {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("{} does not reset its prefix cache", self.address)
    }

    /// The engine's own count of looked-up and found prompt tokens since it started.
    pub(crate) async fn cache_counters(&self, client: &Client) -> Result<CacheCounters> {
        let page = client.get(&self.url("/metrics")).await?;
        let page = String::from_utf8_lossy(&page.body).into_owned();
        CacheCounters::read(&page).with_context(|| format!("{}: no prefix cache counters on its page", self.address))
    }
}

/// `vllm:prefix_cache_queries_total` and `vllm:prefix_cache_hits_total`, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CacheCounters {
    /// Prompt tokens looked up.
    pub(crate) queries: f64,
    /// Those found.
    pub(crate) hits: f64,
}

impl CacheCounters {
    fn read(page: &str) -> Option<Self> {
        let sum = |family: &str| {
            let mut values = page.lines().filter_map(|line| {
                let rest = line.strip_prefix(family)?;
                let rest = if rest.starts_with('{') { rest.rsplit_once('}')?.1 } else { rest };
                rest.trim().parse::<f64>().ok()
            });
            values.next().map(|first| first + values.sum::<f64>())
        };
        Some(Self { queries: sum("vllm:prefix_cache_queries_total")?, hits: sum("vllm:prefix_cache_hits_total")? })
    }

    /// The share of looked-up tokens that was found, 0 when none was looked up.
    pub(crate) fn hit_share(self) -> f64 {
        if self.queries > 0.0 { self.hits / self.queries } else { 0.0 }
    }
}

impl std::ops::Sub for CacheCounters {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self { queries: self.queries - earlier.queries, hits: self.hits - earlier.hits }
    }
}

impl std::ops::Add for CacheCounters {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { queries: self.queries + other.queries, hits: self.hits + other.hits }
    }
}

/// Waits until every server answers its health check.
pub(crate) async fn all_ready(client: &Client, servers: &mut [Server]) -> Result<()> {
    println!("starting {} vLLM servers (about a minute) ...", servers.len());
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("a fixed template"));
    bar.enable_steady_tick(Duration::from_millis(200));
    let start = Instant::now();
    let mut ready = 0;
    while ready < servers.len() {
        bar.set_message(format!("{ready} of {} ready", servers.len()));
        if start.elapsed() > START {
            bail!("vLLM was not ready within {START:?}; see {}", servers[ready].process.log().display());
        }
        for server in servers.iter_mut() {
            server.must_be_alive()?;
        }
        if client.get(&servers[ready].url("/health")).await.is_ok_and(|reply| reply.status == 200) {
            ready += 1;
        } else {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    bar.finish_and_clear();
    println!("ready after {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_a_real_page_are_read_without_their_created_twins() {
        let path = workspace::root().join("testdata/fixtures/vllm/metrics/after-requests.prom");
        let page = std::fs::read_to_string(path).expect("the recording is in the repository");
        assert_eq!(CacheCounters::read(&page), Some(CacheCounters { queries: 1383.0, hits: 672.0 }));
    }

    #[test]
    fn a_page_without_the_counters_is_not_taken_as_zero() {
        assert_eq!(CacheCounters::read("vllm:num_requests_running 1\n"), None);
    }
}
