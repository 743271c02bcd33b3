//! Policies as points: one figure against another, and the line of those that nobody beats in both.

use std::fmt::Write as _;

use super::Row;
use super::plot::{COLOURS, SHOWN, WIDTH, escape, label};
use crate::metrics::Metric;
use crate::tune::frontier;

const HEIGHT: f64 = 320.0;
/// Edges of the field: left, right, top, bottom.
const FIELD: [f64; 4] = [80.0, WIDTH - 20.0, 14.0, HEIGHT - 30.0];
/// Pixels that a label is high, and a character of it wide.
const LABEL: [f64; 2] = [14.0, 6.6];

/// `more` (of which more is better) to the right, `less` upwards.
pub(super) fn scatter(rows: &[Row], more: &str, less: &str) -> String {
    let (Some(across), Some(up)) = (Metric::named(more), Metric::named(less)) else { return String::new() };
    let rows: Vec<&Row> = rows.iter().filter(|row| row.metrics.get("completed").mean > 0.0).collect();
    let points: Vec<(f64, f64)> =
        rows.iter().map(|row| (row.metrics.get(less).mean, row.metrics.get(more).mean)).collect();
    let [left, right, top, bottom] = FIELD;
    // What there is fills the field, with a margin; nothing is below 0.
    let range = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let (low, high) = points.iter().map(of).fold((f64::MAX, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
        let margin = ((high - low) * 0.1).max(high * 0.02).max(1e-9);
        ((low - margin).max(0.0), high + margin)
    };
    let ((from_x, to_x), (from_y, to_y)) = (range(&|p| p.1), range(&|p| p.0));
    let x = |value: f64| left + (value - from_x) / (to_x - from_x) * (right - left);
    let y = |value: f64| bottom - (value - from_y) / (to_y - from_y) * (bottom - top);
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">");
    for part in 0..=4 {
        let share = f64::from(part) / 4.0;
        let (high, wide) = (from_y + (to_y - from_y) * share, from_x + (to_x - from_x) * share);
        let _ = write!(
            out,
            "<path d=\"M{left} {at:.1}H{right}\" class=\"grid\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            left - 6.0,
            y(high) + 4.0,
            up.shown(high),
            x(wide).min(right - 16.0),
            bottom + 18.0,
            across.shown(wide),
            at = y(high)
        );
    }
    let best = frontier(&points);
    let path: Vec<String> = best.iter().map(|at| format!("{:.1} {:.1}", x(points[*at].1), y(points[*at].0))).collect();
    let _ = write!(out, "<path d=\"M{}\" class=\"line\" stroke=\"#8a8a8a\"/>", path.join("L"));
    // Points are in the way of labels, too.
    let mut labels: Vec<[f64; 3]> = points.iter().map(|p| [x(p.1) - 5.0, x(p.1) + 5.0, y(p.0) + 4.0]).collect();
    for (at, row) in rows.iter().enumerate() {
        let (at_x, at_y) = (x(points[at].1), y(points[at].0));
        let colour = COLOURS[at % COLOURS.len()];
        let name = escape(&row.policy);
        let _ = write!(
            out,
            "<circle cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"4\" fill=\"{colour}\"><title>{name}: {}, {}</title></circle>",
            up.shown(points[at].0),
            across.shown(points[at].1)
        );
        let width = row.policy.chars().count().min(SHOWN + 2) as f64 * LABEL[1];
        let begin = if at_x + 8.0 + width > right { at_x - 8.0 - width } else { at_x + 8.0 };
        // The nearest free place above or below; none is no label.
        let free = |y: &f64| {
            let within = *y > top && *y < bottom;
            within && labels.iter().all(|l| l[0] > begin + width || l[1] < begin || (l[2] - y).abs() >= LABEL[0])
        };
        let steps = [0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0];
        if let Some(base) = steps.iter().map(|step| at_y + 4.0 + step * LABEL[0]).find(|y| free(y)) {
            labels.push([begin, begin + width, base]);
            let _ = write!(out, "<text x=\"{begin:.1}\" y=\"{base:.1}\">{}</text>", label(&row.policy));
        }
    }
    out + "</svg>"
}
