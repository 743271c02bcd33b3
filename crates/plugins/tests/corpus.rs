//! Documents good and bad (`configs/*.yaml`), each beside what `pointsman check` says of it (`*.txt`).
//!
//! `UPDATE_GOLDEN=1 cargo test -p pointsman-plugins --test corpus` writes all reports anew, and with them the page of wrong
//! configurations in `docs/troubleshooting.md`. A line `# check: FLAGS` in a document gives the flags it is checked with. The fuzz
//! target `compile` begins with the same documents.

use pointsman_config::{Code, Faults, endpoints, render};
use pointsman_plugins::{CompileOptions, DefaultProfile, Judged, judge};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Codes that no document shows, and why.
const ELSEWHERE: &[(Code, &str)] = &[
    (Code::TooLarge, "a file of more than a megabyte; tested in pointsman-config"),
    (Code::SecondDocument, "a start alone reads one document; `check` reads them all; tested in pointsman-config"),
    (Code::CyclicData, "no two plugins of this release read each other's data"),
    (Code::ProducerNotDeclared, "no plugin of this release cannot do without a session"),
    (Code::UnreachableProfile, "needs a handler of several profiles; tested in examples.rs once there is one"),
];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs").join(path)
}

fn documents(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(here(folder)).expect("the corpus");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    files
}

fn name(file: &Path) -> String {
    file.file_name().expect("a name").to_string_lossy().into_owned()
}

/// What became of a file, with the flags that it names.
fn judged(bytes: &[u8]) -> Judged {
    let text = String::from_utf8_lossy(bytes);
    let flags = text.lines().find_map(|l| l.strip_prefix("# check:")).unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|f| f == flag);
    let options = CompileOptions {
        allow_experimental: has("--allow-experimental-plugins"),
        default: DefaultProfile::Serve,
        states: Arc::default(),
    };
    let mut judged = judge(bytes, &options);
    if has("--strict") {
        judged.harden();
    }
    judged
}

fn endpoints_of(bytes: &[u8]) -> Faults {
    let mut faults = Faults::new();
    let _ = endpoints::parse(bytes, endpoints::Options::default(), &mut faults);
    faults
}

/// File by file: where it is, its bytes, its faults.
fn all() -> Vec<(PathBuf, Vec<u8>, Faults)> {
    let read = |file: &PathBuf| std::fs::read(file).expect("readable");
    let configurations = documents("").into_iter().map(|f| {
        let bytes = read(&f);
        let judged = judged(&bytes);
        assert_eq!(judged.is_usable(), judged.faults.errors() == 0, "{}: {judged:?}", f.display());
        (f, bytes, judged.faults)
    });
    let lists = documents("endpoints").into_iter().map(|f| {
        let bytes = read(&f);
        let faults = endpoints_of(&bytes);
        (f, bytes, faults)
    });
    configurations.chain(lists).collect()
}

fn report(name: &str, bytes: &[u8], faults: &Faults) -> String {
    if faults.is_empty() {
        return match judged(bytes).documents.len() {
            0 | 1 => format!("{name}: no faults\n"),
            n => format!("{name}: no faults in {n} configurations\n"),
        };
    }
    render(name, &String::from_utf8_lossy(bytes), faults, false)
}

/// Compares with a file, or writes it.
fn same_as(file: &Path, text: &str, wrong: &mut String) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(file, text).expect("the file can be written");
    }
    let written = std::fs::read_to_string(file).unwrap_or_default();
    if written != text {
        wrong.push_str(&format!("--- {} says\n{written}--- and it is\n{text}", file.display()));
    }
}

#[test]
fn every_document_of_the_corpus_gets_the_report_beside_it() {
    let mut wrong = String::new();
    for (file, bytes, faults) in all() {
        same_as(&file.with_extension("txt"), &report(&name(&file), &bytes, &faults), &mut wrong);
        let good = name(&file).starts_with("good");
        assert!(!good || faults.is_empty(), "{}: {faults:?}", file.display());
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_kind_of_fault_is_shown_by_a_document() {
    let shown: BTreeSet<Code> = all().iter().flat_map(|(.., faults)| faults.iter().map(|f| f.code)).collect();
    let elsewhere: BTreeMap<Code, &str> = ELSEWHERE.iter().copied().collect();
    let missing: Vec<&Code> = Code::ALL.iter().filter(|c| !shown.contains(c) && !elsewhere.contains_key(c)).collect();
    assert!(missing.is_empty(), "write a document that shows {missing:?}");
    let no_longer: Vec<&Code> = elsewhere.keys().filter(|c| shown.contains(c)).collect();
    assert!(no_longer.is_empty(), "a document shows {no_longer:?} now; take them from the list");
}

#[test]
fn every_fault_points_into_its_file_and_says_what_to_do() {
    for (file, bytes, faults) in all() {
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.split('\n').collect();
        for fault in faults.iter() {
            let line = lines.get(fault.span.line as usize - 1);
            let width = line.map(|l| l.chars().count() as u32);
            assert!(width.is_some_and(|w| (1..=w + 1).contains(&fault.span.column)), "{}: {fault:?}", file.display());
        }
    }
}

/// The fuzz target `compile` in small, for machines without a fuzzer.
#[test]
fn the_documents_of_the_corpus_with_damage_are_judged_without_a_panic() {
    const PIECES: [&str; 12] = ["", "-", ":", "\n", "  ", "[", "}", "\"", "|", "&a ", "*a", "---\n"];
    let documents = all();
    let mut draws = pointsman_core::xxh64(b"corpus");
    let mut draw = |below: usize| {
        draws = pointsman_core::xxh64(&draws.to_le_bytes());
        draws as usize % below.max(1)
    };
    for (_, bytes, _) in &documents {
        for _ in 0..8 {
            let mut damaged = bytes.clone();
            for _ in 0..=draw(3) {
                let at = draw(damaged.len() + 1);
                let end = (at + draw(12)).min(damaged.len());
                let other = &documents[draw(documents.len())].1;
                let piece = match draw(3) {
                    0 => &other[draw(other.len())..],
                    _ => PIECES[draw(PIECES.len())].as_bytes(),
                };
                damaged.splice(at..end, piece.iter().copied());
            }
            if let Err(panic) = std::panic::catch_unwind(|| pointsman_plugins::fuzzing::file(&damaged)) {
                println!("judged was: {:?}", String::from_utf8_lossy(&damaged));
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Documents of the page, each with its story: what happened to whoever wrote it for the Go picker.
const ON_THE_PAGE: [(&str, &str); 10] = [
    (
        "unknown-type",
        "A plugin of one's own that the image does not have, and a typo. The Go picker ended with a stack trace (llm-d-modelservice#40).",
    ),
    ("configmap-block", "The same inside of a ConfigMap, where a line of the document is not a line of the file."),
    ("gate-always-on", "Gates of an earlier release. The Go picker says `unknown or unregistered` and no more."),
    ("undefined-plugin", "Plugins that were given names, and are referred to by their types."),
    ("no-parameters", "A threshold for a scorer that has none. The Go picker starts and ignores it."),
    (
        "unclear-picker",
        "Two pickers, and a profile that names none. The Go picker takes one of them, at each start another one.",
    ),
    (
        "no-engine-metrics",
        "Defaults are switched off, and nothing takes their place. The Go picker names a data key and no plugin.",
    ),
    (
        "missing-signal",
        "Adapters are rated by metrics that the engine does not have (llm-d-router#926). The Go picker rates everybody 0.",
    ),
    (
        "unknown-producer",
        "A producer was renamed. The Go picker makes a second one, or refuses to start, depending on the type.",
    ),
    ("no-prompts", "Prefixes are to be compared, and no parser reads any prompt."),
];

#[test]
fn the_page_of_wrong_configurations_shows_what_check_says_today() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/troubleshooting.md");
    let text = std::fs::read_to_string(&page).expect("the page");
    let begin = text.find("<!-- wrong configurations: begin").expect("where it begins");
    let from = begin + text[begin..].find('\n').expect("a line") + 1;
    let to = text.find("<!-- wrong configurations: end").expect("where it ends");
    let indented = |block: &str| -> String {
        block.lines().map(|l| if l.is_empty() { "\n".to_owned() } else { format!("    {l}\n") }).collect()
    };
    let mut shown = String::new();
    for (name, story) in ON_THE_PAGE {
        let file = format!("{name}.yaml");
        let bytes = std::fs::read(here(&file)).expect("a document of the corpus");
        let document = String::from_utf8(bytes.clone()).expect("text");
        let answer = report(&file, &bytes, &judged(&bytes).faults);
        shown.push_str(&format!("\n### {name}\n\n{story}\n\n{}\n", indented(&document)));
        shown.push_str(&format!("`pointsman check {file}`:\n\n{}", indented(&answer)));
    }
    shown.push('\n');
    let mut wrong = String::new();
    same_as(&page, &format!("{}{shown}{}", &text[..from], &text[to..]), &mut wrong);
    assert!(wrong.is_empty(), "docs/troubleshooting.md is stale; see the top of this file");
}
