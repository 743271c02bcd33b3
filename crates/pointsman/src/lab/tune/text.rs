//! What a search came to, for a person, and as the configuration that was found.

use std::fmt::Write as _;

use pointsman_lab::report::Row;
use pointsman_lab::tune::{Candidate, Comparison, Role, Verdict};

use crate::terminal::clean;

/// Tables: the winner against others, its own variations, the frontier; and what to make of it.
pub(super) fn table(found: &Comparison<'_>) -> String {
    let default = Candidate::of_default().short();
    let mut out = format!("Best of {} tried: {} (the default: {default})\n", found.tried, found.best.short());
    let kept: Vec<String> = found.constraints.iter().map(ToString::to_string).collect();
    let _ = write!(out, "for {}", found.objective);
    if !kept.is_empty() {
        let _ = write!(out, ", subject to {}", kept.join(" and "));
    }
    let Some(winner) = found.winner() else { return out + "\nIt was not compared.\n" };
    out.push_str("; figures are of what the search had not seen\n");
    let heading = |out: &mut String, first: &str, last: &str| {
        let figures: String = found.metrics().iter().map(|m| format!(" {:>18}", m.flag())).collect();
        let _ = writeln!(out, "\n{}", format!("  {first:36}{figures}   {last}").trim_end());
    };
    let line = |out: &mut String, name: &str, row: &Row, last: &str| {
        let figure = |m: &&pointsman_lab::metrics::Metric| {
            let e = row.metrics.get(m.name);
            let ci = e.ci.filter(|_| e.mean.abs() > 0.0).map(|ci| format!(" ±{:.0} %", ci / e.mean.abs() * 1e2));
            format!(" {:>18}", m.shown(e.mean) + &ci.unwrap_or_default())
        };
        let figures: String = found.metrics().iter().map(figure).collect();
        let _ = writeln!(out, "{}", format!("  {name:36}{figures}   {last}").trim_end());
    };
    heading(&mut out, "policy", "winner against it");
    line(&mut out, &winner.policy, winner, &breaks(found, winner));
    let others = found.rows().filter(|(role, _)| matches!(role, Role::Default | Role::Preset));
    for (_, row) in others {
        line(&mut out, &clean(&row.policy), row, &sentence(found, row));
    }
    let changed = |role: &Role| matches!(role, Role::Weight(..) | Role::Knob(_));
    if found.rows().any(|(role, _)| changed(&role)) {
        heading(&mut out, "the winner, changed in one thing", "winner against it");
        for (_, row) in found.rows().filter(|(role, _)| changed(role)) {
            line(&mut out, &row.policy, row, &sentence(found, row));
        }
    }
    heading(&mut out, "nobody is both earlier and hits more", "");
    for (_, row) in found.frontier() {
        line(&mut out, &clean(&row.policy), row, &breaks(found, row));
    }
    let moral = match found.against_default() {
        Some(Verdict::Noise) => "The difference to the default is noise: keep the default, or give more seeds.",
        Some(Verdict::Worse) => "The default is better: keep it.",
        Some(Verdict::Better) | None => "",
    };
    if found.rows().all(|(_, row)| found.broken(row).next().is_some()) {
        out.push_str("\nNo candidate keeps all that was to be kept: more engines, or other bounds.\n");
    } else if !moral.is_empty() {
        let _ = writeln!(out, "\n{moral}");
    }
    out
}

fn breaks(found: &Comparison<'_>, row: &Row) -> String {
    let broken: Vec<String> = found.broken(row).map(ToString::to_string).collect();
    if broken.is_empty() { String::new() } else { format!("breaks {}", broken.join(" and ")) }
}

/// `+10 % ±3 %: better`.
fn sentence(found: &Comparison<'_>, row: &Row) -> String {
    let (Some(gain), Some(verdict)) = (found.gain(row), found.verdict(row)) else { return "not compared".into() };
    let word = match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Noise => "noise",
    };
    let ci = gain.ci.map(|ci| format!(" ±{:.1} %", ci * 1e2)).unwrap_or_default();
    let broken = breaks(found, row);
    let broken = if broken.is_empty() { broken } else { format!(", it {broken}") };
    format!("{:+.1} %{ci}: {word}{broken}", gain.mean * 1e2)
}

/// The winner as a configuration, with what it is worth.
pub(super) fn document(found: &Comparison<'_>) -> String {
    let set_up = &found.report.set_up;
    let default = found.rows().find(|(role, _)| *role == Role::Default).map(|(_, row)| sentence(found, row));
    let subject: Vec<String> = found.constraints.iter().map(ToString::to_string).collect();
    let subject = if subject.is_empty() { String::new() } else { format!(" subject to {}", subject.join(" and ")) };
    format!(
        "# Made by `pointsman tune` for {}{subject} on {} ({} x {}).\n# Against the default: {}.\n{}",
        found.objective,
        set_up.workload.replace(['\n', '\r'], " "),
        set_up.pods,
        set_up.profile,
        default.unwrap_or_else(|| "not compared".into()),
        found.space.document(&found.best)
    )
}
