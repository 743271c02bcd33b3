//! A race as a person reads it: one row per policy, numbers aligned.

use std::fmt::Write as _;

use pointsman_lab::metrics::{Estimate, unserved};
use pointsman_lab::race::Axis;
use pointsman_lab::report::{Report, Row};

use crate::terminal::{Paint, clean, count, millis, thousands};

/// One table per point of the sweep, under what was raced, no wider than `columns` where that can be done.
pub(super) fn race(report: &Report, paint: Paint, columns: usize) -> String {
    let s = &report.set_up;
    let mut out = String::new();
    let swept = |axis| report.axis() == Some(axis);
    let rate = s.rate.filter(|_| !swept(Axis::Rate)).map(|r| format!(" at {r:.1}/s")).unwrap_or_default();
    let _ = writeln!(
        out,
        "{} of {}{rate} on {} of {}, {} tokens of KV cache each; {}",
        count(s.requests as u64, "request"),
        clean(&s.workload),
        if swept(Axis::Pods) { "engines".to_owned() } else { count(s.pods as u64, "engine") },
        s.profile,
        if swept(Axis::Cache) { "some".to_owned() } else { thousands(s.cache_tokens) },
        count(s.seeds, "seed"),
    );
    let _ = writeln!(out, "an endless cache for all would hit {:.1} %", s.ideal_hit_ratio * 1e2);
    for text in &s.notes {
        let _ = writeln!(out, "{text}");
    }
    for (heading, rows) in report.points() {
        out.push('\n');
        if let Some(heading) = heading {
            let _ = writeln!(out, "{}", paint.bold(&heading));
        }
        table(&mut out, rows, paint, columns);
    }
    let text = format!(
        "good: first token within {} s, then {} ms a token; against best: TTFT p95, of those that serve all",
        s.slo_ttft,
        s.slo_tpot * 1e3
    );
    let _ = writeln!(out, "\n{}", paint.dim(&text));
    out
}

/// Columns that are left out where there is no room, the first first: throughput, what was computed again, time to the last token, requests.
const DISPENSABLE: [usize; 4] = [6, 5, 2, 4];

fn served(row: &Row) -> f64 {
    row.metrics.get("success_rate").mean
}

const HEADINGS: [&str; 9] = [
    "TTFT mean",
    "TTFT p95",
    "E2E mean",
    "cache hit",
    "completed",
    "re-prefilled",
    "out tok/s",
    "good",
    "against best",
];

fn table(out: &mut String, rows: &[Row], paint: Paint, columns: usize) {
    let p95 = |row: &Row| row.metrics.get("ttft_p95").mean;
    // Only whoever serves as many as any other can be best: times are of requests that were served.
    let most = rows.iter().filter(|row| !row.bound).map(served).fold(0.0, f64::max);
    let full = rows.iter().filter(|row| !row.bound && served(row) > 0.0 && unserved(served(row), most) == 0.0);
    let best = full.min_by(|a, b| p95(a).total_cmp(&p95(b)));
    let cells: Vec<[String; 9]> = rows.iter().map(|row| cells(row, best)).collect();
    let width = rows.iter().map(|r| clean(&r.policy).chars().count()).max().unwrap_or(0).max(6);
    let mut shown: Vec<usize> = (0..HEADINGS.len()).collect();
    let widths: Vec<usize> = (0..9)
        .map(|at| cells.iter().map(|c| c[at].chars().count()).max().unwrap_or(0).max(HEADINGS[at].len()))
        .collect();
    let needed = |shown: &[usize]| 2 + width + shown.iter().map(|at| widths[*at] + 3).sum::<usize>();
    for dispensable in DISPENSABLE {
        if needed(&shown) > columns {
            shown.retain(|at| *at != dispensable);
        }
    }
    let heads: String = shown.iter().map(|at| format!("   {:>w$}", HEADINGS[*at], w = widths[*at])).collect();
    let _ = writeln!(out, "  {}", paint.dim(&format!("{:width$}{heads}", "policy")));
    let behind = rows.iter().filter_map(|row| Some(format!("{} {}", clean(&row.policy), gap(row.behind_oracle?))));
    let behind: Vec<String> = behind.collect();
    for (row, cells) in rows.iter().zip(&cells) {
        let line: String = shown.iter().map(|at| format!("   {:>w$}", cells[*at], w = widths[*at])).collect();
        let is_best = best.is_some_and(|b| std::ptr::eq(b, row));
        let text = format!("{:width$}{line}", clean(&row.policy));
        let _ = writeln!(
            out,
            "{} {}",
            if is_best { ">" } else { " " },
            if is_best { paint.bold(&text) } else { text.into() }
        );
    }
    if !behind.is_empty() {
        let _ = writeln!(out, "  TTFT mean behind the oracle: {}", behind.join(", "));
    }
}

fn cells(row: &Row, best: Option<&Row>) -> [String; 9] {
    let get = |name| row.metrics.get(name);
    let some = get("completed").mean > 0.0;
    let seconds = |name: &'static str| if some { seconds(get(name)) } else { "-".into() };
    let percent = |name: &'static str| format!("{:.1} %", get(name).mean * 1e2);
    let tokens = get("re_prefilled_tokens").mean;
    [
        seconds("ttft_mean"),
        seconds("ttft_p95"),
        seconds("e2e_mean"),
        percent("hit_ratio"),
        thousands(get("completed").mean.round() as u64),
        if tokens >= 1e6 { format!("{:.1} M tok", tokens / 1e6) } else { format!("{:.1} k tok", tokens / 1e3) },
        thousands(get("output_throughput").mean.round() as u64),
        percent("good_ratio"),
        best.map_or_else(String::new, |best| against(row, best)),
    ]
}

/// `410 ms ±2 %`.
fn seconds(estimate: Estimate) -> String {
    let mean = millis(estimate.mean * 1e3);
    match estimate.ci {
        Some(ci) if estimate.mean > 0.0 => format!("{mean} ±{:.0} %", ci / estimate.mean * 1e2),
        _ => mean,
    }
}

/// `+807 ms ±12 ms`.
fn gap(estimate: Estimate) -> String {
    let sign = if estimate.mean < 0.0 { '-' } else { '+' };
    let ci = estimate.ci.map(|ci| format!(" ±{}", millis(ci * 1e3))).unwrap_or_default();
    format!("{sign}{}{ci}", millis(estimate.mean.abs() * 1e3))
}

/// How much later the 95th percentile of first tokens is, if that is more than chance.
fn against(row: &Row, best: &Row) -> String {
    if std::ptr::eq(row, best) {
        return "best".into();
    }
    if row.bound {
        return "bound".into();
    }
    let (mine, its) = (row.metrics.get("ttft_p95").mean, best.metrics.get("ttft_p95").mean);
    if unserved(served(row), served(best)) > 0.0 {
        return format!("serves {:.1} %", served(row) * 1e2);
    }
    let difference = Report::difference(row, best, "ttft_p95");
    if difference.ci.is_some() && !difference.is_real() {
        return if row.seeds.min(best.seeds) < 3 { "too few runs" } else { "no difference" }.into();
    }
    if its > 0.0 && mine / its >= 1.095 {
        format!("{:.1}x slower", mine / its)
    } else {
        format!("{:+.0} %", (mine / its - 1.0) * 1e2)
    }
}
