//! Plots as SVG: bars of one figure with intervals, and lines over a sweep.

use std::fmt::Write as _;

use crate::metrics::Estimate;

pub(super) const WIDTH: f64 = 720.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 110.0;

/// Colours that the colour-blind tell apart (Okabe and Ito).
pub(super) const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a", "#882255"];

/// A bar per policy, its interval as a whisker, its figure beside it.
pub(super) fn bars(rows: &[(String, Estimate)], show: &dyn Fn(f64) -> String) -> String {
    let high = rows.iter().map(|(_, e)| e.mean + e.ci.unwrap_or(0.0)).fold(0.0, f64::max);
    let scale = if high > 0.0 { (WIDTH - LEFT - RIGHT) / high } else { 0.0 };
    let height = 26.0 * rows.len() as f64 + 8.0;
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">");
    for (at, (name, e)) in rows.iter().enumerate() {
        let y = 6.0 + 26.0 * at as f64;
        let (width, ci) = ((e.mean * scale).max(0.5), e.ci.unwrap_or(0.0) * scale);
        let colour = COLOURS[at % COLOURS.len()];
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"18\" fill=\"{colour}\"/>",
            LEFT - 8.0,
            y + 13.0,
            label(name)
        );
        if ci > 0.0 {
            let (from, to) = (LEFT + (width - ci).max(0.0), LEFT + width + ci);
            let _ = write!(
                out,
                "<path d=\"M{from:.1} {m}H{to:.1}M{from:.1} {a}V{b}M{to:.1} {a}V{b}\" class=\"ci\"/>",
                m = y + 9.0,
                a = y + 5.0,
                b = y + 13.0
            );
        }
        let _ = write!(out, "<text x=\"{:.1}\" y=\"{}\">{}</text>", LEFT + width + ci + 6.0, y + 13.0, show(e.mean));
    }
    out + "</svg>"
}

/// A line: whose, and its points.
pub(super) type Series = (String, Vec<(f64, f64)>);

/// Values that are marked each; more are a line alone.
const MARKED: usize = 16;

/// A line per policy over the values of the sweep, or over time.
pub(super) fn lines(series: &[Series], axis: &str, show: &dyn Fn(f64) -> String) -> String {
    let (height, top, bottom) = (300.0, 14.0, 34.0);
    let all = || series.iter().flat_map(|(_, points)| points.iter());
    let (low_x, high_x) = all().fold((f64::MAX, f64::MIN), |(l, h), p| (l.min(p.0), h.max(p.0)));
    let high = all().map(|p| p.1).fold(0.0, f64::max).max(1e-12);
    let x = |v: f64| LEFT - 100.0 + (v - low_x) / (high_x - low_x).max(1e-12) * (WIDTH - LEFT - 80.0);
    let y = |v: f64| height - bottom - v / high * (height - top - bottom);
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">");
    for part in 0..=4 {
        let value = high * f64::from(part) / 4.0;
        let at = y(value);
        let _ = write!(
            out,
            "<path d=\"M{:.1} {at:.1}H{:.1}\" class=\"grid\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            x(low_x),
            x(high_x),
            x(low_x) - 6.0,
            at + 4.0,
            show(value)
        );
    }
    let mut ticks: Vec<f64> = all().map(|p| p.0).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    if ticks.len() > MARKED {
        ticks = round_steps(low_x, high_x);
    }
    for tick in ticks {
        let _ = write!(out, "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>", x(tick), height - 18.0);
    }
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        x((low_x + high_x) / 2.0),
        height - 3.0,
        escape(axis)
    );
    let mut labels: Vec<(f64, usize)> = Vec::new();
    for (at, (_, points)) in series.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        if points.is_empty() {
            continue;
        }
        let path: Vec<String> = points.iter().map(|p| format!("{:.1} {:.1}", x(p.0), y(p.1))).collect();
        let _ = write!(out, "<path d=\"M{}\" class=\"line\" stroke=\"{colour}\"/>", path.join("L"));
        for p in points.iter().filter(|_| points.len() <= MARKED) {
            let _ = write!(out, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>", x(p.0), y(p.1));
        }
        if let Some(last) = points.last() {
            labels.push((y(last.1), at));
        }
    }
    // Labels beside the lines' ends, moved apart where they would meet.
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut before = f64::MIN;
    for (at, which) in labels {
        let at = at.max(before + 14.0);
        before = at;
        let colour = COLOURS[which % COLOURS.len()];
        let _ = write!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{at:.1}\" r=\"4\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x(high_x) + 14.0,
            x(high_x) + 22.0,
            at + 4.0,
            label(&series[which].0)
        );
    }
    out + "</svg>"
}

/// A name beside a plot: its beginning, and as a whole under the pointer.
pub(super) fn label(name: &str) -> String {
    let short: String = name.chars().take(SHOWN).collect();
    if short.len() == name.len() {
        return escape(name);
    }
    format!("{}..<title>{}</title>", escape(short.trim_end_matches([',', ' '])), escape(name))
}

/// Characters of a name that fit beside a plot.
pub(super) const SHOWN: usize = 24;

/// Round values from `low` to `high`, about six.
fn round_steps(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 6.0;
    let power = 10.0_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|n| (n as f64 * step * 1e6).round() / 1e6).collect()
}

/// Text of a page.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_over_time_has_a_few_round_marks() {
        assert_eq!(round_steps(0.25, 61.0), [20.0, 40.0, 60.0]);
        assert_eq!(round_steps(0.0, 3.0), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
    }
}
