use super::*;
use crate::yaml::Span;

/// Where `token` stands in the file, according to the places of the text that was found.
fn place_of(file: &str, token: &str) -> (String, u32, u32) {
    let found = find(file);
    let Content::Text { text, places } = &found[0].content else { panic!("text: {found:?}") };
    let (n, line) = lines(text).into_iter().enumerate().find(|(_, l)| l.contains(token)).unwrap();
    let column = line[..line.find(token).unwrap()].chars().count() as u32 + 1;
    let line = n as u32 + 1;
    let width = token.chars().count() as u32;
    let span = places.place(Span { line, column, end_line: line, end_column: column + width });
    let raw: Vec<char> = lines(file)[span.line as usize - 1].chars().collect();
    assert!(span.line == span.end_line || span.end_column > 1, "{span:?}");
    let end = if span.end_line == span.line { span.end_column as usize - 1 } else { raw.len() };
    (raw[span.column as usize - 1..end].iter().collect(), span.line, span.column)
}

#[test]
fn a_token_of_an_embedded_text_is_found_in_the_file_around_it() {
    let block = "kind: ConfigMap\ndata:\n  epp.yaml: |-\n\n    # a note\n    plugins:\n    - type: qeue-scorer\n";
    let folded = "data:\n  epp.yaml: >\n    plugins:\n\n    - type: qeue-scorer\n\n\n    - type: x\n";
    let double = "{\"data\": {\"epp.yaml\": \"plugins:\\n- name: \\\"\\u0061\\\"\\n  type: qeue-scorer\\n\"}}\n";
    let folded_double = "data:\n  epp.yaml: \"plugins:\\n\\\n    - type:\n    qeue-scorer\\n\"\n";
    let single = "data:\n  epp.yaml: 'plugins:\n\n    - name: ''a''\n\n      type: qeue-scorer'\n";
    for (file, want) in [
        (block, (7, 13)),
        (folded, (5, 13)),
        (double, (1, 62)),
        (folded_double, (4, 5)),
        (single, (6, 13)),
        ("a: &x |\n  plugins:\n  - type: qeue-scorer\n", (3, 11)),
        ("a: !!str &x # why\n  |-\n  plugins:\n  - type: qeue-scorer\n", (4, 11)),
        ("a: &x\n  \"plugins: [\\\n  {type: qeue-scorer}]\"\n", (3, 10)),
        ("a: 1\n---\nplugins:\n- type: qeue-scorer\n---\nb: 2\n", (4, 9)),
        ("plugins:\n- type: qeue-scorer\n", (2, 9)),
    ] {
        assert_eq!(place_of(file, "qeue-scorer"), ("qeue-scorer".to_owned(), want.0, want.1), "{file}");
    }
}

#[test]
fn configurations_are_found_wherever_they_are_and_nothing_else_is_taken_for_one() {
    let paths = |file: &str| find(file).into_iter().map(|e| e.path).collect::<Vec<_>>();
    let values = "router:\n  epp:\n    pluginsCustomConfig:\n      a.yaml: |\n        plugins:\n        - type: x\n      \
                  endpoints.yaml: |\n        endpoints: []\n      b.yaml: |\n        schedulingProfiles: [\n";
    let base = "router.epp.pluginsCustomConfig";
    assert_eq!(paths(values), [format!("{base}.a.yaml"), format!("{base}.b.yaml")]);
    assert_eq!(paths("items:\n- {kind: EndpointPickerConfig, plugins: []}\n"), ["items[0]"]);
    assert_eq!(paths("plugins: []\n---\n\n---\nkind: Service\n---\nplugins: []\n"), ["", ""]);
    let typo = "data:\n  a.yaml: |\n    plugin:\n    - type: x\n  b.yaml: |\n    plugin: 1\n";
    assert_eq!(paths(typo), ["data.a.yaml"], "a list under a key that is nearly right");
    for whole in ["", "# nothing\n", "kind: Service\n", "unknown: 1\n", "[", "plugins: [", "3"] {
        assert_eq!(paths(whole), [""], "{whole}");
    }
}

#[test]
fn whatever_a_scalar_looks_like_its_places_stay_inside_the_file() {
    for file in [
        "a: |\n  plugins:\n\tx",
        "a: |2\n    plugins:\n",
        "a: \"plugins:\\n\\",
        "a: \"plugins:\\n\\\n  \\\n  x\"",
        "a: plugins:\n  x\n",
        "a: >-\n plugins:\n\n\n",
        "a: 'plugins:\r\n\r\n  x'\r\n",
        "a: &x !!str |\n  plugins:\n  - y\n",
    ] {
        let count = lines(file).len() as u32;
        for found in find(file) {
            let Content::Text { text, places } = found.content else { continue };
            if found.path.is_empty() {
                continue;
            }
            for line in 1..lines(&text).len() as u32 + 2 {
                for column in 1..20 {
                    let at = places.place(Span { line, column, end_line: line, end_column: column + 3 });
                    assert!((1..=count).contains(&at.line) && at.end_line <= count, "{file:?}: {at:?}");
                    let width = |line: u32| lines(file)[line as usize - 1].chars().count() as u32;
                    assert!(
                        at.column <= width(at.line) + 1 && at.end_column <= width(at.end_line) + 1,
                        "{file:?}: {at:?}"
                    );
                    assert!((at.line, at.column) <= (at.end_line, at.end_column), "{file:?}: {at:?}");
                }
            }
        }
    }
}

#[test]
fn what_was_meant_to_be_a_configuration_and_is_not_is_told_with_its_key() {
    let fault = |file: &str| match &find(file)[0].content {
        Content::Unreadable { fault, .. } => fault.to_string(),
        Content::Tree { misplaced: Some(fault), .. } => fault.to_string(),
        other => panic!("{file}: {other:?}"),
    };
    for (file, want) in [
        (
            "kind: ConfigMap\ndata:\n  a: |\n    kind: ConfigMap\n    data:\n      b: |\n        plugins: []\n",
            "4:5: data.a: `data.a` holds another ConfigMap (put the text in its `data` here)",
        ),
        (
            "data:\n  a: > # why\n    kind: EndpointPickerConfig\n    plugins:\n    - type: x\n",
            "2:6: data.a: `data.a` is folded (`>`): its lines become one (write `|`)",
        ),
        (
            "kind: ConfigMap\ndata:\n  a:\n    plugins: []\n",
            "4:5: data.a: `data.a` must be text, not a mapping (text is wanted: write `|` after the key)",
        ),
    ] {
        assert_eq!(fault(file), want);
    }
}
