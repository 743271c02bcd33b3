//! From parser events to the tree, within bounds.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span as ParserSpan, Tag};

use super::{Key, Node, Span, Value, remedy, resolve};
use crate::fault::{Code, Faults, quote};

/// Most bytes of one document: what a ConfigMap can hold, and what the Go picker allows an endpoints file.
pub const MAX_BYTES: usize = 1 << 20;
/// Most levels of nesting.
pub const MAX_DEPTH: usize = 64;
/// Most nodes that anchors, aliases and merge keys together may copy. What stands in the text is bounded by its size already; this
/// bounds what a few lines could be made to expand to.
pub const MAX_COPIED_NODES: usize = 100_000;

/// The text of a file: UTF-8, at most `max_bytes`, without its byte order mark. Otherwise a fault and `None`.
pub fn text_of<'a>(bytes: &'a [u8], max_bytes: usize, faults: &mut Faults) -> Option<&'a str> {
    if bytes.len() > max_bytes {
        faults.error(
            Code::TooLarge,
            Span::START,
            "",
            format!("the file has {} bytes; at most {max_bytes} are read", bytes.len()),
        );
        return None;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(e) => {
            let good = String::from_utf8_lossy(&bytes[..e.valid_up_to()]);
            let good = good.strip_prefix('\u{feff}').unwrap_or(&good);
            let lines = lines(good);
            let line = lines.len() as u32;
            let column = lines.last().map_or(0, |l| l.chars().count()) as u32 + 1;
            let span = Span { line, column, end_line: line, end_column: column + 1 };
            faults
                .error(Code::NotUtf8, span, "", "the file is not UTF-8 text")
                .label("this byte is not part of a character");
            None
        }
    }
}

/// Parses exactly one document. Syntax errors, a second document, duplicate keys and broken bounds are faults; `None` means that no
/// tree could be made. A text without any document is a `null` node.
pub fn parse(text: &str, faults: &mut Faults) -> Option<Node> {
    let mut builder = Builder::new(text, faults);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => builder.event(event, span)?,
            Err(e) => {
                let span = builder.before_blank(builder.place(*e.marker(), *e.marker()));
                let remedy = remedy::remedy(text, e.marker().line(), e.info());
                let at = remedy.as_ref().and_then(|r| r.at).map_or(span, |at| builder.inside(at));
                let begun = remedy.as_ref().and_then(|r| r.begun).map(|at| builder.inside(at));
                let fault = builder.faults.error(Code::BadYaml, at, "", format!("not valid YAML: {}", e.info()));
                if let Some(remedy) = remedy {
                    fault.label(remedy.label).other = begun;
                }
                return None;
            }
        }
    }
    Some(builder.root.unwrap_or(Node { value: Value::Null, span: Span::START }))
}

/// Lines as YAML counts them: broken by LF, CR LF or CR.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut out, mut start, mut i) = (Vec::new(), 0, 0);
    while i < bytes.len() {
        if bytes[i] == b'\n' || bytes[i] == b'\r' {
            out.push(&text[start..i]);
            i += usize::from(bytes[i] == b'\r' && bytes.get(i + 1) == Some(&b'\n'));
            start = i + 1;
        }
        i += 1;
    }
    out.push(&text[start..]);
    out
}

/// A finished node with what it would cost to copy it.
#[derive(Clone)]
struct Built {
    node: Node,
    nodes: usize,
    height: usize,
}

struct Frame {
    start: Span,
    anchor: usize,
    flow: bool,
    nodes: usize,
    height: usize,
    kind: Container,
}

enum Container {
    Sequence(Vec<Node>),
    Mapping { entries: Vec<(Key, Node)>, seen: HashMap<String, Span>, key: Option<(Key, Use)>, merges: Vec<Built> },
}

/// What becomes of the value after a key.
enum Use {
    Entry,
    Merge,
    /// The key is a duplicate, a fault already; the first value stays.
    Drop,
}

struct Builder<'f> {
    faults: &'f mut Faults,
    /// Characters in each line, to keep places inside the text whatever the parser says.
    widths: Vec<u32>,
    /// The same without blanks at the end.
    written: Vec<u32>,
    frames: Vec<Frame>,
    anchors: HashMap<usize, Built>,
    copied: usize,
    root: Option<Node>,
    documents: usize,
}

impl<'f> Builder<'f> {
    fn new(text: &str, faults: &'f mut Faults) -> Self {
        let lines = lines(text);
        let widths = lines.iter().map(|l| l.chars().count() as u32).collect();
        let written = lines.iter().map(|l| l.trim_end().chars().count() as u32).collect();
        Self {
            faults,
            widths,
            written,
            frames: Vec::new(),
            anchors: HashMap::new(),
            copied: 0,
            root: None,
            documents: 0,
        }
    }

    fn clamp(&self, at: Marker) -> (u32, u32) {
        let last = self.widths.len().max(1);
        if at.line() > last {
            return (last as u32, self.widths.last().map_or(1, |w| w + 1));
        }
        let line = at.line().max(1);
        let width = self.widths.get(line - 1).copied().unwrap_or(0);
        (line as u32, (at.col() as u32).min(width) + 1)
    }

    fn place(&self, start: Marker, end: Marker) -> Span {
        let (line, column) = self.clamp(start);
        let (end_line, end_column) = self.clamp(end).max((line, column));
        Span { line, column, end_line, end_column }
    }

    /// A place that may reach beyond its line.
    fn inside(&self, at: Span) -> Span {
        let line = at.line.clamp(1, self.widths.len().max(1) as u32);
        let end = self.widths.get(line as usize - 1).copied().unwrap_or(0) + 1;
        let column = at.column.min(end);
        Span { line, column, end_line: line, end_column: at.end_column.clamp(column, end) }
    }

    /// What is missing is noticed where the next token would be, often on an empty line: the place to look at is the end of what
    /// was written before it.
    fn before_blank(&self, at: Span) -> Span {
        if self.written.get(at.line as usize - 1).is_some_and(|w| *w > 0) {
            return at;
        }
        let above = self.written.get(..at.line as usize - 1).unwrap_or_default();
        let Some(line) = above.iter().rposition(|w| *w > 0) else { return at };
        let (line, column) = (line as u32 + 1, above[line] + 1);
        Span { line, column, end_line: line, end_column: column }
    }

    /// `None` ends the parse.
    fn event(&mut self, event: Event<'_>, at: ParserSpan) -> Option<()> {
        let span = self.place(at.start, at.end);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    self.faults.error(
                        Code::SecondDocument,
                        span,
                        "",
                        "a second document begins here; one file holds one document",
                    );
                    return None;
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                if plain && self.wants_key() {
                    return self.key(text.into_owned(), true, span);
                }
                let value = self.scalar(&text, plain, tag.as_deref(), span)?;
                if self.wants_key() {
                    return self.key(text.into_owned(), false, span);
                }
                self.finished(Built { node: Node { value, span }, nodes: 1, height: 1 }, anchor)?;
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(span, at, anchor, tag.as_deref(), Container::Sequence(Vec::new()))?;
            }
            Event::MappingStart(anchor, tag) => {
                let kind =
                    Container::Mapping { entries: Vec::new(), seen: HashMap::new(), key: None, merges: Vec::new() };
                self.open(span, at, anchor, tag.as_deref(), kind)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span, at)?,
            Event::Alias(id) => {
                let Some(nodes) = self.anchors.get(&id).map(|b| b.nodes) else {
                    self.faults.error(
                        Code::IncompleteAlias,
                        span,
                        "",
                        "this alias refers to a node that is not complete yet",
                    );
                    return None;
                };
                self.charge(nodes, span)?;
                let target = self.anchors.get(&id).cloned()?;
                if self.wants_key() {
                    let Some(text) = target.node.as_str().map(str::to_owned) else {
                        self.faults.error(Code::KeyNotText, span, "", "a key must be text");
                        return None;
                    };
                    return self.key(text, false, span);
                }
                self.finished(target, 0)?;
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Some(())
    }

    fn wants_key(&self) -> bool {
        matches!(self.frames.last(), Some(Frame { kind: Container::Mapping { key: None, .. }, .. }))
    }

    fn key(&mut self, text: String, plain: bool, span: Span) -> Option<()> {
        if let Some(Frame { kind: Container::Mapping { seen, key, .. }, .. }) = self.frames.last_mut() {
            let used = if plain && text == "<<" {
                Use::Merge
            } else if let Some(first) = seen.get(&text).copied() {
                let message = format!("key {} is already set in this mapping", quote(&text));
                self.faults.error(Code::DuplicateKey, span, text.clone(), message).label_at(first, "has it already");
                Use::Drop
            } else {
                seen.insert(text.clone(), span);
                Use::Entry
            };
            *key = Some((Key { text, span }, used));
        }
        Some(())
    }

    fn scalar(&mut self, text: &str, plain: bool, tag: Option<&Tag>, span: Span) -> Option<Value> {
        let string = || Value::String { text: text.to_owned(), plain: false };
        match tag {
            None if plain => Some(resolve::plain(text)),
            None => Some(string()),
            Some(t) if t.is_yaml_core_schema() && t.suffix == "str" => Some(string()),
            Some(t) if t.is_yaml_core_schema() && matches!(t.suffix.as_str(), "int" | "float" | "bool" | "null") => {
                Some(resolve::plain(text))
            }
            Some(t) if t.handle.is_empty() && t.suffix == "!" => Some(string()),
            Some(t) => self.unknown_tag(t, span),
        }
    }

    fn unknown_tag<T>(&mut self, tag: &Tag, span: Span) -> Option<T> {
        self.faults.error(Code::UnknownTag, span, "", format!("tag {} has no meaning here", quote(&tag.to_string())));
        None
    }

    fn open(&mut self, start: Span, at: ParserSpan, anchor: usize, tag: Option<&Tag>, kind: Container) -> Option<()> {
        if let Some(t) = tag
            && !(t.is_yaml_core_schema() && matches!(t.suffix.as_str(), "map" | "seq"))
        {
            return self.unknown_tag(t, start);
        }
        if self.wants_key() {
            let fault = self.faults.error(Code::KeyNotText, start, "", "a key must be text");
            // `{{ x }}` is a mapping whose key is a mapping.
            let inner = matches!(kind, Container::Mapping { .. });
            if inner && self.frames.last().is_some_and(|f| f.flow && f.start.end_column == start.column) {
                fault.label(remedy::TEMPLATE);
            }
            return None;
        }
        if self.frames.len() >= MAX_DEPTH {
            self.faults.error(Code::TooDeep, start, "", format!("nested more than {MAX_DEPTH} levels deep"));
            return None;
        }
        self.frames.push(Frame { start, anchor, flow: at.end.index() > at.start.index(), nodes: 1, height: 0, kind });
        Some(())
    }

    fn close(&mut self, end: Span, at: ParserSpan) -> Option<()> {
        let Some(mut frame) = self.frames.pop() else { return Some(()) };
        if let Container::Mapping { entries, seen, merges, .. } = &mut frame.kind {
            let merges = std::mem::take(merges);
            for merge in merges {
                // Charged once more: these entries are copies beside the node they come from.
                self.charge(merge.nodes, merge.node.span)?;
                frame.nodes += merge.nodes;
                frame.height = frame.height.max(merge.height);
                self.merge(merge.node, entries, seen);
            }
        }
        let mut span = frame.start;
        let last = match &frame.kind {
            Container::Sequence(items) => items.last(),
            Container::Mapping { entries, .. } => entries.last().map(|(_, v)| v),
        };
        // The end of a block container is noticed only at the next token; its last child says better where it ends.
        let stop = if frame.flow && at.end.index() > at.start.index() {
            (end.end_line, end.end_column)
        } else {
            last.map_or((span.end_line, span.end_column), |n| (n.span.end_line, n.span.end_column))
        };
        (span.end_line, span.end_column) = stop.max((span.line, span.column));
        let value = match frame.kind {
            Container::Sequence(items) => Value::Sequence(items),
            Container::Mapping { entries, .. } => Value::Mapping(entries),
        };
        self.finished(Built { node: Node { value, span }, nodes: frame.nodes, height: frame.height + 1 }, frame.anchor)
    }

    /// `<<: *base` and `<<: [*a, *b]`: entries that the mapping does not have itself; earlier ones win.
    fn merge(&mut self, from: Node, entries: &mut Vec<(Key, Node)>, seen: &mut HashMap<String, Span>) {
        let sources = match from.value {
            Value::Sequence(items) => items,
            value => vec![Node { value, span: from.span }],
        };
        for source in sources {
            match source.value {
                Value::Mapping(more) => {
                    for (key, value) in more {
                        if !seen.contains_key(&key.text) {
                            seen.insert(key.text.clone(), key.span);
                            entries.push((key, value));
                        }
                    }
                }
                _ => {
                    self.faults.error(Code::BadMerge, source.span, "<<", "only a mapping can be merged");
                }
            }
        }
    }

    fn finished(&mut self, built: Built, anchor: usize) -> Option<()> {
        if self.frames.len() + built.height > MAX_DEPTH + 1 {
            self.faults.error(Code::TooDeep, built.node.span, "", format!("nested more than {MAX_DEPTH} levels deep"));
            return None;
        }
        if anchor > 0 {
            self.charge(built.nodes, built.node.span)?;
            self.anchors.insert(anchor, built.clone());
        }
        let Some(frame) = self.frames.last_mut() else {
            self.root = Some(built.node);
            return Some(());
        };
        match &mut frame.kind {
            Container::Sequence(items) => items.push(built.node),
            Container::Mapping { entries, key, merges, .. } => match key.take() {
                Some((key, Use::Entry)) => entries.push((key, built.node)),
                Some((_, Use::Merge)) => {
                    merges.push(built);
                    return Some(());
                }
                Some((_, Use::Drop)) | None => return Some(()),
            },
        }
        frame.nodes += built.nodes;
        frame.height = frame.height.max(built.height);
        Some(())
    }

    fn charge(&mut self, nodes: usize, span: Span) -> Option<()> {
        self.copied += nodes;
        if self.copied > MAX_COPIED_NODES {
            self.faults.error(
                Code::AliasesTooLarge,
                span,
                "",
                format!("aliases expand to more than {MAX_COPIED_NODES} nodes"),
            );
            return None;
        }
        Some(())
    }
}
