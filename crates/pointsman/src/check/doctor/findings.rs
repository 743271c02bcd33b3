//! Where what a configuration counts on and what engines tell do not go together.

use super::ask::{Page, Told};
use super::wants::Wants;
use pointsman_plugins::row::Signal;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gravity {
    /// Requests are routed by what is not so, or not at all.
    Error,
    /// They are routed, but likely not as meant.
    Warning,
    /// Good to know.
    Note,
}

/// One thing that does not fit, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) gravity: Gravity,
    pub(super) code: &'static str,
    /// Which engines it is about; none: all of them together.
    pub(super) engines: Vec<String>,
    pub(super) message: String,
    /// What to change there; empty when nothing can be.
    pub(super) engine_side: String,
    /// What to change here.
    pub(super) configuration_side: String,
}

/// Clocks may differ by this many seconds, one of which is the header's own resolution.
const CLOCKS: i64 = 2;

/// Everything, the worst first, in the order of the engines.
pub(super) fn of(wants: &Wants, told: &[Told]) -> Vec<Finding> {
    let mut out = Findings::default();
    for engine in told {
        reachable(engine, &mut out);
        metrics(wants, engine, &mut out);
        prefix_caching(wants, engine, &mut out);
        blocks(wants, engine, &mut out);
        events(wants, engine, &mut out);
        clock(engine, &mut out);
    }
    all_alike(wants, told, &mut out);
    out.0.sort_by_key(|f| f.gravity);
    out.0
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    /// Adds one; what is the same for several engines is said once.
    fn add(&mut self, gravity: Gravity, code: &'static str, engine: &str, message: String, sides: [&str; 2]) {
        let same = self.0.iter_mut().find(|f| f.code == code && f.message == message);
        if let Some(same) = same {
            same.engines.push(engine.to_owned());
            return;
        }
        let [engine_side, configuration_side] = sides.map(str::to_owned);
        let engines = if engine.is_empty() { Vec::new() } else { vec![engine.to_owned()] };
        self.0.push(Finding { gravity, code, engines, message, engine_side, configuration_side });
    }
}

fn reachable(engine: &Told, out: &mut Findings) {
    if let (Some(scheme), Some(why)) = (engine.other_scheme, &engine.unreachable) {
        let speaks = if scheme == "http" { "plain HTTP" } else { "HTTPS" };
        let write = format!("write {scheme}://{}", engine.name);
        let message = format!("it speaks {speaks}: {why}");
        out.add(Gravity::Error, "other-scheme", &engine.name, message, ["", &write]);
    } else if let Some(why) = &engine.unreachable {
        let sides = ["start it, or let this machine reach it", "take it from the list of endpoints"];
        out.add(Gravity::Error, "unreachable", &engine.name, format!("no answer: {why}"), sides);
    }
}

fn metrics(wants: &Wants, engine: &Told, out: &mut Findings) {
    let survey = match &engine.metrics {
        Page::Unasked => return,
        Page::Missing { path, why } => {
            let reader = wants.signals.first().map(|(_, plugin)| format!(", and `{plugin}` reads it"));
            let message = format!("no metrics page at `{path}`: {why}{}", reader.unwrap_or_default());
            let sides = ["show metrics (SGLang: --enable-metrics)", "set `path` or `port` of `metrics-data-source`"];
            out.add(Gravity::Error, "no-metrics-page", &engine.name, message, sides);
            return;
        }
        Page::Read(survey) => survey,
    };
    if let Some(kind) = &survey.looks_like {
        let message = format!("its metrics are those of `{kind}`, and are read as those of `{}`", survey.engine);
        let here = format!("label the endpoint `llm-d.ai/engine-type: {kind}`, or set `defaultEngine: {kind}`");
        out.add(Gravity::Error, "other-engine-kind", &engine.name, message, ["", &here]);
        return;
    }
    for (signal, names) in &survey.missing {
        let Some((_, plugin)) = wants.signals.iter().find(|(s, _)| s == signal) else { continue };
        let names = names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(" or ");
        let message = format!("no metric {names}, by which `{plugin}` reads {signal}");
        // Of adapters all engines without that metric are rated alike; of the others one would be rated by what is not so.
        let lora = *signal == Signal::Lora;
        let gravity = if lora { Gravity::Warning } else { Gravity::Error };
        let message = if lora { message + ", and rates it 0 for every adapter" } else { message };
        let there = if lora { "start vLLM with --enable-lora" } else { "" };
        let here = if lora {
            format!("leave `{plugin}` out")
        } else {
            "name the metric that this engine shows in `engineConfigs` of `core-metrics-extractor`".to_owned()
        };
        out.add(gravity, "missing-metric", &engine.name, message, [there, &here]);
    }
}

fn prefix_caching(wants: &Wants, engine: &Told, out: &mut Findings) {
    if let (Some(index), Some(false)) = (&wants.prefix, engine.prefix_caching()) {
        let message = format!("prefix caching is off, and `{}` counts on it", index.name);
        let sides = [
            "start vLLM without --no-enable-prefix-caching (SGLang: without --disable-radix-cache)",
            "leave the scorers of prefixes out",
        ];
        out.add(Gravity::Error, "prefix-caching-off", &engine.name, message, sides);
    }
}

fn blocks(wants: &Wants, engine: &Told, out: &mut Findings) {
    let (Some(index), Some(size)) = (&wants.prefix, engine.block_size().filter(|s| *s > 0)) else { return };
    let used = if index.auto_tune { index.block_tokens.max(size) } else { index.block_tokens };
    if used % size != 0 {
        let message = format!(
            "its blocks have {size} tokens, and `{}` matches in blocks of {used}: a match ends within a block of the engine",
            index.name
        );
        let here = format!("set `blockSizeTokens` to a multiple of {size} that is 64 or more");
        let there = format!("start it with --block-size {}", if used % 16 == 0 { 16 } else { used });
        out.add(Gravity::Warning, "block-size", &engine.name, message, [&there, &here]);
    }
}

fn events(wants: &Wants, engine: &Told, out: &mut Findings) {
    match (&wants.kv_events, engine.settings.kv_events) {
        (Some(plugin), Some(false)) => {
            let message = format!("it publishes no KV-cache events, which `{plugin}` follows");
            let sides = [
                "start vLLM with --kv-events-config '{\"enable_kv_cache_events\": true, \"publisher\": \"zmq\"}'",
                "use `approx-prefix-cache-producer`",
            ];
            out.add(Gravity::Error, "no-kv-events", &engine.name, message, sides);
        }
        (None, Some(true)) => {
            let message = "it publishes KV-cache events, which nothing in the configuration follows".to_owned();
            out.add(Gravity::Note, "unused-kv-events", &engine.name, message, ["", ""]);
        }
        _ => {}
    }
}

fn clock(engine: &Told, out: &mut Findings) {
    let Some(ahead) = engine.ahead.filter(|a| a.abs() > CLOCKS) else { return };
    let message =
        format!("its clock is {} s {} this machine's", ahead.abs(), if ahead > 0 { "ahead of" } else { "behind" });
    let sides = ["set both clocks by NTP: logs and traces of one request would not line up", ""];
    out.add(Gravity::Warning, "clock-skew", &engine.name, message, sides);
}

/// What should be the same everywhere in a pool.
fn all_alike(wants: &Wants, told: &[Told], out: &mut Findings) {
    let mut differ = |code, what: &str, gravity, there: &str, of: &dyn Fn(&Told) -> Option<String>| {
        let values: Vec<(&str, String)> = told.iter().filter_map(|t| Some((t.name.as_str(), of(t)?))).collect();
        if values.windows(2).all(|w| w[0].1 == w[1].1) {
            return;
        }
        let listed = values.iter().map(|(name, v)| format!("{name} {v}")).collect::<Vec<_>>().join("; ");
        out.add(gravity, code, "", format!("{what}: {listed}"), [there, ""]);
    };
    differ(
        "models-differ",
        "engines serve different models, and a request goes only where its model is",
        Gravity::Warning,
        "serve all models under the same names (vLLM: --served-model-name)",
        &|t| {
            let mut models = t.base_models()?;
            models.sort_unstable();
            Some(models.join(", "))
        },
    );
    differ(
        "context-length-differs",
        "engines take requests of different lengths, and nothing routes by length",
        Gravity::Warning,
        "start all with the same --max-model-len",
        &|t| Some(t.models.as_ref()?.iter().filter_map(|m| m.max_len).max()?.to_string()),
    );
    if wants.prefix.is_some() {
        differ(
            "block-sizes-differ",
            "engines have blocks of different sizes, and prefixes are matched in one size",
            Gravity::Warning,
            "start all with the same --block-size",
            &|t| t.block_size().map(|s| s.to_string()),
        );
    }
    differ(
        "max-num-seqs-differs",
        "engines run different numbers of requests at once, and equal queues are rated equal",
        Gravity::Warning,
        "start all with the same --max-num-seqs",
        &|t| t.settings.max_num_seqs.map(|s| s.to_string()),
    );
    differ("versions-differ", "engines are of different versions", Gravity::Note, "", &|t| t.version.clone());
}

#[cfg(test)]
mod tests {
    use super::super::ask::{Model, Settings};
    use super::super::wants::PrefixIndex;
    use super::*;
    use pointsman_plugins::data_layer::core_metrics_extractor::Survey;

    fn survey() -> Survey {
        Survey {
            engine: "vllm".into(),
            looks_like: None,
            missing: Vec::new(),
            block_size: Some(16),
            num_blocks: Some(1000),
            prefix_caching: Some(true),
        }
    }

    fn engine(name: &str) -> Told {
        Told {
            name: name.to_owned(),
            metrics: Page::Read(survey()),
            models: Some(vec![Model { id: "m".to_owned(), parent: None, max_len: Some(4096) }]),
            version: Some("0.32.0".to_owned()),
            ahead: Some(0),
            ..Told::default()
        }
    }

    fn wants() -> Wants {
        Wants {
            signals: vec![
                (Signal::Waiting, "queue-scorer".to_owned()),
                (Signal::Lora, "lora-affinity-scorer".to_owned()),
            ],
            prefix: Some(PrefixIndex { name: "approx".to_owned(), block_tokens: 64, auto_tune: true }),
            ..Wants::default()
        }
    }

    fn codes(told: &[Told]) -> Vec<(&'static str, Gravity)> {
        of(&wants(), told).into_iter().map(|f| (f.code, f.gravity)).collect()
    }

    #[test]
    fn engines_that_fit_give_no_finding() {
        assert_eq!(codes(&[engine("a"), engine("b")]), []);
    }

    #[test]
    fn each_misfit_is_found_and_the_worst_comes_first() {
        let with = |change: &dyn Fn(&mut Told)| {
            let mut told = engine("a");
            change(&mut told);
            codes(&[told])
        };
        let page = |change: &dyn Fn(&mut Survey)| {
            let mut survey = survey();
            change(&mut survey);
            with(&|t| t.metrics = Page::Read(survey.clone()))
        };
        use Gravity::{Error, Note, Warning};
        assert_eq!(with(&|t| t.unreachable = Some("x".to_owned())), [("unreachable", Error)]);
        assert_eq!(
            with(&|t| t.metrics = Page::Missing { path: "/metrics".to_owned(), why: "status 404".to_owned() }),
            [("no-metrics-page", Error)]
        );
        assert_eq!(page(&|s| s.looks_like = Some("sglang".into())), [("other-engine-kind", Error)]);
        assert_eq!(page(&|s| s.missing = vec![(Signal::Lora, vec!["l".to_owned()])]), [("missing-metric", Warning)]);
        assert_eq!(page(&|s| s.missing = vec![(Signal::Waiting, vec!["w".to_owned()])]), [("missing-metric", Error)]);
        assert_eq!(
            with(&|t| (t.unreachable, t.other_scheme) = (Some("x".to_owned()), Some("http"))),
            [("other-scheme", Error)]
        );
        assert_eq!(page(&|s| s.missing = vec![(Signal::KvUsage, vec!["k".to_owned()])]), [], "nobody reads it");
        assert_eq!(page(&|s| s.prefix_caching = Some(false)), [("prefix-caching-off", Error)]);
        assert_eq!(page(&|s| s.block_size = Some(48)), [("block-size", Warning)]);
        assert_eq!(page(&|s| s.block_size = Some(128)), [], "the index follows");
        assert_eq!(with(&|t| t.ahead = Some(-60)), [("clock-skew", Warning)]);
        let events = Settings { kv_events: Some(true), ..Settings::default() };
        assert_eq!(with(&|t| t.settings = events.clone()), [("unused-kv-events", Note)]);
    }

    #[test]
    fn what_differs_among_engines_is_said_once_with_all_values() {
        let (a, mut b) = (engine("a"), engine("b"));
        b.models = Some(vec![Model { id: "n".to_owned(), parent: None, max_len: Some(8192) }]);
        b.version = Some("0.20.2".to_owned());
        let found = of(&wants(), &[a.clone(), b]);
        let codes: Vec<&str> = found.iter().map(|f| f.code).collect();
        assert_eq!(codes, ["models-differ", "context-length-differs", "versions-differ"]);
        assert!(found[0].message.ends_with("a m; b n"), "{}", found[0].message);
        let mut off = a.clone();
        off.metrics = Page::Read(Survey { prefix_caching: Some(false), ..survey() });
        let twice = of(&wants(), &[off.clone(), Told { name: "b".to_owned(), ..off }]);
        assert_eq!((twice.len(), &twice[0].engines[..]), (1, &["a".to_owned(), "b".to_owned()][..]));
    }

    #[test]
    fn adapters_may_differ_among_engines() {
        let (a, mut b) = (engine("a"), engine("b"));
        let adapter = Model { id: "lora".to_owned(), parent: Some("m".to_owned()), max_len: None };
        b.models.as_mut().unwrap_or_else(|| unreachable!()).push(adapter);
        assert_eq!(codes(&[a, b]), []);
    }
}
