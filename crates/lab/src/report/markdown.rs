//! A report as Markdown tables.

use std::fmt::Write as _;

use super::Report;
use crate::metrics::Estimate;

/// Figures shown, with heading, factor and decimals.
const SHOWN: &[(&str, &str, f64, usize)] = &[
    ("TTFT mean, s", "ttft_mean", 1.0, 3),
    ("TTFT p95, s", "ttft_p95", 1.0, 3),
    ("TPOT mean, ms", "tpot_mean", 1e3, 1),
    ("E2E p95, s", "e2e_p95", 1.0, 2),
    ("out tok/s", "output_throughput", 1.0, 0),
    ("good, %", "good_ratio", 1e2, 1),
    ("hit, %", "hit_ratio", 1e2, 1),
    ("completed", "completed", 1.0, 0),
    ("re-prefilled, k tok", "re_prefilled_tokens", 1e-3, 0),
    ("imbalance", "imbalance_tokens", 1.0, 2),
];

pub(super) fn document(report: &Report) -> String {
    let s = &report.set_up;
    let mut out = String::new();
    let rate = s.rate.map(|r| format!(", {r:.2} requests/s")).unwrap_or_default();
    let _ = writeln!(
        out,
        "{} requests of `{}`{rate}; {} x {}, {} tokens of KV cache each, metrics read every {} ms; {} seeds, mean ± 95 % CI. \
         Ideal hit ratio {:.1} %.",
        s.requests,
        s.workload,
        s.pods,
        s.profile,
        s.cache_tokens,
        s.scrape_ms,
        s.seeds,
        s.ideal_hit_ratio * 1e2
    );
    for text in &s.notes {
        let _ = writeln!(out, "\n{text}.");
    }
    for (heading, rows) in report.points() {
        out.push('\n');
        if let Some(heading) = heading {
            let _ = writeln!(out, "### {heading}\n");
        }
        let headings: Vec<&str> = SHOWN.iter().map(|(heading, ..)| *heading).collect();
        let _ = writeln!(out, "| policy | {} |", headings.join(" | "));
        let _ = writeln!(out, "| --- |{}", " ---: |".repeat(SHOWN.len()));
        for row in rows {
            let cells: Vec<String> =
                SHOWN.iter().map(|(_, name, factor, digits)| cell(row.metrics.get(name), *factor, *digits)).collect();
            let _ = writeln!(out, "| {} | {} |", row.policy.replace('|', "\\|"), cells.join(" | "));
        }
    }
    out
}

fn cell(estimate: Estimate, factor: f64, digits: usize) -> String {
    let mean = estimate.mean * factor;
    match estimate.ci {
        Some(ci) => format!("{mean:.digits$} ± {:.digits$}", ci * factor),
        None => format!("{mean:.digits$}"),
    }
}
