//! Flags: those of the Go picker, by their names, defaults and ways of writing (request-lifecycle 6.1).

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;

use serde_json::Value;

use crate::support::differences::settle;
use crate::support::process::{CONFIG, Ended, FREE_PORTS, Process, command, folder, pointsman, run};
use crate::support::{golden, json};

/// A flag of a help text: whether it is a boolean, and the default that is shown.
#[derive(Debug, PartialEq)]
struct Flag {
    boolean: bool,
    default: Option<String>,
}

/// Go's: `--name type   what it is (default x)`; a boolean has no type, and no default where it is false.
fn of_go(help: &str) -> BTreeMap<String, Flag> {
    let flag = |line: &str| {
        let (_, rest) = line.split_once("--")?;
        let (head, said) = rest.split_once("   ").unwrap_or((rest, ""));
        let (name, kind) = head.trim().split_once(' ').map_or((head.trim(), ""), |(name, kind)| (name, kind));
        let default = said.rsplit_once("(default ").map(|(_, d)| d.trim_end().trim_end_matches(')').trim_matches('"'));
        let boolean = kind.is_empty();
        let default = default.or(boolean.then_some("false")).map(str::to_owned);
        Some((name.to_owned(), Flag { boolean, default }))
    };
    help.lines().filter_map(flag).collect()
}

/// Ours: `--name <VALUE>`, and below it `[default: x]`.
fn of_clap(help: &str) -> BTreeMap<String, Flag> {
    let mut flags = BTreeMap::new();
    let mut last = None;
    for line in help.lines().map(str::trim) {
        let head = line.split_whitespace().find(|word| word.starts_with("--"));
        if let (Some(head), true) = (head, line.starts_with('-')) {
            let name = head.trim_start_matches('-').split(['[', '=']).next().unwrap_or_default().to_owned();
            flags.insert(name.clone(), Flag { boolean: line.contains("[=<BOOL>]"), default: None });
            last = Some(name);
        }
        let default = line.strip_prefix("[default: ").and_then(|rest| rest.strip_suffix(']'));
        if let (Some(default), Some(flag)) = (default, last.as_ref().and_then(|name| flags.get_mut(name))) {
            flag.default = Some(default.to_owned());
        }
    }
    flags
}

fn help() -> String {
    let mut asked = command(pointsman(), Path::new("."));
    asked.args(["epp", "--help"]);
    let ended = run(asked);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

fn recorded_flags() -> BTreeMap<String, Flag> {
    let theirs = of_go(&std::fs::read_to_string(golden("flags/epp-help.txt")).expect("the recording"));
    assert!(theirs.len() >= 38, "{theirs:?}");
    theirs
}

#[test]
fn every_flag_of_the_go_picker_is_in_our_help_with_the_same_default() {
    let ours = of_clap(&help());
    let mut found = BTreeMap::new();
    for (name, theirs) in recorded_flags() {
        match ours.get(&name) {
            None => drop(found.insert(format!("help/--{name}"), "no such flag".to_owned())),
            // A default that is only how Go says "not set" is not shown here.
            Some(flag)
                if flag.boolean == theirs.boolean
                    && (flag.default == theirs.default || flag.default.is_none() && theirs.boolean) => {}
            Some(flag) => drop(found.insert(format!("help/--{name}"), format!("{flag:?}"))),
        }
    }
    settle("help/", &found);
}

/// Gets as far as the flags taken together, where it is told that no pool was given: each of them was understood.
fn understood(args: &[String]) {
    let mut asked = command(pointsman(), Path::new("."));
    asked.arg("epp").args(args);
    let ended = run(asked);
    assert_eq!(ended.code, Some(1), "{args:?}: {}", ended.stderr);
    assert!(ended.stderr.contains("either pool-name or endpoint-selector must be set"), "{args:?}: {}", ended.stderr);
}

#[test]
fn a_value_comes_after_a_space_or_an_equals_sign_and_a_boolean_stands_bare_or_with_one() {
    let value = |name: &str, flag: &Flag| match (name, &flag.default) {
        ("pool-name" | "endpoint-selector", _) => None,
        (_, Some(default)) => Some(default.clone()),
        ("endpoint-target-ports", _) => Some("3000,3001".to_owned()),
        ("zap-encoder", _) => Some("json".to_owned()),
        ("zap-log-level" | "zap-stacktrace-level", _) => Some("error".to_owned()),
        ("zap-time-encoding", _) => Some("rfc3339".to_owned()),
        ("tls-min-version", _) => Some("VersionTLS12".to_owned()),
        ("tls-cipher-suites", _) => Some("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".to_owned()),
        ("grpc-max-recv-msg-size" | "grpc-max-send-msg-size", _) => Some("25MB".to_owned()),
        _ => Some("x".to_owned()),
    };
    let flags = recorded_flags();
    let (mut spaced, mut joined, mut bare, mut off) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (name, flag) in &flags {
        let Some(value) = value(name, flag) else { continue };
        if flag.boolean {
            bare.push(format!("--{name}"));
            joined.push(format!("--{name}=true"));
            off.push(format!("--{name}=false"));
        } else {
            spaced.extend([format!("--{name}"), value.clone()]);
            joined.push(format!("--{name}={value}"));
        }
    }
    for args in [spaced, joined, bare, off, vec!["-v".into(), "4".into()], vec!["-v=4".into()], vec!["--v=-1".into()]] {
        understood(&args);
    }
}

/// The chart writes its own flags, and after them those of its user.
#[test]
fn of_a_flag_that_is_given_twice_the_last_counts_and_lists_add_up() {
    let twice = ["--grpc-port=70000", "--grpc-port=0", "--tracing", "--tracing=false", "--v=4", "-v", "2"];
    understood(&twice.map(str::to_owned));
    let mut asked = command(pointsman(), Path::new("."));
    let five = "--endpoint-target-ports=1,2,3,4,5";
    asked.args(["epp", "--endpoint-selector=a=b", five, "--endpoint-target-ports=6,7,8,9"]);
    let ended = run(asked);
    assert!(ended.stderr.contains("should have length from 1 to 8"), "{}", ended.stderr);
}

#[test]
fn what_is_no_flag_or_no_value_of_one_is_wrong_use() {
    for args in [&["--nonsense"][..], &["--grpc-port", "many"], &["--drain-timeout=soon"], &["--secure-serving=maybe"]]
    {
        let mut asked = command(pointsman(), Path::new("."));
        asked.arg("epp").args(args);
        let ended = run(asked);
        assert_eq!(ended.code, Some(2), "{args:?}");
        assert!(ended.stderr.contains(args[0].split('=').next().unwrap_or_default()), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn a_link_named_epp_is_pointsman_epp() {
    let folder = folder(CONFIG);
    let link = folder.path().join("epp");
    std::os::unix::fs::symlink(pointsman(), &link).expect("a link");
    let mut asked = command(&link, folder.path());
    asked.arg("--help");
    assert_eq!(run(asked).stdout, help());
    let mut started = command(&link, folder.path());
    started.args(FREE_PORTS).args(["--pool-name=p", "--config-file=config.yaml", "--secure-serving=false"]);
    assert!(Process::spawn(started).logged("serving").is_some());
}

/// The last clause of an error: what was wrong, without who says so.
fn clause(text: &str) -> String {
    text.rsplit(": ").next().unwrap_or(text).to_ascii_lowercase()
}

/// Everything said, the lines of one error joined as Go joins clauses.
fn flat(ended: &Ended) -> String {
    let text = format!("{}{}", ended.stdout, ended.stderr).replace("\n  why:  ", ": ").replace("\n  next: ", "; ");
    text.to_ascii_lowercase()
}

/// `None`: as recorded.
fn difference(recorded: &Value) -> Option<String> {
    let text = std::fs::read_to_string(golden("config").join(recorded["config"].as_str().expect("a document")));
    let text = text.expect("the document");
    let folder = folder(&text);
    // The port that was taken then, and free ones for the others.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = (taken.local_addr().expect("an address").port().to_string(), taken);
    let flag = |f: &Value| match f.as_str().expect("a flag") {
        "9002" | "9003" | "9090" => "0".to_owned(),
        "28555" => taken.0.clone(),
        "<the config>" => text.clone(),
        other => other.to_owned(),
    };
    let flags: Vec<String> = recorded["flags"].as_array().expect("flags").iter().map(flag).collect();
    let mut asked = command(pointsman(), folder.path());
    asked.arg("epp").args(&flags).args(["--bind-address", "127.0.0.1", "--admin-listen", "127.0.0.1:0"]);
    let logged: Vec<&Value> = recorded["logged"].as_array().into_iter().flatten().collect();
    if recorded["outcome"] == "accepted" {
        let mut process = Process::spawn(asked);
        if process.logged("serving").is_none() {
            return Some(format!("refused: {}", process.said()));
        }
        let missing = logged.iter().find(|line| {
            let ours = process.logged(line["msg"].as_str().expect("a message")).expect("the same message");
            line.as_object().into_iter().flatten().any(|(key, value)| ours[key] != *value)
        });
        return missing.map(|line| format!("does not log {line}"));
    }
    let ended = run(asked);
    let code = recorded["exit_code"].as_i64().expect("an exit code");
    if ended.code.map(i64::from) != Some(code) {
        return Some(format!("exit code {:?}", ended.code));
    }
    let said = flat(&ended);
    let errors = logged.iter().filter_map(|line| line["error"].as_str());
    let plain = recorded["plain_output"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let wanted = errors.chain(plain.filter(|line| line.starts_with("invalid")));
    for text in wanted {
        let last = clause(text);
        if !said.contains(&last) && !said.contains(&text.to_ascii_lowercase()) {
            return Some(format!("does not say: {last}\n{said}"));
        }
    }
    if recorded["silent"] == true {
        // The first line says what, and it is an error that names the flag.
        let line = ended.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or("silent, too");
        return Some(line.replace(&taken.0, "PORT"));
    }
    None
}

#[test]
fn recorded_command_lines_come_to_the_recorded_end_and_name_the_recorded_fault() {
    let mut found = BTreeMap::new();
    let mut count = 0;
    for entry in std::fs::read_dir(golden("config")).expect("the recordings") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if !name.starts_with("flag-") || path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        count += 1;
        if let Some(what) = difference(&json(&path)) {
            found.insert(format!("flags/{name}"), what);
        }
    }
    assert!(count >= 17, "{count} recordings");
    settle("flags/", &found);
}
