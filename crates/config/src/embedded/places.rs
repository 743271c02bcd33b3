//! Where the characters of an embedded text stand in the file around it.

use crate::yaml::{Span, lines};

/// From places in an embedded text to places in the file.
#[derive(Clone, Debug)]
pub struct Places {
    /// Lines of the file before the document.
    shift: u32,
    /// The text's own characters, when it is a scalar of the document.
    scalar: Option<Scalar>,
    /// Where its `>` stands, when it is a folded block.
    folded: Option<Span>,
}

/// The place of every character of a scalar, line breaks included, in the document that holds it.
#[derive(Clone, Debug)]
struct Scalar {
    /// Line and column, from 1.
    chars: Vec<(u32, u32)>,
    /// Number of the first character of each line of the text, and one more at the end.
    starts: Vec<usize>,
    /// Characters of each line of the document.
    widths: Vec<u32>,
}

impl Places {
    /// Of a text that is a whole document after so many lines.
    pub(super) fn shifted(lines: u32) -> Self {
        Self { shift: lines, scalar: None, folded: None }
    }

    /// Of a scalar that begins at `at` in a document of these lines.
    pub(super) fn of_scalar(lines: &[&str], at: Span, text: &str, shift: u32) -> Self {
        Self { shift, scalar: Some(Scalar::new(lines, at, text)), folded: folded(lines, at) }
    }

    /// Where, in the document, the `>` of a folded block stands.
    pub(super) fn folded(&self) -> Option<Span> {
        self.folded
    }

    /// Where something of the text stands in the file.
    #[must_use]
    pub fn place(&self, span: Span) -> Span {
        let span = self.scalar.as_ref().map_or(span, |s| s.place(span));
        Span { line: span.line + self.shift, end_line: span.end_line + self.shift, ..span }
    }
}

fn folded(document: &[&str], at: Span) -> Option<Span> {
    let mut walk = Walk::new(document, at);
    let header = walk.header_above().or_else(|| {
        walk.skip_properties();
        walk.header_here()
    });
    let (line, _) = header.filter(|(_, fold)| *fold)?;
    let written = document.get(line)?.split(" #").next().unwrap_or_default();
    let column = written[..written.rfind('>')?].chars().count() as u32 + 1;
    let line = line as u32 + 1;
    Some(Span { line, column, end_line: line, end_column: column + 1 })
}

impl Scalar {
    fn new(document: &[&str], at: Span, text: &str) -> Self {
        let mut walk = Walk::new(document, at);
        let header = walk.header_above().or_else(|| {
            walk.skip_properties();
            walk.header_here()
        });
        let (style, fold) = match (header, walk.here()) {
            (Some((line, fold)), _) => {
                walk.begin_block(line, text);
                (Style::Block, fold)
            }
            (None, Some('"')) => (Style::Double, true),
            (None, Some('\'')) => (Style::Single, true),
            (None, _) => (Style::Plain, true),
        };
        walk.column += usize::from(matches!(style, Style::Double | Style::Single));
        let mut chars = Vec::with_capacity(text.len());
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            walk.settle(style);
            chars.push(walk.place());
            let broken = walk.at_end_of_line(style) && (c == '\n' || (fold && c == ' '));
            if broken {
                walk.next_line();
                while fold && rest.peek().is_some_and(|next| *next != '\n') && walk.is_blank() {
                    walk.next_line();
                }
            } else {
                walk.column += walk.width(style);
            }
        }
        chars.push(walk.place());
        let mut starts = vec![0];
        for line in lines(text) {
            let after = starts.last().copied().unwrap_or(0) + line.chars().count();
            // A break is one character here; `\r\n` came out of the parser as `\n`.
            starts.push(after + 1);
        }
        let widths = document.iter().map(|l| l.chars().count() as u32).collect();
        Self { chars, starts, widths }
    }

    fn at(&self, line: u32, column: u32) -> usize {
        let line = (line.max(1) as usize - 1).min(self.starts.len() - 2);
        let last = self.starts[line + 1] - 1;
        (self.starts[line] + column.max(1) as usize - 1).min(last).min(self.chars.len() - 1)
    }

    fn place(&self, span: Span) -> Span {
        let (from, to) = (self.at(span.line, span.column), self.at(span.end_line, span.end_column));
        let (line, column) = self.chars[from];
        let (end_line, end_column) = if to > from {
            let (line, column) = self.chars[to - 1];
            // What ends with a line break ends at the end of the line.
            let width = self.widths.get(line as usize - 1).copied().unwrap_or_default();
            (line, (column + 1).min(width + 1))
        } else {
            (line, column)
        };
        Span { line, column, end_line, end_column }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Block,
    Double,
    Single,
    Plain,
}

/// A place in the raw text that follows the characters read from it. It never leaves the text, whatever it is asked to follow.
struct Walk<'a> {
    document: &'a [&'a str],
    /// From 0.
    line: usize,
    /// From 0.
    column: usize,
    /// Characters of the line.
    chars: Vec<char>,
    /// Of a block scalar's content.
    indent: usize,
}

impl<'a> Walk<'a> {
    fn new(document: &'a [&'a str], at: Span) -> Self {
        let line = at.line.max(1) as usize - 1;
        let chars = document.get(line).map(|l| l.chars().collect()).unwrap_or_default();
        Self { document, line, column: at.column.max(1) as usize - 1, chars, indent: 0 }
    }

    fn here(&self) -> Option<char> {
        self.chars.get(self.column).copied()
    }

    fn place(&self) -> (u32, u32) {
        (self.line as u32 + 1, self.column.min(self.chars.len()) as u32 + 1)
    }

    fn next_line(&mut self) {
        if self.line + 1 >= self.document.len() {
            self.column = self.chars.len();
            return;
        }
        self.line += 1;
        self.chars = self.document[self.line].chars().collect();
        // Flow scalars are trimmed on both sides of a break, block scalars lose their indentation.
        let blanks = self.chars.iter().take_while(|c| **c == ' ' || (self.indent == 0 && **c == '\t')).count();
        self.column = if self.indent > 0 { blanks.min(self.indent) } else { blanks };
    }

    /// Passes an anchor and a tag: with these a scalar begins there.
    fn skip_properties(&mut self) {
        while matches!(self.here(), Some('&' | '!')) {
            self.column += self.chars[self.column..].iter().take_while(|c| !c.is_whitespace()).count();
            self.column += self.chars[self.column..].iter().take_while(|c| c.is_whitespace()).count();
            let line = self.line;
            while self.here().is_none_or(|c| c == '#') && self.line + 1 < self.document.len() {
                self.next_line();
            }
            if self.line > line && self.here().is_none() {
                return;
            }
        }
    }

    /// The line of a block scalar's `|` or `>`, when that is here, and whether it is folded.
    fn header_here(&self) -> Option<(usize, bool)> {
        self.here().filter(|c| matches!(c, '|' | '>')).map(|c| (self.line, c == '>'))
    }

    /// The same for a scalar without anchor and tag: it begins at its first written character, below that line.
    fn header_above(&self) -> Option<(usize, bool)> {
        if !self.chars.get(..self.column)?.iter().all(|c| c.is_whitespace()) {
            return None;
        }
        let line = (0..self.line).rev().find(|l| !self.document[*l].trim().is_empty())?;
        let header = self.document[line].split(" #").next().unwrap_or_default();
        let mark = header.split_whitespace().next_back()?;
        let fold = mark.starts_with('>');
        let is_mark =
            mark.starts_with(['|', '>']) && mark[1..].chars().all(|c| c == '+' || c == '-' || c.is_ascii_digit());
        is_mark.then_some((line, fold))
    }

    /// Goes to where the content begins. Its indentation is what its first written line has more than the text's.
    fn begin_block(&mut self, header: usize, text: &str) {
        self.line = header;
        self.next_line();
        let blanks = |l: &str| l.chars().take_while(|c| *c == ' ').count();
        let raw = self.document[self.line.min(self.document.len() - 1)..].iter().find(|l| !l.trim().is_empty());
        let read = lines(text).into_iter().find(|l| !l.trim().is_empty());
        let (raw, read) = (raw.map_or(0, |l| blanks(l)), read.map_or(0, blanks));
        self.indent = raw.saturating_sub(read).max(1);
        self.column = blanks(self.document[self.line.min(self.document.len() - 1)]).min(self.indent);
    }

    fn is_blank(&self) -> bool {
        self.line + 1 < self.document.len() && self.chars.iter().all(|c| c.is_whitespace())
    }

    fn at_end_of_line(&self, style: Style) -> bool {
        let rest = self.chars.get(self.column..).unwrap_or_default();
        rest.is_empty() || (style != Style::Block && rest.iter().all(|c| *c == ' ' || *c == '\t'))
    }

    /// Steps over what gives no character: an escaped line break.
    fn settle(&mut self, style: Style) {
        while style == Style::Double && self.here() == Some('\\') && self.column + 1 >= self.chars.len() {
            let line = self.line;
            self.next_line();
            if self.line == line {
                return;
            }
        }
    }

    /// How many characters stand for the one that is read here.
    fn width(&self, style: Style) -> usize {
        let width = match (style, self.here(), self.chars.get(self.column + 1)) {
            (Style::Double, Some('\\'), Some('x')) => 4,
            (Style::Double, Some('\\'), Some('u')) => 6,
            (Style::Double, Some('\\'), Some('U')) => 10,
            (Style::Double, Some('\\'), Some(_)) | (Style::Single, Some('\''), Some('\'')) => 2,
            _ => 1,
        };
        width.min(self.chars.len().saturating_sub(self.column))
    }
}
