//! The commands that need no running Pointsman, as a shell sees them.

mod shell;

use std::io::Write as _;
use std::process::{Command, Stdio};

use shell::{code, err, file, out, pointsman};

const GOOD: &str = "\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
";

/// An unknown type, as somebody once deployed it.
const BAD: &str = "\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {name: mine, type: qeue-scorer}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: mine, weight: 2}]
";

/// Every command that the help lists.
fn commands() -> Vec<String> {
    let help = out(&pointsman(&["--help"]));
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = list.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let names: Vec<String> = names.map(str::to_owned).collect();
    assert!(names.len() > 10, "{help}");
    names
}

#[test]
fn every_help_shows_two_examples_first() {
    for command in std::iter::once(String::new()).chain(commands()) {
        let mut args: Vec<&str> = vec!["--help"];
        if !command.is_empty() {
            args.insert(0, &command);
        }
        let help = pointsman(&args);
        let text = out(&help);
        assert_eq!(code(&help), 0, "{command}");
        let examples = text.lines().skip(1).take(2).filter(|l| l.starts_with("  pointsman")).count();
        assert!(text.starts_with("Examples:\n") && examples == 2, "{command}: {text}");
    }
}

#[test]
fn wrong_use_ends_with_2_and_talks_on_stderr() {
    for args in [&["nonsense"][..], &["serve", "--nonsense"], &["check"], &[], &["serve", "--endpoints", "no-port"]] {
        let output = pointsman(args);
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn version_and_completions_are_data_on_stdout() {
    assert_eq!(out(&pointsman(&["version"])), format!("pointsman {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish"] {
        let script = pointsman(&["completions", shell]);
        assert!(code(&script) == 0 && out(&script).contains("explain"), "{shell}");
    }
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man1");
    let written = pointsman(&["man", pages.to_str().expect("UTF-8")]);
    assert_eq!(code(&written), 0, "{}", err(&written));
    let listed = out(&written);
    assert!(listed.lines().count() > 10, "{listed}");
    for page in listed.lines() {
        let text = std::fs::read_to_string(page).unwrap_or_else(|e| panic!("{page}: {e}"));
        assert!(text.contains(".TH pointsman") && text.contains(".SH"), "{page}");
    }
    let epp = std::fs::read_to_string(pages.join("pointsman-epp.1")).expect("the page of epp");
    assert!(epp.contains("grpc\\-health\\-port"), "{epp}");
    let denied = pointsman(&["man", "/proc/none"]);
    assert!(code(&denied) == 3 && err(&denied).contains("/proc/none"), "{}", err(&denied));
}

#[test]
fn check_ends_with_0_for_what_can_be_used_and_with_1_for_what_cannot() {
    let folder = tempfile::tempdir().expect("a folder");
    let (good, bad) = (file(&folder, "good.yaml", GOOD), file(&folder, "bad.yaml", BAD));
    let fine = pointsman(&["check", &good]);
    assert_eq!((code(&fine), out(&fine)), (0, format!("{good}: no faults\n")));
    let both = pointsman(&["check", &good, &bad]);
    assert_eq!(code(&both), 1);
    assert!(out(&both).starts_with(&format!("{good}: no faults\n{bad}:4:")), "{}", out(&both));
}

#[test]
fn check_takes_a_file_that_cannot_be_read_as_a_fault_and_goes_on_with_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let (good, bad) = (file(&folder, "good.yaml", GOOD), file(&folder, "bad.yaml", BAD));
    let itself = folder.path().to_str().expect("UTF-8");
    let all = pointsman(&["check", "/nonexistent/epp.yaml", itself, &bad, &good]);
    let text = out(&all);
    assert_eq!(code(&all), 1, "{text}");
    for part in [
        "/nonexistent/epp.yaml: cannot be read: No such file",
        &format!("{itself}: cannot be read: Is a directory"),
        &format!("{bad}:4:"),
        &format!("{good}: no faults\n"),
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let report = pointsman(&["check", "--json", "/nonexistent/epp.yaml", &good]);
    let report: serde_json::Value = serde_json::from_str(&out(&report)).expect("JSON");
    assert_eq!((&report[0]["usable"], &report[1]["usable"]), (&false.into(), &true.into()));
    assert!(report[0]["faults"][0]["message"].as_str().is_some_and(|m| m.contains("No such file")), "{report}");
    // To a start it is an error like any other that keeps it from running.
    let serve = pointsman(&["serve", "--config-file", "/nonexistent/epp.yaml"]);
    assert!(code(&serve) == 3 && err(&serve).contains("/nonexistent/epp.yaml"), "{}", err(&serve));
}

#[test]
fn check_names_place_type_and_the_nearest_known_one_without_colours_in_a_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let bad = file(&folder, "bad.yaml", BAD);
    let text = out(&pointsman(&["check", &bad]));
    for part in ["bad.yaml:4:", "qeue-scorer", "did you mean `queue-scorer`?", "1 error"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn check_reads_standard_input() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pointsman"))
        .args(["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    child.stdin.take().expect("a pipe").write_all(BAD.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 1);
    assert!(out(&output).starts_with("<stdin>:4:"), "{}", out(&output));
}

#[test]
fn check_shows_what_would_be_in_force_and_that_can_be_checked_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = file(&folder, "good.yaml", GOOD);
    let shown = pointsman(&["check", "--show", &good]);
    assert_eq!(code(&shown), 0);
    assert!(out(&shown).contains("# default") && out(&shown).contains("weight: 2"), "{}", out(&shown));
    let again = file(&folder, "again.yaml", &out(&shown));
    let output = pointsman(&["check", "--allow-experimental-plugins", &again]);
    assert_eq!(code(&output), 0, "{}", out(&output));
}

#[test]
fn check_as_json_has_every_fault_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let bad = file(&folder, "bad.yaml", BAD);
    let output = pointsman(&["check", "--json", &bad]);
    let report: serde_json::Value = serde_json::from_str(&out(&output)).expect("JSON");
    assert_eq!((code(&output), &report[0]["usable"]), (1, &serde_json::json!(false)));
    assert_eq!(
        (&report[0]["faults"][0]["line"], &report[0]["faults"][0]["path"]),
        (&4.into(), &"plugins[0].type".into())
    );
}

/// BR-43: an unknown plugin type stops the start before any port opens, with the same words as `check`.
#[test]
fn br_43_serve_refuses_a_wrong_configuration_before_any_port_opens() {
    let folder = tempfile::tempdir().expect("a folder");
    let bad = file(&folder, "bad.yaml", BAD);
    // A port that is taken: if it came to opening ports, the complaint would be about that.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let serve = pointsman(&[
        "serve",
        "--listen",
        &address,
        "--admin-listen",
        &address.replace("127.0.0.1", "127.0.0.2"),
        "--config-file",
        &bad,
    ]);
    assert_eq!(code(&serve), 1);
    let check = pointsman(&["check", &bad]);
    assert_eq!(err(&serve), out(&check), "start-up and check say the same");
    let text = pointsman(&["serve", "--listen", &address, "--config-text", BAD]);
    assert_eq!(code(&text), 1);
    assert!(err(&text).starts_with("--config-text:4:"), "{}", err(&text));
}

#[test]
fn a_taken_port_is_told_with_the_next_step() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let serve =
        pointsman(&["serve", "--listen", &address, "--admin-listen", "127.0.0.1:0", "--endpoints", "127.0.0.1:9"]);
    assert_eq!(code(&serve), 3);
    let text = err(&serve);
    assert!(text.contains(&format!("cannot listen on {address} (--listen)")) && text.contains("next:"), "{text}");
    assert!(text.lines().filter(|l| l.starts_with("error") || l.starts_with("  ")).count() <= 3, "{text}");
}

#[test]
fn a_client_command_without_a_running_pointsman_says_how_to_start_one() {
    let unused =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").to_string();
    for args in [&["explain", "last"][..], &["status"], &["drain", "A"], &["undrain", "A"], &["explain", "--follow"]] {
        let output = pointsman(&[args, &["--admin", &unused]].concat());
        assert_eq!(code(&output), 3, "{args:?}");
        let text = err(&output);
        assert!(text.contains(&unused) && text.contains("pointsman serve") && text.lines().count() <= 3, "{text}");
    }
}

#[test]
fn a_wrong_endpoints_file_is_told_with_its_place_before_any_port_opens() {
    let folder = tempfile::tempdir().expect("a folder");
    let list = file(&folder, "engines.yaml", "endpoints:\n- {name: a, address: 10.0.0.1, port: \"99999\"}\n");
    let serve =
        pointsman(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--endpoints-file", &list]);
    assert_eq!(code(&serve), 1);
    let text = err(&serve);
    assert!(text.contains("engines.yaml") && text.contains("99999") && text.lines().count() <= 3, "{text}");
}

#[test]
fn output_into_a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pointsman"))
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.stderr.is_empty() && code(&output) == 0, "{}", err(&output));
}

/// The indented block of a page of the docs that begins with this comment.
fn block_of(page: &str, first: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines = text.lines().skip_while(|line| line.trim() != first).take_while(|line| line.starts_with("    "));
    lines.map(|line| format!("{}\n", &line[4..])).collect()
}

#[test]
fn the_files_in_the_docs_can_be_used_as_they_stand() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = file(&folder, "epp.yaml", &block_of("configuration.md", "# epp.yaml"));
    let check = pointsman(&["check", &config]);
    assert_eq!((code(&check), out(&check)), (0, format!("{config}: no faults\n")));
    let lists =
        [("getting-started.md", "# engines.yaml"), ("serve.md", "# engines-tls.yaml"), ("epp.md", "# endpoints.yaml")];
    for (page, first) in lists {
        endpoints_file_is_fine(&folder, &block_of(page, first));
    }
    file(&folder, "endpoints.yaml", &block_of("epp.md", "# endpoints.yaml"));
    let epp = file(&folder, "epp.yaml", &block_of("epp.md", "# epp.yaml"));
    let check = pointsman(&["check", &epp]);
    assert_eq!((code(&check), out(&check)), (0, format!("{epp}: no faults\n")));
}

fn endpoints_file_is_fine(folder: &tempfile::TempDir, text: &str) {
    assert!(text.contains("endpoints:"), "{text}");
    let list = file(folder, "engines.yaml", text);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let serve = pointsman(&["serve", "--listen", &address, "--admin-listen", "127.0.0.1:0", "--endpoints-file", &list]);
    // It came as far as the port: the file was fine.
    assert!(code(&serve) == 3 && err(&serve).contains("--listen"), "{}", err(&serve));
}

/// Flags of other programs that the docs speak of.
const FOREIGN: [&str; 11] = [
    "--all",
    "--bench",
    "--enable-prompt-tokens-details",
    "--include-ignored",
    "--only",
    "--release",
    "--reuse-values",
    "--server",
    "--target",
    "--test",
    "--tool",
];

#[test]
fn every_flag_in_the_docs_exists() {
    let helps: String = commands().iter().map(|command| out(&pointsman(&[command, "--help"]))).collect();
    let flag = |c: char| c.is_ascii_lowercase() || c == '-';
    let flags_of = |text: &str| -> std::collections::BTreeSet<String> {
        let words = text.split(|c: char| !(flag(c) || c.is_ascii_digit()));
        words.filter(|w| w.starts_with("--") && w.len() > 3 && w.chars().all(flag)).map(str::to_owned).collect()
    };
    let known = flags_of(&helps);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).expect("a folder").map(|entry| entry.expect("an entry").path());
    for page in docs.chain([root.join("README.md")]).filter(|page| page.extension().is_some_and(|e| e == "md")) {
        let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        for flag in flags_of(&text) {
            assert!(known.contains(&flag) || FOREIGN.contains(&&*flag), "{}: {flag} does not exist", page.display());
        }
    }
}

#[test]
fn the_catalogue_and_the_schema_in_the_docs_are_those_of_the_program() {
    for (page, args) in
        [("plugins.md", &["plugins", "--format", "markdown"][..]), ("endpoint-picker-config.schema.json", &["schema"])]
    {
        let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
        let made = out(&pointsman(args));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, made).expect("the page can be written");
            continue;
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == made, "docs/{page} is stale: UPDATE_GOLDEN=1 cargo test -p pointsman --test cli the_catalogue");
    }
}
