//! Documents with a data layer, compiled.

use crate::{CompileOptions, Compiled, DefaultProfile, compile};
use pointsman_config::Faults;
use std::sync::Arc;

/// What comes of these plugins (entries in flow style) and this rest of `dataLayer`, and all faults.
pub(crate) fn declared(plugins: &[&str], data_layer: &str) -> (Option<Compiled>, Vec<String>) {
    let plugins: String = plugins.iter().map(|p| format!("- {p}\n")).collect();
    let document = format!("plugins:\n- type: max-score-picker\n{plugins}dataLayer: {data_layer}\n");
    let options = CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::default() };
    let mut faults = Faults::new();
    let compiled = compile(document.as_bytes(), &options, &mut faults);
    (compiled, faults.sorted().iter().map(|f| f.to_string()).collect())
}

/// The source of this type with these parameters.
pub(crate) fn source(type_name: &str, parameters: &str) -> Arc<super::source::DataSource> {
    let plugin = format!("{{type: {type_name}, parameters: {parameters}}}");
    let (compiled, faults) = declared(&[&plugin], &format!("{{sources: [{{pluginRef: {type_name}}}]}}"));
    let compiled = compiled.unwrap_or_else(|| panic!("{faults:?}"));
    compiled.sources.into_iter().map(|s| s.source).find(|s| s.type_name == type_name).expect("it is listed")
}

/// Faults of a source of this type with these parameters.
pub(crate) fn faults(type_name: &str, parameters: &str) -> Vec<String> {
    let plugin = format!("{{type: {type_name}, parameters: {parameters}}}");
    declared(&[&plugin], &format!("{{sources: [{{pluginRef: {type_name}}}]}}")).1
}
