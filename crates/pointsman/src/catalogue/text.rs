//! The catalogue on a terminal.

use std::fmt::Write as _;

use pointsman_plugins::row::Row;

use super::json::{paths, range};
use crate::terminal::Paint;

/// Every type, a line each.
pub(super) fn list(paint: Paint) -> String {
    let widest = pointsman_plugins::table::TABLE.iter().map(|row| row.type_name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (kind, heading) in super::SECTIONS {
        let mut rows = super::section(*kind).peekable();
        if rows.peek().is_none() {
            continue;
        }
        let _ = writeln!(out, "{}", paint.bold(heading));
        for row in rows {
            let note = match (row.build.is_some(), row.deprecated.is_some(), super::stability(row)) {
                (false, ..) => "not yet available".to_owned(),
                (true, true, _) => "deprecated".to_owned(),
                (true, false, stability) => stability.to_owned(),
            };
            let doc = if row.build.is_some() { row.doc } else { "" };
            let _ = writeln!(out, "  {:widest$}  {note:17}  {doc}", row.type_name);
        }
        out.push('\n');
    }
    out.push_str("pointsman plugins NAME shows parameters, formula and an example of one.\n");
    out
}

/// Everything about one type.
pub(super) fn one(row: &Row, paint: Paint) -> String {
    let mut out = format!("{}  {} {}\n", paint.bold(row.type_name), super::stability(row), super::status(row));
    let _ = writeln!(out, "{}", row.doc);
    if let Some(instead) = row.deprecated {
        let _ = writeln!(out, "Deprecated: {instead}");
    }
    let kinds = row.kinds.iter().map(|k| k.as_str()).collect::<Vec<_>>().join(", ");
    let _ = writeln!(out, "\n{}  {kinds}", paint.bold("kind"));
    if !row.formula.is_empty() {
        let _ = writeln!(out, "{}  {}", paint.bold("formula"), row.formula);
    }
    for need in row.needs {
        let from = need.producer_param.map_or_else(String::new, |p| format!(" (parameter {p})"));
        let when = if need.required { "" } else { ", if there is any" };
        let _ = writeln!(out, "{}  {}{from}{when}", paint.bold("reads"), need.kind.as_str());
    }
    for kind in row.makes {
        let created = if row.default_producer { ", created when needed" } else { "" };
        let _ = writeln!(out, "{}  {}{created}", paint.bold("produces"), kind.as_str());
    }
    if !row.params.is_empty() {
        let _ = writeln!(out, "\n{}", paint.bold("parameters"));
        for (path, p) in paths(row.params) {
            let default = match (p.default, p.required) {
                (_, true) => ", required".to_owned(),
                (Some("{}") | None, _) => String::new(),
                (Some(default), _) => format!(", default {default}"),
            };
            let old = p.deprecated.map_or_else(String::new, |instead| format!(" Deprecated: {instead}."));
            let _ = writeln!(out, "  {path}  {}{default}\n      {}{old}", range(&p.kind), p.doc);
        }
    }
    if row.build.is_some() {
        let _ = write!(out, "\n{}\n{}", paint.bold("example"), super::example(row));
    }
    out
}
