//! The example of every plugin type, in the smallest document that uses it.

use pointsman_config::{Code, Fault, Faults, Kind, render};
use pointsman_plugins::row::Row;
use pointsman_plugins::table::TABLE;
use pointsman_plugins::{CompileOptions, DefaultProfile, compile};
use pointsman_scheduling::DataKind;
use std::sync::Arc;

/// Types whose examples warn as long as this release has nothing that they go by: predictions of latency, priorities.
const WAITING: [&str; 4] =
    ["slo-headroom-tier-filter", "latency-scorer", "latency-slo-admitter", "probabilistic-admitter"];

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
    let mut out = format!("plugins:\n{}", row.example_entries());
    let mut members = Vec::new();
    let mut profiles: String = row.example_profiles.iter().map(|p| format!("- {p}\n")).collect();
    let mut rest = String::new();
    let is = |kind| row.kinds.contains(&kind);
    let steps = [Kind::Filter, Kind::Scorer, Kind::Picker];
    if steps.iter().any(|k| is(*k)) {
        members.push(name);
    }
    if row.makes.contains(&DataKind::SessionId) {
        out.push_str("- type: session-affinity-scorer\n  parameters: {strategy: session_id, sessionIdConfig: {sources: [{attribute: SessionIDDataKey}]}}\n");
        members.push("session-affinity-scorer");
    } else if row.makes.contains(&DataKind::TokenizedPrompt) {
        out.push_str("- type: prefix-cache-scorer\n");
        members.push("prefix-cache-scorer");
    } else if let Some(reader) = reader(row).filter(|_| is(Kind::Producer)) {
        out.push_str(&format!("- type: {}\n", reader.type_name));
        members.push(reader.type_name);
    }
    if is(Kind::Decider) {
        let stage = if name.contains("multimodal") { "encode" } else { "prefill" };
        out.push_str(&format!("- {{type: disagg-profile-handler, parameters: {{deciders: {{{stage}: {name}}}}}}}\n"));
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
            && !r.kinds.contains(&Kind::Producer)
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
        let options = CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::default() };
        let mut faults = Faults::new();
        let compiled = compile(document.as_bytes(), &options, &mut faults);
        let deprecated = |f: &Fault| row.deprecated.is_some() && f.code == Code::DeprecatedType;
        let waiting = |f: &Fault| WAITING.contains(&row.type_name) && f.code == Code::LikelyNotMeant;
        if compiled.is_none() || !faults.iter().all(|f| deprecated(f) || waiting(f)) {
            let told = render("example", &document, &faults, false);
            wrong.push_str(&format!("{}\n{document}\n{told}\n", row.type_name));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
