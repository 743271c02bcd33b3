//! The scanner against pages as engines write them.

use super::*;
use proptest::prelude::*;

const WAITING: &str = "vllm:num_requests_waiting";

fn wanted(specs: &[&str]) -> Wanted {
    Wanted::new(specs.iter().map(|s| Spec::parse(s).expect("a selector").expect("not empty")))
}

fn values(page: &str, specs: &[&str]) -> (Vec<(usize, f64)>, usize) {
    let mut found = Vec::new();
    let scanned = scan(page.as_bytes(), &wanted(specs), |s| found.push((s.index, s.value)));
    assert_eq!(scanned.samples, found.len());
    (found, scanned.bad_lines)
}

fn page(name: &str) -> String {
    let path = format!("{}/../../testdata/fixtures/vllm/metrics/{name}.prom", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn selectors_are_read_refused_or_switched_off() {
    let spec = |text| Spec::parse(text).map(|s| s.map(|s| s.to_string()));
    for (text, want) in [
        ("m", Some("m")),
        ("m{a=b}", Some(r#"m{a="b"}"#)),
        (r#"m{a="b",c=d}"#, Some(r#"m{a="b",c="d"}"#)),
        (r#" m { a = "b c" , c = d , } "#, Some(r#"m{a="b c",c="d"}"#)),
        ("m{}", Some("m")),
        (r#"m{a="x,}y"}"#, Some(r#"m{a="x,}y"}"#)),
        ("vllm:num_requests_waiting", Some("vllm:num_requests_waiting")),
        ("", None),
        ("  ", None),
    ] {
        assert_eq!(spec(text), Ok(want.map(str::to_owned)), "{text}");
    }
    for text in ["1m", "m-n", "{a=b}", "a b"] {
        assert_eq!(spec(text), Err(SpecError::Name(text.into())), "{text}");
    }
    for text in ["m{", "m{a=b", "m{a=b}x", "m{a=\"b\"", "m{}{"] {
        assert_eq!(spec(text), Err(SpecError::Braces(text.into())), "{text}");
    }
    for text in ["m{a}", "m{a:b=c}", "m{1a=b}", "m{=b}", "m{a=\"b}", "m{a=\"b\"c}"] {
        assert_eq!(spec(text), Err(SpecError::Label(text.into())), "{text}");
    }
}

#[test]
fn series_match_by_whole_name_and_all_labels_of_the_selector() {
    let page = "q{s=\"run\"} 2\nq{s=\"wait\",z=\"1\"} 3\nq_total{s=\"run\"} 9\nqq 7\nq 5\n";
    let specs = ["q{s=run}", "q{s=\"wait\"}", "q", "q{z=2}"];
    assert_eq!(values(page, &specs).0, [(0, 2.0), (2, 2.0), (1, 3.0), (2, 3.0), (2, 5.0)]);
}

#[test]
fn everything_that_pages_may_have_is_tolerated() {
    let page = concat!(
        "# HELP vllm:num_requests_waiting Waiting.\r\n",
        "# TYPE vllm:num_requests_waiting gauge\r\n",
        "# TYPE vllm:num_requests_waiting strange\r\n",
        "vllm:num_requests_waiting{engine=\"0\"} 3\r\n",
        "\r\n",
        "  vllm:num_requests_waiting { engine = \"1\" , } 2e1\r\n",
        "vllm:num_requests_waiting 4 1700000000000\n",
        "vllm:num_requests_waiting 5 # {trace=\"x\"} 0.67 1.5\n",
        "vllm:num_requests_waiting 6 1700000000.5 # {trace=\"x\"} 0.67\n",
        "vllm:num_requests_waiting{a=\"}\\\"{,\"} 7\n",
        "vllm:num_requests_waiting\t+8.0e0\n",
        "vllm:num_requests_waiting{} -9\n",
        "# EOF",
    );
    let (found, bad) = values(page, &[WAITING]);
    assert_eq!(found.iter().map(|f| f.1).collect::<Vec<_>>(), [3.0, 20.0, 4.0, 5.0, 6.0, 7.0, 8.0, -9.0]);
    assert_eq!(bad, 0);
    assert_eq!(values("vllm:num_requests_waiting 3", &[WAITING]).0, [(0, 3.0)], "no final newline");
}

#[test]
fn nan_and_infinities_are_values() {
    let (found, bad) = values("a NaN\na +Inf\na -Inf\na nan\n", &["a"]);
    assert!(found[0].1.is_nan() && found[3].1.is_nan());
    assert_eq!((found[1].1, found[2].1, bad), (f64::INFINITY, f64::NEG_INFINITY, 0));
}

#[test]
fn timestamps_come_in_milliseconds() {
    let mut stamps = Vec::new();
    scan(b"a 1 1000\na 1 1.5\na 1\na 1 -5\n", &wanted(&["a"]), |s| stamps.push(s.timestamp));
    assert_eq!(stamps, [Some(1000), Some(1500), None, Some(-5)]);
}

#[test]
fn a_bad_line_is_counted_and_the_page_goes_on() {
    for bad in [
        "a",
        "a ",
        "a x",
        "a 1,5",
        "a{b=\"c\" 1",
        "a{b=c} 1",
        "a{b=\"c\"",
        "a{=\"c\"} 1",
        "a{b\"c\"} 1",
        "a{b=\"c\\",
        "a 1 x",
        "a 1 2 3",
        "a{b=\"c\"}",
        "a{b=\"c\"d=\"e\"} 1",
        "a 1_000",
    ] {
        let (found, count) = values(&format!("a 1\n{bad}\na 2\n"), &["a"]);
        assert_eq!(found, [(0, 1.0), (0, 2.0)], "{bad}");
        assert_eq!(count, usize::from(bad.len() > 1), "{bad}");
    }
    let mut bytes = b"a{b=\"\xff\xfe\"} 1\na \xff\n\xff\n".to_vec();
    bytes.extend(b"a 2");
    let mut found = Vec::new();
    let scanned = scan(&bytes, &wanted(&["a"]), |s| found.push((s.value, s.labels.get("b").map(|v| v.into_owned()))));
    assert_eq!(found, [(1.0, Some("\u{fffd}\u{fffd}".into())), (2.0, None)]);
    assert_eq!(scanned.bad_lines, 1);
}

#[test]
fn label_values_are_unescaped_when_asked_for() {
    let mut seen = Vec::new();
    let page = r#"a{x="c:\\new \"q\" line\nend \t",y="plain"} 1"#;
    scan(page.as_bytes(), &wanted(&["a"]), |s| {
        seen.extend(s.labels.iter().map(|(n, v)| (n.into_owned(), v.into_owned())));
        assert_eq!(s.labels.get("y").as_deref(), Some("plain"));
        assert_eq!(s.labels.get("z"), None);
    });
    assert_eq!(seen, [("x".into(), "c:\\new \"q\" line\nend \\t".into()), ("y".into(), "plain".into())]);
    assert_eq!(values("a{x=\"q\\\"\"} 1\na{x=\"p\"} 2\n", &["a{x=p}"]).0, [(0, 2.0)]);
}

#[test]
fn br_25_a_page_without_lora_gives_the_other_values_and_no_error() {
    let page = concat!(
        "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\",model_name=\"acme\"} 3\n",
        "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"acme\"} 5\n",
        "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"acme\"} 0.25\n",
    );
    let specs = [WAITING, "vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:lora_requests_info"];
    assert_eq!(values(page, &specs), (vec![(0, 3.0), (1, 5.0), (2, 0.25)], 0));
}

#[test]
fn br_27_only_the_configured_name_is_read() {
    let page = "vllm:gpu_cache_usage_perc 0.4\nvllm:kv_cache_usage_perc 0.9\n";
    assert_eq!(values(page, &["vllm:kv_cache_usage_perc"]).0, [(0, 0.9)]);
    assert_eq!(values(page, &["vllm:gpu_cache_usage_perc"]).0, [(0, 0.4)]);
    assert_eq!(values("vllm:gpu_cache_usage_perc 0.9\n", &["vllm:kv_cache_usage_perc"]).0, []);
}

#[test]
fn br_28_every_lora_series_comes_with_its_value_and_lists() {
    let page = concat!(
        "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 1.7395575657589855e+09\n",
        "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"sql, legal\",waiting_lora_adapters=\"\"} 1.7395575723949368e+09\n",
        "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"sql\",waiting_lora_adapters=\"sql\"} 1.7395575717647147e+09\n",
    );
    let mut newest: Option<(f64, String, String)> = None;
    scan(page.as_bytes(), &wanted(&["vllm:lora_requests_info"]), |s| {
        if newest.as_ref().is_none_or(|n| n.0 < s.value) {
            let label = |name| s.labels.get(name).expect("present").into_owned();
            newest = Some((s.value, label("running_lora_adapters"), label("max_lora")));
        }
    });
    assert_eq!(newest, Some((1.739_557_572_394_936_8e9, "sql, legal".into(), "2".into())));
}

#[test]
fn recorded_engine_pages_give_every_wanted_family() {
    let specs = [WAITING, "vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:cache_config_info"];
    for name in [
        "after-cache-pressure",
        "after-load-lora",
        "after-requests",
        "idle-no-lora",
        "under-load-lora",
        "v0.20.2-after-requests",
    ] {
        let page = page(name);
        let (found, bad) = values(&page, &specs);
        assert_eq!(bad, 0, "{name}");
        // Line by line, the slow way.
        let want: Vec<(usize, f64)> = page
            .lines()
            .filter_map(|line| {
                let index = specs.iter().position(|s| line.strip_prefix(s).is_some_and(|r| r.starts_with('{')))?;
                Some((index, line.rsplit(' ').next()?.parse().ok()?))
            })
            .collect();
        assert_eq!(found, want, "{name}");
        assert!(found.len() >= 4, "{name}");
    }
}

proptest! {
    #[test]
    fn no_page_makes_the_scanner_panic(page in "((a|ab|vllm:num_requests_waiting|#|\\{|\\}|[a-z]=\"|\"|\\\\|,| |1|\\.|\r|NaN|e)*\n?)*") {
        crate::fuzzing::exposition(page.as_bytes());
    }

    #[test]
    fn no_bytes_make_the_scanner_panic(page in prop::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzzing::exposition(&page);
    }

    #[test]
    fn what_is_written_is_read(value in any::<f64>(), label in "[ -~\n\u{e9}]{0,20}", stamp in prop::option::of(any::<i64>())) {
        let escaped = label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let stamp_text = stamp.map(|s| format!(" {s}")).unwrap_or_default();
        let page = format!("x 1\na{{l=\"{escaped}\"}} {value:?}{stamp_text}\ny 1\n");
        let mut found = Vec::new();
        scan(page.as_bytes(), &wanted(&["a"]), |s| found.push((s.value, s.labels.get("l").map(|l| l.into_owned()), s.timestamp)));
        prop_assert_eq!(found.len(), 1);
        prop_assert!(found[0].0 == value || value.is_nan() && found[0].0.is_nan());
        prop_assert_eq!(found[0].1.as_deref(), Some(&*label));
        prop_assert_eq!(found[0].2, stamp);
    }
}
