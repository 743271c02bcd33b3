//! The laboratory against published figures (simulator 3.1 and 4). What takes seconds in a debug build is ignored by default:
//! `cargo test --release -p pointsman-lab --test published -- --include-ignored`.

use std::ops::ControlFlow;
use std::time::Duration;

use pointsman_core::Nanos;
use pointsman_lab::fleet::{FleetOptions, run};
use pointsman_lab::metrics::{Slo, Summary};
use pointsman_lab::policy::Choice;
use pointsman_lab::workload::{Arrival, Spec, When, Workload, read, sharing};
use pointsman_sim::Profile;

fn trace(name: &str) -> Workload {
    let path = format!("{}/../../testdata/mooncake/{name}_trace.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(path).expect("the trace is in the tree");
    read(name, std::io::BufReader::new(flate2::read::GzDecoder::new(file)), None).expect("a whole trace")
}

fn config(name: &str) -> Choice {
    let path = format!("{}/../../testdata/lab/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    Choice::document(name, std::fs::read(path).expect("the configuration is in the tree"))
}

fn play(fleet: &FleetOptions, workload: &Workload, choice: &Choice) -> Summary {
    let mut policy = choice.make(fleet, 1).expect("no faults");
    let outcome = run(fleet, workload, &mut *policy, 1, &mut |_, _| ControlFlow::Continue(()));
    Summary::of(&outcome, fleet.pods, Slo::default())
}

fn fleet(pods: usize, profile: &str) -> FleetOptions {
    FleetOptions { pods, profile: *Profile::named(profile).expect(profile), ..FleetOptions::default() }
}

fn named(name: &str) -> Choice {
    Choice::named(name).expect(name)
}

/// `got` within a share of `want`.
fn near(what: &str, got: f64, want: f64, share: f64) {
    assert!((got / want - 1.0).abs() <= share, "{what}: {got:.4}, published {want}");
}

#[test]
fn both_traces_share_what_their_description_says() {
    for (name, references, distinct, blocks, tokens) in
        [("conversation", 288_500, 182_790, 0.366, 0.374), ("synthetic", 121_877, 43_924, 0.640, 0.651)]
    {
        let found = sharing(&trace(name), 512, true);
        assert_eq!((found.blocks, found.distinct), (references, distinct), "{name}");
        assert!(
            (found.block_ratio() - blocks).abs() < 0.0005 && (found.token_ratio() - tokens).abs() < 0.0005,
            "{name}: {found:?}"
        );
    }
}

/// No timing: each request is over before the next one comes, every block is a whole one, caches never fill.
fn untimed(mut workload: Workload) -> Workload {
    for (at, request) in workload.requests.iter_mut().enumerate() {
        *request = Arrival { when: When::At(Nanos(at as u64 * 30_000_000_000)), output: 1, ..request.clone() };
        request.prompt.tokens = request.prompt.tokens.div_ceil(512) * 512 + 1;
    }
    workload
}

#[test]
#[ignore = "seconds in a release build, minutes in a debug one"]
fn hits_with_endless_caches_are_those_of_the_tables() {
    let endless = FleetOptions { cache: 250.0, block_size: 512, ..fleet(8, "70b-4xh100") };
    for (name, robin, random, ideal) in [("conversation", 0.136, 0.128, 0.366), ("synthetic", 0.226, 0.227, 0.640)] {
        let workload = untimed(trace(name));
        near(name, play(&endless, &workload, &named("round-robin")).get("hit_ratio"), robin, 0.05);
        near(name, play(&endless, &workload, &named("random")).get("hit_ratio"), random, 0.05);
        near(name, play(&endless, &workload, &named("pooled-cache")).get("hit_ratio"), ideal, 0.01);
    }
}

#[test]
#[ignore = "seconds in a release build, minutes in a debug one"]
fn a_timed_replay_of_the_conversation_trace_gives_the_published_times() {
    let (fleet, workload) = (fleet(8, "70b-4xh100"), trace("conversation"));
    for (choice, mean, p90, hit) in [
        (config("approximate"), 2.05, 4.63, 0.160),
        (named("least-request"), 2.21, 4.96, 0.059),
        (named("power-of-two"), 2.37, 5.83, 0.060),
        (named("round-robin"), 2.53, 7.26, 0.062),
        (named("random"), 3.45, 9.53, 0.059),
        (named("load"), 6.03, 13.7, 0.058),
    ] {
        let got = play(&fleet, &workload, &choice);
        near(choice.name(), got.get("ttft_mean"), mean, 0.15);
        near(choice.name(), got.get("ttft_p90"), p90, 0.15);
        assert!((got.get("hit_ratio") - hit).abs() < 0.01, "{}: {}", choice.name(), got.get("hit_ratio"));
    }
}

#[test]
fn a_timed_replay_of_the_synthetic_trace_gives_the_published_times() {
    let got = play(&fleet(8, "70b-4xh100"), &trace("synthetic"), &config("approximate"));
    near("mean", got.get("ttft_mean"), 1.50, 0.15);
    near("p90", got.get("ttft_p90"), 3.75, 0.15);
    assert!((got.get("hit_ratio") - 0.347).abs() < 0.01, "{}", got.get("hit_ratio"));
}

/// Generated tokens per second of a published workload at one rate, caches warm from the first stage.
fn throughput(workload: &str, (warm, first): (&str, u32), rate: u32, fleet: &FleetOptions, choice: &Choice) -> f64 {
    let seconds = 1_000 / rate;
    let text = format!("{workload}:stages={warm}+{rate}x{seconds},warm={first}");
    play(fleet, &Spec::parse(&text).expect("fine").generate(1), choice).get("output_throughput")
}

#[test]
fn at_20_requests_a_second_everybody_saturates_where_published() {
    let fleet = fleet(4, "70b-4xh100");
    for (choice, want) in [
        (config("approximate"), 7_578.0),
        (config("undersized"), 4_747.0),
        (named("random"), 3_353.0),
        (named("load"), 3_543.0),
    ] {
        near(choice.name(), throughput("37-capacity", ("10x25", 250), 20, &fleet, &choice), want, 0.15);
    }
}

#[test]
#[ignore = "seconds in a release build, minutes in a debug one"]
fn below_saturation_too() {
    let fleet = fleet(4, "70b-4xh100");
    for (choice, wanted) in [
        (config("approximate"), [2_895.0, 4_413.0, 5_914.0, 6_677.0]),
        (config("undersized"), [2_884.0, 4_191.0, 4_566.0, 5_039.0]),
        (named("random"), [2_806.0, 3_097.0, 3_215.0, 3_242.0]),
        (named("load"), [2_856.0, 3_430.0, 3_546.0, 3_483.0]),
    ] {
        for (rate, want) in [3, 5, 8, 12].into_iter().zip(wanted) {
            let got = throughput("37-capacity", ("10x25", 250), rate, &fleet, &choice);
            near(&format!("{} at {rate}/s", choice.name()), got, want, 0.15);
        }
    }
}

#[test]
#[ignore = "seconds in a release build, minutes in a debug one"]
fn at_60_requests_a_second_policies_come_in_the_published_order() {
    let fleet = fleet(8, "qwen3-32b-2xh100");
    let at_60 = |choice: &Choice| throughput("precise-guide", ("15x50", 750), 60, &fleet, choice);
    for (choice, want) in [
        (config("approximate"), 10_458.0),
        (named("prefix-only"), 8_565.0),
        (named("consistent-hash"), 7_903.0),
        (config("too-small"), 7_095.0),
        (named("least-request"), 6_000.0),
        (named("power-of-two"), 6_000.0),
        (named("load"), 6_000.0),
        (named("round-robin"), 6_000.0),
        (named("random"), 5_738.0),
    ] {
        near(choice.name(), at_60(&choice), want, 0.15);
    }
    // How 150 groups fall on 8 engines depends on the hash function: only its place in the order is known.
    let order = [named("consistent-hash"), named("hash"), named("random")].map(|choice| at_60(&choice));
    assert!(order[0] > order[1] && order[1] > order[2], "{order:?}");
}

#[test]
#[ignore = "seconds in a release build, minutes in a debug one"]
fn affinity_keeps_hits_and_balance_on_both_traces() {
    let roomy = FleetOptions { cache: 250.0, ..fleet(8, "70b-4xh100") };
    for name in ["conversation", "synthetic"] {
        let workload = trace(name);
        let got = play(&roomy, &workload, &named("default"));
        let ideal = sharing(&workload, 64, false).token_ratio();
        assert!(got.get("hit_ratio") >= 0.90 * ideal, "{name}: {} of {ideal}", got.get("hit_ratio"));
        assert!(got.get("imbalance_tokens") <= 1.15, "{name}: {}", got.get("imbalance_tokens"));
    }
}

/// One 8B engine, 1024 tokens in and 200 out, Poisson, 60 s (simulator 2.3). Near saturation a run is mostly chance: means over seeds. The tokens per
/// second and the time between tokens of the saturated rows say that 256 requests ran at once.
#[test]
fn one_engine_saturates_where_the_worked_example_does() {
    let fleet = FleetOptions { noise: 0.0, dispatch: Duration::ZERO, max_num_seqs: 256, ..fleet(1, "8b-h100") };
    let at = |rate: f64, seed| {
        let text = format!("unique:question=1024,output=200,rate={rate},requests={}", rate * 60.0);
        play(&fleet, &Spec::parse(&text).expect("fine").generate(seed), &named("round-robin"))
    };
    for (rate, ttft, itl) in [(5.0, 0.055, 0.008), (10.0, 0.066, 0.012), (15.0, 0.090, 0.021), (25.0, 9.1, 0.062)] {
        let runs: Vec<Summary> = (1..=3).map(|seed| at(rate, seed)).collect();
        let mean = |name| runs.iter().map(|run| run.get(name)).sum::<f64>() / runs.len() as f64;
        near(&format!("TTFT at {rate}/s"), mean("ttft_mean"), ttft, 0.15);
        near(&format!("ITL at {rate}/s"), mean("tpot_mean"), itl, 0.15);
    }
    near("tokens per second when flooded", at(40.0, 1).get("output_throughput"), 3_770.0, 0.15);
}
