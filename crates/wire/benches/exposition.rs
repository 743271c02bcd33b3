//! Scanning a recorded page of a vLLM engine (68 KB) for the families that routing reads.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pointsman_wire::exposition::{Spec, Wanted, scan};
use std::hint::black_box;

fn page(c: &mut Criterion) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/fixtures/vllm/metrics/after-load-lora.prom");
    let page = std::fs::read(path).expect("the fixture is in the tree");
    let names = [
        "vllm:num_requests_waiting",
        "vllm:num_requests_running",
        "vllm:kv_cache_usage_perc",
        "vllm:gpu_cache_usage_perc",
        "vllm:lora_requests_info",
        "vllm:cache_config_info",
    ];
    let wanted = Wanted::new(names.iter().filter_map(|n| Spec::parse(n).expect("a selector")));
    let mut group = c.benchmark_group("exposition");
    group.throughput(Throughput::Bytes(page.len() as u64));
    group.bench_function("vllm-68KB", |b| {
        b.iter(|| {
            let mut sum = 0.0;
            let scanned = scan(black_box(&page), &wanted, |s| sum += s.value);
            (scanned, sum)
        });
    });
    group.finish();
}

criterion_group!(benches, page);
criterion_main!(benches);
