//! What is asked, of which fleet: flags that all the laboratory's commands share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use pointsman_lab::fleet::{Disaggregation, FleetOptions, Outage};
use pointsman_lab::metrics::Slo;
use pointsman_lab::policy::Choice;
use pointsman_lab::race::Source;
use pointsman_lab::workload::{NAMED, Spec};
use pointsman_plugins::DefaultProfile;
use pointsman_sim::Profile;

use super::files;
use crate::check::{checked, read};
use crate::failure::Failure;
use crate::terminal::clean;

/// Requests.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Requests")]
pub(crate) struct Traffic {
    /// A trace: Mooncake's JSON Lines, what `record` wrote, or CSV (Azure, BurstGPT); gzip or not; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    trace: Option<PathBuf>,
    /// A workload by name, with parameters: `shared-prefix:groups=20,rate=8`; `help` lists them
    #[arg(long, value_name = "NAME[:KEY=VALUE,..]")]
    workload: Option<String>,
    /// Take only the first of a trace
    #[arg(long, value_name = "N")]
    requests: Option<usize>,
    /// Requests per second, instead of what the trace or workload has
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// Play a trace this many times as fast
    #[arg(long, value_name = "FACTOR", value_parser = rate, conflicts_with = "rate")]
    speed: Option<f64>,
}

/// Engines.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Fleet")]
pub(crate) struct Engines {
    /// Engines
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pods: u32,
    /// Engines of these that compute prompts for the others; a configuration with `disagg-profile-handler` uses them
    #[arg(long, default_value_t = 0, value_name = "N")]
    prefill_pods: u32,
    /// GB/s at which KV moves between engines; transfers wait for each other on an engine's link
    #[arg(long, default_value_t = 11.0, value_name = "GB_PER_SECOND", value_parser = rate)]
    link: f64,
    /// Hardware and model of each engine: a name (`help` lists them), or a JSON file with a deployment of your own
    #[arg(long, default_value = "8b-h100", value_name = "NAME|FILE", value_parser = hardware)]
    profile: Hardware,
    /// Share of the profile's KV cache that each engine has
    #[arg(long, default_value_t = 1.0, value_name = "SHARE", value_parser = cache)]
    cache: f64,
    /// Tokens per KV block
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..=1024))]
    block_size: u32,
    /// Requests that run at once in one engine
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..))]
    max_num_seqs: u32,
    /// Requests that wait in one engine before it refuses
    #[arg(long, default_value_t = 1_000_000)]
    max_waiting: u32,
    /// LoRA adapters that one engine runs at once
    #[arg(long, default_value_t = 4)]
    max_loras: u32,
    /// Milliseconds between two readings of an engine's metrics
    #[arg(long, default_value_t = 50, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    scrape: u64,
    /// Milliseconds of tokenising and the like that each request costs before an engine's queue
    #[arg(long, default_value_t = 15, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=60_000))]
    api_overhead: u64,
    /// Routers, each with counts and a prefix index of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    routers: u32,
    /// How many times longer the steps of each engine take, in turn: `1,1,2` makes every third half as fast
    #[arg(long, value_delimiter = ',', value_name = "FACTOR,..", value_parser = factor)]
    slower: Vec<f64>,
    /// An engine dies, and may return with an empty cache: `2@30` or `2@30..90`, engines from 0, seconds from the beginning
    #[arg(long, value_name = "ENGINE@FROM[..TO]", value_parser = Outage::parse)]
    kill: Vec<Outage>,
    /// Sigma of the noise on each engine step
    #[arg(long, default_value_t = 0.03, value_parser = noise)]
    noise: f64,
    /// Seconds to the first token that a good request keeps
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = rate)]
    slo_ttft: f64,
    /// Milliseconds per further token that a good request keeps
    #[arg(long, default_value_t = 50.0, value_name = "MS", value_parser = rate)]
    slo_tpot: f64,
}

/// What an engine is, or the wish to know what there is.
#[derive(Clone, Copy, Debug)]
enum Hardware {
    Help,
    Of(&'static Profile),
}

fn hardware(text: &str) -> Result<Hardware, String> {
    if text == "help" { Ok(Hardware::Help) } else { pointsman_engine::deployment(text).map(Hardware::Of) }
}

fn between(text: &str, low: f64, high: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() && n >= low && n <= high => Ok(n),
        _ => Err(format!("a number from {low} to {high}")),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    between(text, 0.001, 1_000_000.0)
}

fn factor(text: &str) -> Result<f64, String> {
    between(text, 0.01, 100.0)
}

fn cache(text: &str) -> Result<f64, String> {
    between(text, 0.001, 100.0)
}

fn noise(text: &str) -> Result<f64, String> {
    between(text, 0.0, 1.0)
}

impl Traffic {
    /// The list of workloads, where that is what was asked for.
    pub(super) fn list(&self) -> Option<String> {
        let line = |n: &pointsman_lab::workload::Named| format!("{}: {}\n    {}\n", n.name, n.doc, n.parameters);
        (self.workload.as_deref() == Some("help")).then(|| NAMED.iter().map(line).collect())
    }

    /// Where requests come from; `without` where nobody said.
    pub(super) fn source(&self, without: &str) -> Result<Source, Failure> {
        let source = match (&self.trace, &self.workload) {
            (Some(path), _) => Source::Fixed(Arc::new(files::trace(path)?)),
            (None, text) => Source::Made(Box::new(spec(text.as_deref().unwrap_or(without))?)),
        };
        let source = match (source, self.requests, self.speed) {
            (Source::Fixed(workload), first, speed) => {
                let workload = Arc::unwrap_or_clone(workload).first(first.unwrap_or(usize::MAX));
                Source::Fixed(Arc::new(workload.faster(speed.unwrap_or(1.0))))
            }
            (Source::Made(_), Some(_), _) | (Source::Made(_), _, Some(_)) => {
                return Err(Failure::usage("--requests and --speed are for traces")
                    .next("write --workload NAME:requests=N,rate=R"));
            }
            (made, ..) => made,
        };
        let workload = source.workload(1, None);
        if workload.requests.is_empty() {
            return Err(
                Failure::usage("there are no requests to play").next("give a workload or a trace with at least one")
            );
        }
        if workload.warm >= workload.requests.len() {
            return Err(Failure::usage(format!("all {} requests only warm up", workload.requests.len()))
                .next("give a smaller warm=, or more requests"));
        }
        Ok(source)
    }
}

impl Engines {
    /// What a profile can be made of, where that is what was asked for.
    pub(super) fn list(&self) -> Option<String> {
        matches!(self.profile, Hardware::Help).then(Profile::catalogue)
    }

    pub(super) fn fleet(&self) -> FleetOptions {
        FleetOptions {
            pods: self.pods as usize,
            profile: match self.profile {
                Hardware::Of(profile) => *profile,
                Hardware::Help => Profile::all()[0],
            },
            cache: self.cache,
            block_size: self.block_size,
            max_num_seqs: self.max_num_seqs as usize,
            max_waiting: self.max_waiting as usize,
            max_loras: self.max_loras as usize,
            scrape: Duration::from_millis(self.scrape),
            api_overhead: Duration::from_millis(self.api_overhead),
            noise: self.noise,
            routers: self.routers as usize,
            slower: self.slower.clone(),
            outages: self.kill.clone(),
            disaggregation: Disaggregation {
                prefill_pods: self.prefill_pods as usize,
                link: self.link * 1e9,
                ..Disaggregation::default()
            },
            ..FleetOptions::default()
        }
    }

    pub(super) fn slo(&self) -> Slo {
        Slo { ttft: self.slo_ttft, tpot: self.slo_tpot / 1e3 }
    }
}

/// A workload by its name.
pub(super) fn spec(text: &str) -> Result<Spec, Failure> {
    let next = "list all: pointsman race --workload help";
    Spec::parse(text).map_err(|e| Failure::usage("the workload cannot be used").why(e).next(next))
}

/// Policies by name or file, each once and each with a name of its own.
pub(super) fn choices(texts: &[String]) -> Result<Vec<Choice>, Failure> {
    let mut all: Vec<Choice> = Vec::new();
    for text in texts {
        let mut one = choice(text)?;
        if all.contains(&one) {
            let name = clean(one.name());
            return Err(Failure::usage(format!("the policy {name} is named twice")).next("leave one out of --policy"));
        }
        if let Choice::Config { name, .. } = &mut one
            && all.iter().any(|other| other.name() == &**name)
        {
            *name = text.as_str().into();
        }
        all.push(one);
    }
    Ok(all)
}

/// KV blocks that a simulated fleet may have, in all: some 3 GB of memory.
const MOST_BLOCKS: u64 = 1 << 27;

/// Whether a fleet can be simulated: engines that are spoken of are there, and it fits into memory.
pub(super) fn fits(fleet: &FleetOptions) -> Result<(), Failure> {
    let pods = fleet.pods;
    if let Some(outage) = fleet.outages.iter().find(|outage| outage.pod >= pods) {
        return Err(Failure::usage(format!("--kill {}@..: there is no such engine", outage.pod))
            .next(format!("engines are numbered from 0 to {}", pods - 1)));
    }
    let mut outages = fleet.outages.clone();
    outages.sort_by_key(|o| (o.pod, o.from));
    let meet = |pair: &&[Outage]| pair[0].pod == pair[1].pod && pair[0].to.is_none_or(|to| to > pair[1].from);
    if let Some(pair) = outages.windows(2).find(meet) {
        return Err(Failure::usage(format!("--kill: engine {} dies while it is dead", pair[1].pod))
            .next("give each engine times that do not overlap"));
    }
    let prefill = fleet.disaggregation.prefill_pods;
    if prefill > 0 && prefill >= pods {
        return Err(Failure::usage("--prefill-pods leaves no engine to decode")
            .why(format!("there are {pods} engines in all"))
            .next("give fewer, or more --pods"));
    }
    let blocks = pods as u64 * u64::from(fleet.blocks());
    if blocks > MOST_BLOCKS {
        return Err(Failure::usage(format!("{pods} engines of {} KV blocks do not fit into memory", fleet.blocks()))
            .why(format!("at most {MOST_BLOCKS} blocks in all can be simulated"))
            .next("give fewer --pods, a smaller --cache or a larger --block-size"));
    }
    Ok(())
}

/// A policy by its name, or a configuration by its file.
pub(super) fn choice(text: &str) -> Result<Choice, Failure> {
    if let Some(choice) = Choice::named(text) {
        return Ok(choice);
    }
    let path = Path::new(text);
    let is_file =
        path.extension().is_some_and(|e| ["yaml", "yml", "json"].iter().any(|known| e == *known)) || path.is_file();
    if !is_file {
        let names: Vec<&str> = Choice::names().collect();
        return Err(Failure::usage(format!("unknown policy `{text}`"))
            .why(format!("there are {}", names.join(", ")))
            .next("use one of these, or the file of an EndpointPickerConfig"));
    }
    let (name, bytes) = read(path).map_err(Failure::from)?;
    let (compiled, faults) = checked(&bytes, true, DefaultProfile::Serve, Arc::default());
    if compiled.is_none() {
        let first = faults.sorted().first().map(|fault| fault.message.to_string()).unwrap_or_default();
        return Err(Failure::usage(format!("{name} cannot be used"))
            .why(first)
            .next(format!("see all faults: pointsman check {name}")));
    }
    let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(Choice::document(stem, bytes))
}
