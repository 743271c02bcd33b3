use std::time::Duration;

use super::*;
use crate::fault::Faults;
use crate::yaml;

const CONDITION: &[Param] = &[
    Param::new("metric", ParamKind::Enum(&["waiting-queue", "kv-cache"]), "which metric").required(),
    Param::new("maxValue", ParamKind::NON_NEGATIVE, "bound").required(),
];
const ROWS: &[Param] = &[
    Param::new("autoTune", ParamKind::Bool, "size blocks by the engine").default("true"),
    Param::new("blockSizeTokens", ParamKind::POSITIVE, "tokens per block").default("16"),
    Param::new("threshold", ParamKind::FRACTION, "share").default("0.8"),
    Param::new("path", ParamKind::String, "where").required(),
    Param::new("nearTo", ParamKind::Enum(&["host", "rack", "zone"]), "how near").default("\"host\""),
    Param::new("staleness", ParamKind::Duration, "age").default("\"200ms\""),
    Param::new("memory", ParamKind::Quantity, "bytes").default("\"1Ki\""),
    Param::new("conditions", ParamKind::List(&ParamKind::Object(CONDITION)), "all must hold").default("[]"),
    Param::new("limits", ParamKind::Object(&[Param::new("depth", ParamKind::COUNT, "d").default("7")]), "l")
        .default("{}"),
    Param::new("names", ParamKind::List(&ParamKind::String), "n"),
    Param::new("labels", ParamKind::AnyMap, "labels"),
    Param::new("extra", ParamKind::Any, "extra"),
    Param::new("blockSize", ParamKind::INTEGER, "old").deprecated("use `blockSizeTokens`"),
];

fn decoded(text: &str) -> (Params, Faults) {
    let mut faults = Faults::new();
    let node = yaml::parse(text, &mut faults).unwrap();
    let params = decode(Some(&node), ROWS, node.span, "plugins[0].parameters", &mut faults);
    (params, faults)
}

#[test]
fn good_values_are_read_and_the_rest_is_default() {
    let (p, faults) = decoded(
        "path: a\nblockSizeTokens: 64.0\nthreshold: 1\nstaleness: 1m30s\nmemory: 2Mi\nnearTo: rack\nnames: [a, b]\n\
         conditions: [{metric: waiting-queue, maxValue: 5}]\nlabels: {a: b}\nextra: {x: [1]}\n",
    );
    assert!(faults.is_empty(), "{faults:?}");
    assert!(p.bool("autoTune") && !p.given("autoTune") && p.given("path"));
    assert_eq!((p.u64("blockSizeTokens"), p.i64("blockSizeTokens"), p.usize("blockSizeTokens")), (64, 64, 64));
    assert_eq!((p.f64("threshold"), p.str("path"), p.str("nearTo")), (1.0, "a", "rack"));
    assert_eq!((p.duration("staleness"), p.u64("memory")), (Duration::from_secs(90), 2 << 20));
    assert_eq!(p.strings("names").collect::<Vec<_>>(), ["a", "b"]);
    let condition = p.objects("conditions").next().unwrap();
    assert_eq!((condition.str("metric"), condition.f64("maxValue")), ("waiting-queue", 5.0));
    assert_eq!(condition.path("metric"), "plugins[0].parameters.conditions[0].metric");
    assert_eq!(p.object("limits").unwrap().u64("depth"), 7);
    assert_eq!(p.map("labels").unwrap()["a"], "b");
    assert_eq!(p.node("extra").unwrap().to_json(), serde_json::json!({"x": [1]}));
    assert_eq!((p.span("threshold").line, p.span("autoTune")), (3, p.whole_span()));
    assert_eq!(p.get("blockSize"), None);
}

#[test]
fn without_parameters_or_with_null_ones_every_default_is_there() {
    for node in [None, Some(Node { value: yaml::Value::Null, span: Span::START })] {
        let p = decode(node.as_ref(), &ROWS[..3], Span::START, "", &mut Faults::new());
        assert_eq!((p.bool("autoTune"), p.u64("blockSizeTokens"), p.f64("threshold")), (true, 16, 0.8));
    }
    assert_eq!(Params::defaults(&ROWS[..3]).iter().count(), 3);
}

#[test]
fn every_fault_is_reported_at_its_place() {
    let (_, faults) = decoded(
        "autoTune: 1\nblockSizeTokens: 0\nthreshold: 1.5\nnearTo: racks\nstaleness: 10\nmemory: -1\n\
         conditions:\n- {metric: kv-cache}\n- 3\nlimits: {deep: 1}\nnames: [1]\nlabels: {a: yes}\nblocksizetokens: 3\nblockSize: x\n\
         thresold: 1\n",
    );
    let found: Vec<String> =
        faults.sorted().iter().map(|f| f.to_string().replace("plugins[0].parameters.", "")).collect();
    let want = [
        "1:1: path: parameter `path` is required (where)",
        "1:11: autoTune: `autoTune` must be `true` or `false`, not an integer (`true` or `false` is wanted)",
        "2:18: blockSizeTokens: `blockSizeTokens` must be 1 or more (out of range)",
        "3:12: threshold: `threshold` must be from 0 to 1 (out of range)",
        "4:9: nearTo: `nearTo` cannot be `racks` (did you mean `rack`?)",
        "5:12: staleness: `staleness` must be a duration with a unit, not a bare number (write for example `30s`, `250ms` or `1m30s`)",
        "6:9: memory: `memory` must be 0 or more (out of range)",
        "8:3: conditions[0].maxValue: parameter `maxValue` is required (bound)",
        "9:3: conditions[1]: `conditions[1]` must be a mapping, not an integer (a mapping is wanted)",
        "10:10: limits.deep: unknown parameter `deep` (known are: depth)",
        "11:9: names[0]: `names[0]` must be a string, not an integer (put it in quotes)",
        "12:13: labels.a: `labels.a` must be a string, not a YAML 1.1 boolean (put it in quotes)",
        "13:1: blocksizetokens: parameter `blocksizetokens` is spelt `blockSizeTokens` (write `blockSizeTokens`)",
        "13:1: blocksizetokens: parameter `blockSizeTokens` is given twice",
        "14:1: blockSize: parameter `blockSize` is deprecated: use `blockSizeTokens`",
        "14:12: blockSize: `blockSize` must be a whole number, not a string (a whole number is wanted)",
        "15:1: thresold: unknown parameter `thresold` (did you mean `threshold`?)",
    ];
    assert_eq!(found, want, "\n{}", found.join("\n"));
    assert_eq!(faults.summary(), "15 errors, 2 warnings");
}

#[test]
fn a_key_in_other_letter_case_is_taken_with_a_warning() {
    let (p, faults) = decoded("{path: a, Autotune: false}");
    assert!(!p.bool("autoTune"));
    assert_eq!(faults.summary(), "1 warning");
}

#[test]
fn rows_with_a_default_their_kind_refuses_are_found() {
    assert_eq!(faults_of_rows(ROWS), Vec::<String>::new());
    const BAD: &[Param] = &[
        Param::new("a", ParamKind::PORT, "p").default("0"),
        Param::new("a", ParamKind::String, "").default("x"),
        Param::new(
            "b",
            ParamKind::List(&ParamKind::Object(&[Param::new("c", ParamKind::Bool, "c").default("1")])),
            "b",
        ),
    ];
    assert_eq!(faults_of_rows(BAD).len(), 5, "{:?}", faults_of_rows(BAD));
}
