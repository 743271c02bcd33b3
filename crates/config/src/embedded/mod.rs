//! Configurations inside of other files: a Kubernetes ConfigMap, a Helm values file, several documents in one file.
//!
//! [`find`] looks through a file and says what in it is a configuration. What it finds is judged like any other document; [`Places`]
//! then moves every fault to where the text stands in the outer file, through block scalars, quotes and escapes.
//!
//! ```
//! use pointsman_config::embedded::{Content, find};
//!
//! let file = "kind: ConfigMap\ndata:\n  epp.yaml: |\n    plugins:\n    - type: queue-scorer\n";
//! let found = find(file);
//! assert_eq!(found[0].path, "data.epp.yaml");
//! let Content::Text { text, .. } = &found[0].content else { panic!("it is text") };
//! assert_eq!(text, "plugins:\n- type: queue-scorer\n");
//! ```

mod nearly;
mod places;

pub use places::Places;

use crate::document::KIND;
use crate::fault::{Fault, Faults};
use crate::yaml::{self, Node, Value, lines};

/// Something in a file that is a configuration.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// Where it is: `data.epp.yaml`; empty for a document that is not inside of another.
    pub path: String,
    /// What it is.
    pub content: Content,
}

/// How a configuration is held.
#[derive(Clone, Debug)]
pub enum Content {
    /// As text: a document of the file, or a string in one.
    Text {
        /// The text, escapes resolved.
        text: String,
        /// Where its characters stand in the file.
        places: Places,
    },
    /// As a part of the tree, its places those of the document that it is in.
    Tree {
        /// The part.
        node: Node,
        /// Where that document stands in the file.
        places: Places,
        /// What is wrong with a tree where it stands: only text can.
        misplaced: Option<Box<Fault>>,
    },
    /// As something that was meant to be one and cannot be read.
    Unreadable {
        /// Why, at its place in the document that it is in.
        fault: Box<Fault>,
        /// Where that document stands in the file.
        places: Places,
    },
}

/// Keys by which a mapping without a kind is taken for a configuration.
const TELLING: [&str; 8] = [
    "plugins",
    "schedulingProfiles",
    "featureGates",
    "dataLayer",
    "flowControl",
    "requestHandler",
    "saturationDetector",
    "parser",
];

/// Every configuration in a file, in order. What holds none anywhere is taken for one as a whole, so that its faults are told; a
/// file without any document gives one that is empty.
#[must_use]
pub fn find(text: &str) -> Vec<Embedded> {
    let slices = documents(text);
    let whole = |slice: &Slice| Embedded {
        path: String::new(),
        content: Content::Text { text: slice.text.clone(), places: Places::shifted(slice.line) },
    };
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for slice in &slices {
        match yaml::parse(&slice.text, &mut Faults::new()) {
            Some(root) if root.is_null() => {}
            Some(root) if is_configuration(&root) => found.push(whole(slice)),
            Some(root) => {
                let before = found.len();
                let lines: Vec<&str> = lines(&slice.text);
                let outer = Outer { lines: &lines, shift: slice.line, config_map: nearly::is_config_map(&root) };
                for strictly in [true, false] {
                    if found.len() == before {
                        search(&root, String::new(), &mut |path, node| {
                            found.extend(outer.embedded(path, node, strictly))
                        });
                    }
                }
                if found.len() == before {
                    others.push(whole(slice));
                }
            }
            None if reads_like_one(&slice.text) => found.push(whole(slice)),
            None => others.push(whole(slice)),
        }
    }
    if found.is_empty() {
        found = others;
    }
    if found.is_empty() {
        let text = text.to_owned();
        found.push(Embedded { path: String::new(), content: Content::Text { text, places: Places::shifted(0) } });
    }
    found
}

/// A document that may hold configurations.
struct Outer<'a> {
    lines: &'a [&'a str],
    /// Lines of the file before it.
    shift: u32,
    /// Whether it is a ConfigMap, whose `data` holds text only.
    config_map: bool,
}

impl Outer<'_> {
    /// What a node is. `strictly`: what is only nearly a configuration is none.
    fn embedded(&self, path: String, node: &Node, strictly: bool) -> Option<Embedded> {
        let shifted = Places::shifted(self.shift);
        let in_data = self.config_map && path.strip_prefix("data.").is_some();
        let content = match &node.value {
            Value::String { text, .. } => {
                let places = Places::of_scalar(self.lines, node.span, text, self.shift);
                if let Some(fault) = nearly::refusal(&path, node, places.folded()) {
                    Content::Unreadable { fault: Box::new(fault), places: shifted }
                } else if reads_like_one(text) || (!strictly && nearly::looks_nearly_like_one(text)) {
                    Content::Text { text: text.clone(), places }
                } else {
                    return None;
                }
            }
            Value::Mapping(_) => {
                let named = node.get("kind").and_then(Node::as_str) == Some(KIND);
                if !(named || in_data && is_configuration(node)) {
                    return None;
                }
                let misplaced = in_data.then(|| Box::new(nearly::not_text(&path, node)));
                Content::Tree { node: node.clone(), places: shifted, misplaced }
            }
            _ => return None,
        };
        Some(Embedded { path, content })
    }
}

/// Calls `visit` for every node below `node`, parents first.
fn search(node: &Node, path: String, visit: &mut dyn FnMut(String, &Node)) {
    let mut child = |name: &str, node: &Node| {
        let path =
            if path.is_empty() || name.starts_with('[') { format!("{path}{name}") } else { format!("{path}.{name}") };
        visit(path.clone(), node);
        search(node, path, visit);
    };
    match &node.value {
        Value::Mapping(entries) => entries.iter().for_each(|(key, node)| child(&key.text, node)),
        Value::Sequence(items) => items.iter().enumerate().for_each(|(i, node)| child(&format!("[{i}]"), node)),
        _ => {}
    }
}

fn is_configuration(root: &Node) -> bool {
    let Some(entries) = root.entries() else { return false };
    match root.get("kind") {
        Some(kind) => kind.as_str() == Some(KIND),
        None => entries.iter().any(|(key, _)| TELLING.contains(&key.text.as_str())),
    }
}

/// Whether text looks like a configuration, be it good YAML or not.
pub(crate) fn reads_like_one(text: &str) -> bool {
    let key = |line: &str, key: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
    let written =
        |line: &str| TELLING.iter().take(2).any(|t| key(line, t)) || (key(line, "kind") && line.contains(KIND));
    let json = text.trim_start().starts_with('{') && (text.contains("\"plugins\"") || text.contains(KIND));
    json || lines(text).into_iter().any(written)
}

/// One document of a stream.
struct Slice {
    text: String,
    /// How many lines of the file come before it.
    line: u32,
}

/// Cuts a stream where its documents begin. Such a line can stand inside of no scalar, so that no parser is needed for it.
fn documents(text: &str) -> Vec<Slice> {
    let mut out = Vec::new();
    let (mut begun, mut start, mut line) = (false, 0, 0);
    let (mut at, mut n) = (0, 0);
    let marker = |l: &str, mark: &str| l.strip_prefix(mark).is_some_and(|r| r.is_empty() || r.starts_with([' ', '\t']));
    for l in lines(text) {
        if begun && marker(l, "---") {
            out.push(Slice { text: text[start..at].to_owned(), line });
            (start, line) = (at, n);
            begun = false;
        }
        begun |= marker(l, "---") || !(l.trim().is_empty() || l.starts_with(['#', '%']));
        at += l.len();
        let rest = &text.as_bytes()[at..];
        at += if rest.starts_with(b"\r\n") { 2 } else { usize::from(!rest.is_empty()) };
        n += 1;
        if begun && marker(l, "...") {
            out.push(Slice { text: text[start..at].to_owned(), line });
            (start, line) = (at, n);
            begun = false;
        }
    }
    if start < text.len() {
        out.push(Slice { text: text[start..].to_owned(), line });
    }
    out
}

#[cfg(test)]
mod tests;
