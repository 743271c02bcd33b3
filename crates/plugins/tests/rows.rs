//! What compiling a document says of the parameters of filters and scorers, beyond what their rows say by themselves.

use pointsman_config::Faults;
use pointsman_core::{EndpointName, ManualClock, Nanos};
use pointsman_fleet::{EndpointMeta, Fleet};
use pointsman_plugins::{CompileOptions, Compiled, DefaultProfile, LearnedStates, compile};
use pointsman_scheduling::{AddedHeaders, Chosen, Facts, Request};
use std::sync::Arc;

fn compiled(plugins: &str, states: &Arc<LearnedStates>) -> (Option<Compiled>, Vec<String>) {
    let options = CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::clone(states) };
    let mut faults = Faults::new();
    let compiled = compile(format!("plugins:\n{plugins}\n").as_bytes(), &options, &mut faults);
    (compiled, faults.iter().map(|f| format!("{:?}: {}", f.severity, f.message)).collect())
}

/// What is said of a document with these plugins.
fn said(plugins: &str) -> Vec<String> {
    compiled(plugins, &Arc::default()).1
}

#[test]
fn whoever_reads_predictions_that_nobody_makes_is_warned_once() {
    let warning = |name: &str| {
        format!("Warning: plugin `{name}`: nothing predicts latency here, so it runs as if there were no prediction")
    };
    assert_eq!(said("- type: latency-scorer"), [warning("latency-scorer")]);
    assert_eq!(
        said("- type: slo-headroom-tier-filter\n- {type: latency-scorer, name: l}"),
        [warning("slo-headroom-tier-filter"), warning("l")]
    );
    assert!(said("- type: prefix-cache-affinity-filter").is_empty(), "it reads none by default");
    assert_eq!(
        said("- {type: prefix-cache-affinity-filter, parameters: {ttftSource: latencyPredictor}}"),
        [warning("prefix-cache-affinity-filter")]
    );
    let named = said("- {type: latency-scorer, parameters: {latencyPredictionInfoProducerName: oracle}}");
    assert_eq!(
        named,
        ["Error: `latency-scorer` reads predicted latencies of `oracle`, which no plugin of that name provides"]
    );
}

#[test]
fn whoever_asks_where_endpoints_stand_is_warned_when_nothing_says_so() {
    for plugin in ["topology-affinity-filter", "topology-affinity-scorer"] {
        let warnings = said(&format!("- type: {plugin}"));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("declare a `topology-extractor`"), "{warnings:?}");
        assert!(said(&format!("- type: {plugin}\n- type: topology-extractor")).is_empty());
    }
}

#[test]
fn parameters_that_do_not_go_together_are_refused() {
    for (plugin, message) in [
        (
            "type: endpoint-attribute-filter, parameters: {attribute: load/mine, algorithm: {type: threshold, threshold: {operator: Equal, value: 1}}}",
            "`load/mine` holds a `/`: write the name alone, and whoever publishes it in `producer` (`\"\"` when it belongs to no instance)",
        ),
        (
            "type: endpoint-attribute-scorer, parameters: {attributeKey: WaitingQueueSize, algorithm: {type: linear_lower_is_better, normalization: {fixedRange: {min: 5, max: 5}}}}",
            "`min` of `fixedRange` must be below `max`: 5 is not below 5",
        ),
        (
            "type: endpoint-attribute-scorer, parameters: {attributeKey: WaitingQueueSize, algorithm: {type: linear_lower_is_better, normalization: {fixedRange: {max: 5}, adaptiveRange: {}}}}",
            "`normalization` takes `fixedRange` or `adaptiveRange`, not both",
        ),
        (
            "type: prefix-cache-affinity-filter, parameters: {peakPrefillThroughput: 0}",
            "`peakPrefillThroughput` must be above 0 while `maxTTFTPenaltyMs` is and `ttftSource` is `prefillThroughput`",
        ),
        (
            "type: header-label-affinity-scorer, parameters: {headerName: '', labelKey: zone}",
            "`headerName` must not be empty",
        ),
        (
            "type: session-affinity-filter, parameters: {encodedEndpointHeaderConfig: {sealingKey: short}}",
            "`sealingKey` must have 16 bytes or more",
        ),
        (
            "type: session-affinity-filter, parameters: {strategy: session_id, sessionIdConfig: {sources: []}}",
            "`sources` needs at least one entry",
        ),
        (
            "type: session-affinity-scorer, parameters: {strategy: session_id, sessionIdConfig: {sources: [{header: a, attribute: agent-identity}]}}",
            "each of `sources` needs either `header` or `attribute`",
        ),
        (
            "type: session-affinity-scorer, parameters: {strategy: session_id, sessionIdConfig: {sources: [{attribute: shoe-size}]}}",
            "no plugin says `shoe-size` of a request; known are `agent-identity` and `SessionIDDataKey`",
        ),
        (
            "type: session-affinity-scorer, parameters: {strategy: session_id, sessionIdConfig: {sources: [{attribute: SessionIDDataKey, producer: p}]}}",
            "nothing says `SessionIDDataKey` of requests: declare a plugin of type `session-id-producer` named `p`",
        ),
    ] {
        let faults = said(&format!("- {{{plugin}}}"));
        assert_eq!(faults.len(), 1, "{plugin}: {faults:?}");
        assert!(faults[0].starts_with("Error: ") && faults[0].ends_with(message), "{plugin}: {faults:?}");
    }
}

#[test]
fn what_is_legal_passes_without_a_word() {
    for plugin in [
        "type: prefix-cache-affinity-filter, parameters: {peakPrefillThroughput: 0, maxTTFTPenaltyMs: 0}",
        "type: endpoint-attribute-scorer, parameters: {attributeKey: WaitingQueueSize, algorithm: {type: linear_higher_is_better}}",
        "type: session-affinity-filter",
        "type: multicluster-session-affinity-filter, parameters: {strategy: session_id}",
        "type: session-affinity-scorer, parameters: {profileName: default}",
        "type: context-length-aware, parameters: {enableFiltering: true}",
        "type: multicluster-prefix-cache-scorer",
    ] {
        assert_eq!(said(&format!("- {{{plugin}}}")), Vec::<String>::new(), "{plugin}");
    }
}

#[test]
fn whoever_reads_an_attribute_that_no_extractor_gives_is_warned() {
    let filter = |name: &str, producer: &str| {
        format!(
            "- {{type: endpoint-attribute-filter, parameters: {{attribute: {name}, producer: {producer}, algorithm: {{type: threshold, threshold: {{operator: LessThan, value: 5}}}}}}}}\n"
        )
    };
    let custom = "- {type: core-metrics-extractor, parameters: {engineConfigs: [{name: vllm, customMetrics: [{attributeKey: load, metricSpec: my_load}]}]}}\n";
    let unread = |name: &str, whose: &str| {
        vec![format!(
            "Warning: plugin `endpoint-attribute-filter`: no extractor reads `{name}`{whose}, so it is unknown of every endpoint"
        )]
    };
    assert_eq!(said(&filter("load", "core-metrics-extractor")), unread("load", " for `core-metrics-extractor`"));
    assert_eq!(said(&filter("llm-d.ai/x", "''")), unread("llm-d.ai/x", ""));
    assert!(said(&(filter("load", "core-metrics-extractor") + custom)).is_empty());
    for plugin in ["multicluster-queue-scorer", "multicluster-kv-cache-utilization-scorer"] {
        let alone = said(&format!("- type: {plugin}"));
        assert_eq!(alone.len(), 1, "{alone:?}");
        assert!(alone[0].ends_with("declare a `multicluster-metrics-extractor`"), "{alone:?}");
        let with = said(&format!("- type: {plugin}\n- type: multicluster-metrics-extractor"));
        assert!(!with.iter().any(|m| m.contains(plugin)), "{with:?}");
    }
}

#[test]
fn a_profile_that_there_is_not_is_warned_of() {
    let warnings = said("- {type: session-affinity-filter, parameters: {profileName: decode}}");
    assert_eq!(
        warnings,
        ["Warning: plugin `session-affinity-filter`: there is no profile `decode`, so no session is ever bound"]
    );
}

#[test]
fn the_documents_of_the_page_on_sessions_are_right() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sessions.md");
    let text = std::fs::read_to_string(page).expect("the page");
    let lines: Vec<&str> = text.lines().collect();
    let documents: Vec<String> = lines
        .split(|line| !line.starts_with("    "))
        .filter(|block| !block.is_empty())
        .map(|block| block.iter().map(|line| format!("{}\n", &line[4..])).collect())
        .collect();
    assert_eq!(documents.len(), 2);
    for document in documents {
        let options = CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::default() };
        let mut faults = Faults::new();
        assert!(compile(document.as_bytes(), &options, &mut faults).is_some(), "{document}");
        assert!(faults.is_empty(), "{:?}", faults.iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_key_is_shown_to_nobody() {
    let plugin =
        "- {type: session-affinity-filter, parameters: {encodedEndpointHeaderConfig: {sealingKey: open sesame 1234}}}";
    let (compiled, faults) = compiled(plugin, &Arc::default());
    assert!(faults.is_empty(), "{faults:?}");
    let shown = compiled.expect("it compiles").effective.to_string();
    assert!(shown.contains("(secret)") && !shown.contains("sesame"), "{shown}");
}

#[test]
fn sessions_outlive_another_configuration() {
    let states = Arc::default();
    let (before, _) = compiled(
        "- {type: session-affinity-filter, parameters: {strategy: session_id, sessionIdConfig: {sources: [{header: x-user}]}}}",
        &states,
    );
    let fleet = Fleet::new(Arc::new(ManualClock::at(Nanos(1_000_000_000))));
    fleet.upsert(EndpointMeta::new(EndpointName::new("default", "a"), "10.0.0.1", 8000));
    let snapshot = fleet.snapshot();
    let request = Request { headers: [("x-user".into(), "alice".into())].into(), ..Request::default() };
    let chosen = Chosen {
        request: &request,
        facts: &Facts::default(),
        profile: "default",
        endpoint: &snapshot.endpoints[0],
        candidate: 0,
        candidates: 1,
        others: &[],
    };
    let before = before.expect("it compiles");
    let hook = before.hooks.iter().find(|h| &*h.name == "session-affinity-filter").expect("its hook");
    let _held = hook.chosen(&chosen, &mut AddedHeaders::new());
    compiled(
        "- type: queue-scorer\n- {type: session-affinity-filter, parameters: {strategy: session_id, sessionIdConfig: {evictionTtlSeconds: 60}}}",
        &states,
    );
    let dump = states.dump("session-affinity-filter", &"session-affinity-filter".into(), &snapshot).expect("a dump");
    assert_eq!(dump["endpoints"][0], serde_json::json!({"endpoint": "default/a", "sessions": 1}));
}

#[test]
fn gauges_are_wanted_only_by_whoever_names_one() {
    let with = |key: &str, producer: &str| {
        let scorer = format!(
            "{{type: endpoint-attribute-scorer, parameters: {{attributeKey: {key}, {producer}algorithm: {{type: linear_lower_is_better}}}}}}"
        );
        format!(
            "- {scorer}\n- type: dcgm-data-source\n- type: dcgm-extractor\ndataLayer:\n  injectDefaults: false\n  sources: [{{pluginRef: dcgm-data-source, extractors: [{{pluginRef: dcgm-extractor}}]}}]"
        )
    };
    let attribute = said(&with("GPUUtilization", "producer: dcgm-extractor, "));
    assert!(attribute.iter().all(|s| !s.starts_with("Error")), "{attribute:?}");
    let gauge = said(&with("WaitingQueueSize", ""));
    assert!(gauge.iter().any(|s| s.starts_with("Error") && s.contains("is a gauge of the engine")), "{gauge:?}");
}

#[test]
fn a_producer_of_sessions_that_a_session_reads_is_in_use() {
    let said = said(
        "- {type: session-id-producer, parameters: {headerName: x-user}}\n- {type: session-affinity-filter, parameters: {strategy: session_id, sessionIdConfig: {sources: [{attribute: SessionIDDataKey}]}}}",
    );
    assert!(said.is_empty(), "{said:?}");
}
