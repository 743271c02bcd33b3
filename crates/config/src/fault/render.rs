//! Faults as text for a person: the place, the line itself, carets under the token, the way out.

use std::fmt::Write;

use super::{Fault, Faults, Severity};
use crate::yaml::lines;

/// Most characters of a source line that are shown; a longer one (JSON on one line) is shown around the token.
const SHOWN: usize = 160;

/// All faults in the order of their places, then how many there are. `file_name` is printed before line and column; `colour` adds
/// ANSI colours, which never carry meaning alone.
///
/// ```text
/// epp.yaml:3:9: unknown plugin type `qeue-scorer`
///     3 | - type: qeue-scorer
///       |         ^^^^^^^^^^^ did you mean `queue-scorer`?
/// 1 error
/// ```
#[must_use]
pub fn render(file_name: &str, source_text: &str, faults: &Faults, colour: bool) -> String {
    let source_text = source_text.strip_prefix('\u{feff}').unwrap_or(source_text);
    let lines = lines(source_text);
    let paint = if colour { Paint::ANSI } else { Paint::NONE };
    let mut out = String::new();
    let sorted = faults.sorted();
    for fault in &sorted {
        one(&mut out, file_name, &lines, fault, &paint);
    }
    let hidden = faults.errors() + faults.warnings() - sorted.len();
    if hidden > 0 {
        let _ = writeln!(out, "... and {hidden} more like these");
    }
    let summary = faults.summary();
    let _ = writeln!(out, "{}{summary}{}", if faults.errors() > 0 { paint.error } else { paint.place }, paint.off);
    out
}

struct Paint {
    place: &'static str,
    error: &'static str,
    warning: &'static str,
    gutter: &'static str,
    off: &'static str,
}

impl Paint {
    const NONE: Paint = Paint { place: "", error: "", warning: "", gutter: "", off: "" };
    const ANSI: Paint =
        Paint { place: "\x1b[1m", error: "\x1b[1;31m", warning: "\x1b[1;33m", gutter: "\x1b[34m", off: "\x1b[0m" };
}

fn one(out: &mut String, file_name: &str, lines: &[&str], fault: &Fault, paint: &Paint) {
    let Paint { place, gutter, off, .. } = paint;
    let (word, tone) = match fault.severity {
        Severity::Error => ("", paint.error),
        Severity::Warning => ("warning: ", paint.warning),
    };
    let (line, column) = (fault.span.line, fault.span.column);
    let _ =
        writeln!(out, "{tone}{word}{off}{place}{}:{line}:{column}:{off} {}", clean(file_name), clean(&fault.message));
    // A warning that says all in its message needs no excerpt.
    let source = lines.get(line.saturating_sub(1) as usize);
    if let Some(source) = source
        && !source.trim().is_empty()
        && (fault.severity == Severity::Error || !fault.label.is_empty())
    {
        let (excerpt, before, carets) = excerpt(source, fault);
        let _ = writeln!(out, "{gutter}{line:>5} |{off} {excerpt}");
        let blank = "";
        let mut under = format!(
            "{gutter}{blank:>5} |{off} {blank:before$}{tone}{} {}",
            "^".repeat(carets),
            clean(&fault.full_label())
        );
        under.truncate(under.trim_end().len());
        let _ = writeln!(out, "{under}{off}");
    }
    if let Some(help) = &fault.help {
        let blank = "";
        let _ = writeln!(out, "{gutter}{blank:>5} ={off} {}", clean(help));
    }
}

/// What is shown of the line, characters before the carets, number of carets.
fn excerpt(source: &str, fault: &Fault) -> (String, usize, usize) {
    let total = source.chars().count();
    let start = (fault.span.column.max(1) as usize - 1).min(total);
    let written = source.trim_end().chars().count();
    let end = if fault.span.end_line == fault.span.line { fault.span.end_column as usize - 1 } else { written };
    let carets = end.clamp(start + 1, total.max(start + 1)) - start;
    if total <= SHOWN {
        return (clean(source), start, carets);
    }
    let from = start.saturating_sub(SHOWN / 3).min(total - SHOWN);
    let window: String = source.chars().skip(from).take(SHOWN).collect();
    let (head, tail) = (if from > 0 { "..." } else { "" }, if from + SHOWN < total { "..." } else { "" });
    let before = start - from + head.len();
    (format!("{head}{}{tail}", clean(&window)), before, carets.min(SHOWN + head.len() - before.min(SHOWN)).max(1))
}

/// Without control characters, which could move a terminal's cursor; a tab is one blank, so that carets stay under their token.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => ' ',
            // Direction marks reorder what a terminal shows.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Code;
    use crate::yaml::Span;

    fn span(line: u32, column: u32, width: u32) -> Span {
        Span { line, column, end_line: line, end_column: column + width }
    }

    #[test]
    fn faults_look_like_a_compilers() {
        let text = "plugins:\n\n- type: qeue-scorer\n\n\n\n\n\n\n  plugins:\n  - pluginRef: prefix\n    weight: 0\n";
        let mut faults = Faults::new();
        faults.warning(Code::ZeroWeight, span(12, 13, 1), "", "weight 0 switches `kv-cache-utilization-scorer` off");
        faults
            .error(
                Code::UndefinedPlugin,
                span(11, 16, 6),
                "",
                "profile `default` refers to plugin `prefix`, which is not defined",
            )
            .label("defined are: queue-scorer, prefix-cache-scorer");
        faults
            .error(Code::UnknownType, span(3, 9, 11), "", "unknown plugin type `qeue-scorer`")
            .label("did you mean `queue-scorer`?");
        let want = "\
epp.yaml:3:9: unknown plugin type `qeue-scorer`
    3 | - type: qeue-scorer
      |         ^^^^^^^^^^^ did you mean `queue-scorer`?
epp.yaml:11:16: profile `default` refers to plugin `prefix`, which is not defined
   11 |   - pluginRef: prefix
      |                ^^^^^^ defined are: queue-scorer, prefix-cache-scorer
warning: epp.yaml:12:13: weight 0 switches `kv-cache-utilization-scorer` off
2 errors, 1 warning
";
        assert_eq!(render("epp.yaml", text, &faults, false), want);
    }

    #[test]
    fn colours_only_surround_the_same_text() {
        let mut faults = Faults::new();
        faults.error(Code::BadYaml, span(1, 1, 3), "", "m").label("l").help("h");
        let plain = render("f", "abc", &faults, false);
        let mut coloured = render("f", "abc", &faults, true);
        assert_ne!(plain, coloured);
        for code in ["\x1b[1;31m", "\x1b[1;33m", "\x1b[34m", "\x1b[1m", "\x1b[0m"] {
            coloured = coloured.replace(code, "");
        }
        assert_eq!(plain, coloured);
    }

    #[test]
    fn a_very_long_line_is_shown_around_the_token() {
        let text = format!("{}WRONG{}", "a".repeat(5000), "b".repeat(5000));
        let mut faults = Faults::new();
        faults.error(Code::BadYaml, span(1, 5001, 5), "", "m");
        let shown = render("f", &text, &faults, false);
        let rows: Vec<&str> = shown.lines().collect();
        assert!(rows[1].len() < SHOWN + 20, "{shown}");
        assert_eq!(rows[1].find("WRONG"), rows[2].find('^'));
        assert_eq!(rows[2].trim_start_matches([' ', '|']), "^^^^^");
    }

    #[test]
    fn control_characters_of_a_document_never_reach_the_terminal() {
        let mut faults = Faults::new();
        faults.error(Code::BadYaml, span(1, 1, 1), "", "bad \x1b[2J name").label("\x07").help("\r");
        let shown = render("f\x1b", "\ta\x1b[2Jb", &faults, false);
        assert!(!shown.contains(['\x1b', '\x07', '\r', '\t']), "{shown:?}");
    }

    #[test]
    fn a_place_past_the_text_still_renders() {
        let mut faults = Faults::new();
        faults.error(Code::BadYaml, Span { line: 9, column: 9, end_line: 9, end_column: 9 }, "", "m");
        faults.error(Code::BadYaml, Span { line: 1, column: 40, end_line: 3, end_column: 1 }, "", "m");
        assert!(render("f", "ab", &faults, false).ends_with("2 errors\n"));
    }
}
