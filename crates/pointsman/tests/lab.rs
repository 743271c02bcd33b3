//! The laboratory's commands as a shell sees them.

mod shell;

use std::process::{Command, Stdio};

use shell::{code, err, file, out, pointsman};

#[test]
fn a_race_without_arguments_compares_four_policies() {
    let race = pointsman(&["race"]);
    assert_eq!(code(&race), 0, "{}", err(&race));
    let text = out(&race);
    for word in
        ["round-robin", "least-request", "random", "default", "cache hit", "re-prefilled", "100 requests", "5 seeds"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn a_race_has_one_result_in_every_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("race.html");
    let args = [
        "race",
        "--seeds",
        "2",
        "--policy",
        "default,random",
        "--sweep",
        "rate=5,20",
        "--html",
        page.to_str().expect("UTF-8"),
    ];
    let with = |more: &str| out(&pointsman(&[&args[..], &[more]].concat()));
    let json: serde_json::Value = serde_json::from_str(&with("--json")).expect("JSON");
    let rows = json["policies"].as_array().expect("policies");
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|r| r["metrics"]["hit_ratio"]["mean"].is_f64()
        && r["metrics"]["ttft_p95"]["ci"].is_f64()
        && r["rate"].is_f64()));
    assert_eq!(with("--json"), with("--json"));
    assert!(with("--csv").starts_with("policy,axis,value,metric,unit,mean,ci95,seeds\ndefault,rate,5,"));
    assert!(with("--markdown").contains("### rate 20"));
    let page = std::fs::read_to_string(page).expect("written");
    assert!(page.contains("<svg") && !page.contains("<script") && !page.contains("http"));
}

#[test]
fn what_cannot_be_raced_is_said_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 5, \"hash_ids\": [0]}\n";
    let broken = file(&folder, "broken.jsonl", &format!("{good}{{\"timestamp\":"));
    let empty = file(&folder, "empty.jsonl", "");
    let config = file(&folder, "bad.yaml", "kind: EndpointPickerConfig\nplugins: [{type: qeue-scorer}]\n");
    for (args, word) in [
        (vec!["--trace", broken.as_str()], "broken.jsonl:2: "),
        (vec!["--trace", empty.as_str()], "no requests"),
        (vec!["--trace", "/none.jsonl"], "/none.jsonl"),
        (vec!["--workload", "shared-prefix:requests=0"], "no requests"),
        (vec!["--workload", "shared-prefix:rate=1e99"], "rate=1e99"),
        (vec!["--rate", "1e99"], "1e99"),
        (vec!["--policy", "nope"], "nope"),
        (vec!["--policy", config.as_str()], "pointsman check"),
        (vec!["--sweep", "colour=red"], "rate="),
    ] {
        let race = pointsman(&[&["race"], &args[..]].concat());
        assert!(code(&race) == 2 && race.stdout.is_empty() && err(&race).contains(word), "{args:?}: {}", err(&race));
    }
}

#[test]
fn an_interrupt_keeps_what_is_there() {
    let mut race = Command::new(env!("CARGO_BIN_EXE_pointsman"))
        .args(["race", "--workload", "shared-prefix:requests=100,rate=40", "--seeds", "1000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    std::thread::sleep(std::time::Duration::from_secs(3));
    let pid = race.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    assert!(race.try_wait().is_ok());
    let output = race.wait_with_output().expect("it ends");
    assert!(code(&output) == 1 && err(&output).contains("interrupted: "), "{}", err(&output));
    assert!(out(&output).contains("round-robin"), "{}", out(&output));
}

#[test]
fn tune_writes_a_configuration_and_says_what_it_is_worth() {
    let folder = tempfile::tempdir().expect("a folder");
    let tuned = folder.path().join("tuned.yaml");
    let path = tuned.to_str().expect("UTF-8");
    let args = [
        "tune",
        "--workload",
        "shared-prefix:requests=60,rate=20",
        "--candidates",
        "8",
        "--seeds",
        "3",
        "--objective",
        "hit-rate=1,ttft-p95=0.5",
        "--subject-to",
        "tpot-p95<5",
        "--search-parameters",
        "index-size,match-length",
        "--out",
        path,
    ];
    let tune = pointsman(&args);
    assert!(code(&tune) <= 1, "{}", err(&tune));
    assert!(
        out(&tune).contains("Best of 8 tried: ")
            && out(&tune).contains("chatbot")
            && out(&tune).contains("without prefix"),
        "{}",
        out(&tune)
    );
    assert!(
        out(&tune).contains("nobody is both earlier and hits more") && out(&tune).contains("subject to tpot-p95<5")
    );
    assert_eq!(code(&pointsman(&["check", "--strict", path])), 0);
    let json: serde_json::Value =
        serde_json::from_str(&out(&pointsman(&[&args[..], &["--json"]].concat()))).expect("JSON");
    assert_eq!((json["against"].as_array().map(Vec::len), &json["tried"]), (Some(7), &8.into()));
    for point in json["frontier"].as_array().expect("a list") {
        assert!(point["ttft_p95"]["mean"].is_f64() && point["hit_ratio"]["mean"].is_f64(), "{point}");
        if let Some(document) = point["document"].as_str() {
            let path = file(&folder, "point.yaml", document);
            assert_eq!(code(&pointsman(&["check", "--strict", &path])), 0, "{document}");
        }
    }
}

#[test]
fn a_decision_log_becomes_a_recording_that_is_a_trace_and_can_be_decided_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |second: u32| {
        format!(
            "{{\"id\":\"1M8{second}\",\"at\":\"2026-11-29T10:00:0{second}.000Z\",\"target_model\":\"m\",\"prompt_tokens_estimated\":150,\"block_tokens\":64,\
             \"block_hashes\":[\"0000000000010000\",\"00000000ffffffff\"],\"profiles\":[{{\"candidates\":[\
             {{\"endpoint\":\"A\",\"address\":\"10.0.0.1:80\",\"signals\":{{\"waiting\":5,\"running\":1,\"kv_cache_usage\":0.5,\"in_flight\":0}},\"prefix_match_tokens\":128}},\
             {{\"address\":\"10.0.0.2:80\",\"signals\":{{\"waiting\":0,\"running\":1,\"kv_cache_usage\":0.1,\"in_flight\":0}}}}]}}],\
             \"outcome\":{{\"endpoint\":\"10.0.0.1:80\",\"completion_tokens\":3,\"ended\":\"natural\"}}}}\n"
        )
    };
    let log = file(&folder, "decisions.jsonl", &(line(1) + &line(2)));
    let recording = folder.path().join("recording.jsonl");
    let recording = recording.to_str().expect("UTF-8");
    let record = pointsman(&["record", "--from", &log, "--out", recording]);
    assert_eq!(code(&record), 0, "{}", err(&record));
    let inspected: serde_json::Value =
        serde_json::from_str(&out(&pointsman(&["trace", "inspect", "--json", recording]))).expect("JSON");
    assert_eq!((&inspected["requests"], &inspected["sharing"]["hits"]), (&2.into(), &2.into()));
    assert_eq!(code(&pointsman(&["race", "--trace", recording, "--seeds", "1"])), 0);
    for source in [&log, recording] {
        let whatif: serde_json::Value =
            serde_json::from_str(&out(&pointsman(&["whatif", "--json", "--config-file", "low-latency", source])))
                .expect("JSON");
        assert_eq!((&whatif["decisions"], &whatif["other"]), (&2.into(), &2.into()), "{whatif}");
        assert_eq!(whatif["moves"], serde_json::json!([{"from": "A", "to": "10.0.0.2:80", "decisions": 2}]));
    }
    let broken = file(&folder, "broken.jsonl", &(line(1) + "{"));
    assert!(err(&pointsman(&["whatif", "--config-file", "batch", &broken])).contains("broken.jsonl:2: "));
}
