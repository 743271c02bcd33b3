//! Races on the admin listener, for the console: begun with `POST /api/race`, looked at with `GET /api/race/ID`.
//!
//! One race runs at a time, on one thread, so that it never takes more than a core from the router beside it.

use std::collections::VecDeque;
use std::io::Cursor;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_lab::fleet::FleetOptions;
use pointsman_lab::metrics::Slo;
use pointsman_lab::policy::Choice;
use pointsman_lab::race::{Done, Race, Source};
use pointsman_lab::recording::Recorded;
use pointsman_lab::report::{self, Report};
use pointsman_lab::workload::{NAMED, Spec, read};
use pointsman_router::Pool;
use pointsman_sim::Profile;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::check::show;

/// Races whose results are kept.
const KEPT: usize = 16;
/// Decisions that make up the recorded traffic.
const RECORDED: usize = 10_000;
/// Engines, requests, and repetitions of a race.
const MOST: (usize, usize, u64) = (64, 20_000, 20);

/// The configuration that the process routes with, as a policy.
const IN_FORCE: &str = "in-force";
/// The latest decisions, as a workload.
const OWN: &str = "recorded";

/// What a browser asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetUp {
    endpoints: usize,
    workload: String,
    rate: Option<f64>,
    requests: usize,
    seeds: u64,
    policies: Vec<String>,
    #[serde(default = "first_profile")]
    profile: String,
}

fn first_profile() -> String {
    Profile::all()[0].name.to_owned()
}

/// Blocks of all prompts of a workload.
const MOST_IDS: f64 = (1 << 22) as f64;

/// A race and how far it is.
#[derive(Debug)]
struct Run {
    id: u64,
    plan: Race,
    /// What is raced, as reports have it.
    told: report::SetUp,
    progress: f64,
    done: Vec<Done>,
    over: bool,
    error: Option<String>,
    warnings: Vec<String>,
}

impl Run {
    fn json(&self) -> Value {
        let report = Report::with(self.told.clone(), &self.plan, &self.done.iter().collect::<Vec<_>>());
        let mut told = serde_json::from_str::<Value>(&report.json()).unwrap_or_default();
        told["id"] = json!(self.id.to_string());
        told["state"] = json!(match (&self.error, self.over) {
            (Some(_), _) => "failed",
            (None, true) => "done",
            (None, false) => "running",
        });
        told["progress"] = json!(if self.over { 1.0 } else { self.progress });
        told["error"] = json!(self.error);
        told["warnings"] = json!(self.warnings);
        told
    }
}

/// All races of this process.
#[derive(Debug, Default)]
struct Kept {
    last: u64,
    runs: VecDeque<Run>,
}

/// The laboratory behind the admin listener.
pub(crate) struct Races {
    pool: Arc<Pool>,
    kept: Arc<Mutex<Kept>>,
}

impl Races {
    pub(crate) fn new(pool: &Arc<Pool>) -> Self {
        Self { pool: Arc::clone(pool), kept: Arc::default() }
    }

    /// What can be asked for.
    fn offers() -> Value {
        let policies = std::iter::once(IN_FORCE).chain(Choice::names());
        let workloads = NAMED.iter().map(|n| json!({"name": n.name, "doc": n.doc}));
        let own = json!({"name": OWN, "doc": "The latest decisions of this process; prompts are told apart with --record-block-hashes."});
        json!({
            "policies": policies.collect::<Vec<_>>(),
            "workloads": workloads.chain([own]).collect::<Vec<_>>(),
            "profiles": Profile::all().iter().map(|p| p.name).collect::<Vec<_>>(),
            "most": {"endpoints": MOST.0, "requests": MOST.1, "seeds": MOST.2},
        })
    }

    fn begin(&self, body: &[u8]) -> Result<u64, (u16, String)> {
        let wrong = |why: String| (400, why);
        let asked: Value = serde_json::from_slice(body).map_err(|e| wrong(format!("no JSON: {e}")))?;
        let set_up: SetUp =
            serde_json::from_value(asked["set_up"].clone()).map_err(|e| wrong(format!("`set_up`: {e}")))?;
        let (plan, warnings) = self.plan(&set_up).map_err(wrong)?;
        let told = report::SetUp::of(&plan);
        let mut kept = self.kept.lock();
        if kept.runs.iter().any(|run| !run.over) {
            return Err((409, "a race is running; wait for its end".to_owned()));
        }
        kept.last += 1;
        let id = kept.last;
        while kept.runs.len() >= KEPT {
            kept.runs.pop_front();
        }
        let run =
            Run { id, plan: plan.clone(), told, progress: 0.0, done: Vec::new(), over: false, error: None, warnings };
        kept.runs.push_back(run);
        drop(kept);
        let kept = Arc::clone(&self.kept);
        let begun = std::thread::Builder::new().name("race".to_owned()).spawn(move || play(&plan, id, &kept));
        begun.map(|_| id).map_err(|e| (503, format!("no thread for it: {e}")))
    }

    /// The race, and what whoever reads its results should know.
    fn plan(&self, asked: &SetUp) -> Result<(Race, Vec<String>), String> {
        let within = |name: &str, value: u64, most: u64| {
            if (1..=most).contains(&value) { Ok(()) } else { Err(format!("`{name}` is to be from 1 to {most}")) }
        };
        within("endpoints", asked.endpoints as u64, MOST.0 as u64)?;
        within("requests", asked.requests as u64, MOST.1 as u64)?;
        within("seeds", asked.seeds, MOST.2)?;
        if asked.rate.is_some_and(|rate| !(0.001..=1e6).contains(&rate)) {
            return Err("`rate` is to be from 0.001 to 1000000".to_owned());
        }
        if asked.policies.is_empty() || asked.policies.len() > 24 {
            return Err("`policies` is to have 1 to 24 names".to_owned());
        }
        let choice = |name: &String| {
            if name == IN_FORCE {
                let document = show::document(&self.pool.active().compiled.effective);
                return Ok(Choice::document(IN_FORCE, document.into_bytes()));
            }
            Choice::named(name).ok_or_else(|| format!("unknown policy `{name}`; GET /api/race lists them"))
        };
        let choices = asked.policies.iter().map(choice).collect::<Result<Vec<_>, _>>()?;
        let profile = *Profile::named(&asked.profile).ok_or_else(|| format!("unknown profile `{}`", asked.profile))?;
        let (source, warnings) = self.source(&asked.workload, asked.requests)?;
        let race = Race {
            source,
            fleet: FleetOptions { pods: asked.endpoints, profile, ..FleetOptions::default() },
            choices,
            seeds: asked.seeds,
            after: 0,
            slo: Slo { ttft: 1.0, tpot: 0.05 },
            rate: asked.rate,
            sweep: None,
        };
        Ok((race, warnings))
    }

    fn source(&self, workload: &str, requests: usize) -> Result<(Source, Vec<String>), String> {
        if workload != OWN {
            let spec = Spec::parse(workload).map_err(|e| e.to_string())?;
            if spec.size().1 > MOST_IDS {
                return Err("`workload` is too large to be raced in a router: use `pointsman race` for it".to_owned());
            }
            let workload = spec.generate(1);
            let source = if workload.requests.len() > requests {
                Source::Fixed(Arc::new(workload.first(requests)))
            } else {
                Source::Made(Box::new(spec))
            };
            return Ok((source, Vec::new()));
        }
        let mut newest = self.pool.ring.newest(RECORDED.min(requests), None);
        newest.sort_by_key(|decision| decision.at_unix_ms);
        let warnings = on_record(newest.len(), requests, newest.iter().filter(|d| d.block_hashes.is_none()).count());
        let (mut lines, mut begin) = (Vec::new(), None);
        for decision in newest {
            let decision = serde_json::to_value(&*decision).map_err(|e| e.to_string())?;
            let Some(recorded) = Recorded::of(&decision, &mut begin)? else { continue };
            serde_json::to_writer(&mut lines, &recorded).map_err(|e| e.to_string())?;
            lines.push(b'\n');
        }
        if lines.is_empty() {
            return Err("nothing is recorded yet: send some requests first".to_owned());
        }
        let workload = read(OWN, Cursor::new(lines), None).map_err(|e| e.to_string())?;
        Ok((Source::Fixed(Arc::new(workload)), warnings))
    }
}

/// What a race on own traffic lacks: `found` of `wanted` decisions, and `unshared` of these without the hashes of their blocks.
fn on_record(found: usize, wanted: usize, unshared: usize) -> Vec<String> {
    let few = (found < wanted).then(|| format!("{found} requests on record, {wanted} were asked for"));
    let blind = (unshared > 0).then(|| {
        format!(
            "{unshared} of {found} requests are on record without the hashes of their blocks, and are raced as if they shared nothing: cache hits \
             come out too low; start with --record-block-hashes"
        )
    });
    few.into_iter().chain(blind).collect()
}

/// Makes the runs of a race, one after the other.
fn play(plan: &Race, id: u64, kept: &Mutex<Kept>) {
    let jobs = plan.jobs();
    for (n, job) in jobs.iter().enumerate() {
        let made = plan.run(*job, &mut |ended, all| {
            let share = (n as f64 + ended as f64 / all.max(1) as f64) / jobs.len() as f64;
            change(kept, id, |run| run.progress = share);
            ControlFlow::Continue(())
        });
        match made {
            Ok(done) => change(kept, id, |run| {
                run.done.push(done);
                run.progress = (n + 1) as f64 / jobs.len() as f64;
            }),
            Err(why) => {
                let why = format!("{}: {why}", plan.choices[job.choice].name());
                change(kept, id, |run| run.error = Some(why));
                break;
            }
        }
    }
    change(kept, id, |run| run.over = true);
}

fn change(kept: &Mutex<Kept>, id: u64, change: impl FnOnce(&mut Run)) {
    if let Some(run) = kept.lock().runs.iter_mut().find(|run| run.id == id) {
        change(run);
    }
}

impl pointsman_admin::Extension for Races {
    fn answer(&self, method: &str, path: &str, _: &str, body: &[u8]) -> Option<(u16, Value)> {
        let told = |status: u16, why: &str| Some((status, json!({"error": {"message": why}})));
        match (method, path, path.strip_prefix("/api/race/")) {
            ("GET", "/api/race", _) => Some((200, Self::offers())),
            ("POST", "/api/race", _) => match self.begin(body) {
                Ok(id) => Some((202, json!({"id": id.to_string()}))),
                Err((status, why)) => told(status, &why),
            },
            ("GET", _, Some(id)) => {
                let kept = self.kept.lock();
                match kept.runs.iter().find(|run| run.id.to_string() == id) {
                    Some(run) => Some((200, run.json())),
                    None => told(404, "no such race: results of the last 16 are kept"),
                }
            }
            _ => None,
        }
    }
}
