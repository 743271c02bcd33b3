//! `dcgm-extractor`: how busy an endpoint's GPUs are.
//!
//! The attribute `GPUUtilization` (producer: the instance's name) is the highest `DCGM_FI_DEV_GPU_UTIL` of the page divided by 100, held within 0 to 1. The
//! exporter of a node shows all its GPUs, each with the pod that has it: only those of the endpoint's own pod count, and those of a page that
//! names no pods. A page without any leaves the attribute to age. Source: plugin specification 12.3.

use super::extractor::{Extracted, Extractor};
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_fleet::{EndpointMeta, attribute_key};
use pointsman_wire::exposition::{Spec, Wanted, scan};
use std::sync::Arc;

/// Name of the attribute.
pub const ATTRIBUTE: &str = "GPUUtilization";
const METRIC: &str = "DCGM_FI_DEV_GPU_UTIL";

/// Reads pages of DCGM exporters.
#[derive(Debug)]
struct DcgmExtractor {
    wanted: Wanted,
    key: Arc<str>,
}

impl Extractor for DcgmExtractor {
    fn type_name(&self) -> &'static str {
        "dcgm-extractor"
    }

    fn attributes(&self) -> Vec<Arc<str>> {
        vec![Arc::clone(&self.key)]
    }

    fn extract(&self, endpoint: &EndpointMeta, page: &[u8]) -> Extracted {
        let mut highest: Option<f64> = None;
        scan(page, &self.wanted, |sample| {
            let others = sample.labels.get("pod").is_some_and(|pod| *pod != *endpoint.name.name);
            if !others && sample.value.is_finite() {
                highest = Some(highest.map_or(sample.value, |h| h.max(sample.value)));
            }
        });
        let mut extracted = Extracted::default();
        match highest {
            Some(percent) => {
                extracted.scraped.attributes.push((Arc::clone(&self.key), (percent / 100.0).clamp(0.0, 1.0)))
            }
            None => extracted.errors = 1,
        }
        extracted
    }
}

/// Its row.
pub const ROW: Row = Row {
    formula: "highest DCGM_FI_DEV_GPU_UTIL of the pod's GPUs / 100",
    build: Some(build),
    ..Row::new(
        "dcgm-extractor",
        &[Kind::Extractor],
        Stability::Alpha,
        "Reads how busy an endpoint's GPUs are, as the attribute `GPUUtilization`.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let wanted = Wanted::new(Spec::parse(METRIC).ok().flatten());
    let extractor = DcgmExtractor { wanted, key: attribute_key(ATTRIBUTE, &b.name) };
    Instance { extractor: Some(Arc::new(extractor)), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_core::EndpointName;

    fn utilization(page: &str) -> (Option<f64>, u32) {
        let wanted = Wanted::new(Spec::parse(METRIC).unwrap());
        let extractor = DcgmExtractor { wanted, key: attribute_key(ATTRIBUTE, "dcgm-extractor") };
        let meta = EndpointMeta::new(EndpointName::new("default", "pod-a"), "10.0.0.1", 8000);
        let read = extractor.extract(&meta, page.as_bytes());
        let value = read.scraped.attributes.first().map(|(key, value)| {
            assert_eq!(&**key, "GPUUtilization/dcgm-extractor");
            *value
        });
        (value, read.errors)
    }

    #[test]
    fn the_busiest_gpu_of_the_pod_counts_and_those_of_other_pods_do_not() {
        let own =
            "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",pod=\"pod-a\"} 40\nDCGM_FI_DEV_GPU_UTIL{gpu=\"1\",pod=\"pod-a\"} 85\n";
        let other = "DCGM_FI_DEV_GPU_UTIL{gpu=\"2\",pod=\"pod-b\"} 99\nDCGM_FI_DEV_GPU_UTIL{gpu=\"3\",pod=\"\"} 100\n";
        assert_eq!(utilization(&format!("{own}{other}")), (Some(0.85), 0));
        assert_eq!(utilization(other), (None, 1));
    }

    #[test]
    fn a_page_that_names_no_pods_is_all_the_endpoints_own() {
        assert_eq!(utilization("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 12\nDCGM_FI_DEV_GPU_UTIL 37\n"), (Some(0.37), 0));
    }

    #[test]
    fn numbers_beyond_a_hundred_are_held_and_what_is_no_number_is_unknown() {
        assert_eq!(utilization("DCGM_FI_DEV_GPU_UTIL 250\n"), (Some(1.0), 0));
        assert_eq!(utilization("DCGM_FI_DEV_GPU_UTIL NaN\n"), (None, 1));
        assert_eq!(utilization("DCGM_FI_DEV_MEM_COPY_UTIL 5\n"), (None, 1));
    }
}
