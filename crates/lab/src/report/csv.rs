//! A report as CSV: long form, which spreadsheets and plotting tools read alike.

use std::fmt::Write as _;

use super::Report;
use crate::metrics::METRICS;

pub(super) fn document(report: &Report) -> String {
    let axis = report.axis().map_or("", |axis| axis.name());
    let mut out = String::from("policy,axis,value,metric,unit,mean,ci95,seeds\n");
    for row in &report.policies {
        let value = row.at.values().next().map(ToString::to_string).unwrap_or_default();
        for metric in METRICS {
            let estimate = row.metrics.get(metric.name);
            let ci = estimate.ci.map(|ci| ci.to_string()).unwrap_or_default();
            let _ = writeln!(
                out,
                "{},{axis},{value},{},{},{},{ci},{}",
                quoted(&row.policy),
                metric.name,
                metric.unit,
                estimate.mean,
                row.seeds
            );
        }
    }
    out
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
