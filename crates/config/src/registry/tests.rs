use super::*;
use crate::fault::Faults;
use crate::params::ParamKind;

struct Few;

const PICKER: &[Param] = &[Param::new("maxNumOfEndpoints", ParamKind::INTEGER, "how many").default("1")];

impl Registry for Few {
    fn lookup(&self, type_name: &str) -> Option<TypeInfo> {
        let good =
            |kinds| TypeInfo { kinds, params: &[], stability: Stability::Beta, available: true, deprecated: None };
        Some(match type_name {
            "queue-scorer" => good(&[Kind::Scorer]),
            "max-score-picker" => TypeInfo { params: PICKER, ..good(&[Kind::Picker]) },
            "openai-parser" => good(&[Kind::Parser]),
            "metrics-data-source" => good(&[Kind::DataSource]),
            "later-filter" => TypeInfo { available: false, ..good(&[Kind::Filter]) },
            "later-parser" => TypeInfo { available: false, ..good(&[Kind::Parser]) },
            "young-filter" => TypeInfo { stability: Stability::Alpha, ..good(&[Kind::Filter]) },
            "old-filter" => TypeInfo { deprecated: Some("use `label-selector-filter`"), ..good(&[Kind::Filter]) },
            _ => return None,
        })
    }

    fn names(&self) -> Vec<&'static str> {
        vec![
            "queue-scorer",
            "max-score-picker",
            "openai-parser",
            "metrics-data-source",
            "later-filter",
            "young-filter",
            "old-filter",
        ]
    }
}

fn lines(text: &str, experimental: bool) -> Vec<String> {
    let mut faults = Faults::new();
    check(text.as_bytes(), &Few, &[], experimental, &mut faults);
    faults.sorted().iter().map(ToString::to_string).collect()
}

#[test]
fn every_type_is_known_available_and_settled_enough_or_there_is_a_fault() {
    let text = "plugins:\n- type: qeue-scorer\n- type: later-filter\n  parameters: {any: thing}\n- type: young-filter\n- type: old-filter\n";
    let want = [
        "2:9: plugins[0].type: unknown plugin type `qeue-scorer` (did you mean `queue-scorer`?)",
        "3:9: plugins[1].type: plugin type `later-filter` is known, not yet available (not in this release)",
        "5:9: plugins[2].type: plugin type `young-filter` is experimental (Alpha) (start with --allow-experimental-plugins to use it)",
        "6:9: plugins[3].type: plugin type `old-filter` is deprecated: use `label-selector-filter`",
    ];
    assert_eq!(lines(text, false), want);
    assert_eq!(lines(text, true).len(), 3);
}

#[test]
fn parameters_are_decoded_by_the_types_rows() {
    let mut faults = Faults::new();
    let text = "plugins: [{type: max-score-picker}, {name: b, type: max-score-picker, parameters: {maxNumOfEndpoints: 3}}, {type: x}]\n";
    let checked = check(text.as_bytes(), &Few, &[], false, &mut faults).unwrap();
    let counts: Vec<Option<u64>> =
        checked.params.iter().map(|p| p.as_ref().map(|p| p.u64("maxNumOfEndpoints"))).collect();
    assert_eq!(counts, [Some(1), Some(3), None]);
    assert_eq!(
        lines(
            "plugins: [{type: queue-scorer, parameters: {}}, {name: b, type: queue-scorer, parameters: {a: 1}}]\n",
            false
        ),
        ["1:92: plugins[1].parameters: plugin type `queue-scorer` has no parameters (remove this)"]
    );
}

#[test]
fn a_reference_points_at_a_plugin_of_the_right_kind() {
    let text = "plugins: [{type: queue-scorer}, {type: max-score-picker}, {type: metrics-data-source}]\n\
                schedulingProfiles:\n- name: p\n  plugins: [{pluginRef: metrics-data-source}, {pluginRef: max-score-picker, weight: 2}]\n\
                dataLayer:\n  discovery: {pluginRef: queue-scorer}\n  sources: [{pluginRef: metrics-data-source, extractors: [{pluginRef: queue-scorer}]}]\n\
                requestHandler: {parsers: [{pluginRef: openai-parser}, {pluginRef: later-parser}, {pluginRef: openai-parse}, {pluginRef: old-filter}]}\n\
                flowControl: {usageLimitPolicyPluginRef: queue-scorer, saturationDetector: {pluginRef: queue-scorer}}\n";
    let found: Vec<String> = lines(text, false).into_iter().map(|l| l.split_once(": ").unwrap().1.to_owned()).collect();
    let want = [
        "schedulingProfiles[0].plugins[0].pluginRef: plugin `metrics-data-source` is neither filter, scorer nor picker and has no effect in a profile",
        "schedulingProfiles[0].plugins[1].pluginRef: `max-score-picker` is not a scorer; its weight has no effect",
        "dataLayer.discovery.pluginRef: plugin `queue-scorer` is not an endpoint discovery (this is a scorer)",
        "dataLayer.sources[0].extractors[0].pluginRef: plugin `queue-scorer` is not an extractor (this is a scorer)",
        "requestHandler.parsers[1].pluginRef: plugin type `later-parser` is known, not yet available (parsers are: openai-parser)",
        "requestHandler.parsers[2].pluginRef: parser `openai-parse` is neither a plugin nor a plugin type (did you mean `openai-parser`?)",
        "requestHandler.parsers[3].pluginRef: plugin `old-filter` is not a parser (parsers are: openai-parser)",
        "flowControl: `flowControl` is set but its feature gate is off: only `saturationDetector` is used; add `flowControl` to `featureGates` to switch it on",
        "flowControl.usageLimitPolicyPluginRef: plugin `queue-scorer` is not a usage-limit policy (this is a scorer)",
        "flowControl.saturationDetector.pluginRef: plugin `queue-scorer` is not a saturation detector (this is a scorer)",
    ];
    assert_eq!(found, want, "\n{}", found.join("\n"));
}

#[test]
fn nothing_to_decode_gives_nothing() {
    let mut faults = Faults::new();
    assert!(check(b"", &Few, &[], false, &mut faults).is_none() && faults.is_empty());
    assert!(check(b"[", &Few, &[], false, &mut faults).is_none() && faults.errors() == 1);
}

#[test]
fn every_kind_has_a_word() {
    assert_eq!((Kind::Extractor.as_str(), Kind::Extractor.with_article()), ("extractor", "an extractor"));
}
