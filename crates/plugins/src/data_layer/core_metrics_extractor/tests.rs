use super::*;
use crate::{CompileOptions, Compiled, DefaultProfile, compile};
use pointsman_config::Faults;
use pointsman_core::EndpointName;
use pointsman_fleet::LoraInfo;

fn mappings() -> EngineMappings {
    EngineMappings { label_key: "llm-d.ai/engine-type".into(), engines: engines::built_in(), default: 0 }
}

fn vllm(page: &str) -> Extracted {
    mappings().read_as(None, page.as_bytes())
}

/// Of an engine `mine` that a document describes with these keys.
fn described(keys: &str) -> (Option<Compiled>, Vec<String>) {
    let document = format!(
        "plugins:\n- name: metrics\n  type: core-metrics-extractor\n  parameters:\n    engineConfigs:\n    - {{name: mine, {keys}}}\n\
         - type: metrics-data-source\ndataLayer:\n  sources:\n  - pluginRef: metrics-data-source\n    extractors:\n    - pluginRef: metrics\n"
    );
    let options = CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::default() };
    let mut faults = Faults::new();
    let compiled = compile(document.as_bytes(), &options, &mut faults);
    (compiled, faults.sorted().iter().map(|f| f.to_string()).collect())
}

fn read(keys: &str, page: &str) -> Extracted {
    let (compiled, faults) = described(keys);
    let compiled = compiled.unwrap_or_else(|| panic!("{faults:?}"));
    let mut meta = EndpointMeta::new(EndpointName::new("default", "a"), "10.0.0.1", 8000);
    meta.labels = [(LABEL, "mine")].into_iter().collect();
    compiled.sources[0].extractors[0].extract(&meta, page.as_bytes())
}

#[test]
fn custom_metrics_become_attributes_of_this_instance() {
    let keys = "customMetrics: [{attributeKey: cost, metricSpec: 'my_cost{tier=gold}'}, {attributeKey: heat, metricSpec: my_heat}]";
    let page =
        "my_cost{tier=\"iron\"} 9\nmy_cost{tier=\"gold\"} 2.5\nmy_cost{tier=\"gold\",tp_rank=\"1\"} 7\nmy_heat -3\n";
    let extracted = read(keys, page);
    let named = |name: &str, value: f64| (attribute_key(name, "metrics"), value);
    assert_eq!(extracted.scraped.attributes, [named("cost", 2.5), named("heat", -3.0)]);
    assert_eq!((extracted.errors, extracted.missing.any()), (0, false));
    let newest = read(keys, "my_cost{tier=\"gold\"} 1 1000\nmy_cost{tier=\"gold\"} 2 3000\nmy_heat NaN\n");
    assert_eq!((newest.scraped.attributes, newest.errors), (vec![named("cost", 2.0)], 1));
}

#[test]
fn every_fault_of_an_engine_is_told_at_its_place() {
    for (keys, want) in [
        ("queuedRequestsSpec: 'a{'", "`queuedRequestsSpec` of engine `mine`"),
        (
            "customMetrics: [{attributeKey: '', metricSpec: a}]",
            "attribute key `` of engine `mine` is empty or given twice",
        ),
        (
            "customMetrics: [{attributeKey: a, metricSpec: a}, {attributeKey: a, metricSpec: b}]",
            "attribute key `a` of engine `mine`",
        ),
        ("customMetrics: [{attributeKey: a, metricSpec: ''}]", "`metricSpec` of attribute `a` is empty"),
        ("customMetrics: [{attributeKey: a, metricSpec: '9a'}]", "`metricSpec` of attribute `a`: metric selector `9a`"),
    ] {
        let (compiled, faults) = described(keys);
        assert!(compiled.is_none() && faults.iter().any(|f| f.contains(want)), "{keys}: {faults:?}");
        assert!(faults[0].starts_with("6:"), "{faults:?}");
    }
}

fn load(e: &Extracted) -> (Option<f64>, Option<f64>, Option<f64>) {
    (e.scraped.waiting, e.scraped.running, e.scraped.kv_usage)
}

#[test]
fn br_25_a_missing_lora_family_is_no_error() {
    let page = "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\",model_name=\"acme\"} 3\n\
        # TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"acme\"} 5\n\
        # TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"acme\"} 0.25\n";
    let read = vllm(page);
    assert_eq!(load(&read), (Some(3.0), Some(5.0), Some(0.25)));
    assert_eq!((read.scraped.lora, read.errors), (None, 0));
    let missing = vllm("vllm:num_requests_waiting 3\nvllm:kv_cache_usage_perc 0.5\n");
    assert_eq!((load(&missing), missing.errors), ((Some(3.0), None, Some(0.5)), 1));
}

#[test]
fn br_27_the_new_name_is_tried_before_the_old_and_a_missing_family_is_unknown() {
    assert_eq!(vllm("vllm:kv_cache_usage_perc 0.9\n").scraped.kv_usage, Some(0.9));
    assert_eq!(vllm("vllm:gpu_cache_usage_perc 0.8\n").scraped.kv_usage, Some(0.8));
    assert_eq!(vllm("vllm:gpu_cache_usage_perc 0.8\nvllm:kv_cache_usage_perc 0.9\n").scraped.kv_usage, Some(0.9));
    assert_eq!(vllm("vllm:num_requests_waiting 0\n").scraped.kv_usage, None);
}

#[test]
fn br_28_the_lora_series_with_the_largest_value_is_the_current_one() {
    let page = "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 1.7395575657589855e+09\n\
        vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"sql, legal\",waiting_lora_adapters=\"\"} 1.7395575723949368e+09\n\
        vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"sql\",waiting_lora_adapters=\"sql\"} 1.7395575717647147e+09\n";
    assert_eq!(vllm(page).scraped.lora, Some(LoraInfo::new(2, ["sql".into(), "legal".into()], [])));
    let bad =
        vllm("vllm:lora_requests_info{max_lora=\"abc\",running_lora_adapters=\"sql\",waiting_lora_adapters=\"x\"} 1\n");
    let lora = bad.scraped.lora.expect("the lists are kept");
    assert!(lora.is_active("sql") && lora.is_waiting("x"));
    // Waiting, running and KV are missing too.
    assert_eq!(bad.errors, 4);
}

#[test]
fn several_engines_in_one_page_are_summed_and_the_fullest_counts() {
    let page = "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 3\nvllm:num_requests_waiting{engine=\"1\",model_name=\"m\"} 4\n\
        vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.75\n\
        vllm:cache_config_info{engine=\"0\",block_size=\"16\",num_gpu_blocks=\"100\"} 1\n\
        vllm:cache_config_info{engine=\"1\",block_size=\"16\",num_gpu_blocks=\"120\"} 1\n";
    let read = vllm(page).scraped;
    assert_eq!((read.waiting, read.kv_usage), (Some(7.0), Some(0.75)));
    assert_eq!((read.block_size, read.num_blocks), (Some(16), Some(220)));
    let ranks = "sglang:num_queue_reqs{tp_rank=\"0\"} 3\nsglang:num_queue_reqs{tp_rank=\"1\"} 3\n";
    assert_eq!(mappings().read_as(Some("sglang"), ranks.as_bytes()).scraped.waiting, Some(3.0));
}

#[test]
fn of_series_with_time_stamps_the_newest_wins() {
    let page = "vllm:num_requests_waiting{a=\"0\"} 3 1000\nvllm:num_requests_waiting{a=\"1\"} 5 3000\nvllm:num_requests_waiting{a=\"2\"} 7 2000\n";
    assert_eq!(vllm(page).scraped.waiting, Some(5.0));
}

#[test]
fn values_that_are_not_numbers_are_unknown() {
    let read = vllm("vllm:num_requests_waiting NaN\nvllm:num_requests_running +Inf\nvllm:kv_cache_usage_perc NaN\n");
    assert_eq!((load(&read), read.errors), ((None, None, None), 3));
    let none = vllm("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1\n");
    assert_eq!((none.scraped.block_size, none.scraped.num_blocks, none.errors), (Some(16), None, 4));
}

#[test]
fn an_unknown_engine_label_means_the_default_engine() {
    let read = mappings().read_as(Some("no-such-engine"), b"vllm:num_requests_waiting 2\n");
    assert_eq!((read.scraped.waiting, read.engine.as_deref()), (Some(2.0), Some("vllm")));
}

#[test]
fn what_a_page_lacks_is_named_and_an_engine_without_such_a_family_lacks_nothing() {
    for (engine, page, want) in [
        ("vllm", "vllm:num_requests_waiting 3\nvllm:num_requests_running 1\n", "no KV cache usage"),
        (
            "vllm",
            "vllm:num_requests_waiting 3\nvllm:num_requests_running NaN\nvllm:kv_cache_usage_perc 0.5\n",
            "no count of running requests",
        ),
        ("vllm", "vllm:kv_cache_usage_perc 0.5\n", "no count of waiting requests, no count of running requests"),
        ("triton", "nv_inference_pending_request_count 2\n", ""),
        ("tgi", "tgi_queue_size 2\n", "no count of running requests"),
    ] {
        let read = mappings().read_as(Some(engine), page.as_bytes());
        assert_eq!((read.missing.to_string().as_str(), read.missing.any()), (want, !want.is_empty()), "{engine}");
        assert_eq!(read.errors as usize, want.matches("no ").count(), "{engine}");
    }
}
