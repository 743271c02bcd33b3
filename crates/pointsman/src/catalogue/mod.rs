//! `pointsman plugins` and `pointsman schema`: what there is to configure, all of it from the registration table.

mod json;
mod markdown;
mod schema;
mod text;

use std::io::Write as _;

use clap::{Args, ValueEnum};
use pointsman_config::{Kind, nearest};
use pointsman_plugins::row::Row;
use pointsman_plugins::table::TABLE;

use crate::failure::{Exit, Failure};
use crate::terminal::Paint;

const PLUGINS_EXAMPLES: &str = "\
Examples:
  pointsman plugins
  pointsman plugins prefix-cache-scorer
  pointsman plugins --json";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  pointsman schema > epp.schema.json
  pointsman schema | jq .properties
  # for a YAML language server, the first line of the document:
  # yaml-language-server: $schema=epp.schema.json";

/// Which plugins to show.
#[derive(Args, Debug)]
#[command(before_help = PLUGINS_EXAMPLES)]
pub(crate) struct Plugins {
    /// One type: everything about it
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// As JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// How it is written
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Markdown,
}

/// Nothing to choose.
#[derive(Args, Debug)]
#[command(before_help = SCHEMA_EXAMPLES)]
pub(crate) struct Schema {}

/// Prints the catalogue.
pub(crate) fn plugins(options: &Plugins) -> Result<Exit, Failure> {
    let format = if options.json { Format::Json } else { options.format };
    let one = options.name.as_deref().map(find).transpose()?;
    let paint = Paint::stdout();
    let out = match (format, one) {
        (Format::Text, None) => text::list(paint),
        (Format::Text, Some(row)) => text::one(row, paint),
        (Format::Json, None) => format!("{:#}\n", TABLE.iter().map(json::row).collect::<serde_json::Value>()),
        (Format::Json, Some(row)) => format!("{:#}\n", json::row(row)),
        (Format::Markdown, None) => markdown::page(),
        (Format::Markdown, Some(row)) => markdown::one(row),
    };
    std::io::stdout().lock().write_all(out.as_bytes())?;
    Ok(Exit::Fine)
}

/// Prints the JSON Schema of a document.
pub(crate) fn schema(_: &Schema) -> Result<Exit, Failure> {
    writeln!(std::io::stdout().lock(), "{:#}", schema::document())?;
    Ok(Exit::Fine)
}

fn find(name: &str) -> Result<&'static Row, Failure> {
    TABLE.iter().find(|row| row.type_name == name).ok_or_else(|| {
        let failure = Failure::usage(format!("there is no plugin type {name}"));
        match nearest(name, TABLE.iter().map(|row| row.type_name)) {
            Some(near) => failure.next(format!("did you mean {near}?")),
            None => failure.next("`pointsman plugins` lists all of them"),
        }
    })
}

/// Kinds in the order of a request, each with its heading.
const SECTIONS: &[(Kind, &str)] = &[
    (Kind::ProfileHandler, "Profile handlers"),
    (Kind::Decider, "Deciders"),
    (Kind::Filter, "Filters"),
    (Kind::Scorer, "Scorers"),
    (Kind::Picker, "Pickers"),
    (Kind::Producer, "Data producers"),
    (Kind::Admission, "Admission"),
    (Kind::Screener, "Screeners"),
    (Kind::Hook, "Hooks"),
    (Kind::Parser, "Parsers"),
    (Kind::DataSource, "Data sources"),
    (Kind::Extractor, "Extractors"),
    (Kind::Discovery, "Endpoint discovery"),
    (Kind::Fairness, "Fairness policies"),
    (Kind::Ordering, "Ordering policies"),
    (Kind::UsageLimit, "Usage limits"),
    (Kind::SaturationDetector, "Saturation detectors"),
    (Kind::Eviction, "Eviction"),
];

/// The rows of a section: those for which it is the first that fits, so that each is listed once. A saturation detector filters too.
fn section(kind: Kind) -> impl Iterator<Item = &'static Row> {
    let fits = |row: &Row| {
        let detects = row.kinds.contains(&Kind::SaturationDetector).then_some(Kind::SaturationDetector);
        detects.or_else(|| SECTIONS.iter().map(|(k, _)| *k).find(|k| row.kinds.contains(k)))
    };
    TABLE.iter().filter(move |row| fits(row) == Some(kind))
}

/// Whether a type can be used, in a word.
fn status(row: &Row) -> &'static str {
    match (row.build.is_some(), row.deprecated.is_some()) {
        (false, _) => "not yet available",
        (true, true) => "deprecated",
        (true, false) => "available",
    }
}

/// How settled a type is, in a word.
fn stability(row: &Row) -> &'static str {
    match row.stability {
        pointsman_config::Stability::Alpha => "alpha",
        pointsman_config::Stability::Beta => "beta",
        pointsman_config::Stability::Stable => "stable",
    }
}

/// An entry of `plugins` that uses the type, with what it needs beside it.
fn example(row: &Row) -> String {
    let mut out = entries(row);
    if !row.example_profiles.is_empty() {
        let profiles: String = row.example_profiles.iter().map(|p| format!("- {p}\n")).collect();
        out = format!("plugins:\n{out}schedulingProfiles:\n{profiles}");
    }
    out
}

/// The entries of `plugins` of the example.
fn entries(row: &Row) -> String {
    let mut out = format!("- type: {}\n", row.type_name);
    if !row.example.is_empty() {
        out.push_str(&format!("  parameters: {}\n", row.example));
    }
    out.extend(row.example_needs.iter().map(|need| format!("- {need}\n")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::checked;
    use pointsman_plugins::DefaultProfile;
    use std::sync::Arc;

    #[test]
    fn every_type_stands_in_one_section() {
        let listed: Vec<&str> = SECTIONS.iter().flat_map(|(kind, _)| section(*kind)).map(|row| row.type_name).collect();
        for row in TABLE {
            assert_eq!(listed.iter().filter(|name| **name == row.type_name).count(), 1, "{}", row.type_name);
        }
    }

    /// A plugin that reads what another one of `row`'s type makes.
    fn reader(row: &Row) -> Option<&'static Row> {
        let reads = |other: &&Row| {
            other.kinds.contains(&Kind::Scorer)
                && other.build.is_some()
                && other.example.is_empty()
                && other.deprecated.is_none()
                && other.needs.iter().any(|need| row.makes.contains(&need.kind))
        };
        TABLE.iter().find(reads)
    }

    /// The source whose pages an extractor reads.
    fn source_of(extractor: &str) -> &'static str {
        match extractor {
            "models-data-extractor" => "models-data-source",
            "dcgm-extractor" => "dcgm-data-source",
            "multicluster-metrics-extractor" => "multicluster-metrics-data-source",
            "topology-extractor" => "endpoint-notification-source",
            _ => "metrics-data-source",
        }
    }

    /// The example in the smallest document that uses it.
    fn document(row: &Row) -> String {
        let name = row.type_name;
        let mut out = format!("plugins:\n{}", entries(row));
        let mut members = Vec::new();
        let mut profiles: String = row.example_profiles.iter().map(|p| format!("- {p}\n")).collect();
        let mut rest = String::new();
        let is = |kind| row.kinds.contains(&kind);
        let steps = [Kind::Filter, Kind::Scorer, Kind::Picker];
        if steps.iter().any(|k| is(*k)) {
            members.push(name);
        }
        if let Some(reader) = reader(row).filter(|_| is(Kind::Producer)) {
            out.push_str(&format!("- type: {}\n", reader.type_name));
            members.push(reader.type_name);
        }
        if is(Kind::Decider) {
            let stage = if name.contains("multimodal") { "encode" } else { "prefill" };
            out.push_str(&format!(
                "- {{type: disagg-profile-handler, parameters: {{deciders: {{{stage}: {name}}}}}}}\n"
            ));
            profiles = format!("- {{name: decode, plugins: []}}\n- {{name: {stage}, plugins: []}}\n");
        }
        if is(Kind::Parser) {
            rest.push_str(&format!("requestHandler: {{parsers: [{{pluginRef: {name}}}]}}\n"));
        }
        if is(Kind::Discovery) {
            rest.push_str(&format!("dataLayer: {{discovery: {{pluginRef: {name}}}}}\n"));
        }
        let extractor = TABLE.iter().map(|r| (r, r.type_name)).find(|(r, t)| {
            r.kinds.contains(&Kind::Extractor)
                && !is(Kind::Producer)
                && (*t == name || source_of(t) == name || row.example_needs.iter().any(|n| n.ends_with(t)))
        });
        if let Some((_, extractor)) = extractor {
            let source = source_of(extractor);
            for declared in [source, extractor] {
                if !out.contains(&format!("type: {declared}\n")) {
                    out.push_str(&format!("- type: {declared}\n"));
                }
            }
            rest.push_str(&format!(
                "dataLayer: {{sources: [{{pluginRef: {source}, extractors: [{{pluginRef: {extractor}}}]}}]}}\n"
            ));
        }
        if profiles.is_empty() {
            let members = members.iter().map(|m| format!("{{pluginRef: {m}}}")).collect::<Vec<_>>().join(", ");
            profiles = format!("- {{name: default, plugins: [{members}]}}\n");
        }
        format!("{out}schedulingProfiles:\n{profiles}{rest}")
    }

    #[test]
    fn the_example_of_every_available_type_can_be_used_without_a_word() {
        let mut wrong = String::new();
        for row in TABLE.iter().filter(|row| row.build.is_some()) {
            let document = document(row);
            let (compiled, faults) = checked(document.as_bytes(), true, DefaultProfile::Epp, Arc::default());
            let deprecated = |f: &pointsman_config::Fault| {
                row.deprecated.is_some() && f.code == pointsman_config::Code::DeprecatedType
            };
            if compiled.is_none() || !faults.iter().all(deprecated) {
                let told = pointsman_config::render("example", &document, &faults, false);
                wrong.push_str(&format!("{}\n{document}\n{told}\n", row.type_name));
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }
}
