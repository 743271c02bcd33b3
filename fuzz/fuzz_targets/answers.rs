//! Answers that are not the engine's to a client: rendered prompts, lists of models, pages of GPU exporters and of peer clusters.
#![no_main]

use pointsman_config::Faults;
use pointsman_core::EndpointName;
use pointsman_fleet::EndpointMeta;
use pointsman_plugins::producers::token_producer::render;
use pointsman_plugins::{CompileOptions, Compiled, DefaultProfile, compile};
use std::sync::OnceLock;

const CONFIG: &str = "plugins:
- type: models-data-source
- type: models-data-extractor
- type: dcgm-data-source
- type: dcgm-extractor
- type: multicluster-metrics-data-source
- type: multicluster-metrics-extractor
dataLayer:
  sources:
  - {pluginRef: models-data-source, extractors: [{pluginRef: models-data-extractor}]}
  - {pluginRef: dcgm-data-source, extractors: [{pluginRef: dcgm-extractor}]}
  - {pluginRef: multicluster-metrics-data-source, extractors: [{pluginRef: multicluster-metrics-extractor}]}
";

fn compiled() -> &'static Compiled {
    static COMPILED: OnceLock<Compiled> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let options =
            CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Default::default() };
        compile(CONFIG.as_bytes(), &options, &mut Faults::new()).expect("a good document")
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(rendered) = render::read(data, 64, 100) {
        assert!(rendered.prompts.iter().all(|p| p.tokens > 0 && p.contents.len() <= 100));
    }
    let meta = EndpointMeta::new(EndpointName::new("default", "a"), "10.0.0.1", 8000);
    for extractor in compiled().sources.iter().flat_map(|s| &s.extractors) {
        let read = extractor.extract(&meta, data);
        assert!(read.scraped.attributes.iter().all(|(_, value)| value.is_finite() && *value >= 0.0) || read.engine.is_some());
    }
});
