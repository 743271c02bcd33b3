//! `multicluster-metrics-extractor`: how loaded a peer cluster's pool is, by what its endpoint picker exports.
//!
//! Two attributes that belong to nobody in particular (producer ""): `llm-d.ai/multicluster-kv-cache-utilization`, the mean share of KV-cache blocks in use,
//! and `llm-d.ai/multicluster-queue-size`, the mean number of waiting requests. A page with several pools counts by its first. What is missing ages: a peer
//! that says nothing must not look idle. Source: plugin specification 12, request-lifecycle 8.3.

use super::extractor::{Extracted, Extractor, Missing};
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_fleet::{EndpointMeta, attribute_key};
use pointsman_wire::exposition::{Spec, Wanted, scan};
use std::sync::Arc;

/// Name of the attribute: mean share of KV-cache blocks in use.
pub const KV_CACHE_UTILIZATION: &str = "llm-d.ai/multicluster-kv-cache-utilization";
/// Name of the attribute: mean number of waiting requests.
pub const QUEUE_SIZE: &str = "llm-d.ai/multicluster-queue-size";

/// Reads pages of other endpoint pickers.
#[derive(Debug)]
struct MulticlusterMetricsExtractor {
    wanted: Wanted,
    /// In the order of `wanted`.
    keys: [Arc<str>; 2],
}

impl MulticlusterMetricsExtractor {
    fn new(kv: Spec, queue: Spec) -> Self {
        let keys = [KV_CACHE_UTILIZATION, QUEUE_SIZE].map(|name| attribute_key(name, ""));
        Self { wanted: Wanted::new([kv, queue]), keys }
    }
}

impl Extractor for MulticlusterMetricsExtractor {
    fn type_name(&self) -> &'static str {
        "multicluster-metrics-extractor"
    }

    fn is_of_load(&self) -> bool {
        true
    }

    fn attributes(&self) -> Vec<Arc<str>> {
        self.keys.to_vec()
    }

    fn extract(&self, _: &EndpointMeta, page: &[u8]) -> Extracted {
        let mut first: [Option<f64>; 2] = [None; 2];
        scan(page, &self.wanted, |sample| {
            if sample.value.is_finite() {
                first[sample.index].get_or_insert(sample.value.max(0.0));
            }
        });
        let missing = Missing { kv_usage: first[0].is_none(), waiting: first[1].is_none(), running: false };
        let mut extracted = Extracted {
            errors: u32::from(missing.kv_usage) + u32::from(missing.waiting),
            missing,
            ..Extracted::default()
        };
        let read = self.keys.iter().zip(first).filter_map(|(key, value)| Some((Arc::clone(key), value?)));
        extracted.scraped.attributes.extend(read);
        extracted
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("kvCacheUtilizationMetric", ParamKind::String, "Metric of the mean KV cache usage, 0 to 1.")
            .default("\"llm_d_epp_average_kv_cache_utilization\""),
        Param::new("queueSizeMetric", ParamKind::String, "Metric of the mean number of waiting requests.")
            .default("\"llm_d_epp_average_queue_size\""),
    ],
    build: Some(build),
    ..Row::new(
        "multicluster-metrics-extractor",
        &[Kind::Extractor],
        Stability::Alpha,
        "Reads how loaded a peer cluster's pool is, as attributes.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let mut spec = |param: &str| match Spec::parse(b.params.str(param)) {
        Ok(Some(spec)) => Some(spec),
        Ok(None) => {
            b.fault(param, &format!("`{param}` must not be empty"));
            None
        }
        Err(error) => {
            b.fault(param, &error.to_string());
            None
        }
    };
    let specs = spec("kvCacheUtilizationMetric").zip(spec("queueSizeMetric"));
    let extractor =
        specs.map(|(kv, queue)| Arc::new(MulticlusterMetricsExtractor::new(kv, queue)) as Arc<dyn Extractor>);
    Instance { extractor, ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_core::EndpointName;

    fn read(page: &str) -> Extracted {
        let spec = |name: &str| Spec::parse(name).unwrap().unwrap();
        let extractor = MulticlusterMetricsExtractor::new(
            spec("llm_d_epp_average_kv_cache_utilization"),
            spec("llm_d_epp_average_queue_size{name=pool-a}"),
        );
        let meta = EndpointMeta::new(EndpointName::new("default", "peer"), "peer.example", 443);
        extractor.extract(&meta, page.as_bytes())
    }

    #[test]
    fn both_numbers_become_attributes_of_nobody_in_particular() {
        let page = "llm_d_epp_average_kv_cache_utilization{name=\"pool-b\"} 0.25\n\
                    llm_d_epp_average_kv_cache_utilization{name=\"pool-a\"} 0.75\n\
                    llm_d_epp_average_queue_size{name=\"pool-b\"} 9\nllm_d_epp_average_queue_size{name=\"pool-a\"} 4.33\n";
        let read = read(page);
        let named = |name: &str, value: f64| (attribute_key(name, ""), value);
        assert_eq!(read.scraped.attributes, [named(KV_CACHE_UTILIZATION, 0.25), named(QUEUE_SIZE, 4.33)]);
        assert_eq!((read.errors, read.missing.any(), read.engine), (0, false, None));
    }

    #[test]
    fn what_is_missing_is_unknown_and_said() {
        let read =
            read("llm_d_epp_average_kv_cache_utilization NaN\nllm_d_epp_average_queue_size{name=\"pool-a\"} 0\n");
        assert_eq!(read.scraped.attributes, [(attribute_key(QUEUE_SIZE, ""), 0.0)]);
        assert_eq!((read.errors, read.missing.to_string().as_str()), (1, "no KV cache usage"));
    }
}
