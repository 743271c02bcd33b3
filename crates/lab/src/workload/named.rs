//! Workloads that have a name, and how a person changes them: `shared-prefix:groups=20,rate=8`.

use super::{Arrivals, Ending, Lengths, MOST_IDS, Sessions, SharedPrefix, Stage, Workload};

/// A workload with a name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Its parameters, as [`Spec::parse`] reads them.
    pub parameters: &'static str,
}

/// All of them. The figures are those of published benchmarks where the text says so (simulator 3.3).
pub const NAMED: &[Named] = &[
    Named {
        name: "shared-prefix",
        doc: "Groups with a common system prompt and questions of their own.",
        parameters: "groups=10,prompts=10,system=2048,question=256,output=128,rate=10,requests=100,ending=fresh",
    },
    Named {
        name: "chat",
        doc: "Conversations of some turns, one beginning each second.",
        parameters: "sessions=50,rate=1,turns=2..8,think=10,shared=1024,own=512,question=200,output=200",
    },
    Named {
        name: "unique",
        doc: "Prompts that share nothing.",
        parameters: "groups=1,prompts=1000000,system=0,question=1024,output=200,rate=10,requests=500,ending=fresh",
    },
    Named {
        name: "precise-guide",
        doc: "150 groups of 5, 6000/1200/1000 tokens, Poisson, 3 to 60 requests a second in drained stages after 750 that warm up (llm-d-benchmark).",
        parameters: "groups=150,prompts=5,system=6000,question=1200,output=1000,ending=cycle,\
                     stages=15x50+3x20+10x20+15x20+20x38+22x34+25x30+30x25+35x21+40x38+43x36+46x33+49x30+52x29+55x27+57x26+60x25,\
                     warm=750",
    },
    Named {
        name: "37-capacity",
        doc: "83 groups of 3, 8000/1000/1000 tokens, constant, 3 to 20 requests a second in drained stages after 250 that warm up (llm-d-kv-cache-manager).",
        parameters: "groups=83,prompts=3,system=8000,question=1000,output=1000,ending=cycle,arrivals=constant,\
                     stages=10x25+3x210+4x180+5x120+6x120+8x90+10x70+12x60+15x50+20x50,warm=250",
    },
    Named {
        name: "64-percent",
        doc: "100 groups of 2, 3500/512/192 tokens (the 64 % cache load).",
        parameters: "groups=100,prompts=2,system=3500,question=512,output=192,ending=cycle,rate=10,requests=600",
    },
    Named {
        name: "lora",
        doc: "24 groups over 12 adapters, some far more popular than others.",
        parameters: "groups=24,prompts=20,system=1024,question=256,output=128,zipf=1,loras=12,rate=12,requests=600",
    },
];

/// A named workload with its parameters settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    name: String,
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Shared(SharedPrefix),
    Sessions(Sessions),
}

/// Why a workload's text cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such name.
    #[error("unknown workload `{0}`; there are {names}", names = NAMED.iter().map(|n| n.name).collect::<Vec<_>>().join(", "))]
    Unknown(String),
    /// No such parameter.
    #[error("`{workload}` has no parameter `{key}`; it has {known}")]
    Key {
        /// Workload.
        workload: String,
        /// What was written.
        key: String,
        /// What may be.
        known: &'static str,
    },
    /// More than can be held.
    #[error("`{0}` is more than fits into memory: at most {MOST} prompts and requests, with at most {tokens} tokens in all", tokens = MOST_IDS * 64)]
    TooLarge(String),
    /// A value that means nothing.
    #[error("`{key}={value}`: expected {expected}")]
    Value {
        /// Parameter.
        key: String,
        /// What was written.
        value: String,
        /// What may be.
        expected: &'static str,
    },
}

const SHARED_KEYS: &str = "groups, prompts, system, question, output, rate, requests, arrivals, cv, on, off, zipf, loras, order, ending, stages, warm";
const SESSION_KEYS: &str =
    "sessions, rate, users, turns, think, abandon, shared, own, question, output, max-tokens, arrivals, cv, on, off";

/// Requests of one generated workload.
const MOST: u64 = 2_000_000;

impl Spec {
    /// Reads `name` or `name:key=value,..`.
    ///
    /// # Errors
    /// Says which name, key or value is wrong and what may stand there.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let (name, given) = text.split_once(':').unwrap_or((text, ""));
        let named = NAMED.iter().find(|n| n.name == name).ok_or_else(|| SpecError::Unknown(name.into()))?;
        let mut spec = Self {
            name: text.to_owned(),
            shape: match name {
                "chat" => Shape::Sessions(Sessions::default()),
                _ => Shape::Shared(SharedPrefix::default()),
            },
        };
        for pair in named.parameters.split(',').chain(given.split(',').filter(|p| !p.trim().is_empty())) {
            let (key, value) = pair.trim().split_once('=').unwrap_or((pair.trim(), ""));
            spec.set(key.trim(), value.trim())?;
        }
        let (count, ids) = spec.size();
        if count > MOST as f64 || ids > MOST_IDS as f64 {
            return Err(SpecError::TooLarge(text.into()));
        }
        Ok(spec)
    }

    /// About how many prompts or requests it makes, and how many ids of blocks they have in all.
    #[must_use]
    pub fn size(&self) -> (f64, f64) {
        match &self.shape {
            Shape::Shared(shared) => shared.size(),
            Shape::Sessions(sessions) => sessions.size(),
        }
    }

    /// Sets one parameter, as a sweep does.
    ///
    /// # Errors
    /// As [`Spec::parse`].
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
        let workload = self.name.split(':').next().unwrap_or_default().to_owned();
        let known = match &mut self.shape {
            Shape::Shared(shared) => shared_key(shared, key, value)?.then_some(()).ok_or(SHARED_KEYS),
            Shape::Sessions(sessions) => session_key(sessions, key, value)?.then_some(()).ok_or(SESSION_KEYS),
        };
        known.map_err(|known| SpecError::Key { workload, key: key.into(), known })
    }

    /// The workload of one seed.
    #[must_use]
    pub fn generate(&self, seed: u64) -> Workload {
        match &self.shape {
            Shape::Shared(shared) => shared.generate(&self.name, seed),
            Shape::Sessions(sessions) => sessions.generate(&self.name, seed),
        }
    }

    /// What was written.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn wrong(key: &str, value: &str, expected: &'static str) -> SpecError {
    SpecError::Value { key: key.into(), value: value.into(), expected }
}

fn whole(key: &str, value: &str, most: u64) -> Result<u64, SpecError> {
    let number = value.parse::<u64>().ok().filter(|n| *n <= most);
    number.ok_or_else(|| {
        wrong(key, value, if most == MOST { "a whole number up to 2,000,000" } else { "a whole number of tokens" })
    })
}

fn number(key: &str, value: &str) -> Result<f64, SpecError> {
    let number = value.parse::<f64>().ok().filter(|n| n.is_finite() && (0.0..=1e9).contains(n));
    number.ok_or_else(|| wrong(key, value, "a number from 0 to 1,000,000,000"))
}

fn lengths(key: &str, value: &str) -> Result<Lengths, SpecError> {
    let expected = "tokens: 800, 100..2000, normal:MEAN/DEVIATION/MIN/MAX or lognormal:MEAN/DEVIATION/MIN/MAX";
    Lengths::parse(value).ok_or_else(|| wrong(key, value, expected))
}

/// Changes an arrival process: its kind, or a number of it.
fn arrivals_key(process: &mut Arrivals, key: &str, value: &str) -> Result<bool, SpecError> {
    let rate = process.rate();
    match (key, &mut *process) {
        ("rate", _) => {
            let rate = number(key, value)?;
            if rate <= 0.0 {
                return Err(wrong(key, value, "more than 0 requests per second"));
            }
            *process = process.at_rate(rate);
        }
        ("arrivals", _) => {
            *process = match value {
                "constant" => Arrivals::Constant { rate },
                "poisson" => Arrivals::Poisson { rate },
                "gamma" => Arrivals::Gamma { rate, cv: 2.0 },
                "on-off" => Arrivals::OnOff { rate, on: 5.0, off: 5.0 },
                "diurnal" => Arrivals::Diurnal { rate, swing: 0.5, period: 600.0 },
                _ => return Err(wrong(key, value, "constant, poisson, gamma, on-off or diurnal")),
            };
        }
        ("cv", Arrivals::Gamma { cv, .. }) => *cv = number(key, value)?,
        ("cv", _) => *process = Arrivals::Gamma { rate, cv: number(key, value)? },
        ("on", Arrivals::OnOff { on, .. }) => *on = number(key, value)?,
        ("off", Arrivals::OnOff { off, .. }) => *off = number(key, value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn shared_key(shared: &mut SharedPrefix, key: &str, value: &str) -> Result<bool, SpecError> {
    match key {
        "groups" => shared.groups = whole(key, value, MOST)?.max(1) as usize,
        "prompts" => shared.prompts = whole(key, value, MOST)?.max(1) as usize,
        "system" => shared.system = whole(key, value, super::lengths::MOST)?,
        "question" => shared.question = lengths(key, value)?,
        "output" => shared.output = lengths(key, value)?,
        "zipf" => shared.zipf = number(key, value)?.min(10.0),
        "loras" => shared.loras = whole(key, value, MOST)? as usize,
        "warm" => shared.warm = whole(key, value, MOST)? as usize,
        "requests" => {
            let requests = whole(key, value, MOST)? as usize;
            shared.warm = 0;
            shared.stages.truncate(1);
            shared.stages.iter_mut().for_each(|stage| stage.requests = requests);
        }
        "order" => {
            shared.group_major = match value {
                "group-major" => true,
                "shuffled" => false,
                _ => return Err(wrong(key, value, "group-major or shuffled")),
            }
        }
        "ending" => {
            shared.ending = match value {
                "cycle" => Ending::Cycle,
                "fresh" => Ending::Fresh,
                _ => return Err(wrong(key, value, "cycle or fresh")),
            }
        }
        "stages" => {
            let process = shared.stages.first().map_or(Arrivals::Poisson { rate: 1.0 }, |s| s.arrivals);
            let stage = |text: &str| {
                let (rate, seconds) = text.split_once('x')?;
                let (rate, seconds) = (rate.parse::<f64>().ok()?, seconds.parse::<f64>().ok()?);
                let sane = rate > 0.0 && seconds > 0.0 && rate * seconds <= MOST as f64;
                sane.then(|| Stage { arrivals: process.at_rate(rate), requests: (rate * seconds).round() as usize })
            };
            let stages: Option<Vec<Stage>> = value.split('+').map(stage).collect();
            shared.warm = 0;
            shared.stages = stages.ok_or_else(|| wrong(key, value, "RATExSECONDS, joined by +"))?;
        }
        _ => {
            for stage in &mut shared.stages {
                if !arrivals_key(&mut stage.arrivals, key, value)? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

fn session_key(sessions: &mut Sessions, key: &str, value: &str) -> Result<bool, SpecError> {
    match key {
        "sessions" => sessions.sessions = whole(key, value, MOST / 10)? as usize,
        "users" => (sessions.users, sessions.arrivals) = (whole(key, value, MOST)?.max(1) as usize, None),
        "turns" => sessions.turns = lengths(key, value)?,
        "think" => sessions.think = number(key, value)?,
        "abandon" => sessions.abandon = number(key, value)?.min(1.0),
        "shared" => sessions.shared = whole(key, value, super::lengths::MOST)?,
        "own" => sessions.own = lengths(key, value)?,
        "question" => sessions.question = lengths(key, value)?,
        "output" => sessions.output = lengths(key, value)?,
        "max-tokens" => sessions.max_tokens = whole(key, value, super::lengths::MOST)?,
        _ => {
            let mut process = sessions.arrivals.unwrap_or(Arrivals::Poisson { rate: 1.0 });
            let known = arrivals_key(&mut process, key, value)?;
            sessions.arrivals = Some(process);
            return Ok(known);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_workload_can_be_made() {
        for named in NAMED {
            let workload = Spec::parse(named.name).expect(named.name).generate(1);
            assert!(workload.requests.len() >= 100, "{}: {}", named.name, workload.requests.len());
            assert!(named.parameters.split(',').all(|pair| pair.contains('=')), "{}", named.name);
        }
    }

    #[test]
    fn parameters_change_a_workload() {
        let workload = Spec::parse("shared-prefix:groups=3,requests=7,question=100..200").expect("fine").generate(1);
        assert_eq!(workload.requests.len(), 7);
        let stages = Spec::parse("precise-guide:stages=2x5+4x5").expect("fine").generate(1);
        assert_eq!((stages.stages, stages.requests.len()), (vec![0, 10], 30));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_may_be() {
        let fault = |text| Spec::parse(text).expect_err(text).to_string();
        assert!(fault("nothing").starts_with("unknown workload `nothing`; there are shared-prefix, "));
        assert!(fault("chat:groups=3").starts_with("`chat` has no parameter `groups`; it has sessions, "));
        assert_eq!(fault("shared-prefix:rate=0"), "`rate=0`: expected more than 0 requests per second");
        assert_eq!(fault("shared-prefix:rate=-1"), "`rate=-1`: expected a number from 0 to 1,000,000,000");
        assert_eq!(
            fault("shared-prefix:requests=99999999999"),
            "`requests=99999999999`: expected a whole number up to 2,000,000"
        );
        for much in [
            "shared-prefix:groups=2000000,prompts=2000000",
            "shared-prefix:requests=2000000,question=10000000",
            "shared-prefix:stages=1000x2000+1000x2000",
            "chat:sessions=200000,turns=100",
            "chat:sessions=200000,own=10000000,max-tokens=10000000",
        ] {
            assert!(fault(much).contains("more than fits"), "{much}");
        }
    }
}
