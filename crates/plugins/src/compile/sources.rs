//! Which extractor reads which source (plugin specification 12, request-lifecycle 8.2).

use super::CompiledSource;
use super::declare::{Declared, SourcePlan};
use crate::build::Instance;
use crate::data_layer::extractor::Extractor;
use crate::data_layer::source::Source;
use pointsman_config::{Code, Faults, Kind, Span};
use std::sync::Arc;

/// The sources that are polled, each with what reads its pages.
pub(super) fn sources(d: &Declared, instances: &[Instance], faults: &mut Faults) -> Vec<CompiledSource> {
    // Whoever misses it has said so.
    if d.sources.is_empty() && !faults.iter().any(|f| f.code == Code::NoEngineMetrics) {
        faults
            .error(
                Code::NoDataSource,
                d.document.data_layer.inject_defaults_span.unwrap_or(Span::START),
                "dataLayer.sources",
                "no data source is configured: nothing would ever be known of the engines",
            )
            .help("leave `injectDefaults` on, or list `metrics-data-source` under `dataLayer.sources`");
    }
    let mut polled = Vec::new();
    for (n, plan) in d.sources.iter().enumerate() {
        let name = &d.decls[plan.decl].name;
        if d.sources[..n].iter().any(|before| before.decl == plan.decl) {
            let (span, path) = plan.place.clone();
            faults
                .error(Code::ListedTwice, span, path, format!("data source `{name}` is listed twice"))
                .label("list it once");
        }
        distinct(d, plan, faults);
        match &instances[plan.decl].source {
            None => {}
            Some(Source::EndpointEvents) => {
                for (e, place) in plan.extractors.iter().filter(|(e, _)| instances[*e].extractor.is_some()) {
                    let message = format!("`{}` reads pages, and `{name}` has none", d.decls[*e].name);
                    faults
                        .error(Code::WrongExtractor, place.0, place.1.clone(), message)
                        .label("list it under a source of pages");
                }
            }
            Some(Source::Polled(source)) => {
                let readers = plan.extractors.iter().filter_map(|(e, place)| {
                    let reader = instances[*e].extractor.as_ref();
                    let own = &d.decls[*e].name;
                    let message = match reader {
                        Some(reader) if reader.reads() == source.page => return Some(Arc::clone(reader)),
                        Some(reader) => {
                            format!(
                                "`{own}` reads {}, and `{name}` fetches {}",
                                reader.reads().as_str(),
                                source.page.as_str()
                            )
                        }
                        None if !d.decls[*e].is(Kind::Extractor) => return None,
                        None => format!("`{own}` does not read pages, which is all that `{name}` fetches"),
                    };
                    faults
                        .error(Code::WrongExtractor, place.0, place.1.clone(), message)
                        .label("they do not go together");
                    None
                });
                let extractors: Vec<Arc<dyn Extractor>> = readers.collect();
                polled.push(CompiledSource { source: Arc::clone(source), extractors });
            }
        }
    }
    polled
}

/// One extractor of a type is enough for one source: of two, one would overwrite what the other wrote.
fn distinct(d: &Declared, plan: &SourcePlan, faults: &mut Faults) {
    for (n, (e, (span, path))) in plan.extractors.iter().enumerate() {
        let decl = &d.decls[*e];
        let same = plan.extractors[..n].iter().find(|(before, _)| d.decls[*before].row.type_name == decl.row.type_name);
        if let Some((before, _)) = same {
            let message = format!(
                "data source `{}` has two extractors of type `{}`: `{}` and `{}`",
                d.decls[plan.decl].name, decl.row.type_name, d.decls[*before].name, decl.name
            );
            faults.error(Code::ExtractorTwice, *span, path.clone(), message).label("keep one");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{CompileOptions, DefaultProfile, compile};
    use pointsman_config::Faults;
    use std::sync::Arc;

    /// Faults of a document that declares these types (each under its own name) and these sources with extractors.
    fn faults(types: &[&str], sources: &str) -> Vec<String> {
        let plugins: String = types.iter().map(|t| format!("- type: {t}\n")).collect();
        let document = format!("plugins:\n- type: max-score-picker\n{plugins}dataLayer:\n  sources:\n{sources}");
        let options = CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::default() };
        let mut faults = Faults::new();
        let compiled = compile(document.as_bytes(), &options, &mut faults);
        assert_eq!(compiled.is_some(), faults.errors() == 0);
        faults.sorted().iter().map(|f| f.to_string()).collect()
    }

    fn source(name: &str, extractors: &[&str]) -> String {
        let list: String = extractors.iter().map(|e| format!("    - pluginRef: {e}\n")).collect();
        format!("  - pluginRef: {name}\n    extractors:\n{list}")
    }

    #[test]
    fn extractors_go_with_sources_of_their_kind_of_page() {
        for (types, sources) in [
            (
                &["models-data-source", "models-data-extractor"][..],
                source("models-data-source", &["models-data-extractor"]),
            ),
            (&["dcgm-data-source", "dcgm-extractor"], source("dcgm-data-source", &["dcgm-extractor"])),
            (&["dcgm-extractor"], source("metrics-data-source", &["core-metrics-extractor", "dcgm-extractor"])),
            (
                &["multicluster-metrics-data-source", "multicluster-metrics-extractor"],
                source("multicluster-metrics-data-source", &["multicluster-metrics-extractor"]),
            ),
            (
                &["endpoint-notification-source", "inflight-load-producer"],
                source("endpoint-notification-source", &["inflight-load-producer"]),
            ),
        ] {
            assert_eq!(faults(types, &sources), Vec::<String>::new(), "{sources}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_a_fault_at_its_place() {
        for (types, sources, want) in [
            (
                &["models-data-source"][..],
                source("models-data-source", &["core-metrics-extractor"]),
                "`core-metrics-extractor` reads a metrics page, and `models-data-source` fetches a list of models",
            ),
            (
                &["inflight-load-producer"],
                source("metrics-data-source", &["inflight-load-producer"]),
                "`inflight-load-producer` does not read pages, which is all that `metrics-data-source` fetches",
            ),
            (
                &["endpoint-notification-source"],
                source("endpoint-notification-source", &["core-metrics-extractor"]),
                "`core-metrics-extractor` reads pages, and `endpoint-notification-source` has none",
            ),
            (
                &["{name: other, type: core-metrics-extractor}"],
                source("metrics-data-source", &["core-metrics-extractor"]) + "    - pluginRef: other\n",
                "two extractors of type `core-metrics-extractor`: `core-metrics-extractor` and `other`",
            ),
            (
                &[],
                source("metrics-data-source", &["core-metrics-extractor"]) + &source("metrics-data-source", &[]),
                "data source `metrics-data-source` is listed twice",
            ),
            (
                &["token-producer"],
                source("metrics-data-source", &["token-producer"]),
                "plugin `token-producer` is not an extractor",
            ),
        ] {
            // A type in flow style brings its own name.
            let types: Vec<String> = types.iter().map(|t| t.to_string()).collect();
            let (flow, plain): (Vec<&String>, Vec<&String>) = types.iter().partition(|t| t.starts_with('{'));
            let plugins: Vec<&str> = plain.iter().map(|t| t.as_str()).collect();
            let found = if flow.is_empty() { faults(&plugins, &sources) } else { named(&flow, &sources) };
            assert!(found.iter().any(|f| f.contains(want)), "{want}: {found:?}");
        }
    }

    fn named(entries: &[&String], sources: &str) -> Vec<String> {
        let plugins: String = entries.iter().map(|e| format!("- {e}\n")).collect();
        let document = format!("plugins:\n- type: max-score-picker\n{plugins}dataLayer:\n  sources:\n{sources}");
        let options = CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::default() };
        let mut faults = Faults::new();
        assert!(compile(document.as_bytes(), &options, &mut faults).is_none());
        faults.sorted().iter().map(|f| f.to_string()).collect()
    }

    #[test]
    fn a_source_or_extractor_that_is_not_listed_is_said_to_have_no_effect() {
        let listed = source("metrics-data-source", &["core-metrics-extractor"]);
        let found = faults(&["dcgm-extractor", "models-data-source"], &listed);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|f| f.contains("is declared and used nowhere")), "{found:?}");
    }
}
