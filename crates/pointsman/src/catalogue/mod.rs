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

/// The catalogue on the admin listener: `GET /api/plugins`.
pub(crate) struct Catalogue;

impl pointsman_admin::Extension for Catalogue {
    fn answer(&self, method: &str, path: &str, _: &str, _: &[u8]) -> Option<(u16, serde_json::Value)> {
        let plugins = || TABLE.iter().map(json::row).collect::<serde_json::Value>();
        (method == "GET" && path == "/api/plugins").then(|| (200, serde_json::json!({"plugins": plugins()})))
    }
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
    let mut out = row.example_entries();
    if !row.example_profiles.is_empty() {
        let profiles: String = row.example_profiles.iter().map(|p| format!("- {p}\n")).collect();
        out = format!("plugins:\n{out}schedulingProfiles:\n{profiles}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_stands_in_one_section() {
        let listed: Vec<&str> = SECTIONS.iter().flat_map(|(kind, _)| section(*kind)).map(|row| row.type_name).collect();
        for row in TABLE {
            assert_eq!(listed.iter().filter(|name| **name == row.type_name).count(), 1, "{}", row.type_name);
        }
    }
}
