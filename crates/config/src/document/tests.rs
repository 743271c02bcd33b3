use super::*;
use crate::fault::Faults;

fn read(text: &str) -> (Document, Faults) {
    let mut faults = Faults::new();
    let document = decode(text.as_bytes(), &mut faults).document().unwrap_or_default();
    check_references(&document, &["max-score-picker"], &mut faults);
    (document, faults)
}

fn lines(text: &str) -> Vec<String> {
    read(text).1.sorted().iter().map(|f| f.to_string()).collect()
}

#[test]
fn the_whole_schema_is_decoded() {
    let (d, faults) = read(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nfeatureGates: [flowControl, haPopulateNonLeaderDatastore=F]\n\
         plugins:\n- {type: a}\n- {name: b, type: t, parameters: {x: 1}}\n- {type: c, parameters: null, name: null}\n\
         schedulingProfiles:\n- name: p\n  plugins: [{pluginRef: a, weight: 2}, {pluginRef: b}, {pluginRef: c, weight: -0.5}]\n\
         dataLayer:\n  injectDefaults: no\n  sources: [{pluginRef: a, extractors: [{pluginRef: b}]}]\n  discovery: {pluginRef: a}\n\
         \x20 crossReplicaSyncerPluginRef: b\n  crossReplicaSyncInterval: 250ms\n\
         flowControl:\n  maxBytes: 4Gi\n  maxRequests: \"1k\"\n  defaultRequestTTL: 0s\n  noEndpointRequestTTL: 5m\n\
         \x20 enableEviction: true\n  usageLimitPolicyPluginRef: a\n  saturationDetector: {pluginRef: b}\n\
         \x20 priorityBands: [{priority: 100, maxRequests: 5, orderingPolicyRef: a}, {priority: -1}]\n\
         \x20 defaultNegativePriorityBand: {maxBytes: 1M}\n\
         requestHandler: {parsers: [{pluginRef: v}, {pluginRef: w}]}\n",
    );
    assert_eq!(faults.summary(), "1 warning", "{faults:?}");
    assert_eq!(d.feature_gates, FeatureGates { flow_control: true, ha_populate_non_leader_datastore: false });
    let names: Vec<_> =
        d.plugins.iter().map(|p| (p.name.as_str(), p.type_name.as_str(), p.parameters.is_some())).collect();
    assert_eq!(names, [("a", "a", false), ("b", "t", true), ("c", "c", false)]);
    let weights: Vec<_> = d.profiles[0].plugins.iter().map(|p| (p.reference.name.as_str(), p.weight)).collect();
    assert_eq!(weights, [("a", Some(2.0)), ("b", None), ("c", Some(-0.5))]);
    assert!(!d.data_layer.inject_defaults);
    assert_eq!(d.data_layer.sources[0].extractors[0].path, "dataLayer.sources[0].extractors[0].pluginRef");
    assert_eq!(d.data_layer.cross_replica_sync_interval, Some(Duration::from_millis(250)));
    let f = &d.flow_control;
    assert_eq!((f.max_bytes, f.max_requests), (Some(4 << 30), Some(1000)));
    assert_eq!(
        (f.default_request_ttl, f.no_endpoint_request_ttl),
        (Some(Duration::ZERO), Some(Duration::from_secs(300)))
    );
    assert_eq!(
        f.priority_bands.iter().map(|b| (b.priority, b.max_requests)).collect::<Vec<_>>(),
        [(100, Some(5)), (-1, None)]
    );
    assert_eq!(f.default_negative_priority_band.as_ref().unwrap().max_bytes, Some(1_000_000));
    assert!(f.enable_eviction && f.saturation_detector.is_some() && f.usage_limit_policy.is_some());
    assert_eq!(d.request_handler.parsers.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["v", "w"]);
}

#[test]
fn nothing_but_blanks_and_comments_is_no_document() {
    for text in ["", "\n  \n", "# default\n", "---\n"] {
        let mut faults = Faults::new();
        assert!(matches!(decode(text.as_bytes(), &mut faults), Decoded::Absent), "{text:?}");
        assert!(faults.is_empty());
    }
    for text in ["[]", "x", "a: [", "\u{0}"] {
        let mut faults = Faults::new();
        assert!(matches!(decode(text.as_bytes(), &mut faults), Decoded::Unreadable), "{text:?}");
        assert!(faults.errors() > 0);
    }
}

#[test]
fn all_faults_of_a_document_come_at_once_each_at_its_place() {
    let found = lines(
        "apiVersion: llm-d.ai/v1\nkind: EndpointPicker\nfeatureGates: [flowcontrol, flowControl=maybe, dataLayer, 3]\n\
         plugins:\n- {type: queue-scorer}\n- {type: queue-scorer}\n- {name: x}\n- {typ: y}\n- {type: z, parameters: [1]}\n- 5\n\
         schedulerProfiles: []\n\
         schedulingProfiles:\n- plugins: [{pluginRef: queue-scorer, weight: \"3\"}]\n- name: p\n  plugins: [{pluginRef: quue-scorer}, {weight: 1}]\n\
         - name: p\n",
    );
    let want = [
        "1:13: apiVersion: no kind `EndpointPickerConfig` is known for apiVersion `llm-d.ai/v1` (write `llm-d.ai/v1alpha1`); \
         accepted are: llm-d.ai/v1alpha1 (deprecated: inference.networking.x-k8s.io/v1alpha1)",
        "2:7: kind: kind `EndpointPicker` is not a picker configuration (write `EndpointPickerConfig`)",
        "3:16: featureGates[0]: feature gate `flowcontrol` is unknown (did you mean `flowControl`?)",
        "3:29: featureGates[1]: `maybe` is not a valid value for the feature gate `flowControl` (write `true` or `false` after the `=`)",
        "3:48: featureGates[2]: feature gate `dataLayer` no longer exists (always on now, since llm-d-router 0.8; remove this entry)",
        "3:59: featureGates[3]: `featureGates[3]` must be a string, not an integer (put it in quotes)",
        "6:10: plugins[1].name: duplicate plugin name `queue-scorer` (line 5 has it already; give one of them a `name`)",
        "7:10: plugins[2].type: plugin `x` is missing a `type` (every plugin has a `type`)",
        "8:3: plugins[3].type: `plugins[3]` is missing a `type` (every plugin has a `type`)",
        "8:4: plugins[3].typ: unknown field `typ` (did you mean `type`?)",
        "9:25: plugins[4].parameters: `plugins[4].parameters` must be a mapping, not a list (a mapping is wanted)",
        "10:3: plugins[5]: `plugins[5]` must be a mapping, not an integer (a mapping is wanted)",
        "11:1: schedulerProfiles: unknown field `schedulerProfiles` (did you mean `schedulingProfiles`?)",
        "13:3: schedulingProfiles[0].name: schedulingProfiles[0] is missing a `name` (every profile has a `name`)",
        "13:47: schedulingProfiles[0].plugins[0].weight: `schedulingProfiles[0].plugins[0].weight` must be a number, not a string \
         (remove the quotes)",
        "15:25: schedulingProfiles[1].plugins[0].pluginRef: profile `p` refers to plugin `quue-scorer`, which is not defined \
         (did you mean `queue-scorer`?)",
        "15:39: schedulingProfiles[1].plugins[1].pluginRef: schedulingProfiles[1].plugins[1] is missing a `pluginRef` \
         (name a plugin here: `pluginRef: ...`)",
        "16:9: schedulingProfiles[2].name: duplicate profile name `p` (line 14 has it already)",
    ];
    assert_eq!(found, want, "\n{}", found.join("\n"));
}

#[test]
fn both_api_groups_and_none_are_accepted_the_old_one_with_a_warning() {
    for (head, warnings) in [("", 0), ("apiVersion: llm-d.ai/v1alpha1\n", 0), ("kind: EndpointPickerConfig\n", 0)] {
        assert_eq!(read(&format!("{head}plugins: []\n")).1.warnings(), warnings);
    }
    let (_, faults) = read("apiVersion: inference.networking.x-k8s.io/v1alpha1\nplugins: []\n");
    assert_eq!(faults.summary(), "1 warning");
}

#[test]
fn a_gate_takes_any_of_gos_booleans_and_the_last_entry_wins() {
    for (gates, on) in [
        ("[]", false),
        ("[flowControl]", true),
        ("[flowControl, flowControl=0]", false),
        ("[\"flowControl= TRUE \"]", true),
        ("[flowControl=1]", true),
        ("[flowControl=t]", true),
        ("[flowControl, flowControl=f]", false),
        ("[flowControl=true=false]", true),
    ] {
        let (d, faults) = read(&format!("featureGates: {gates}\n"));
        assert_eq!((d.feature_gates.flow_control, faults.errors()), (on, 0), "{gates}");
    }
    assert_eq!(read("featureGates: [\" flowControl\"]\n").1.errors(), 1, "the name is not trimmed");
}

#[test]
fn deprecated_top_level_forms_move_unless_the_new_ones_are_set() {
    let plugins = "plugins: [{type: d}, {type: e}]\n";
    let (d, faults) = read(&format!("{plugins}saturationDetector: {{pluginRef: d}}\nparser: {{pluginRef: p}}\n"));
    assert_eq!(d.flow_control.saturation_detector.unwrap().name, "d");
    assert_eq!(d.request_handler.parsers[0].name, "p");
    assert_eq!(faults.summary(), "2 warnings");
    let (d, faults) = read(&format!(
        "{plugins}saturationDetector: {{pluginRef: d}}\nflowControl: {{saturationDetector: {{pluginRef: e}}}}\n\
         parser: {{pluginRef: p}}\nrequestHandler: {{parsers: [{{pluginRef: q}}]}}\n"
    ));
    assert_eq!(d.flow_control.saturation_detector.unwrap().name, "e");
    assert_eq!(d.request_handler.parsers.len(), 1);
    assert_eq!(faults.summary(), "2 warnings");
}

#[test]
fn whoever_switches_flow_control_on_is_told_that_it_is_not_there_yet() {
    for (gates, warned) in [("[flowControl]", true), ("[flowControl, \"flowControl=false\"]", false), ("[]", false)] {
        let (_, faults) = read(&format!("featureGates: {gates}\n"));
        assert_eq!(
            faults.iter().any(|f| f.message.contains("`flowControl` is known, not yet available")),
            warned,
            "{gates}"
        );
    }
}

#[test]
fn values_of_flow_control_are_errors_with_the_gate_on_and_warnings_with_it_off() {
    let flow = "flowControl:\n  maxBytes: -1\n  defaultRequestTTL: -1s\n  usageLimitPolicyPluginRef: nope\n\
                \x20 priorityBands: [{priority: 1}, {priority: 1}, {fairnessPolicyRef: nope}]\n";
    let (_, faults) = read(&format!("featureGates: [flowControl]\n{flow}"));
    assert_eq!(faults.summary(), "5 errors, 2 warnings");
    let (_, faults) = read(flow);
    assert_eq!(faults.summary(), "7 warnings");
    assert!(faults.iter().any(|f| f.message.contains("its feature gate is off")));
    for shape in [
        "{defaultRequestTTL: 10}",
        "{maxBytes: 1GB}",
        "{priorityBands: [{queue: x}]}",
        "{saturationDetector: {pluginRef: nope}}",
    ] {
        assert_eq!(read(&format!("flowControl: {shape}\n")).1.errors(), 1, "{shape}");
    }
}

#[test]
fn a_name_that_defaults_will_make_is_defined() {
    let (_, faults) = read("plugins: []\nschedulingProfiles: [{name: a, plugins: [{pluginRef: max-score-picker}]}]\n");
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn a_weight_of_zero_is_worth_a_warning() {
    let found = lines("plugins: [{type: a}]\nschedulingProfiles: [{name: p, plugins: [{pluginRef: a, weight: 0}]}]\n");
    assert_eq!(found, ["2:65: schedulingProfiles[0].plugins[0].weight: weight 0 switches `a` off"]);
}

#[test]
fn a_config_map_around_a_document_is_told_apart_from_one_without() {
    for (data, want) in [
        ("{epp.yaml: \"plugins: []\"}", "a start takes the `EndpointPickerConfig` in its `data`, by itself"),
        ("{a: b}", "no key of its `data` holds an `EndpointPickerConfig`: it has a"),
    ] {
        let mut faults = Faults::new();
        assert!(decode(format!("kind: ConfigMap\ndata: {data}\n").as_bytes(), &mut faults).document().is_none());
        assert_eq!(faults.sorted().iter().map(|f| f.label.as_str()).collect::<Vec<_>>(), [want]);
    }
}
