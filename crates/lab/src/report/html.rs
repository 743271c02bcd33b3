//! A report as one page: no scripts, no fonts, nothing fetched.

use std::fmt::Write as _;

use super::plot::{Series, bars, escape, lines};
use super::scatter::scatter;
use super::{Report, Row};
use crate::metrics::{Lines, METRICS, Metric, shown};
use crate::race::Axis;

/// Figures that are drawn.
const DRAWN: &[(&str, &str)] = &[
    ("ttft_p95", "Time to first token, 95th percentile"),
    ("hit_ratio", "Cache hit: share of prompt tokens not computed again"),
    ("goodput", "Requests per second that kept the service level"),
    ("output_throughput", "Generated tokens per second"),
    ("re_prefilled_tokens", "Prompt tokens computed although some engine held them"),
];

/// Lines over the run: title, unit, and what is drawn.
type Over = (&'static str, &'static str, fn(&Lines) -> &[Option<f64>]);

const COURSE: &[Over] = &[
    ("Time to first token over the run, mean by arrival", "s", |lines| &lines.ttft_mean),
    ("Cache hit over the run", "ratio", |lines| &lines.hit_ratio),
    ("Waiting requests per engine over the run", "x", |lines| &lines.waiting),
    ("KV cache in use over the run", "ratio", |lines| &lines.kv_usage),
];

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}\
h1{font-size:1.4rem}h2{font-size:1.05rem;margin-top:2rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums;width:100%}\
td,th{padding:.25rem .5rem;text-align:right;border-bottom:1px solid #e5e5e5}td:first-child,th:first-child{text-align:left}\
svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:currentColor}.ci{stroke:#1a1a1a;fill:none;stroke-width:1.2}\
.grid{stroke:#e5e5e5;fill:none}.line{fill:none;stroke-width:2}p{color:#555}.scroll{overflow-x:auto}\
@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}td,th{border-color:#333}.grid{stroke:#333}.ci{stroke:#eee}p{color:#aaa}}";

pub(super) fn document(report: &Report, title: &str) -> String {
    let s = &report.set_up;
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}: {name}</title><style>{STYLE}</style><h1>{title}: {name}</h1>",
        title = escape(title),
        name = escape(&s.workload)
    );
    let rate = s
        .rate
        .filter(|_| report.axis() != Some(Axis::Rate))
        .map(|r| format!(" at {r:.2} per second"))
        .unwrap_or_default();
    let _ = write!(
        out,
        "<p>{} requests{rate}, {} engines of {} with {} tokens of KV cache each, metrics read every {} ms. {} seeds; whiskers and ± are \
         95 % confidence intervals. Good: first token within {} s, then {} ms per token. An endless cache for all engines would hit {:.1} %.</p>",
        s.requests,
        s.pods,
        escape(&s.profile),
        s.cache_tokens,
        s.scrape_ms,
        s.seeds,
        s.slo_ttft,
        s.slo_tpot * 1e3,
        s.ideal_hit_ratio * 1e2
    );
    for text in &s.notes {
        let _ = write!(out, "<p>{}.</p>", escape(text));
    }
    if report.missing_runs > 0 {
        let _ = write!(out, "<p><strong>Broken off: {} runs are missing.</strong></p>", report.missing_runs);
    }
    for (name, title) in DRAWN {
        let Some(metric) = Metric::named(name) else { continue };
        let show = |value: f64| metric.shown(value);
        let _ = write!(out, "<h2>{title}</h2>");
        match report.axis() {
            Some(axis) => out += &lines(&series(report, name), axis.name(), &show),
            None => {
                let rows: Vec<_> = report.policies.iter().map(|r| (r.policy.clone(), r.metrics.get(name))).collect();
                out += &bars(&rows, &show);
            }
        }
    }
    if report.axis().is_none() {
        for (title, unit, of) in COURSE {
            let series: Vec<Series> = report.policies.iter().map(|row| over(row, of(&row.course))).collect();
            let _ = write!(out, "<h2>{title}</h2>{}", lines(&series, "seconds", &|value| shown(value, unit)));
        }
        out += "<h2>Time against hits</h2><p>Cache hits to the right, the 95th percentile of the time to the first token upwards. The line joins those that nobody beats in both.</p>";
        out += &scatter(&report.policies, "hit_ratio", "ttft_p95");
    }
    for (heading, rows) in report.points() {
        let _ = write!(out, "<h2>All figures{}</h2>", heading.map(|h| format!(", {}", escape(&h))).unwrap_or_default());
        table(&mut out, rows);
    }
    out + "</html>\n"
}

fn over(row: &Row, values: &[Option<f64>]) -> Series {
    let window = row.course.window;
    let points = values.iter().enumerate().filter_map(|(at, v)| Some(((at as f64 + 0.5) * window, (*v)?)));
    (row.policy.clone(), points.collect())
}

fn series(report: &Report, metric: &str) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for row in &report.policies {
        let point = (row.at.values().next().copied().unwrap_or(0.0), row.metrics.get(metric).mean);
        match series.iter_mut().find(|(name, _)| *name == row.policy) {
            Some((_, points)) => points.push(point),
            None => series.push((row.policy.clone(), vec![point])),
        }
    }
    series
}

fn table(out: &mut String, rows: &[Row]) {
    let heads: String = rows.iter().map(|r| format!("<th>{}</th>", escape(&r.policy))).collect();
    let _ = write!(out, "<div class=\"scroll\"><table><tr><th>figure</th>{heads}</tr>");
    for metric in METRICS {
        let cells: String = rows
            .iter()
            .map(|row| {
                let e = row.metrics.get(metric.name);
                let ci = e.ci.map(|ci| format!(" ± {}", metric.shown(ci))).unwrap_or_default();
                format!("<td>{}{ci}</td>", metric.shown(e.mean))
            })
            .collect();
        let _ = write!(out, "<tr><td title=\"{}\">{}</td>{cells}</tr>", metric.doc, metric.name);
    }
    *out += "</table></div>";
}
