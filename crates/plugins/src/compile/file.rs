//! A whole file: every configuration in it compiled, every fault at its place in the file.

use super::{CompileOptions, Compiled, compile, compile_tree};
use pointsman_config::embedded::{Content, find};
use pointsman_config::{Code, Faults, Span};

/// What became of a file.
#[derive(Debug, Default)]
pub struct Judged {
    /// The configurations in it, in order; one at least.
    pub documents: Vec<JudgedDocument>,
    /// What is wrong with them.
    pub faults: Faults,
}

/// One configuration of a file.
#[derive(Debug)]
pub struct JudgedDocument {
    /// Where it is: `data.epp.yaml`; empty where it is no part of another document.
    pub at: String,
    /// `None` when there are errors in it.
    pub compiled: Option<Compiled>,
    /// Whether something is warned of in it.
    pub warned: bool,
    /// Whether it can be used.
    pub usable: bool,
}

impl Judged {
    /// Takes warnings for errors: what is warned of cannot be used.
    pub fn harden(&mut self) {
        self.faults.harden();
        for document in &mut self.documents {
            document.usable &= !document.warned;
        }
    }

    /// Whether all of it can be used.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.faults.errors() == 0 && self.documents.iter().all(|d| d.usable)
    }
}

/// Compiles every configuration of a file: the document itself, several of them, or those inside of a ConfigMap or of Helm values. A
/// start takes less: one document.
pub fn judge(bytes: &[u8], options: &CompileOptions) -> Judged {
    let mut judged = Judged::default();
    let Ok(text) = std::str::from_utf8(bytes) else {
        // The compilation says which byte is no text.
        let compiled = compile(bytes, options, &mut judged.faults);
        judged.documents.push(JudgedDocument { at: String::new(), compiled, warned: false, usable: false });
        return judged;
    };
    let mut standing_alone = 0;
    for part in find(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        let mut faults = Faults::new();
        let (compiled, places) = match part.content {
            Content::Text { text, places } => (compile(text.as_bytes(), options, &mut faults), places),
            Content::Tree { node, places, misplaced } => {
                faults.extend(misplaced);
                (compile_tree(&node, options, &mut faults), places)
            }
            Content::Unreadable { fault, places } => {
                faults.extend([fault]);
                (None, places)
            }
        };
        standing_alone += usize::from(part.path.is_empty());
        if part.path.is_empty() && standing_alone == 2 {
            faults
                .warning(Code::SeveralDocuments, Span::START, "", "another configuration begins here")
                .label("a start takes files of one configuration only");
        }
        let (warned, usable) = (faults.warnings() > 0, compiled.is_some() && faults.errors() == 0);
        judged.faults.append(faults, |span| places.place(span));
        judged.documents.push(JudgedDocument { at: part.path, compiled, warned, usable });
    }
    judged
}
