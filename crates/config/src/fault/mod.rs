//! What is wrong with a document, where, and what would be right.

mod code;
mod lookalike;
mod nearest;
mod render;

pub use code::Code;
pub use lookalike::did_you_mean;
pub use nearest::{nearest, nearest_few};
pub use render::render;

use std::borrow::Cow;

use crate::yaml::Span;

/// How bad a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The document works, but likely not as meant, or not for ever.
    Warning,
    /// The document is refused.
    Error,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Refused, or only worth saying.
    pub severity: Severity,
    /// What it is about.
    pub code: Code,
    /// The token at fault, always inside the text.
    pub span: Span,
    /// Path of the field, such as `plugins[0].type`; empty where no field is meant.
    pub path: String,
    /// One sentence that says what is wrong.
    pub message: String,
    /// A few words shown under the token. A warning without them is shown without its source line.
    pub label: String,
    /// Another place that has to do with it; the label then begins with its line.
    pub other: Option<Span>,
    /// A longer way out, shown on its own line.
    pub help: Option<String>,
}

impl Fault {
    /// Sets the words under the token.
    pub fn label(&mut self, label: impl Into<String>) -> &mut Self {
        self.label = label.into();
        self
    }

    /// Sets words under the token that follow `line N`, the line of another place.
    pub fn label_at(&mut self, other: Span, label: impl Into<String>) -> &mut Self {
        self.other = Some(other);
        self.label(label)
    }

    /// The words under the token.
    #[must_use]
    pub fn full_label(&self) -> Cow<'_, str> {
        match self.other {
            Some(other) => Cow::Owned(format!("line {} {}", other.line, self.label)),
            None => Cow::Borrowed(&self.label),
        }
    }

    /// Sets the way out.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }
}

impl std::fmt::Display for Fault {
    /// `3:9: plugins[0].type: unknown plugin type ... (did you mean ...?)`: one line, for logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: ", self.span.line, self.span.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", render::clean(&self.path))?;
        }
        f.write_str(&render::clean(&self.message))?;
        if !self.label.is_empty() {
            write!(f, " ({})", render::clean(&self.full_label()))?;
        }
        match &self.help {
            Some(help) => write!(f, "; {}", render::clean(help)),
            None => Ok(()),
        }
    }
}

/// Everything found so far. Keeps [`Faults::KEPT`] faults of each severity and counts the rest, so that a hostile file cannot make it large.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    kept: Vec<Fault>,
    errors: usize,
    warnings: usize,
    /// Where a fault goes that is counted but not kept.
    surplus: Option<Fault>,
}

impl Faults {
    /// Most faults of each severity that are kept with their text.
    pub const KEPT: usize = 100;

    /// No faults yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports an error; the result lets label and help be added.
    pub fn error(&mut self, code: Code, span: Span, path: impl Into<String>, message: impl Into<String>) -> &mut Fault {
        self.report(true, code, span, path, message)
    }

    /// Reports a warning; the result lets label and help be added.
    pub fn warning(
        &mut self,
        code: Code,
        span: Span,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> &mut Fault {
        self.report(false, code, span, path, message)
    }

    /// Reports an error or, where `severe` is false, a warning.
    pub fn report(
        &mut self,
        severe: bool,
        code: Code,
        span: Span,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> &mut Fault {
        self.push(Fault {
            severity: if severe { Severity::Error } else { Severity::Warning },
            code,
            span,
            path: path.into(),
            message: message.into(),
            label: String::new(),
            other: None,
            help: None,
        })
    }

    /// Adds a fault made elsewhere.
    pub fn push(&mut self, fault: Fault) -> &mut Fault {
        let count = match fault.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *count += 1;
        if *count > Self::KEPT {
            return self.surplus.insert(fault);
        }
        self.kept.push(fault);
        self.kept.last_mut().expect("a fault was just pushed")
    }

    /// Adds faults made elsewhere.
    pub fn extend(&mut self, faults: impl IntoIterator<Item = Box<Fault>>) {
        for fault in faults {
            self.push(*fault);
        }
    }

    /// Adds what was found elsewhere, each fault at the place that `place` says of its own.
    pub fn append(&mut self, more: Faults, place: impl Fn(Span) -> Span) {
        let (errors, warnings) = (self.errors + more.errors, self.warnings + more.warnings);
        for mut fault in more.kept {
            fault.span = place(fault.span);
            fault.other = fault.other.map(&place);
            self.push(fault);
        }
        // What was only counted there is counted here.
        (self.errors, self.warnings) = (errors, warnings);
    }

    /// Makes every warning an error.
    pub fn harden(&mut self) {
        for fault in &mut self.kept {
            fault.severity = Severity::Error;
        }
        self.errors += std::mem::take(&mut self.warnings);
    }

    /// How many errors were reported.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// How many warnings were reported.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.warnings
    }

    /// True when nothing at all was reported.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.errors + self.warnings == 0
    }

    /// True once further faults of either severity would only be counted; callers skip costly advice then.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.errors.max(self.warnings) >= Self::KEPT
    }

    /// The kept faults in the order of their places.
    #[must_use]
    pub fn sorted(&self) -> Vec<&Fault> {
        let mut all: Vec<&Fault> = self.kept.iter().collect();
        all.sort_by_key(|f| (f.span.line, f.span.column));
        all
    }

    /// The kept faults in the order of their reporting.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.kept.iter()
    }

    /// `2 errors, 1 warning`
    #[must_use]
    pub fn summary(&self) -> String {
        let counted = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        match (self.errors, self.warnings) {
            (0, 0) => "no faults".to_owned(),
            (e, 0) => counted(e, "error"),
            (0, w) => counted(w, "warning"),
            (e, w) => format!("{}, {}", counted(e, "error"), counted(w, "warning")),
        }
    }
}

/// A user's text in backquotes, cut where it is long.
pub(crate) fn quote(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((cut, _)) => format!("`{}...`", &text[..cut]),
        None => format!("`{text}`"),
    }
}

/// Names for a label: the first few, then how many more.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 8;
    let all: Vec<&str> = names.into_iter().collect();
    let mut text = all.iter().take(SHOWN).map(|n| quote(n).replace('`', "")).collect::<Vec<_>>().join(", ");
    if all.len() > SHOWN {
        text.push_str(&format!(" and {} more", all.len() - SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_kept_faults_is_bounded_and_the_rest_is_counted() {
        let mut faults = Faults::new();
        for i in 0..1000 {
            faults.error(Code::BadYaml, Span::START, "", format!("e{i}")).label("x");
        }
        faults.warning(Code::ZeroWeight, Span::START, "", "w");
        assert_eq!(faults.sorted().len(), Faults::KEPT + 1);
        assert!(faults.is_full());
        assert_eq!(faults.summary(), "1000 errors, 1 warning");
    }

    #[test]
    fn what_was_found_elsewhere_is_added_at_other_places_with_what_was_only_counted() {
        let mut inner = Faults::new();
        for _ in 0..150 {
            inner.error(Code::DuplicatePlugin, Span::START, "", "e").label_at(Span::START, "has it");
        }
        inner.warning(Code::ZeroWeight, Span::START, "", "w");
        let mut outer = Faults::new();
        outer.error(Code::BadYaml, Span::START, "", "first");
        outer.append(inner, |s| Span { line: s.line + 4, end_line: s.end_line + 4, ..s });
        assert_eq!(outer.summary(), "151 errors, 1 warning");
        let second = outer.sorted()[1].clone();
        assert_eq!((second.span.line, &*second.full_label()), (5, "line 5 has it"));
        outer.harden();
        assert_eq!((outer.errors(), outer.warnings()), (152, 0));
        assert!(outer.iter().all(|f| f.severity == Severity::Error));
    }

    #[test]
    fn a_fault_on_one_line_has_place_path_message_label_and_help() {
        let mut faults = Faults::new();
        faults.error(Code::BadYaml, Span::START, "plugins[0].type", "bad\u{1b}[31m").label("l").help("h");
        assert_eq!(faults.sorted()[0].to_string(), "1:1: plugins[0].type: bad\u{fffd}[31m (l); h");
    }

    #[test]
    fn long_names_are_cut_and_long_lists_counted() {
        assert_eq!(quote(&"é".repeat(100)).chars().count(), 80 + 5);
        assert_eq!(listed(["a", "b"]), "a, b");
        assert_eq!(listed(["a"; 10]), "a, a, a, a, a, a, a, a and 2 more");
    }
}
