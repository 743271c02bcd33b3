//! Another configuration while requests are under way, and profiles that are only scored.

mod support;

use pointsman_config::Faults;
use pointsman_plugins::DefaultProfile;
use pointsman_router::{Pool, Reloaded};
use pointsman_scheduling::Termination;
use serde_json::json;
use support::bench::{Bench, bench, prompt, served};

const BEFORE: &str = "
plugins:
- type: prefix-cache-scorer
- type: queue-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: queue-scorer}
";

fn reload(pool: &Pool, document: &str) -> Reloaded {
    pool.reload(document.as_bytes(), true, DefaultProfile::Epp, &mut Faults::new(), |_, _| Ok(()))
}

fn fleet() -> Bench {
    bench(&["a", "b", "c"], DefaultProfile::Epp, BEFORE)
}

/// Tokens of a prompt that the router expects at the endpoint it chooses for it.
fn expected(bench: &Bench, seed: usize) -> u64 {
    let routed = bench.prompt(&prompt(seed)).expect("routed");
    let expected = routed.decision().outcome.lock().cached_tokens_predicted;
    routed.finish(Termination::Natural, None);
    expected
}

#[test]
fn what_was_learned_outlives_a_change_of_weights_and_the_change_is_told() {
    let bench = fleet();
    assert_eq!(expected(&bench, 1), 0);
    let known = expected(&bench, 1);
    assert!(known > 0);
    let Reloaded::Applied { version, changes } = reload(&bench.pool, &BEFORE.replace("weight: 3", "weight: 4")) else {
        panic!("it is a good one")
    };
    assert_eq!(version, 2);
    assert_eq!(changes, ["schedulingProfiles.default.plugins.prefix-cache-scorer.weight: 3.0 -> 4.0"]);
    assert_eq!(expected(&bench, 1), known);
    let decision = &bench.pool.ring.newest(1, None)[0];
    assert_eq!(decision.config_version, 2);
}

#[test]
fn a_request_goes_on_with_the_configuration_it_began_with() {
    let bench = fleet();
    let mut under_way = bench.prompt(&prompt(2)).expect("routed");
    let only_one = "plugins: [{type: random-picker}]\nschedulingProfiles: [{name: other, plugins: []}]\n";
    assert!(matches!(reload(&bench.pool, only_one), Reloaded::Applied { .. }));
    under_way.dispatched();
    under_way.response_head(200, None, None);
    under_way.finish(Termination::Natural, None);
    assert_eq!(bench.in_flight(), 0);
    let routed = bench.prompt(&prompt(3)).expect("routed");
    assert_eq!(&*routed.decision().profiles[0].columns.name, "other");
}

#[test]
fn a_document_with_faults_changes_nothing_not_even_what_its_plugins_share() {
    let bench = fleet();
    let known = expected(&bench, 1).max(expected(&bench, 1));
    let producer = "- type: approx-prefix-cache-producer\n  parameters: {blockSizeTokens: 512}\n";
    let broken = BEFORE.replace("plugins:\n- type: prefix", &format!("plugins:\n{producer}- type: prefix"));
    let broken = format!("{broken}  - {{pluginRef: nobody}}\n");
    let Reloaded::Refused(why) = reload(&bench.pool, &broken) else { panic!("nobody is declared") };
    assert!(why.contains("nobody"), "{why}");
    bench.pool.housekeeping();
    assert_eq!((bench.pool.active().version, expected(&bench, 1)), (1, known));
    let last = bench.pool.last_reload().expect("one was tried");
    assert_eq!((last.result, last.changes.len()), ("refused", 0));
}

#[test]
fn the_same_in_other_words_is_no_change() {
    let bench = fleet();
    assert!(matches!(reload(&bench.pool, &format!("# hello\n{BEFORE}")), Reloaded::Unchanged));
    let spelt = BEFORE.replace("{pluginRef: queue-scorer}", "{pluginRef: queue-scorer, weight: 1.0}");
    assert!(matches!(reload(&bench.pool, &spelt), Reloaded::Unchanged));
    assert_eq!(bench.pool.active().version, 1);
}

#[test]
fn discovery_cannot_change_and_is_named() {
    let bench = fleet();
    let file = "- type: file-discovery\n  parameters: {path: /nowhere}\n";
    let other = BEFORE.replacen("plugins:\n", &format!("plugins:\n{file}"), 1);
    let other = format!("{other}dataLayer: {{discovery: {{pluginRef: file-discovery}}}}\n");
    let Reloaded::Refused(why) = reload(&bench.pool, &other) else { panic!("discovery cannot change") };
    assert!(why.contains("dataLayer.discovery"), "{why}");
}

#[test]
fn a_preparation_that_fails_refuses_the_document() {
    let bench = fleet();
    let document = BEFORE.replace("weight: 3", "weight: 5");
    let refuse = |_: &_, _: &_| Err("no certificate".to_owned());
    let reloaded = bench.pool.reload(document.as_bytes(), true, DefaultProfile::Epp, &mut Faults::new(), refuse);
    assert!(matches!(reloaded, Reloaded::Refused(why) if why == "no certificate"));
    assert_eq!(bench.pool.active().version, 1);
}

#[test]
fn what_a_plugin_learned_goes_with_it() {
    let bench = fleet();
    assert!(expected(&bench, 1).max(expected(&bench, 1)) > 0);
    let without = "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}]\n";
    assert!(matches!(reload(&bench.pool, without), Reloaded::Applied { .. }));
    assert!(matches!(reload(&bench.pool, BEFORE), Reloaded::Applied { .. }));
    assert_eq!(expected(&bench, 1), 0);
}

#[test]
fn what_sees_a_request_before_its_decision_is_timed_as_all_plugins_are() {
    let bench =
        bench(&["a"], DefaultProfile::Epp, &BEFORE.replacen("plugins:\n", "plugins:\n- type: agent-identity\n", 1));
    assert_eq!(expected(&bench, 1), 0);
    let page = bench.page();
    let calls = |l: &&str| l.starts_with("llm_d_epp_plugin_duration_seconds_count{extension_point=\"RequestHeader\"");
    let calls: Vec<&str> = page.lines().filter(calls).collect();
    assert!(calls.len() == 1 && calls[0].ends_with(" 1"), "{calls:?}");
}

#[test]
fn a_prefix_index_that_is_gone_takes_its_series_along() {
    let bench = fleet();
    let named = |name: &str| {
        let producer = format!("- {{type: approx-prefix-cache-producer, name: {name}}}\n");
        let scorer = format!("prefix-cache-scorer\n  parameters: {{prefixMatchInfoProducerName: {name}}}\n");
        let document = BEFORE.replacen("prefix-cache-scorer\n", &scorer, 1);
        document.replacen("plugins:\n", &format!("plugins:\n{producer}"), 1)
    };
    let series = |name: &str| {
        let page = bench.page();
        let all = page.lines().filter(|l| l.contains("prefix_") && l.contains(&format!("plugin_name=\"{name}\"")));
        all.filter(|l| !l.contains("plugin_duration")).count()
    };
    assert!(matches!(reload(&bench.pool, &named("one")), Reloaded::Applied { .. }));
    assert_eq!(expected(&bench, 1), 0);
    assert!(series("one") > 4);
    assert!(matches!(reload(&bench.pool, &named("two")), Reloaded::Applied { .. }));
    bench.pool.housekeeping();
    assert!(series("two") > 4);
    assert_eq!(series("one"), 0, "{}", bench.page());
}

/// Profiles that prefer a short queue to everything else.
const SHADOW: &str = "
plugins:
- type: prefix-cache-scorer
- type: queue-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: prefix-cache-scorer, weight: 0.1}
  - {pluginRef: queue-scorer, weight: 5}
";

#[test]
fn shadow_profiles_are_compared_and_have_no_effect() {
    let bench = fleet();
    // Made with the pool, so that no request looks for them.
    let series = |name: &str| bench.page().lines().filter(|l| l.starts_with(name)).count();
    assert_eq!((series("pointsman_shadow_decisions_total{"), series("pointsman_shadow_chosen_total{")), (4, 8));
    assert!(bench.pool.shadow(SHADOW.as_bytes(), true, DefaultProfile::Epp, &mut Faults::new()).is_some());
    let first = bench.prompt(&prompt(1)).expect("routed");
    let home = served(&first);
    first.finish(Termination::Natural, None);
    // Now the engine that holds the prompt has a queue, which only the shadow minds.
    bench.scraped(&home, 2.0, 0.0);
    for _ in 0..3 {
        let again = bench.prompt(&prompt(1)).expect("routed");
        assert_eq!(served(&again), home);
        let shadow = again.decision().shadow.as_deref().cloned().expect("it was scored");
        assert!(shadow.differs && shadow.endpoint.as_deref() != Some(again.endpoint().host_port()));
        again.finish(Termination::Natural, None);
    }
    assert_eq!(bench.in_flight(), 0);
    let report = bench.pool.shadow_report().expect("there is a shadow");
    assert_eq!((&report["decisions"], &report["different"]), (&json!(4), &json!(3)));
    let mean = |choice: &str, signal: &str| report["mean"][choice][signal].as_f64().expect("a number");
    assert!(mean("live", "predicted_cached_tokens") > mean("shadow", "predicted_cached_tokens"));
    assert_eq!((mean("live", "waiting"), mean("shadow", "waiting")), (1.5, 0.0));
    assert!(bench.page().contains("pointsman_shadow_decisions_total{agreement=\"different\"} 3"));
}

#[test]
fn a_shadow_with_faults_is_not_taken() {
    let bench = fleet();
    let mut faults = Faults::new();
    assert!(bench.pool.shadow(b"plugins: 7", true, DefaultProfile::Epp, &mut faults).is_none());
    assert!(faults.errors() > 0 && bench.pool.shadow_report().is_none());
}

#[test]
fn another_secret_is_a_change_and_is_not_told() {
    let with = |key: &str| {
        format!(
            "plugins:\n- type: session-affinity-filter\n  parameters: {{encodedEndpointHeaderConfig: {{sealingKey: {key}}}}}\n"
        )
    };
    let bench = bench(&["a", "b"], DefaultProfile::Epp, &with("a key of sixteen"));
    assert!(matches!(reload(&bench.pool, &with("a key of sixteen")), Reloaded::Unchanged));
    let Reloaded::Applied { changes, .. } = reload(&bench.pool, &with("another of sixteen")) else {
        panic!("a change")
    };
    assert_eq!(changes, ["a secret is another one"]);
    let Reloaded::Applied { changes, .. } = reload(&bench.pool, BEFORE) else { panic!("a change") };
    assert!(changes.len() > 1, "{changes:?}");
    let Reloaded::Applied { changes, .. } = reload(&bench.pool, &BEFORE.replace("weight: 3", "weight: 4")) else {
        panic!("a change")
    };
    assert!(!changes.iter().any(|c| c.contains("secret")), "{changes:?}");
}

#[test]
fn block_sizes_are_compared_as_they_are_declared() {
    let with = |first: u32, second: Option<u32>| {
        let one = |name: &str, size: u32| {
            format!(
                "- {{name: {name}, type: approx-prefix-cache-producer, parameters: {{autoTune: false, blockSizeTokens: {size}}}}}\n"
            )
        };
        let second = second.map_or_else(String::new, |size| one("second", size));
        format!(
            "plugins:\n{}{second}- type: prefix-cache-scorer\n  parameters: {{prefixMatchInfoProducerName: first}}\n",
            one("first", first)
        )
    };
    let bench = bench(&["a", "b"], DefaultProfile::Epp, &with(64, None));
    assert!(matches!(reload(&bench.pool, &with(128, Some(128))), Reloaded::Applied { .. }));
    assert!(matches!(reload(&bench.pool, &with(256, Some(128))), Reloaded::Refused(_)));
}

#[test]
fn a_file_that_cannot_be_had_is_told_and_changes_nothing() {
    let bench = fleet();
    bench.pool.refuse_reload("the file is empty".to_owned());
    let last = bench.pool.last_reload().expect("noted");
    assert_eq!((last.result, last.error.as_deref()), ("refused", Some("the file is empty")));
    assert!(bench.page().contains("pointsman_config_reloads_total{result=\"refused\"} 1"), "{}", bench.page());
    assert_eq!(bench.pool.active().version, 1);
}

#[test]
fn series_of_plugins_go_with_them() {
    let bench = fleet();
    let named = |name: &str| format!("plugins:\n- {{type: queue-scorer, name: {name}}}\n");
    for n in 0..20 {
        assert!(matches!(reload(&bench.pool, &named(&format!("q{n}"))), Reloaded::Applied { .. }));
        bench.prompt(&prompt(n)).expect("routed").finish(Termination::Natural, None);
    }
    let page = bench.page();
    assert!(page.contains("plugin_name=\"q19\"") && !page.contains("plugin_name=\"q18\""), "{page}");
}

#[test]
fn a_shadow_measures_both_choices_alike_and_names_what_learns_nothing() {
    let bench = fleet();
    let only_queues = "plugins: [{type: queue-scorer}]\n";
    let blind = bench.pool.shadow(only_queues.as_bytes(), true, DefaultProfile::Epp, &mut Faults::new());
    assert_eq!(blind.expect("taken"), Vec::<std::sync::Arc<str>>::new());
    expected(&bench, 1);
    assert!(expected(&bench, 1) > 0);
    let report = bench.pool.shadow_report().expect("a report");
    if report["different"] == 0 && report["tied"] == 0 {
        assert_eq!(report["mean"]["live"], report["mean"]["shadow"], "{report}");
    }
    let own = "plugins:\n- {type: approx-prefix-cache-producer, name: mine}\n- type: prefix-cache-scorer\n  parameters: {prefixMatchInfoProducerName: mine}\n";
    let blind = bench.pool.shadow(own.as_bytes(), true, DefaultProfile::Epp, &mut Faults::new()).expect("taken");
    assert_eq!(blind.iter().map(|n| &**n).collect::<Vec<_>>(), ["mine"]);
}
