//! What can go wrong with the laboratory's commands, as a shell sees it.

mod shell;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use shell::{code, err, file, out, pointsman};

const LINE: &str = "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 5, \"hash_ids\": [0]}\n";

/// A decision as a log has it.
fn decision(second: u32) -> String {
    format!(
        "{{\"id\":\"1M8{second}\",\"at\":\"2026-11-29T10:00:0{second}.000Z\",\"target_model\":\"m\",\"prompt_tokens_estimated\":150,\
         \"profiles\":[{{\"candidates\":[{{\"address\":\"10.0.0.1:80\",\"signals\":{{\"waiting\":5,\"in_flight\":0}}}}]}}],\
         \"outcome\":{{\"endpoint\":\"10.0.0.1:80\",\"completion_tokens\":3,\"ended\":\"natural\"}}}}\n"
    )
}

/// One that was turned away before there were candidates.
fn turned_away() -> String {
    "{\"id\":\"1M89\",\"at\":\"2026-11-29T10:00:09.000Z\",\"profiles\":[],\"block_hashes\":[],\"outcome\":{\"status\":400,\"ended\":\"rejected\"}}\n".into()
}

fn bytes(folder: &tempfile::TempDir, name: &str, content: &[u8]) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, content).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

fn packed(text: &str) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).expect("in memory");
    packer.finish().expect("in memory")
}

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program runs")
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// One small run of one policy.
const SMALL: [&str; 7] = ["race", "--seeds", "1", "--policy", "default", "--workload", "shared-prefix:requests=5"];

#[test]
fn a_broken_trace_is_refused_with_its_place_and_a_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let varied: String = (0..20_000).map(|at| LINE.replace("[0]", &format!("[{}]", at * 7_919 % 10_007))).collect();
    let whole = packed(&varied);
    for (name, content, place, word) in [
        ("cut.jsonl.gz", &whole[..whole.len() / 2], "cut.jsonl.gz:", "gzip -t"),
        ("head.gz", &whole[..5], "head.gz", ""),
        ("latin.jsonl", &b"\n{\"a\": \"\xe9\"}\n"[..], "latin.jsonl:2: not UTF-8", "next"),
        ("binary", &b"\x7fELF\x00\x01\x02\n"[..], "binary:1: unknown columns", "Timestamp"),
        ("columns.csv", &b"when,who\n1,2\n"[..], "columns.csv:1: unknown columns", "ContextTokens"),
        ("nan.csv", &b"Timestamp,ContextTokens,GeneratedTokens\nNaN,1,1\n"[..], "nan.csv:2: Timestamp", "next"),
        ("inf.jsonl", &b"{\"timestamp\": 1e999}\n"[..], "inf.jsonl:1: ", "next"),
        ("empty", &b""[..], "empty: the trace has no requests", "next"),
        ("huge.csv", &b"Timestamp,ContextTokens,GeneratedTokens\n1,10000001,1\n"[..], "huge.csv:2: ", "next"),
    ] {
        let path = bytes(&folder, name, content);
        for args in [vec!["trace", "inspect", &path], vec!["race", "--trace", &path], vec!["tune", "--trace", &path]] {
            let output = pointsman(&args);
            let said = err(&output);
            assert!(code(&output) == 2 && output.stdout.is_empty(), "{args:?}: {said}");
            assert!(said.contains(place) && said.contains(word) && said.lines().count() <= 3, "{args:?}: {said}");
        }
    }
}

#[test]
fn times_in_any_order_and_prompts_of_a_token_are_no_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = ["3000.5", "0", "1e3", "0"].map(|at| LINE.replace("\"timestamp\": 0", &format!("\"timestamp\": {at}")));
    let short = LINE.replace("\"input_length\": 5", "\"input_length\": 1");
    let path = file(&folder, "mixed.jsonl", &format!("\u{feff}{}\r\n\n{short}", lines.concat()));
    let race = pointsman(&["race", "--trace", &path, "--seeds", "1"]);
    assert!(code(&race) == 0 && out(&race).contains("5 requests"), "{}", err(&race));
}

#[test]
fn a_broken_recording_keeps_what_comes_before_and_is_never_written_over_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = file(&folder, "log.jsonl", &(decision(1) + &decision(2) + "{\"id\":"));
    let to = folder.path().join("recording.jsonl");
    let to = to.to_str().expect("UTF-8");
    let record = pointsman(&["record", "--from", &log, "--out", to]);
    assert!(code(&record) == 2 && err(&record).contains("log.jsonl:3: "), "{}", err(&record));
    assert_eq!(std::fs::read_to_string(to).expect("kept").lines().count(), 2);
    let same = pointsman(&["record", "--from", &log, "--out", &log]);
    assert!(code(&same) == 2 && err(&same).contains("same file"), "{}", err(&same));
    assert_eq!(std::fs::read_to_string(&log).expect("untouched").lines().count(), 3);
    let full = pointsman(&["record", "--from", to, "--out", "/dev/full"]);
    assert_eq!(code(&full), 2, "a recording is no decision log: {}", err(&full));
    let good = file(&folder, "good.jsonl", &decision(1));
    let full = pointsman(&["record", "--from", &good, "--out", "/dev/full"]);
    assert!(code(&full) == 3 && err(&full).contains("cannot write /dev/full"), "{}", err(&full));
    let absurd = "{\"timestamp\":18446744073709551615,\"input_length\":18446744073709551615,\"picked\":\"a:1\"}\n";
    let absurd = file(&folder, "absurd.jsonl", absurd);
    let whatif = pointsman(&["whatif", "--config-file", "chatbot", &absurd]);
    assert!(code(&whatif) == 2 && err(&whatif).contains("absurd.jsonl:1: "), "{}", err(&whatif));
    let cut = bytes(&folder, "cut.gz", &packed(&decision(1).repeat(9))[..40]);
    assert_eq!(code(&pointsman(&["whatif", "--config-file", "chatbot", &cut])), 2);
}

#[test]
fn a_place_that_cannot_be_written_is_found_before_the_work_and_a_full_one_costs_no_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("none/race.html");
    for place in [inside.to_str().expect("UTF-8"), folder.path().to_str().expect("UTF-8")] {
        for (command, flag) in [("race", "--html"), ("tune", "--out"), ("tune", "--html")] {
            let output = pointsman(&[command, flag, place]);
            assert!(code(&output) == 3 && output.stdout.is_empty() && err(&output).contains(place), "{}", err(&output));
        }
    }
    let race = pointsman(&[&SMALL[..], &["--html", "/dev/full"]].concat());
    assert!(code(&race) == 3 && err(&race).contains("cannot write /dev/full"), "{}", err(&race));
    assert!(out(&race).contains("TTFT mean"));
    let tune = ["tune", "--workload", "shared-prefix:requests=5", "--candidates", "8", "--seeds", "2"];
    let full = pointsman(&[&tune[..], &["--out", "/dev/full"]].concat());
    assert!(code(&full) == 3 && out(&full).contains("kind: EndpointPickerConfig"), "{}", err(&full));
    use std::os::unix::fs::FileTypeExt as _;
    let kind = std::fs::metadata("/dev/full").expect("it is still there").file_type();
    assert!(kind.is_char_device() && !std::path::Path::new("/dev/full.part").exists());
    // What is there stays whole until something whole takes its place, and nothing is left lying about.
    let page = file(&folder, "race.html", "old");
    assert_eq!(code(&pointsman(&[&SMALL[..], &["--html", &page]].concat())), 0);
    assert!(std::fs::read_to_string(&page).expect("written").contains("<svg"));
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
fn a_reader_who_leaves_and_a_full_output_end_a_command_in_their_own_ways() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("race.html");
    let page = page.to_str().expect("UTF-8");
    let trace = file(&folder, "trace.jsonl", LINE);
    let recording = file(&folder, "log.jsonl", &decision(1));
    let commands = [
        [&SMALL[..], &["--html", page]].concat(),
        vec!["trace", "inspect", &trace],
        vec!["trace", "make", "unique"],
        vec!["whatif", "--config-file", "chatbot", &recording],
    ];
    for args in &commands {
        let mut child = start(args);
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{args:?}: {said}");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let output = Command::new(env!("CARGO_BIN_EXE_pointsman")).args(args).stdout(full).output().expect("it runs");
        assert!(code(&output) == 3 && err(&output).contains("cannot write the output"), "{args:?}: {}", err(&output));
    }
    assert!(std::fs::read_to_string(page).expect("written all the same").contains("<svg"));
}

#[test]
fn flags_that_mean_nothing_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = file(&folder, "trace.jsonl", LINE);
    for (args, word) in [
        (vec!["race", "--threads", "0"], "1..=256"),
        (vec!["race", "--policy", "default,random,default"], "default is named twice"),
        (vec!["race", "--policy", "least-request,least-connections"], "named twice"),
        (vec!["race", "--trace", &trace, "--requests", "0"], "no requests"),
        (vec!["race", "--rate", "0"], "0.001"),
        (vec!["race", "--rate", "NaN"], "0.001"),
        (vec!["race", "--pods", "0"], "1..=4096"),
        (vec!["race", "--workload", "shared-prefix:groups=2000000,prompts=2000000"], "more than fits"),
        (vec!["race", "--workload", "shared-prefix:requests=2000000,question=10000000"], "more than fits"),
        (vec!["tune", "--threads", "0"], "1..=256"),
        (vec!["tune", "--objective", "speed"], "ttft-p95"),
        (vec!["tune", "--subject-to", "tpot-p95"], "tpot-p95<0.05"),
        (vec!["tune", "--search-parameters", "colour"], "index-size"),
        (vec!["trace", "make", "chat"], "wait for others"),
    ] {
        let output = pointsman(&args);
        assert!(code(&output) == 2 && output.stdout.is_empty(), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(word), "{args:?}: {}", err(&output));
    }
}

#[test]
fn absurd_loads_and_fleets_end_and_say_what_was_refused() {
    let run = |more: &[&str]| -> Output {
        let began = Instant::now();
        let output = pointsman(&[&["race", "--seeds", "1", "--policy", "default"], more].concat());
        assert!(code(&output) == 0 && began.elapsed() < Duration::from_secs(60), "{more:?}: {}", err(&output));
        output
    };
    run(&["--rate", "0.001"]);
    run(&["--rate", "1000000"]);
    run(&["--pods", "4096", "--workload", "shared-prefix:requests=10"]);
    let one = run(&["--pods", "1"]);
    assert!(err(&one).contains("nothing to choose"), "{}", err(&one));
    let huge = run(&["--workload", "shared-prefix:question=10000000,requests=5,prompts=1"]);
    assert!(err(&huge).contains("refused 5.0 of 5 requests") && out(&huge).contains("default"), "{}", err(&huge));
}

#[test]
fn files_of_the_same_name_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let document = |weight: u32| {
        format!(
            "kind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\nschedulingProfiles:\n- name: default\n  plugins:\n  - {{pluginRef: queue-scorer, weight: {weight}}}\n"
        )
    };
    std::fs::create_dir(folder.path().join("other")).expect("a folder");
    let one = file(&folder, "mine.yaml", &document(1));
    let other = file(&folder, "other/mine.yaml", &document(2));
    let policies = format!("{one},{other}");
    let race = pointsman(&["race", "--seeds", "1", "--csv", "--policy", &policies]);
    let text = out(&race);
    assert!(text.contains("\nmine,") && text.contains("other/mine.yaml,"), "{text}{}", err(&race));
}

#[test]
fn an_interrupted_search_prints_what_it_has_and_a_second_interrupt_ends_it_at_once() {
    let long = ["tune", "--workload", "shared-prefix:requests=2000,rate=40", "--candidates", "64", "--threads", "2"];
    let child = start(&long);
    std::thread::sleep(Duration::from_secs(3));
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    assert!(code(&output) == 1 && err(&output).contains("interrupted: "), "{}", err(&output));
    assert!(out(&output).contains("Best of 64 tried") && out(&output).contains("kind: EndpointPickerConfig"));
    // A prompt that takes long to be made leaves no time to look at the first.
    let mut child = start(&["race", "--seeds", "1000", "--workload", "shared-prefix:requests=10000,rate=40"]);
    std::thread::sleep(Duration::from_secs(2));
    interrupt(&child);
    interrupt(&child);
    let began = Instant::now();
    let ended = child.wait().expect("it ends").code();
    assert!(matches!(ended, Some(1 | 3)) && began.elapsed() < Duration::from_secs(5), "{ended:?}");
}

#[test]
fn a_recording_replaces_nothing_before_its_first_decision() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = file(&folder, "kept.jsonl", "keep\n");
    let bad = file(&folder, "bad.jsonl", "{\"id\":\n");
    let refused = file(&folder, "refused.jsonl", &turned_away());
    let new = folder.path().join("new.jsonl");
    let new = new.to_str().expect("UTF-8");
    for out in [&*kept, new] {
        for (args, exit) in [
            (["--admin", "127.0.0.1:1"], 3),
            (["--from", &bad], 2),
            (["--from", &refused], 1),
            (["--from", "/none"], 2),
        ] {
            let record = pointsman(&[&["record", "--out", out], &args[..]].concat());
            assert_eq!(code(&record), exit, "{args:?}: {}", err(&record));
        }
    }
    assert_eq!(std::fs::read_to_string(&kept).expect("untouched"), "keep\n");
    assert!(!std::path::Path::new(new).exists());
    let log = file(&folder, "log.jsonl", &decision(1));
    let nowhere = pointsman(&["record", "--from", &log, "--out", "/none/recording.jsonl"]);
    assert!(code(&nowhere) == 3 && err(&nowhere).contains("cannot write /none/recording.jsonl"), "{}", err(&nowhere));
    assert_eq!(code(&pointsman(&["record", "--from", &log, "--out", &kept])), 0);
    assert!(std::fs::read_to_string(&kept).expect("replaced").starts_with("{\"timestamp\":0,"));
    let piped = pointsman(&["record", "--from", &log, "--out", "-"]);
    assert!(code(&piped) == 0 && out(&piped) == std::fs::read_to_string(&kept).expect("the same"), "{}", err(&piped));
    assert!(!std::path::Path::new("-").exists() && err(&piped).contains("standard output"));
}

#[test]
fn what_was_turned_away_is_counted_and_is_neither_recorded_nor_decided_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let with_hashes = decision(1).replacen("\"profiles\"", "\"block_hashes\":[\"0a\"],\"profiles\"", 1);
    let log = file(&folder, "log.jsonl", &(with_hashes + &turned_away()));
    let to = folder.path().join("recording.jsonl");
    let to = to.to_str().expect("UTF-8");
    let record = pointsman(&["record", "--from", &log, "--out", to]);
    assert!(code(&record) == 0 && err(&record).contains("1 request left out: turned away"), "{}", err(&record));
    assert!(!err(&record).contains("block hashes"), "{}", err(&record));
    assert_eq!(std::fs::read_to_string(to).expect("written").lines().count(), 1);
    let before =
        std::fs::read_to_string(to).expect("written") + "{\"timestamp\":5,\"candidates\":[],\"picked\":\"\"}\n";
    let before = file(&folder, "before.jsonl", &before);
    for source in [&log, &before] {
        let whatif = pointsman(&["whatif", "--json", "--config-file", "chatbot", source]);
        let told: serde_json::Value = serde_json::from_str(&out(&whatif)).expect("JSON");
        assert_eq!((code(&whatif), &told["decisions"], &told["without_candidates"]), (0, &1.into(), &1.into()));
    }
}

#[test]
fn a_fault_in_a_recording_costs_no_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = file(&folder, "log.jsonl", &(decision(1) + &decision(2) + "{\"id\":"));
    let whatif = pointsman(&["whatif", "--config-file", "chatbot", &log]);
    assert!(code(&whatif) == 1 && out(&whatif).starts_with("2 decisions, "), "{}", err(&whatif));
    assert!(err(&whatif).contains("log.jsonl:3: ") && err(&whatif).contains("sed 3d"), "{}", err(&whatif));
    let empty = file(&folder, "empty.jsonl", "");
    let whatif = pointsman(&["whatif", "--config-file", "chatbot", &empty]);
    assert!(code(&whatif) == 2 && err(&whatif).contains("wait until requests came"), "{}", err(&whatif));
    let race = pointsman(&["race", "--trace", &file(&folder, "only.jsonl", &decision(1))]);
    assert!(code(&race) == 2 && err(&race).contains("next: convert it: pointsman record --from "), "{}", err(&race));
}

/// Answers as an admin listener does, once each, and is gone.
fn answer(listener: &TcpListener, decisions: &[&str]) {
    for decision in decisions {
        let (mut stream, _) = listener.accept().expect("record asks");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a request");
            head.push(byte[0]);
        }
        let body = format!("{{\"decisions\":[{decision}]}}");
        let length = body.len();
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}").expect("it reads");
    }
}

#[test]
fn a_recording_goes_on_over_a_restart_and_ends_when_nobody_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("recording.jsonl");
    let to = to.to_str().expect("UTF-8");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let record = start(&["record", "--admin", &address.to_string(), "--out", to, "--reconnect", "4"]);
    answer(&listener, &["", decision(1).trim_end(), ""]);
    drop(listener);
    std::thread::sleep(Duration::from_secs(1));
    let listener = TcpListener::bind(address).expect("the same port");
    answer(&listener, &[decision(2).trim_end(), ""]);
    drop(listener);
    let output = record.wait_with_output().expect("it ends");
    let said = err(&output);
    assert_eq!((code(&output), std::fs::read_to_string(to).expect("kept").lines().count()), (1, 2), "{said}");
    let told = [
        &format!("recording what {address} decides into {to}; Ctrl-C ends it"),
        "no block hashes: ",
        "trying again for 4 s",
        "answers again",
        "did not come back",
        "2 decisions in ",
        "2 decisions had no block hashes",
    ];
    let places: Vec<Option<usize>> = told.iter().map(|word| said.find(word)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {said}");
}

#[test]
fn rows_without_an_answer_and_an_incomplete_minute_are_said_to_be_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = |rows: &[(u64, u64)]| {
        let rows: Vec<String> = rows.iter().map(|(at, output)| format!("{at},5,{output}\n")).collect();
        format!("Timestamp,ContextTokens,GeneratedTokens\n{}", rows.concat())
    };
    let every_second: Vec<(u64, u64)> = (0..150).map(|at| (1_700_158_623 + at, u64::from(at % 50 > 0))).collect();
    let inspect = pointsman(&["trace", "inspect", &file(&folder, "azure.csv", &rows(&every_second))]);
    assert!(code(&inspect) == 0 && err(&inspect).contains("3 rows left out: no answer tokens"), "{}", err(&inspect));
    assert!(
        out(&inspect).contains("per minute: 59 to 59, mean 59, the incomplete last one left out"),
        "{}",
        out(&inspect)
    );
    let short = pointsman(&["trace", "inspect", &file(&folder, "short.csv", &rows(&[(5, 1), (10, 1), (15, 1)]))]);
    assert!(out(&short).contains("per minute: 18 at this rate; there is no whole one"), "{}", out(&short));
    let once = pointsman(&["trace", "inspect", &file(&folder, "once.csv", &rows(&[(5, 1)]))]);
    assert!(out(&once).contains("all at once"), "{}", out(&once));
    let none = pointsman(&["trace", "inspect", &file(&folder, "none.csv", &rows(&[(5, 0)]))]);
    assert!(code(&none) == 2 && err(&none).contains("no requests with an answer"), "{}", err(&none));
}

#[test]
fn a_faulty_deployment_is_told_by_its_key_and_what_is_known_is_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = file(
        &folder,
        "own.json",
        "{\"name\": \"mine\", \"hardware\": {\"flops\": 1e15, \"bandwidth\": 3e12}, \"model\": \"Llama-3.1-8B\"}",
    );
    let race = pointsman(&["race", "--profile", &own]);
    assert!(code(&race) == 2 && err(&race).contains("in `hardware`: missing field `memory_gib`"), "{}", err(&race));
    let list = pointsman(&["race", "--profile", "help"]);
    for name in ["deployments: 8b-h100", "hardware: A100", "models: Llama-3.1-70B", "fits: blis, vllm-h100"] {
        assert!(code(&list) == 0 && out(&list).contains(name), "{name}: {}", out(&list));
    }
}
