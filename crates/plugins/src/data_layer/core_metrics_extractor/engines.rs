//! The engine kinds that need no configuration (metrics 4.2).

use super::{Engine, Field};
use pointsman_wire::exposition::Spec;

/// Built-in engine kinds. Where an engine renamed a metric, the new name is tried before the old one.
pub(super) fn built_in() -> Vec<Engine> {
    use Field::{BlockSize, CacheInfo, KvUsage, Lora, NumBlocks, Running, Waiting};
    let tensorrt = "nv_trt_llm_kv_cache_block_metrics";
    let block = |kind: &str| format!("{tensorrt}{{kv_cache_block_type={kind}}}");
    let request = |kind: &str| format!("nv_trt_llm_request_metrics{{request_type={kind}}}");
    vec![
        engine(
            "vllm",
            &[
                (Waiting, "vllm:num_requests_waiting"),
                (Running, "vllm:num_requests_running"),
                (KvUsage, "vllm:kv_cache_usage_perc"),
                (KvUsage, "vllm:gpu_cache_usage_perc"),
                (Lora, "vllm:lora_requests_info"),
                (CacheInfo, "vllm:cache_config_info"),
            ],
            ("block_size", "num_gpu_blocks"),
        ),
        engine(
            "sglang",
            &[
                (Waiting, "sglang:num_queue_reqs"),
                (Running, "sglang:num_running_reqs"),
                (KvUsage, "sglang:token_usage"),
                (CacheInfo, "sglang:cache_config_info"),
            ],
            ("page_size", "num_pages"),
        ),
        engine(
            "trtllm-serve",
            &[
                (Waiting, "trtllm_num_requests_waiting"),
                (Running, "trtllm_num_requests_running"),
                (KvUsage, "trtllm_kv_cache_utilization"),
                (BlockSize, "trtllm_kv_cache_tokens_per_block"),
                (NumBlocks, "trtllm_kv_cache_max_blocks"),
            ],
            ("", ""),
        ),
        engine(
            "triton-tensorrt-llm",
            &[
                (Waiting, &request("waiting")),
                (Running, &request("scheduled")),
                (KvUsage, &block("fraction")),
                (BlockSize, &block("tokens_per")),
                (NumBlocks, &block("max")),
            ],
            ("", ""),
        ),
        // Its execution count only ever grows: as a gauge of running requests it would be meaningless.
        engine("triton", &[(Waiting, "nv_inference_pending_request_count")], ("", "")),
        engine(
            "llama-cpp",
            &[
                (Waiting, "llamacpp:requests_deferred"),
                (Running, "llamacpp:requests_processing"),
                (KvUsage, "llamacpp:kv_cache_usage_ratio"),
            ],
            ("", ""),
        ),
        engine("tgi", &[(Waiting, "tgi_queue_size"), (Running, "tgi_batch_current_size")], ("", "")),
    ]
}

fn engine(name: &str, specs: &[(Field, &str)], labels: (&str, &str)) -> Engine {
    let specs = specs.iter().filter_map(|(f, s)| Some((*f, Spec::parse(s).ok()??))).collect();
    Engine::new(name, specs, labels.0, labels.1)
}
