//! What is likely behind a syntax error, and what to write instead. A parser notices a slip only where nothing fits any more, often a line too late; here
//! the lines around that place are looked at for the slips that people make.

use super::{Span, lines};

/// What to do about `{{ ... }}`.
pub(super) const TEMPLATE: &str = "this is a template: render the chart first, `helm template`";

/// A slip and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Remedy {
    /// The place to look at, where it is not the parser's.
    pub(super) at: Option<Span>,
    /// Where something was begun.
    pub(super) begun: Option<Span>,
    pub(super) label: String,
}

impl Remedy {
    fn of(label: impl Into<String>) -> Self {
        Self { at: None, begun: None, label: label.into() }
    }

    fn at(span: Span, label: impl Into<String>) -> Self {
        Self { at: Some(span), ..Self::of(label) }
    }
}

/// The remedy for an error that the parser words as `info` and places on `line`, from 1.
pub(super) fn remedy(text: &str, line: usize, info: &str) -> Option<Remedy> {
    let lines = lines(text);
    let here = line.clamp(1, lines.len()) - 1;
    let written = |n: &usize| !content(lines[*n]).trim().is_empty();
    let above = (0..here).rev().find(written);
    let below = (here + 1..lines.len()).find(written);
    let near: Vec<usize> = above.into_iter().chain([here]).chain(below).collect();
    template(&lines, &near[..near.len() - usize::from(below.is_some())])
        .or_else(|| tab(&lines, &near))
        .or_else(|| unclosed(&lines, here, info))
        .or_else(|| space_after_colon(&lines, above, here))
        .or_else(|| indentation(&lines, above?, here, info))
        .or_else(|| colon_in_text(lines[here], info))
}

/// `{{ ... }}`, which only a template engine reads.
fn template(lines: &[&str], near: &[usize]) -> Option<Remedy> {
    let is_template = |n: &&usize| lines.get(**n).is_some_and(|l| content(l).contains("{{"));
    let n = near.iter().rev().find(is_template)?;
    let column = lines[*n].split("{{").next()?.chars().count();
    Some(Remedy::at(span(*n, column, 2), TEMPLATE))
}

fn tab(lines: &[&str], near: &[usize]) -> Option<Remedy> {
    near.iter().find_map(|n| {
        let column = lines[*n].chars().take_while(|c| *c == ' ').count();
        let found = lines[*n].chars().nth(column) == Some('\t') && !lines[*n].trim().is_empty();
        found.then(|| Remedy::at(span(*n, column, 1), format!("line {} begins with a tab: write spaces", n + 1)))
    })
}

/// The bracket that was opened last and never closed, if the error has to do with brackets.
fn unclosed(lines: &[&str], here: usize, info: &str) -> Option<Remedy> {
    if !["flow", "','", "bracket", "simple key", "node content", "end of plain"].iter().any(|word| info.contains(word))
    {
        return None;
    }
    let mut open: Vec<(char, Span)> = Vec::new();
    'text: for (n, line) in lines.iter().enumerate() {
        let (mut quote, mut before, mut value) = (None, ' ', true);
        for (column, c) in content(line).chars().enumerate() {
            match (quote, c) {
                (Some(q), _) if c == q => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'') if value => quote = Some(c),
                (None, '{' | '[') if value => open.push((c, span(n, column, 1))),
                (None, '}' | ']') if !open.is_empty() => {
                    let fits = open.last().is_some_and(|(o, _)| (*o == '{') == (c == '}'));
                    if !fits {
                        break 'text;
                    }
                    open.pop();
                }
                _ => {}
            }
            value = matches!(c, '{' | '[' | ',') || (c == ' ' && (value || matches!(before, ':' | '-' | ',')));
            before = c;
        }
    }
    let (bracket, begun) = open.pop().filter(|(_, at)| at.line as usize <= here + 1)?;
    let closing = if bracket == '{' { '}' } else { ']' };
    Some(Remedy { at: None, begun: Some(begun), label: format!("opens a `{bracket}` that no `{closing}` closes") })
}

/// `weight:2`
fn space_after_colon(lines: &[&str], above: Option<usize>, here: usize) -> Option<Remedy> {
    [Some(here), above].into_iter().flatten().find_map(|n| {
        let body = content(lines[n]).trim_start_matches([' ', '-']);
        let (key, value) = body.split_once(':')?;
        let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        let missing = is_key && value.starts_with(|c: char| !c.is_whitespace()) && !value.starts_with("//");
        let column = content(lines[n]).chars().count() - body.chars().count();
        let width = key.len() + 1;
        missing.then(|| Remedy::at(span(n, column, width), format!("write a space after the colon: `{key}: ...`")))
    })
}

fn indentation(lines: &[&str], above: usize, here: usize, info: &str) -> Option<Remedy> {
    let about = ["expected key", "expected '-'", "document start", "mapping values", "indentation", "simple key"];
    if content(lines[here]).trim().is_empty() || !about.iter().any(|word| info.contains(word)) {
        return None;
    }
    let blanks = |line: &str| line.chars().take_while(|c| *c == ' ').count();
    let upper = content(lines[above]).trim_end();
    // Keys stand where the first one of their list item stands.
    let begin = upper.chars().take_while(|c| matches!(c, ' ' | '-')).count();
    let own = blanks(lines[here]);
    let own_begin = content(lines[here]).chars().take_while(|c| matches!(c, ' ' | '-')).count();
    let item = own_begin > own;
    let wanted = if item { blanks(upper) } else { begin };
    let side = match own.cmp(&wanted) {
        std::cmp::Ordering::Greater if !upper.ends_with(':') => "right",
        std::cmp::Ordering::Less => "left",
        _ => return None,
    };
    let width = content(lines[here]).trim_end().chars().count().saturating_sub(own).max(1);
    let place = span(here, own, width);
    let begun = Some(span(above, begin, 1));
    Some(Remedy { at: Some(place), begun, label: format!("is what it continues, and it stands further {side}") })
}

/// `note: a: b`
fn colon_in_text(line: &str, info: &str) -> Option<Remedy> {
    let twice = content(line).matches(": ").count() > 1;
    (twice && info.contains("mapping values")).then(|| Remedy::of("put text that holds a colon and a space in quotes"))
}

/// A line without its comment.
fn content(line: &str) -> &str {
    if line.trim_start().starts_with('#') { "" } else { line.split(" #").next().unwrap_or_default() }
}

/// Line and column from 0.
fn span(line: usize, column: usize, width: usize) -> Span {
    let (line, column) = (line as u32 + 1, column as u32 + 1);
    Span { line, column, end_line: line, end_column: column + width as u32 }
}

#[cfg(test)]
mod tests {
    use crate::fault::Faults;
    use crate::yaml::parse;

    fn told(text: &str) -> String {
        let mut faults = Faults::new();
        parse(text, &mut faults);
        assert_eq!(faults.errors(), 1, "{text:?}: {faults:?}");
        let fault = faults.sorted()[0].clone();
        format!("{}:{} {}", fault.span.line, fault.span.column, fault.full_label())
    }

    #[test]
    fn slips_that_people_make_are_told_with_what_to_write() {
        for (text, want) in [
            ("a:\n- type: x\n\tname: b\n", "3:1 line 3 begins with a tab: write spaces"),
            ("a:\n\tb: 1\n", "2:1 line 2 begins with a tab: write spaces"),
            ("- pluginRef: x\n  weight:2\n- a: 1\n", "2:3 write a space after the colon: `weight: ...`"),
            ("- weight:2\n  pluginRef: x\n", "1:3 write a space after the colon: `weight: ...`"),
            ("a: {b: 3\nc: []\n", "2:2 line 1 opens a `{` that no `}` closes"),
            ("a:\n- {type: [x\n- {type: y}\n", "3:3 line 2 opens a `[` that no `]` closes"),
            ("a: [x}\nb: 1\n", "1:6 line 1 opens a `[` that no `]` closes"),
            ("- type: x\n    name: y\n", "2:5 line 1 is what it continues, and it stands further right"),
            ("- type: x\n name: y\n", "2:2 line 1 is what it continues, and it stands further left"),
            ("a:\n    - x: 1\n  - x: 2\n", "3:3 line 2 is what it continues, and it stands further left"),
            ("a: b: c\n", "1:5 put text that holds a colon and a space in quotes"),
            ("a: {{ .Values.a }}\n", "1:5 this is a template: render the chart first, `helm template`"),
            (
                "a:\n{{- if .Values.b }}\n  c: 1\n{{- end }}\n",
                "2:1 this is a template: render the chart first, `helm template`",
            ),
        ] {
            assert_eq!(told(text), want, "{text}");
        }
    }

    #[test]
    fn an_error_of_no_known_kind_has_no_remedy() {
        assert_eq!(told("a: *nope\n"), "1:4 ");
        assert_eq!(told("a: \"x"), "1:4 ");
    }
}
