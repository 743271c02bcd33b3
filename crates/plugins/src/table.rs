//! The table every plugin type is registered in: one row each.

use crate::row::{Kind, Row, Stability};
use crate::{
    admission, data_layer, deciders, filters, hooks, parsers, pickers, producers, profile_handlers, response, scorers,
};
use pointsman_config::{Registry, TypeInfo};

/// The plugin types of this build, and those of the catalogue that it does not have yet.
pub static TABLE: &[Row] = &[
    // Profile handlers
    profile_handlers::single_profile_handler::ROW,
    profile_handlers::disagg_profile_handler::ROW,
    profile_handlers::pd_profile_handler::ROW,
    profile_handlers::data_parallel_profile_handler::ROW,
    profile_handlers::header_profile_handler::ROW,
    // Deciders
    deciders::always_disagg_pd_decider::ROW,
    deciders::prefix_based_pd_decider::ROW,
    deciders::always_disagg_multimodal_decider::ROW,
    // Filters
    filters::label_selector_filter::ROW,
    filters::label_selector_filter::OLD_ROW,
    filters::by_label::ROW,
    filters::utilization_filter::ROW,
    filters::decode_filter::ROW,
    filters::prefill_filter::ROW,
    filters::encode_filter::ROW,
    filters::header_based_testing_filter::ROW,
    filters::endpoint_attribute_filter::ROW,
    filters::prefix_cache_affinity_filter::ROW,
    filters::slo_headroom_tier_filter::ROW,
    filters::session_affinity_filter::ROW,
    filters::session_affinity_filter::MULTICLUSTER_ROW,
    filters::topology_affinity_filter::ROW,
    filters::context_length_aware::ROW,
    // Scorers
    scorers::queue_scorer::ROW,
    scorers::kv_cache_utilization_scorer::ROW,
    scorers::prefix_cache_scorer::ROW,
    scorers::lora_affinity_scorer::ROW,
    scorers::running_requests_size_scorer::ROW,
    scorers::load_aware_scorer::ROW,
    scorers::active_request_scorer::ROW,
    scorers::token_load_scorer::ROW,
    scorers::no_hit_lru_scorer::ROW,
    scorers::session_affinity_scorer::ROW,
    scorers::header_label_affinity_scorer::ROW,
    scorers::endpoint_attribute_scorer::ROW,
    scorers::topology_affinity_scorer::ROW,
    scorers::mm_embeddings_cache_scorer::ROW,
    scorers::latency_scorer::ROW,
    scorers::prefix_cache_scorer::MULTICLUSTER_ROW,
    scorers::multicluster_kv_cache_utilization_scorer::ROW,
    scorers::multicluster_queue_scorer::ROW,
    // Pickers
    pickers::max_score_picker::ROW,
    pickers::random_picker::ROW,
    pickers::weighted_random_picker::ROW,
    // Producers
    producers::token_producer::ROW,
    producers::token_producer::OLD_ROW,
    producers::approx_prefix_cache_producer::ROW,
    producers::approx_prefix_cache_producer::MULTICLUSTER_ROW,
    producers::inflight_load_producer::ROW,
    producers::burst_prefix_cache_producer::ROW,
    producers::mm_embeddings_cache_producer::ROW,
    producers::session_id_producer::ROW,
    producers::p2p_source_producer::ROW,
    // Admission
    admission::latency_slo_admitter::ROW,
    admission::probabilistic_admitter::ROW,
    // Hooks
    hooks::disagg_headers_handler::ROW,
    hooks::disagg_headers_handler::OLD_ROW,
    hooks::agent_identity::ROW,
    // Parsers
    parsers::openai_parser::ROW,
    parsers::anthropic_parser::ROW,
    parsers::vllmhttp_parser::ROW,
    parsers::sglanghttp_parser::ROW,
    parsers::vllmgrpc_parser::ROW,
    parsers::vertexai_parser::ROW,
    parsers::passthrough_parser::ROW,
    // Responses
    response::destination_endpoint_served_verifier::ROW,
    response::request_attribute_reporter::ROW,
    // Data layer
    data_layer::metrics_data_source::ROW,
    data_layer::core_metrics_extractor::ROW,
    data_layer::models_data_source::ROW,
    data_layer::models_data_extractor::ROW,
    data_layer::dcgm_data_source::ROW,
    data_layer::dcgm_extractor::ROW,
    data_layer::multicluster_metrics_data_source::ROW,
    data_layer::multicluster_metrics_extractor::ROW,
    data_layer::endpoint_notification_source::ROW,
    data_layer::file_discovery::ROW,
    data_layer::multicluster_file_discovery::ROW,
    data_layer::topology_extractor::ROW,
    // Known, not yet available
    later("precise-prefix-cache-scorer", &[Kind::Scorer, Kind::Producer], Stability::Beta),
    later("precise-prefix-cache-producer", &[Kind::Producer, Kind::Extractor], Stability::Beta),
    later("predicted-latency-producer", &[Kind::Producer], Stability::Beta),
    later("disaggregatedset-rollout-screener", &[Kind::Screener], Stability::Alpha),
    later("k8s-notification-source", &[Kind::DataSource], Stability::Beta),
    later("global-strict-fairness-policy", &[Kind::Fairness], Stability::Beta),
    later("round-robin-fairness-policy", &[Kind::Fairness], Stability::Beta),
    later("program-aware-fairness", &[Kind::Fairness], Stability::Beta),
    later("fcfs-ordering-policy", &[Kind::Ordering], Stability::Beta),
    later("edf-ordering-policy", &[Kind::Ordering], Stability::Beta),
    later("slo-deadline-ordering-policy", &[Kind::Ordering], Stability::Beta),
    later("static-usage-limit-policy", &[Kind::UsageLimit], Stability::Beta),
    later("priority-holdback-policy", &[Kind::UsageLimit], Stability::Alpha),
    later("soft-reflective-ceiling-policy", &[Kind::UsageLimit], Stability::Alpha),
    later("utilization-detector", &[Kind::SaturationDetector, Kind::Filter], Stability::Beta),
    later("concurrency-detector", &[Kind::SaturationDetector, Kind::Filter], Stability::Beta),
    later("sheddable-eviction-filter", &[Kind::Eviction], Stability::Alpha),
    later("priority-then-time-eviction-order-policy", &[Kind::Eviction], Stability::Alpha),
];

const fn later(type_name: &'static str, kinds: &'static [Kind], stability: Stability) -> Row {
    Row::new(type_name, kinds, stability, "Known, not yet available.")
}

/// The row of a type.
#[must_use]
pub fn row(type_name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|r| r.type_name == type_name)
}

/// The table, as configuration checking asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue;

impl Registry for Catalogue {
    fn lookup(&self, type_name: &str) -> Option<TypeInfo> {
        row(type_name).map(|r| TypeInfo {
            kinds: r.kinds,
            params: r.params,
            stability: r.stability,
            available: r.build.is_some(),
            deprecated: r.deprecated,
        })
    }

    fn names(&self) -> Vec<&'static str> {
        TABLE.iter().map(|r| r.type_name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_sound_and_named_once() {
        for (i, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..i].iter().all(|r| r.type_name != row.type_name), "{} twice", row.type_name);
            assert_eq!(pointsman_config::params::faults_of_rows(row.params), Vec::<String>::new(), "{}", row.type_name);
            for need in row.needs {
                if let Some(param) = need.producer_param {
                    assert!(row.params.iter().any(|p| p.name == param), "{} has no parameter {param}", row.type_name);
                }
            }
        }
    }
}
