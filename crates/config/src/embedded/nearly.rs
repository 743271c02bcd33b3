//! What was meant to be a configuration inside of another file, and cannot be read as one: why, and what to write.

use super::TELLING;
use crate::document::{API_VERSIONS, KIND};
use crate::fault::{Code, Fault, Faults, nearest};
use crate::yaml::{self, Node, Span, Value};

/// Why the value under a key, at `path`, is no configuration though it was meant to be one. `folded`: where its `>` stands, when it is a folded block.
pub(super) fn refusal(path: &str, node: &Node, folded: Option<Span>) -> Option<Fault> {
    let text = node.as_str()?;
    let tree = yaml::parse(text, &mut Faults::new());
    let mut faults = Faults::new();
    let fault = match (&tree, folded) {
        (Some(tree), _) if is_config_map(tree) && mentions_one(text) => faults
            .error(Code::WrongKind, node.span, path, format!("`{path}` holds another ConfigMap"))
            .label("put the text in its `data` here"),
        (tree, Some(mark)) if mentions_one(text) && tree.as_ref().is_none_or(|t| t.entries().is_none()) => faults
            .error(Code::WrongType, mark, path, format!("`{path}` is folded (`>`): its lines become one"))
            .label("write `|`"),
        _ => return None,
    };
    Some(fault.clone())
}

/// A fault of a configuration that is a part of a ConfigMap's `data`, which holds text only.
pub(super) fn not_text(path: &str, node: &Node) -> Fault {
    let at = Span { end_line: node.span.line, end_column: node.span.column + 1, ..node.span };
    Faults::new()
        .error(Code::WrongType, at, path, format!("`{path}` must be text, not {}", node.describe()))
        .label("text is wanted: write `|` after the key")
        .clone()
}

pub(super) fn is_config_map(root: &Node) -> bool {
    root.get("kind").and_then(Node::as_str) == Some("ConfigMap")
}

/// Whether text names what a configuration is made of.
fn mentions_one(text: &str) -> bool {
    text.contains(KIND) || TELLING.iter().take(2).any(|t| text.contains(&format!("{t}:")))
}

/// Whether a text is a mapping that was likely meant to be a configuration: a list under a key nearly right, or our API version.
pub(super) fn looks_nearly_like_one(text: &str) -> bool {
    let Some(Node { value: Value::Mapping(entries), .. }) = yaml::parse(text, &mut Faults::new()) else { return false };
    entries.iter().any(|(key, value)| {
        let lists = value.items().is_some() && nearest(&key.text, TELLING.iter().take(2).copied()).is_some();
        let ours = key.text == "apiVersion" && value.as_str().is_some_and(|v| API_VERSIONS.contains(&v));
        let kind = key.text == "kind" && value.as_str().is_some_and(|v| nearest(v, [KIND]).is_some());
        lists || ours || kind
    })
}
