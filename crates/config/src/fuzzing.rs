//! Entry points for fuzzers: any bytes, no panic, every fault at a place inside the text.

use crate::document::{Decoded, check_references, decode};
use crate::fault::{Faults, render};
use crate::params::{self, Param, ParamKind};
use crate::registry::{Kind, Registry, Stability, TypeInfo, check_types};
use crate::{endpoints, yaml};

/// Everything a configuration document goes through.
pub fn document(bytes: &[u8]) {
    let mut faults = Faults::new();
    if let Decoded::Document(d) = decode(bytes, &mut faults) {
        check_references(&d, &["max-score-picker"], &mut faults);
        let _ = check_types(&d, &Everything, false, &mut faults);
    }
    inside(bytes, &faults);
}

/// An endpoints file, both ways.
pub fn endpoints(bytes: &[u8]) {
    for allow_any_host in [false, true] {
        let mut faults = Faults::new();
        let entries = endpoints::parse(bytes, endpoints::Options { allow_any_host }, &mut faults);
        assert!(entries.is_some() || faults.errors() > 0, "a refused file has an error");
        for entry in entries.iter().flatten() {
            assert!(entry.port > 0 && !entry.name.is_empty() && !entry.address.is_empty());
        }
        inside(bytes, &faults);
    }
}

/// Every fault is placed inside the text, and can be shown.
///
/// # Panics
/// Where that is not so.
pub fn inside(bytes: &[u8], faults: &Faults) {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let lines = yaml::lines(text);
    for fault in faults.iter() {
        let s = fault.span;
        for (line, column) in [(s.line, s.column), (s.end_line, s.end_column)] {
            let width = lines.get((line as usize).wrapping_sub(1)).map(|l| l.chars().count());
            assert!(width.is_some_and(|w| (1..=w + 1).contains(&(column as usize))), "{fault:?} is outside the text");
        }
        assert!((s.line, s.column) <= (s.end_line, s.end_column), "{fault:?} ends before it begins");
        assert!(!fault.message.is_empty());
    }
    let shown = render("fuzz", text, faults, false);
    assert!(shown.ends_with(&format!("{}\n", faults.summary())));
}

/// One type per kind of parameter shape.
struct Everything;

const INNER: &[Param] = &[Param::new("a", ParamKind::POSITIVE, "a").required(), Param::new("b", ParamKind::Any, "b")];
const ROWS: &[Param] = &[
    Param::new("bool", ParamKind::Bool, "b").default("true"),
    Param::new("integer", ParamKind::PORT, "i").default("8000"),
    Param::new("number", ParamKind::FRACTION, "n").default("0.5"),
    Param::new("string", ParamKind::String, "s").deprecated("it is ignored"),
    Param::new("word", ParamKind::Enum(&["host", "rack"]), "e").default("\"host\""),
    Param::new("duration", ParamKind::Duration, "d").default("\"30s\""),
    Param::new("quantity", ParamKind::Quantity, "q").default("\"1Gi\""),
    Param::new("list", ParamKind::List(&ParamKind::Object(INNER)), "l").default("[]"),
    Param::new("object", ParamKind::Object(INNER), "o"),
    Param::new("labels", ParamKind::AnyMap, "m"),
    Param::new("any", ParamKind::Any, "a"),
];

impl Registry for Everything {
    fn lookup(&self, type_name: &str) -> Option<TypeInfo> {
        let (kinds, rows): (&'static [Kind], &'static [Param]) = match type_name {
            "queue-scorer" => (&[Kind::Scorer], &[]),
            "everything" => (&[Kind::Filter, Kind::Scorer, Kind::DataSource], ROWS),
            "openai-parser" => (&[Kind::Parser], &[]),
            _ => return None,
        };
        Some(TypeInfo { kinds, params: rows, stability: Stability::Beta, available: true, deprecated: None })
    }

    fn names(&self) -> Vec<&'static str> {
        debug_assert!(params::faults_of_rows(ROWS).is_empty());
        vec!["queue-scorer", "everything", "openai-parser"]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEED: &str = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nfeatureGates: [flowControl]\nplugins:\n\
        - type: everything\n  parameters: {bool: false, integer: 1, word: rack, duration: 3s, quantity: 1k, list: [{a: 1}], any: [x]}\n\
        - {name: b, type: queue-scorer}\nschedulingProfiles:\n- name: p\n  plugins:\n  - {pluginRef: b, weight: 2}\n\
        dataLayer: {sources: [{pluginRef: everything}]}\nflowControl: {maxBytes: 1Gi, priorityBands: [{priority: 1}]}\n\
        parser: {pluginRef: openai-parser}\nendpoints:\n- &e {name: a, address: 10.0.0.1, port: \"1\", labels: {x: 'y'}}\n- *e\n";

    fn both(bytes: &[u8]) {
        document(bytes);
        super::endpoints(bytes);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn any_bytes_are_judged_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            both(&bytes);
        }

        #[test]
        fn any_text_of_yaml_punctuation_is_judged_without_a_panic(text in "[-:?,\\[\\]{}#&*!|>'\"%@ \t\r\nay01é~<.]{0,120}") {
            both(text.as_bytes());
        }

        #[test]
        fn a_good_document_with_damage_is_judged_without_a_panic(
            edits in prop::collection::vec((0..SEED.len(), 0..12usize, "[-:,\\[\\]{}&*!|'\" \t\r\na1éx~<]{0,4}"), 1..6)
        ) {
            let mut text: Vec<char> = SEED.chars().collect();
            for (at, cut, put) in edits {
                let at = at.min(text.len());
                let end = (at + cut).min(text.len());
                text.splice(at..end, put.chars());
            }
            both(text.into_iter().collect::<String>().as_bytes());
        }
    }

    #[test]
    fn the_undamaged_document_is_good_but_for_its_last_field() {
        let mut faults = Faults::new();
        let document = decode(SEED.as_bytes(), &mut faults).document().unwrap();
        let _ = check_types(&document, &Everything, false, &mut faults);
        assert_eq!(faults.summary(), "1 error, 2 warnings", "{faults:?}");
        assert!(params::faults_of_rows(ROWS).is_empty());
    }

    #[test]
    fn large_hostile_documents_end_soon() {
        const SIZE: usize = 1 << 18;
        let filled = |piece: &str| piece.repeat(SIZE / piece.len());
        let started = std::time::Instant::now();
        for text in [
            filled("["),
            filled("a: "),
            filled("- "),
            filled("a:\n "),
            filled("? "),
            filled("{a,"),
            filled("&a "),
            filled("!!x "),
            filled("\"a\\"),
            filled("#\n"),
            filled("---\n"),
            format!("[{}]", filled("1,")),
            format!("endpoints: [{}]", filled("{},")),
            format!("plugins: [{}]", filled("{type: a},")),
            format!("plugins:\n{}", filled("- typo: a\n")),
            (0..15_000).map(|i| format!("pluginz{i}: 1\n")).collect(),
            (0..3000).map(|i| format!("- {{type: a{i}}}\n")).fold("plugins:\n".to_owned(), |all, one| all + &one)
                + "flowControl:\n  priorityBands:\n"
                + &"  - {fairnessPolicyRef: a}\n".repeat(3000),
            filled("x"),
            format!("\"{}", filled("x")),
        ] {
            both(text.as_bytes());
        }
        // Seconds without optimisation; a quadratic step would take minutes.
        assert!(started.elapsed().as_secs() < 60, "took {:?}", started.elapsed());
    }
}
