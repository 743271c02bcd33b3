//! The metrics page, with the names and labels of a real one (`engine="0"`, `model_name` the first served name).

use std::fmt::Write;

use crate::core::{Core, unix_seconds};
use crate::metrics::Histogram;
use crate::options::Settings;
use crate::runtime::FakeLoras;

/// Adapter combinations kept on the page; the oldest leaves first.
const MAX_LORA_SERIES: usize = 256;

/// Renders the page.
pub(crate) fn render(core: &mut Core, settings: &Settings) -> String {
    let mut page = Page { out: String::with_capacity(32 * 1024), model: escape(&settings.names[0]) };
    let stats = core.engine.stats();
    let fake = core.runtime.fake.clone();
    let (running, waiting, usage) = match &fake {
        Some(fake) => (fake.running, fake.waiting, fake.kv_cache_usage),
        None => (core.engine.running() as f64, core.engine.waiting() as f64, core.engine.kv_usage()),
    };
    let deferred = if fake.is_some() { 0.0 } else { core.engine.deferred() as f64 };
    page.one("num_requests_running", "gauge", "Number of requests in model execution batches.", running);
    page.one("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", waiting);
    page.many(
        "num_requests_waiting_by_reason",
        "gauge",
        "Number of waiting requests by reason.",
        "reason",
        &[("capacity", waiting - deferred), ("deferred", deferred)],
    );
    page.one("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", usage);
    let m = &core.metrics;
    page.one(
        "prefix_cache_queries_total",
        "counter",
        "Prefix cache queries, in terms of number of queried tokens.",
        stats.prefix_queries as f64,
    );
    page.one(
        "prefix_cache_hits_total",
        "counter",
        "Prefix cache hits, in terms of number of cached tokens.",
        stats.prefix_hits as f64,
    );
    page.one(
        "num_preemptions_total",
        "counter",
        "Cumulative number of preemption from the engine.",
        stats.preemptions as f64,
    );
    page.one("prompt_tokens_total", "counter", "Number of prefill tokens processed.", m.prompt_tokens as f64);
    page.many(
        "prompt_tokens_by_source_total",
        "counter",
        "Number of prompt tokens by source.",
        "source",
        &[
            ("local_compute", (m.prompt_tokens - m.cached_tokens.min(m.prompt_tokens)) as f64),
            ("local_cache_hit", m.cached_tokens as f64),
            ("external_kv_transfer", 0.0),
        ],
    );
    page.one("prompt_tokens_cached_total", "counter", "Number of cached prompt tokens.", m.cached_tokens as f64);
    page.one(
        "generation_tokens_total",
        "counter",
        "Number of generation tokens processed.",
        m.generation_tokens as f64,
    );
    let ended = |i: usize| m.ended[i] as f64;
    page.many(
        "request_success_total",
        "counter",
        "Count of successfully processed requests.",
        "finished_reason",
        &[("stop", ended(0)), ("length", ended(1)), ("abort", ended(2)), ("error", 0.0)],
    );
    page.head(
        "admission_rejections_total",
        "counter",
        "Number of admission attempts rejected by a queue limit, by reason.",
    );
    let (model, refused) = (&page.model, m.refused as f64);
    // The one family of a process rather than of an engine in it.
    let _ = writeln!(
        page.out,
        "vllm:admission_rejections_total{{model_name=\"{model}\",reason=\"max_num_queued_reqs\"}} {refused:?}"
    );
    for (name, help, histogram) in [
        ("request_prompt_tokens", "Number of prefill tokens processed.", &m.request_prompt_tokens),
        ("request_generation_tokens", "Number of generation tokens processed.", &m.request_generation_tokens),
        ("request_params_max_tokens", "Histogram of the max_tokens request parameter.", &m.max_tokens),
        (
            "request_max_num_generation_tokens",
            "Histogram of maximum number of requested generation tokens.",
            &m.max_generation_tokens,
        ),
        ("time_to_first_token_seconds", "Histogram of time to first token in seconds.", &m.ttft),
        ("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", &m.inter_token),
        ("time_per_output_token_seconds", "Histogram of time per output token in seconds.", &m.inter_token),
        (
            "request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            &m.per_output_token,
        ),
        ("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", &m.e2e),
        ("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", &m.queue),
        ("request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", &m.inference),
        ("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", &m.prefill),
        ("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", &m.decode),
    ] {
        page.histogram(name, help, histogram);
    }
    loras(core, settings, fake.as_ref().map(|f| f.loras.as_slice()), &mut page);
    cache_config(core, settings, &mut page);
    page.out
}

struct Page {
    out: String,
    model: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.out, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        let _ = writeln!(self.out, "vllm:{name}{{engine=\"0\",model_name=\"{}\"}} {value:?}", self.model);
    }

    /// One series per value of `label`; labels stand in alphabetical order, as on a real page.
    fn many(&mut self, name: &str, kind: &str, help: &str, label: &str, series: &[(&str, f64)]) {
        self.head(name, kind, help);
        for (of, value) in series {
            let model = format!("model_name=\"{}\"", self.model);
            let own = format!("{label}=\"{of}\"");
            let (a, b) = if label < "model_name" { (own, model) } else { (model, own) };
            let _ = writeln!(self.out, "vllm:{name}{{engine=\"0\",{a},{b}}} {value:?}");
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let model = &self.model;
        let mut total = 0;
        for (i, count) in histogram.counts.iter().enumerate() {
            total += count;
            let bound = histogram.bounds.get(i).map_or_else(|| "+Inf".to_owned(), |b| format!("{b:?}"));
            let _ = writeln!(
                self.out,
                "vllm:{name}_bucket{{engine=\"0\",le=\"{bound}\",model_name=\"{model}\"}} {:?}",
                total as f64
            );
        }
        let _ = writeln!(self.out, "vllm:{name}_count{{engine=\"0\",model_name=\"{model}\"}} {:?}", total as f64);
        let _ = writeln!(self.out, "vllm:{name}_sum{{engine=\"0\",model_name=\"{model}\"}} {:?}", histogram.sum);
    }
}

/// Every combination seen stays on the page; the value tells the newest. Without LoRA the family does not exist.
fn loras(core: &mut Core, settings: &Settings, fake: Option<&[FakeLoras]>, page: &mut Page) {
    let now = unix_seconds();
    let series: Vec<(String, String, f64)> = match fake {
        Some(fake) => fake.iter().map(|l| (l.running.clone(), l.waiting.clone(), l.timestamp.unwrap_or(now))).collect(),
        None if core.adapters.used => {
            let (running, waiting) = core.engine.adapters();
            let (running, waiting) = (running.join(","), waiting.join(","));
            core.lora_series.retain(|(r, w, _)| (r, w) != (&running, &waiting));
            core.lora_series.push((running, waiting, now));
            if core.lora_series.len() > MAX_LORA_SERIES {
                core.lora_series.remove(0);
            }
            core.lora_series.clone()
        }
        None => Vec::new(),
    };
    if series.is_empty() {
        return;
    }
    page.head("lora_requests_info", "gauge", "Running stats on lora requests.");
    for (running, waiting, at) in series {
        let _ = writeln!(
            page.out,
            "vllm:lora_requests_info{{max_lora=\"{}\",running_lora_adapters=\"{}\",waiting_lora_adapters=\"{}\"}} {at:?}",
            settings.options.max_loras,
            escape(&running),
            escape(&waiting)
        );
    }
}

fn cache_config(core: &Core, settings: &Settings, page: &mut Page) {
    page.head("cache_config_info", "gauge", "Information of the LLMEngine CacheConfig");
    let config = core.engine.config();
    let _ = writeln!(
        page.out,
        "vllm:cache_config_info{{block_size=\"{}\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",engine=\"0\",gpu_memory_utilization=\"0.9\",kv_cache_size_tokens=\"{}\",num_cpu_blocks=\"None\",num_gpu_blocks=\"{}\",num_gpu_blocks_override=\"{}\",prefix_caching_hash_algo=\"xxhash\",sliding_window=\"None\"}} 1.0",
        config.block_size,
        u64::from(config.block_size) * u64::from(config.blocks),
        config.blocks,
        settings.options.kv_cache_size.map_or_else(|| "None".to_owned(), |n| n.to_string()),
    );
}

/// As a label value.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
