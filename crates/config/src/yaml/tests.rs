use super::*;
use crate::fault::Faults;

fn tree(text: &str) -> Node {
    let mut faults = Faults::new();
    let node = parse(text, &mut faults);
    assert!(faults.is_empty(), "{text:?}: {faults:?}");
    node.unwrap()
}

fn refused(text: &str) -> String {
    let mut faults = Faults::new();
    parse(text, &mut faults);
    assert_eq!(faults.errors(), 1, "{text:?}: {faults:?}");
    faults.sorted()[0].to_string()
}

fn at(node: &Node) -> (u32, u32, u32, u32) {
    (node.span.line, node.span.column, node.span.end_line, node.span.end_column)
}

#[test]
fn every_node_knows_where_it_was_written() {
    let text = "a: one  # comment\nb:\n  - {x: 1, \"y\": 'two'}\n  - three\nc: |\n  text\nd:\n";
    let root = tree(text);
    assert_eq!(at(root.get("a").unwrap()), (1, 4, 1, 7));
    let list = root.get("b").unwrap().items().unwrap();
    assert_eq!(at(&list[0]), (3, 5, 3, 23));
    assert_eq!(at(list[0].get("x").unwrap()), (3, 9, 3, 10));
    assert_eq!(at(list[0].get("y").unwrap()), (3, 17, 3, 22));
    assert_eq!(list[0].entries().unwrap()[1].0.span, Span { line: 3, column: 12, end_line: 3, end_column: 15 });
    assert_eq!(at(&list[1]), (4, 5, 4, 10));
    assert_eq!(root.get("c").unwrap().as_str(), Some("text\n"));
    assert!(root.get("d").unwrap().is_null());
}

#[test]
fn columns_count_characters_and_lines_may_end_in_cr_lf() {
    let root = tree("é: ü\r\nb: c\r\n");
    assert_eq!(at(root.get("é").unwrap()), (1, 4, 1, 5));
    assert_eq!(at(root.get("b").unwrap()), (2, 4, 2, 5));
}

#[test]
fn json_is_read_as_it_is() {
    let text = "{\n\t\"a\": [1, 2.5, true, null, \"x\\/\\u00e9\\n\"],\n\t\"b\": {\"c\": \"yes\"}\n}\n";
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(tree(text).to_json(), json);
    let long =
        format!("{{\"plugins\": [{}], \"z\": 1}}", vec!["{\"type\": \"queue-scorer\", \"n\": -1e3}"; 500].join(", "));
    let json: serde_json::Value = serde_json::from_str(&long.replace("-1e3", "-1000.0")).unwrap();
    assert_eq!(tree(&long).to_json(), json);
}

#[test]
fn quotes_make_text_of_everything_and_yaml_1_1_booleans_stay_text_until_asked() {
    let root = tree("a: yes\nb: \"yes\"\nc: !!str 8\nd: '1'\n");
    assert_eq!(root.get("a").unwrap().value, Value::String { text: "yes".into(), plain: true });
    assert_eq!(root.get("b").unwrap().value, Value::String { text: "yes".into(), plain: false });
    assert_eq!(root.get("c").unwrap().as_str(), Some("8"));
    assert_eq!(root.to_json(), serde_json::json!({"a": true, "b": "yes", "c": "8", "d": "1"}));
}

#[test]
fn a_duplicate_key_is_a_fault_at_the_second_one_and_the_first_value_stays() {
    let text = "kind: A\nx: 1\nkind: B\n";
    assert_eq!(refused(text), "3:1: kind: key `kind` is already set in this mapping (line 1 has it already)");
    let mut faults = Faults::new();
    assert_eq!(parse(text, &mut faults).unwrap().get("kind").unwrap().as_str(), Some("A"));
    assert_eq!(refused("a: {b: 1, b: 2}"), "1:11: b: key `b` is already set in this mapping (line 1 has it already)");
}

#[test]
fn anchors_aliases_and_merge_keys_are_expanded() {
    let root = tree("base: &b {x: 1, y: 2}\nmore: &m {z: 3, y: 9}\nuse: {<<: [*b, *m], x: 7}\nlist: [*b]\n");
    assert_eq!(
        root.to_json(),
        serde_json::json!({
            "base": {"x": 1, "y": 2}, "more": {"z": 3, "y": 9},
            "use": {"x": 7, "y": 2, "z": 3}, "list": [{"x": 1, "y": 2}],
        })
    );
    assert!(refused("a: {<<: 1}").contains("only a mapping can be merged"));
}

#[test]
fn a_few_lines_cannot_expand_to_millions_of_nodes() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let alias = format!("*a{}", i - 1);
        text.push_str(&format!("a{i}: &a{i} [{}]\n", [alias.as_str(); 10].join(", ")));
    }
    assert!(refused(&text).contains("aliases expand to more than"));
}

#[test]
fn nesting_is_bounded_in_the_text_and_through_aliases() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let _ = tree(&deep(MAX_DEPTH));
    assert!(refused(&deep(MAX_DEPTH + 1)).contains("nested more than 64"));
    // The parser looks ahead and gives up before the tree does.
    assert!(refused(&deep(100_000)).contains("recursion limit"));
    let mut text = "a0: &a0 []\n".to_owned();
    for i in 1..500 {
        text.push_str(&format!("a{i}: &a{i} [*a{}]\n", i - 1));
    }
    assert!(refused(&text).contains("nested more than 64"));
}

#[test]
fn what_is_no_single_document_of_plain_data_is_refused() {
    assert_eq!(refused("a: 1\n---\nb: 2\n"), "2:1: a second document begins here; one file holds one document");
    assert_eq!(refused("a: &x [*x]\n"), "1:8: this alias refers to a node that is not complete yet");
    assert_eq!(refused("? [a]\n: 1\n"), "1:3: a key must be text");
    assert!(refused("a: !go/x 1\n").contains("has no meaning here"));
    assert!(refused("a:\n  - b: [\n\n").starts_with("2:9: not valid YAML"));
    assert!(refused("a: *nope\n").starts_with("1:4: not valid YAML"));
}

#[test]
fn nothing_at_all_is_null() {
    for text in ["", "\n\n", "# only a comment\n", "---\n", "null\n", "~"] {
        assert!(tree(text).is_null(), "{text:?}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_placed() {
    let mut faults = Faults::new();
    assert_eq!(text_of(b"a: 1\nb\xc3\xa9: \xff\n", 100, &mut faults), None);
    assert_eq!((faults.sorted()[0].span.line, faults.sorted()[0].span.column), (2, 5));
    assert_eq!(text_of("\u{feff}a".as_bytes(), 100, &mut faults), Some("a"));
    assert_eq!(text_of(b"12345", 4, &mut faults), None);
    assert!(faults.sorted()[0].message.contains("5 bytes"));
}
