//! `docs/plugins.md`.

use std::fmt::Write as _;

use pointsman_plugins::row::Row;

use super::json::{paths, range};

/// The whole page.
pub(super) fn page() -> String {
    let mut out = String::from(
        "# Plugins\n\n\
         Every plugin type of an `EndpointPickerConfig`, by what it does on the way of a request. Written by `pointsman plugins --format markdown`; a test\n\
         fails when it is stale. `pointsman plugins NAME` shows one of them on a terminal.\n\n\
         Alpha types need `--allow-experimental-plugins`. A type that is *not yet available* is known by name and refused as such. A type *created when\n\
         needed* need not be declared: it comes into being with its defaults when something reads what it produces.\n",
    );
    for (kind, heading) in super::SECTIONS {
        let rows: Vec<&Row> = super::section(*kind).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n## {heading}\n\n| type | status | |\n| --- | --- | --- |");
        for row in &rows {
            let name = if row.build.is_some() {
                format!("[`{0}`](#{0})", row.type_name)
            } else {
                format!("`{}`", row.type_name)
            };
            let _ = writeln!(out, "| {name} | {}, {} | {} |", super::status(row), super::stability(row), cell(row.doc));
        }
        for row in rows.iter().filter(|row| row.build.is_some()) {
            out.push('\n');
            out.push_str(&one(row));
        }
    }
    out
}

/// One type.
pub(super) fn one(row: &Row) -> String {
    let mut out = format!("### {}\n\n{}\n", row.type_name, row.doc);
    if let Some(instead) = row.deprecated {
        let _ = writeln!(out, "\nDeprecated: {instead}.");
    }
    if !row.formula.is_empty() {
        let _ = writeln!(out, "\n    {}", row.formula);
    }
    let kinds = row.kinds.iter().map(|k| k.as_str()).collect::<Vec<_>>().join(", ");
    let _ = writeln!(out, "\n* {} ({})", kinds, super::stability(row));
    for need in row.needs {
        let from = need.producer_param.map_or_else(String::new, |p| format!(" of the plugin that `{p}` names"));
        let when = if need.required { "" } else { ", where there is such data" };
        let _ = writeln!(out, "* reads `{}`{from}{when}", need.kind.as_str());
    }
    if !row.makes.is_empty() {
        let makes = row.makes.iter().map(|k| format!("`{}`", k.as_str())).collect::<Vec<_>>().join(", ");
        let created = if row.default_producer { "; created when needed" } else { "" };
        let _ = writeln!(out, "* produces {makes}{created}");
    }
    if !row.params.is_empty() {
        out.push_str("\n| parameter | takes | default | |\n| --- | --- | --- | --- |\n");
        for (path, p) in paths(row.params) {
            let default = match (p.default, p.required) {
                (_, true) => "required".to_owned(),
                (Some("{}") | None, _) => String::new(),
                (Some(default), _) => format!("`{default}`"),
            };
            let old = p.deprecated.map_or_else(String::new, |instead| format!(" Deprecated: {instead}."));
            let _ = writeln!(out, "| `{path}` | {} | {default} | {}{old} |", cell(&range(&p.kind)), cell(p.doc));
        }
    }
    let _ = writeln!(out, "\n```yaml\n{}```", super::example(row));
    out
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
