//! `header-label-affinity-scorer`: 1 where a label of the endpoint equals a header of the request, else 0.
//!
//! An absent or empty header equals nothing. Source: plugin specification 6.

use crate::build::{Build, Instance};
use crate::header_names::{Use, header_name};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::{Cycle, Scope, Scorer};

/// Prefers endpoints with the label that a header asks for.
#[derive(Debug)]
pub struct HeaderLabelAffinityScorer {
    /// Lower case.
    header: String,
    label: String,
}

impl Scorer for HeaderLabelAffinityScorer {
    fn score(&self, cycle: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        let Some(wanted) = cycle.request.header(&self.header).filter(|v| !v.is_empty()) else { return };
        for (out, (_, candidate)) in out.iter_mut().zip(scope.iter()) {
            *out = f64::from(candidate.endpoint.meta.labels.get(&self.label) == Some(wanted));
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("headerName", ParamKind::String, "Header of the request, in any case.").required(),
        Param::new("labelKey", ParamKind::String, "Label of the endpoint.").required(),
    ],
    formula: "header not empty and equal to the label: 1; else 0",
    example: "{headerName: x-zone, labelKey: topology.kubernetes.io/zone}",
    build: Some(build),
    ..Row::new(
        "header-label-affinity-scorer",
        &[Kind::Scorer],
        Stability::Alpha,
        "Prefers endpoints with the label that a header asks for.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let params = b.params;
    if params.given("labelKey") && params.str("labelKey").is_empty() {
        b.fault("labelKey", "`labelKey` must not be empty");
    }
    Instance::scorer(HeaderLabelAffinityScorer {
        header: header_name(b, params, "headerName", Use::Read),
        label: params.str("labelKey").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    fn scores(header: &str) -> Vec<f64> {
        let bench = Bench::new([
            endpoint("a").label("zone", "z1"),
            endpoint("b").label("zone", "z2"),
            endpoint("c").label("zone", ""),
            endpoint("d"),
        ]);
        let scorer = HeaderLabelAffinityScorer { header: "x-zone".into(), label: "zone".into() };
        assert_eq!(bench.scores(&scorer), [0.0; 4], "without the header");
        bench.header("x-zone", header).scores(&scorer)
    }

    #[test]
    fn the_endpoint_with_the_label_scores_one() {
        assert_eq!(scores("z1"), [1.0, 0.0, 0.0, 0.0]);
        assert_eq!(scores("q"), [0.0; 4]);
    }

    #[test]
    fn an_empty_header_equals_nothing() {
        assert_eq!(scores(""), [0.0; 4]);
    }
}
