//! The example configurations of the specification (config-and-plugins 1.8), as their authors write them.

use pointsman_config::{Code, Fault, Faults, Severity, render};
use pointsman_plugins::{CompileOptions, Compiled, DefaultProfile, compile, table};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

fn text(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples").join(format!("{name}.yaml"));
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn compiled(text: &str) -> (Option<Compiled>, Faults) {
    let mut faults = Faults::new();
    let options = CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::default() };
    (compile(text.as_bytes(), &options, &mut faults), faults)
}

/// Types of a document that this release does not have yet.
fn missing(text: &str) -> BTreeSet<&'static str> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
    words.filter_map(table::row).filter(|row| row.build.is_none()).map(|row| row.type_name).collect()
}

#[test]
fn examples_load_without_a_word_once_all_their_plugins_are_there() {
    for name in ["a-default", "c-disaggregation", "d-lora", "e-session", "h-payload-agnostic", "i-no-kubernetes"] {
        let text = text(name);
        let (compiled, faults) = compiled(&text);
        let missing = missing(&text);
        if missing.is_empty() {
            assert!(compiled.is_some() && faults.is_empty(), "{name}\n{}", render(name, &text, &faults, false));
        } else {
            println!("{name} waits for {missing:?}");
            only_what_is_missing(name, &text, &faults, &missing);
        }
    }
    for name in ["a-default", "d-lora", "i-no-kubernetes"] {
        assert!(missing(&text(name)).is_empty(), "{name} needs nothing that is to come");
    }
}

#[test]
fn examples_of_what_is_to_come_say_that_once_for_each_plugin_and_gate_and_nothing_else() {
    for name in ["b-precise", "f-predicted-latency", "g-flow-control"] {
        let text = text(name);
        let missing = missing(&text);
        assert!(!missing.is_empty(), "{name} has all its plugins: it can load now");
        only_what_is_missing(name, &text, &compiled(&text).1, &missing);
    }
}

fn only_what_is_missing(name: &str, text: &str, faults: &Faults, missing: &BTreeSet<&str>) {
    let shown = render(name, text, faults, false);
    let (gates, rest): (Vec<&Fault>, Vec<&Fault>) = faults.iter().partition(|f| f.code == Code::GateNotAvailable);
    assert_eq!(gates.len(), usize::from(text.contains("flowControl]")), "{shown}");
    assert!(gates.iter().all(|f| f.severity == Severity::Warning), "{shown}");
    assert!(rest.iter().all(|f| f.code == Code::NotAvailable), "{shown}");
    // One for each declaration of such a type.
    let declared = missing.iter().map(|t| text.matches(&format!("type: {t}")).count()).sum::<usize>();
    assert_eq!(rest.len(), declared, "{shown}");
}

#[test]
fn a_profile_that_the_handler_does_not_name_is_warned_of() {
    if table::row("disagg-profile-handler").is_none_or(|row| row.build.is_none()) {
        println!("waits for disagg-profile-handler");
        return;
    }
    let text = text("c-disaggregation").replace("- name: prefill", "- name: prefil");
    let (_, faults) = compiled(&text);
    let codes: Vec<Code> = faults.iter().map(|f| f.code).collect();
    assert_eq!(codes, [Code::UnreachableProfile], "{}", render("c", &text, &faults, false));
}

#[test]
fn presets_load_without_a_word() {
    for preset in pointsman_plugins::presets::PRESETS {
        let text = preset.document();
        let (compiled, faults) = compiled(&text);
        assert!(compiled.is_some() && faults.is_empty(), "{}", render(preset.name, &text, &faults, false));
    }
}

/// Deprecated forms (config-and-plugins 1.7): a form, and what its warning must say. A type that is not there yet says that instead.
#[test]
fn deprecated_forms_are_accepted_with_a_warning_that_says_what_to_use() {
    let of_type = |t: &str, parameters: &str| {
        format!("plugins:\n- {{type: queue-scorer}}\n- {{name: x, type: {t}, parameters: {parameters}}}\n")
    };
    let forms: &[(String, &str)] = &[
        (of_type("by-label", "{label: a, validValues: [b]}"), "label-selector-filter"),
        (of_type("by-label-selector", "{matchLabels: {a: b}}"), "label-selector-filter"),
        (of_type("pd-profile-handler", "{}"), "disagg-profile-handler"),
        (of_type("disagg-headers-handler", "{}"), "disagg-profile-handler"),
        (of_type("prefill-header-handler", "{}"), "disagg-profile-handler"),
        (of_type("tokenizer", "{}"), "token-producer"),
        (of_type("precise-prefix-cache-scorer", "{}"), "precise-prefix-cache-producer"),
        (of_type("data-parallel-profile-handler", "{}"), "single-profile-handler"),
        (of_type("disagg-profile-handler", "{decodeProfile: default}"), "profiles"),
        (of_type("approx-prefix-cache-producer", "{blockSize: 64}"), "blockSizeTokens"),
        (of_type("approx-prefix-cache-producer", "{maxPrefixBlocksToMatch: 64}"), "maxPrefixTokensToMatch"),
        (of_type("active-request-scorer", "{requestTimeout: 1m}"), "ignored"),
        (of_type("no-hit-lru-scorer", "{prefixPluginType: x}"), "ignored"),
        (of_type("no-hit-lru-scorer", "{prefixPluginName: x}"), "ignored"),
        (of_type("predicted-latency-producer", "{samplingMean: 1}"), "ignored"),
        ("plugins: [{type: queue-scorer}]\nparser: {pluginRef: openai-parser}\n".to_owned(), "requestHandler.parsers"),
        (
            "plugins: [{type: queue-scorer}]\nsaturationDetector: {pluginRef: utilization-detector}\n".to_owned(),
            "flowControl.saturationDetector",
        ),
        (
            "apiVersion: inference.networking.x-k8s.io/v1alpha1\nplugins: [{type: queue-scorer}]\n".to_owned(),
            "llm-d.ai/v1alpha1",
        ),
    ];
    let mut silent = Vec::new();
    for (text, want) in forms {
        let (_, faults) = compiled(text);
        let says = |f: &Fault| f.severity == Severity::Warning && f.to_string().contains(want);
        let waits = faults.iter().any(|f| f.code == Code::NotAvailable);
        if !waits && !faults.iter().any(says) {
            silent.push(render("form", text, &faults, false));
        }
    }
    assert!(silent.is_empty(), "{}", silent.concat());
}
