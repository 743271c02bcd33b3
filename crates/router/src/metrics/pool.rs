//! Gauges of the pool (metrics 2.4), computed when the page is rendered.

use super::Families;
use parking_lot::Mutex;
use pointsman_core::Nanos;
use pointsman_fleet::Snapshot;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Pool {
    name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PoolEndpoint {
    name: String,
    model_server_endpoint: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OldPoolEndpoint {
    name: String,
    model_server_pod: String,
}

type Float = Gauge<f64, AtomicU64>;

/// See the [module](self).
pub(super) struct PoolGauges {
    name: Pool,
    /// Mean and spread of KV usage, queue, running.
    figures: [(Family<Pool, Float>, Family<Pool, Float>); 3],
    ready: Family<Pool, Gauge>,
    queue: Family<PoolEndpoint, Gauge>,
    old_queue: Family<OldPoolEndpoint, Gauge>,
    /// Age at which a reading no longer counts; zero: never.
    stale_after: Duration,
    refreshing: Mutex<()>,
}

impl PoolGauges {
    pub(super) fn new(pool: &str, stale_after: Duration, f: &mut Families<'_>) -> Self {
        let figures = ["kv_cache_utilization", "queue_size", "running_requests"].map(|what| {
            let (mean, spread) = (Family::<Pool, Float>::default(), Family::<Pool, Float>::default());
            let name = format!("average_{what}");
            f.new_name(&name, "Mean over endpoints with fresh metrics", mean.clone());
            f.old_name(&format!("inference_pool_{name}"), &name, mean.clone());
            f.new_name(&format!("std_dev_{what}"), "Spread over endpoints with fresh metrics", spread.clone());
            (mean, spread)
        });
        let m = Self {
            name: Pool { name: pool.to_owned() },
            figures,
            ready: Family::default(),
            queue: Family::default(),
            old_queue: Family::default(),
            stale_after,
            refreshing: Mutex::default(),
        };
        f.new_name("ready_endpoints", "Endpoints with fresh metrics", m.ready.clone());
        f.old_name("inference_pool_ready_pods", "ready_endpoints", m.ready.clone());
        f.new_name("per_endpoint_queue_size", "Requests waiting in each engine", m.queue.clone());
        f.old_name("inference_pool_per_pod_queue_size", "per_endpoint_queue_size", m.old_queue.clone());
        m
    }

    pub(super) fn refresh(&self, fleet: &Snapshot, now: Nanos) {
        let _one_at_a_time = self.refreshing.lock();
        let mut values = [Vec::new(), Vec::new(), Vec::new()];
        let mut ready = 0;
        self.queue.clear();
        self.old_queue.clear();
        for endpoint in &fleet.endpoints {
            let view = endpoint.engine.view();
            let (name, of) = (self.name.name.clone(), endpoint.name().name.to_string());
            let queue = view.waiting as i64;
            self.queue
                .get_or_create(&PoolEndpoint { name: name.clone(), model_server_endpoint: of.clone() })
                .set(queue);
            self.old_queue.get_or_create(&OldPoolEndpoint { name, model_server_pod: of }).set(queue);
            let scraped = endpoint.engine.scraped_at();
            if scraped.0 == 0 || (!self.stale_after.is_zero() && now.since(scraped) > self.stale_after) {
                continue;
            }
            ready += 1;
            let known = [
                (view.known_kv(), view.kv_usage),
                (view.known_waiting(), view.waiting),
                (view.known_running(), view.running),
            ];
            for (values, (known, value)) in values.iter_mut().zip(known) {
                values.extend(known.then_some(value));
            }
        }
        self.ready.get_or_create(&self.name).set(ready);
        for ((mean, spread), values) in self.figures.iter().zip(values) {
            // Nobody fresh: no figure, rather than the last one for ever.
            match figures(&values) {
                Some((m, s)) => {
                    mean.get_or_create(&self.name).set(m);
                    spread.get_or_create(&self.name).set(s);
                }
                None => {
                    mean.clear();
                    spread.clear();
                }
            }
        }
    }
}

/// Mean and sample standard deviation, to two decimals.
fn figures(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / n)?;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let round = |v: f64| (v * 100.0).round() / 100.0;
    Some((round(mean), round((squares / (n - 1.0).max(1.0)).sqrt())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_spread_follow_the_published_examples() {
        assert_eq!(figures(&[0.10, 0.20, 0.45]), Some((0.25, 0.18)));
        assert_eq!(figures(&[3.0, 0.0, 10.0]), Some((4.33, 5.13)));
        assert_eq!(figures(&[0.2, 0.1, 0.2]), Some((0.17, 0.06)));
        assert_eq!(figures(&[7.0]), Some((7.0, 0.0)));
        assert_eq!(figures(&[]), None);
    }
}
