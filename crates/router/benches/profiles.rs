//! A decision under profiles larger than most: twelve scorers and eight filters; and the cost of shadow profiles.

#[path = "setup/mod.rs"]
mod setup;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use pointsman_config::Faults;
use pointsman_plugins::DefaultProfile;
use pointsman_router::Pool;
use setup::{body, pool, pool_of, reading};
use std::sync::Arc;

const RECORD_BYTES: usize = 8 << 20;

/// Twelve scorers, eight filters that drop nobody.
const WIDE: &str = "
plugins:
- {type: decode-filter}
- {type: label-selector-filter, parameters: {matchLabels: {tier: a}}}
- {type: by-label, parameters: {label: tier, validValues: [a, b]}}
- {name: queue-limit, type: utilization-filter, parameters: {conditions: [{metric: waiting-queue, maxValue: 500}]}}
- {name: cache-limit, type: utilization-filter, parameters: {conditions: [{metric: kv-cache-utilization, maxValue: 1}]}}
- {type: endpoint-attribute-filter, parameters: {attribute: WaitingQueueSize, algorithm: {type: threshold, threshold: {operator: LessThan, value: 900}}}}
- {type: prefix-cache-affinity-filter}
- {type: context-length-aware, parameters: {enableFiltering: true}}
- {type: queue-scorer}
- {type: kv-cache-utilization-scorer}
- {type: prefix-cache-scorer}
- {type: lora-affinity-scorer}
- {type: running-requests-size-scorer}
- {type: load-aware-scorer}
- {type: active-request-scorer}
- {type: token-load-scorer}
- {type: no-hit-lru-scorer}
- {type: session-affinity-scorer}
- {type: header-label-affinity-scorer, parameters: {headerName: x-tier, labelKey: tier}}
- {type: inflight-load-producer}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: decode-filter}
  - {pluginRef: label-selector-filter}
  - {pluginRef: by-label}
  - {pluginRef: queue-limit}
  - {pluginRef: cache-limit}
  - {pluginRef: endpoint-attribute-filter}
  - {pluginRef: prefix-cache-affinity-filter}
  - {pluginRef: context-length-aware}
  - {pluginRef: queue-scorer}
  - {pluginRef: kv-cache-utilization-scorer}
  - {pluginRef: prefix-cache-scorer}
  - {pluginRef: lora-affinity-scorer}
  - {pluginRef: running-requests-size-scorer}
  - {pluginRef: load-aware-scorer}
  - {pluginRef: active-request-scorer}
  - {pluginRef: token-load-scorer}
  - {pluginRef: no-hit-lru-scorer}
  - {pluginRef: session-affinity-scorer}
  - {pluginRef: header-label-affinity-scorer}
";

fn measure(c: &mut Criterion, name: &str, pool: &Arc<Pool>, endpoints: usize) {
    let mut seed = 1;
    c.bench_function(&format!("{name}/{endpoints}"), |b| {
        b.iter_batched(
            || {
                seed += 1;
                reading(pool, body(seed, 8_000), None)
            },
            |reading| reading.decide().expect("routed"),
            BatchSize::SmallInput,
        );
    });
}

fn profiles(c: &mut Criterion) {
    for endpoints in [10, 500] {
        measure(c, "profiles/12-scorers-8-filters", &pool_of(WIDE, endpoints, RECORD_BYTES), endpoints);
        measure(c, "profiles/default", &pool(endpoints), endpoints);
        let shadowed = pool(endpoints);
        assert!(shadowed.shadow(b"", false, DefaultProfile::Serve, &mut Faults::new()).is_some());
        measure(c, "profiles/default-and-shadow", &shadowed, endpoints);
    }
}

criterion_group!(benches, profiles);
criterion_main!(benches);
