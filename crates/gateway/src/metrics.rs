//! The gateway's own metric families.

use std::sync::atomic::AtomicI64;

use pointsman_router::Pool;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// Why a request was refused before it was routed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Refusing {
    pub(crate) reason: &'static str,
}

/// Counters and gauges; registered once for each gateway.
#[derive(Clone, Debug, Default)]
pub(crate) struct GatewayMetrics {
    /// Request bytes held. Doubles as the account of the budget.
    pub(crate) buffered_bytes: Gauge<i64, AtomicI64>,
    pub(crate) refusals: Family<Refusing, Counter>,
    pub(crate) connections: Gauge<i64, AtomicI64>,
    pub(crate) ejections: Counter,
    pub(crate) broken_streams: Counter,
}

impl GatewayMetrics {
    pub(crate) fn registered(pool: &Pool) -> Self {
        let all = Self::default();
        pool.metrics.register(|registry| {
            registry.register(
                "pointsman_gateway_buffered_bytes",
                "Request body bytes held by the gateway now",
                all.buffered_bytes.clone(),
            );
            registry.register(
                "pointsman_gateway_refusals",
                "Requests the gateway refused before they were routed, by reason",
                all.refusals.clone(),
            );
            registry.register("pointsman_gateway_connections", "Client connections open now", all.connections.clone());
            registry.register(
                "pointsman_gateway_ejections",
                "Times a failing endpoint was put aside",
                all.ejections.clone(),
            );
            registry.register(
                "pointsman_gateway_broken_streams",
                "Responses that an engine broke off after they had begun",
                all.broken_streams.clone(),
            );
        });
        all
    }

    pub(crate) fn refuse(&self, reason: &'static str) {
        self.refusals.get_or_create(&Refusing { reason }).inc();
    }
}
