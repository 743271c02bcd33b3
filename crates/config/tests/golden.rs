//! The recorded configurations and endpoints files, and what the Go picker said of them.
//!
//! What it refused is refused here and what it accepted is accepted, but for the entries of `golden_differences.json`, each with its
//! reason: a deliberate difference (a `Wart:` of the specification), or something this layer cannot see. `golden_faults.txt` holds
//! every fault as it is worded here; `UPDATE_GOLDEN=1 cargo test -p pointsman-config` writes it anew.

#![allow(clippy::unwrap_used, reason = "a test whose data files are missing must fail")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use pointsman_config::{Faults, Kind, Param, ParamKind, Registry, Stability, TypeInfo, check, endpoints, render};
use serde_json::Value;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn golden(path: &str) -> PathBuf {
    here("../../testdata/fixtures/golden/config").join(path)
}

/// The types that occur in the recorded documents, with as much of their rows as these use.
struct Recorded;

impl Registry for Recorded {
    fn lookup(&self, type_name: &str) -> Option<TypeInfo> {
        use Kind::{
            Decider, Discovery, Extractor, Fairness, Filter, Ordering, Parser, Picker, Producer, ProfileHandler, Scorer,
        };
        let beta = |kinds: &'static [Kind], params: &'static [Param]| TypeInfo {
            kinds,
            params,
            stability: Stability::Beta,
            available: true,
            deprecated: None,
        };
        let mut info = match type_name {
            "file-discovery" => {
                const P: &[Param] = &[Param::new("path", ParamKind::String, "the endpoints file").required()];
                beta(&[Discovery], P)
            }
            "max-score-picker" | "random-picker" => {
                const P: &[Param] = &[Param::new("maxNumOfEndpoints", ParamKind::INTEGER, "how many").default("1")];
                beta(&[Picker], P)
            }
            "utilization-filter" => {
                const P: &[Param] = &[Param::new("conditions", ParamKind::Any, "bounds").required()];
                TypeInfo { stability: Stability::Alpha, ..beta(&[Filter], P) }
            }
            "topology-affinity-filter" => TypeInfo { stability: Stability::Alpha, ..beta(&[Filter], &[]) },
            "topology-affinity-scorer" | "session-affinity-scorer" => {
                TypeInfo { stability: Stability::Alpha, ..beta(&[Scorer], &[]) }
            }
            "by-label-selector" => {
                const P: &[Param] = &[Param::new("matchLabels", ParamKind::AnyMap, "labels")];
                beta(&[Filter], P)
            }
            "by-label" => {
                const P: &[Param] = &[
                    Param::new("label", ParamKind::String, "label").required(),
                    Param::new("validValues", ParamKind::List(&ParamKind::String), "values"),
                ];
                beta(&[Filter], P)
            }
            "utilization-detector" => {
                const P: &[Param] = &[
                    Param::new("queueDepthThreshold", ParamKind::POSITIVE, "requests").default("5"),
                    Param::new("kvCacheUtilThreshold", ParamKind::FRACTION, "share").default("0.8"),
                    Param::new("metricsStalenessThreshold", ParamKind::Duration, "age").default("\"200ms\""),
                    Param::new("headroom", ParamKind::NON_NEGATIVE, "share").default("0"),
                ];
                beta(&[Kind::SaturationDetector, Filter], P)
            }
            "disagg-profile-handler" => {
                const P: &[Param] = &[Param::new("deciders", ParamKind::AnyMap, "deciders")];
                beta(&[ProfileHandler], P)
            }
            "core-metrics-extractor" => {
                const P: &[Param] = &[
                    Param::new("engineConfigs", ParamKind::Any, "engines"),
                    Param::new("defaultEngine", ParamKind::String, "engine").default("\"vllm\""),
                ];
                beta(&[Extractor], P)
            }
            "approx-prefix-cache-producer" => {
                const P: &[Param] = &[
                    Param::new("autoTune", ParamKind::Bool, "tune").default("true"),
                    Param::new("blockSizeTokens", ParamKind::INTEGER, "tokens").default("16"),
                ];
                beta(&[Producer], P)
            }
            "prefix-cache-scorer" => {
                const P: &[Param] = &[Param::new("prefixMatchInfoProducerName", ParamKind::String, "producer")];
                beta(&[Scorer], P)
            }
            "request-attribute-reporter" => {
                const P: &[Param] = &[Param::new("attributes", ParamKind::Any, "what is reported").required()];
                beta(&[Kind::Hook], P)
            }
            "session-id-producer" => {
                const P: &[Param] = &[Param::new("headerName", ParamKind::String, "header")];
                beta(&[Producer], P)
            }
            "concurrency-detector" => beta(&[Kind::SaturationDetector, Filter], &[]),
            "decode-filter" | "prefill-filter" | "prefix-cache-affinity-filter" | "slo-headroom-tier-filter" => {
                beta(&[Filter], &[])
            }
            "queue-scorer"
            | "active-request-scorer"
            | "latency-scorer"
            | "load-aware-scorer"
            | "lora-affinity-scorer"
            | "mm-embeddings-cache-scorer"
            | "no-hit-lru-scorer"
            | "token-load-scorer" => beta(&[Scorer], &[]),
            "precise-prefix-cache-scorer" => beta(&[Scorer, Producer], &[]),
            "context-length-aware" => beta(&[Filter, Scorer], &[]),
            "inflight-load-producer" | "tokenizer" => beta(&[Producer], &[]),
            "single-profile-handler" | "pd-profile-handler" | "data-parallel-profile-handler" => {
                beta(&[ProfileHandler], &[])
            }
            "disagg-headers-handler" | "prefill-header-handler" => beta(&[Kind::Hook], &[]),
            "always-disagg-pd-decider" | "prefix-based-pd-decider" => beta(&[Decider], &[]),
            "metrics-data-source" => beta(&[Kind::DataSource], &[]),
            "openai-parser" | "passthrough-parser" => beta(&[Parser], &[]),
            "round-robin-fairness-policy" => beta(&[Fairness], &[]),
            "edf-ordering-policy" => beta(&[Ordering], &[]),
            _ => return None,
        };
        if ["by-label", "pd-profile-handler", "tokenizer"].contains(&type_name) {
            info.deprecated = Some("use its successor");
        }
        Some(info)
    }

    fn names(&self) -> Vec<&'static str> {
        vec![
            "queue-scorer",
            "prefix-cache-scorer",
            "max-score-picker",
            "openai-parser",
            "passthrough-parser",
            "file-discovery",
        ]
    }
}

const MADE_BY_DEFAULTS: &[&str] = &[
    "single-profile-handler",
    "max-score-picker",
    "fcfs-ordering-policy",
    "global-strict-fairness-policy",
    "static-usage-limit-policy",
    "utilization-detector",
    "metrics-data-source",
    "core-metrics-extractor",
];

/// Outcome, name of the file shown, its text, the faults found.
struct Judged {
    accepted_there: bool,
    text: String,
    faults: Faults,
}

fn judged() -> BTreeMap<String, Judged> {
    let mut out = BTreeMap::new();
    for entry in std::fs::read_dir(golden("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let recorded: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let accepted_there = recorded["outcome"] == "accepted";
        let mut faults = Faults::new();
        let text = match recorded["endpoints_file"].as_str() {
            Some(file) => {
                // The record shortens the one large file.
                let large = file.len() < 1000 && file.contains("1048636 bytes");
                let text =
                    if large { format!("{file}{}", "x".repeat(1_048_636 - file.len())) } else { file.to_owned() };
                endpoints::parse(text.as_bytes(), endpoints::Options::default(), &mut faults);
                if large { String::new() } else { text }
            }
            None => {
                let text = std::fs::read_to_string(golden(recorded["config"].as_str().unwrap())).unwrap();
                let flags = recorded["flags"].as_array().unwrap();
                let experimental = flags.iter().any(|f| f == "--allow-experimental-plugins");
                check(text.as_bytes(), &Recorded, MADE_BY_DEFAULTS, experimental, &mut faults);
                text
            }
        };
        out.insert(name, Judged { accepted_there, text, faults });
    }
    assert!(out.len() > 90, "only {} records", out.len());
    out
}

#[test]
fn what_the_go_picker_refused_is_refused_and_what_it_accepted_is_accepted() {
    let differences: BTreeMap<String, Value> =
        serde_json::from_slice(&std::fs::read(here("tests/golden_differences.json")).unwrap()).unwrap();
    let judged = judged();
    let mut wrong = String::new();
    for (name, j) in &judged {
        let accepted_here = j.faults.errors() == 0;
        let listed = differences.contains_key(name);
        if (accepted_here != j.accepted_there) != listed {
            let _ = writeln!(wrong, "{name}: there {}, here {accepted_here}, listed {listed}", j.accepted_there);
            wrong.push_str(&render(name, &j.text, &j.faults, false));
        }
    }
    for (name, why) in &differences {
        assert!(judged.contains_key(name), "{name} is not a record");
        assert!(why.as_str().is_some_and(|w| w.len() > 20), "{name} has no reason");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_fault_of_the_recorded_documents_is_worded_as_written_down() {
    let mut shown = String::new();
    for (name, j) in judged().iter().filter(|(_, j)| !j.faults.is_empty()) {
        let _ = writeln!(shown, "{}", render(&format!("{name}.yaml"), &j.text, &j.faults, false));
    }
    let file = here("tests/golden_faults.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &shown).unwrap();
    }
    assert_eq!(shown, std::fs::read_to_string(file).unwrap_or_default());
}

#[test]
fn br_43_an_unknown_plugin_type_is_refused_with_its_entry_and_the_nearest_known_types() {
    let text = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- {name: mine, type: custom-scorer}\n\
                - type: qeue-scorer\nschedulingProfiles:\n- name: default\n  plugins: [{pluginRef: mine, weight: 2}]\n";
    let mut faults = Faults::new();
    check(text.as_bytes(), &Recorded, &[], false, &mut faults);
    let want = "\
epp.yaml:4:22: unknown plugin type `custom-scorer`
    4 | - {name: mine, type: custom-scorer}
      |                      ^^^^^^^^^^^^^ no known type is spelt like this
      = `plugins[0]`: nearest known types are queue-scorer, prefix-cache-scorer, file-discovery, passthrough-parser
epp.yaml:5:9: unknown plugin type `qeue-scorer`
    5 | - type: qeue-scorer
      |         ^^^^^^^^^^^ did you mean `queue-scorer`?
2 errors
";
    assert_eq!(render("epp.yaml", text, &faults, false), want);
}
