//! The laboratory as a whole: one seed, one result; every request ends; policies differ as they must.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use pointsman_lab::BEGIN;
use pointsman_lab::fleet::{Ended, FleetOptions, Outage, Outcome, Sample, run};
use pointsman_lab::metrics::{Slo, Summary};
use pointsman_lab::policy::{BASELINES, Choice};
use pointsman_lab::race::{Race, Source};
use pointsman_lab::report::Report;
use pointsman_lab::workload::{Spec, Workload};

fn play(workload: &Workload, name: &str, fleet: &FleetOptions, seed: u64) -> Outcome {
    let choice = Choice::named(name).expect(name);
    let mut policy = choice.make(fleet, seed).expect("no faults");
    run(fleet, workload, &mut *policy, seed, &mut |_, _| ControlFlow::Continue(()))
}

fn small(text: &str) -> Workload {
    Spec::parse(text).expect(text).generate(1)
}

#[test]
fn every_policy_serves_every_request_whole() {
    let fleet = FleetOptions { pods: 3, ..FleetOptions::default() };
    for workload in
        ["shared-prefix:requests=60,rate=20", "chat:sessions=8", "lora:requests=40", "chat:sessions=8,users=3"]
    {
        let workload = small(workload);
        for name in BASELINES.iter().map(|b| b.name).chain(["default", "default-epp", "chatbot"]) {
            let outcome = play(&workload, name, &fleet, 1);
            assert_eq!(outcome.samples.len(), workload.requests.len(), "{name}");
            for sample in &outcome.samples {
                assert_eq!(sample.ended, Ended::Complete, "{name}");
                assert!(sample.arrived < sample.first && sample.first <= sample.last, "{name}: {sample:?}");
                assert!(sample.cached < sample.prompt, "{name}: at least one token is computed");
            }
            let generated: u64 = outcome.engines.iter().map(|e| e.generated).sum();
            assert_eq!(generated, workload.output_tokens(), "{name}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let fleet = FleetOptions::default();
    let race = |seeds| {
        let choices =
            ["default", "random", "power-of-two", "sglang", "oracle"].map(|n| Choice::named(n).expect(n)).to_vec();
        let source = Source::Made(Box::new(Spec::parse("shared-prefix:requests=80,zipf=1").expect("fine")));
        Race { source, fleet: fleet.clone(), choices, seeds, after: 0, slo: Slo::default(), rate: None, sweep: None }
    };
    let report = |seeds| {
        let race = race(seeds);
        Report::of(&race, &race.run_all().expect("no faults"))
    };
    assert_eq!(report(2).json(), report(2).json());
    assert_eq!(report(2).html("Race"), report(2).html("Race"));
    let workload = small("chat:sessions=12");
    assert_eq!(play(&workload, "default", &fleet, 5), play(&workload, "default", &fleet, 5));
    assert_ne!(play(&workload, "default", &fleet, 5).samples, play(&workload, "default", &fleet, 6).samples);
}

#[test]
fn the_default_picker_keeps_groups_together_and_a_random_one_does_not() {
    let fleet = FleetOptions { pods: 8, ..FleetOptions::default() };
    let workload = small("shared-prefix:groups=20,prompts=40,requests=400,rate=20");
    let hit = |name| Summary::of(&play(&workload, name, &fleet, 1), 8, Slo::default()).get("hit_ratio");
    let (default, random, pooled) = (hit("default"), hit("random"), hit("pooled-cache"));
    assert!(
        default > 0.75 && random < 0.6 && pooled >= default,
        "default {default:.3} random {random:.3} pooled {pooled:.3}"
    );
}

#[test]
fn an_endless_common_cache_reaches_the_ideal_where_requests_do_not_overlap() {
    let fleet = FleetOptions { pods: 4, ..FleetOptions::default() };
    let workload = small("shared-prefix:groups=10,prompts=10,requests=100,rate=0.5");
    let ideal = pointsman_lab::workload::sharing(&workload, fleet.block_size, false).token_ratio();
    let got = Summary::of(&play(&workload, "pooled-cache", &fleet, 1), 4, Slo::default()).get("hit_ratio");
    assert!((got - ideal).abs() < 0.01, "{got} {ideal}");
}

#[test]
fn one_engine_no_requests_and_too_many_at_once_are_no_trouble() {
    let one = FleetOptions { pods: 1, ..FleetOptions::default() };
    assert_eq!(play(&small("shared-prefix:requests=5"), "power-of-two", &one, 1).samples.len(), 5);
    assert!(play(&small("shared-prefix:requests=0"), "default", &one, 1).samples.is_empty());
    let flood = play(&small("shared-prefix:requests=300,rate=1000000000"), "default", &one, 1);
    assert!(flood.samples.iter().all(|s| s.ended == Ended::Complete));
    let tight = FleetOptions { max_waiting: 2, max_num_seqs: 2, ..one };
    let refused = play(&small("shared-prefix:requests=300,rate=1000"), "default", &tight, 1);
    assert!(refused.samples.iter().any(|s| s.ended == Ended::Refused));
    assert_eq!(refused.samples.len(), 300);
}

#[test]
fn a_run_that_is_broken_off_says_so_and_keeps_what_had_ended() {
    let fleet = FleetOptions::default();
    let workload = small("shared-prefix:requests=20000,rate=2,system=64,question=64,output=2");
    let mut policy = Choice::default_picker().make(&fleet, 1).expect("no faults");
    let outcome = run(&fleet, &workload, &mut *policy, 1, &mut |_, _| ControlFlow::Break(()));
    assert!(outcome.cut && !outcome.samples.is_empty() && outcome.samples.len() < 20_000);
}

#[test]
fn hours_without_requests_cost_nothing() {
    let fleet = FleetOptions::default();
    let outcome = play(&small("shared-prefix:requests=20,rate=0.001"), "default", &fleet, 1);
    assert!(outcome.samples.iter().all(|s| s.ended == Ended::Complete) && outcome.seconds > 3_600.0);
    assert!(outcome.events < 20_000, "{} events for 20 requests", outcome.events);
}

#[test]
fn drained_stages_wait_for_each_other() {
    let workload = small("precise-guide:groups=3,prompts=2,system=256,question=64,output=20,stages=50x1+10x2");
    assert_eq!(workload.stages, [0, 50]);
    let outcome = play(&workload, "default", &FleetOptions::default(), 1);
    let first_over = outcome.samples[..50].iter().map(|s| s.last).max().expect("50");
    assert!(outcome.samples[50..].iter().all(|s| s.arrived >= first_over));
}

#[test]
fn a_fixed_workload_differs_between_seeds_by_noise_alone() {
    let source = Source::Fixed(Arc::new(small("shared-prefix:requests=40")));
    let choices = vec![Choice::named("round-robin").expect("known")];
    let race = Race {
        source,
        fleet: FleetOptions { noise: 0.0, ..FleetOptions::default() },
        choices,
        seeds: 3,
        after: 0,
        slo: Slo::default(),
        rate: None,
        sweep: None,
    };
    let report = Report::of(&race, &race.run_all().expect("no faults"));
    let completed = report.policies[0].metrics.get("completed");
    assert_eq!((completed.mean, completed.ci), (40.0, Some(0.0)));
}

fn killed(pods: usize, text: &[&str]) -> FleetOptions {
    let outages = text.iter().map(|t| Outage::parse(t).expect(t)).collect();
    FleetOptions { pods, outages, ..FleetOptions::default() }
}

#[test]
fn an_engine_that_dies_takes_along_only_the_answers_it_had_begun() {
    let workload = small("shared-prefix:requests=300,rate=20");
    for name in BASELINES.iter().map(|b| b.name).chain(["default", "default-epp", "chatbot"]) {
        let outcome = play(&workload, name, &killed(3, &["1@5"]), 1);
        assert_eq!(outcome.samples.len(), 300, "{name}");
        let broken = outcome.samples.iter().filter(|s| s.ended == Ended::Broken);
        assert!(broken.clone().all(|s| s.pod == 1 && s.arrived < s.first), "{name}");
        let whole = outcome.samples.iter().filter(|s| s.ended == Ended::Complete).count();
        assert_eq!(whole + broken.count(), 300, "{name}");
        let late = |s: &&Sample| s.arrived > BEGIN.plus(Duration::from_secs_f64(5.2));
        assert!(outcome.samples.iter().filter(late).all(|s| s.pod != 1), "{name}");
    }
}

#[test]
fn an_engine_that_returns_has_an_empty_cache_and_gets_requests_again() {
    let workload = small("shared-prefix:groups=12,prompts=40,requests=600,rate=20");
    for name in ["default", "least-request", "prefix-only", "sglang", "consistent-hash"] {
        let outcome = play(&workload, name, &killed(3, &["0@10..12"]), 1);
        let away = |s: &&Sample| {
            let at = s.arrived.since(BEGIN).as_secs_f64();
            (10.2..12.0).contains(&at)
        };
        assert!(outcome.samples.iter().filter(away).all(|s| s.pod != 0), "{name}");
        let back = |s: &&Sample| s.arrived > BEGIN.plus(Duration::from_secs(12)) && s.pod == 0;
        let mut after = outcome.samples.iter().filter(back);
        let first = after.next();
        // Whoever follows a match goes on where the others' requests went.
        if !["prefix-only", "sglang"].contains(&name) {
            assert!(first.is_some_and(|s| s.cached == 0) && after.count() > 20, "{name}: {first:?}");
        }
    }
}

#[test]
fn without_any_engine_requests_are_refused_until_one_returns() {
    let workload = small("shared-prefix:requests=100,rate=10");
    let outcome = play(&workload, "default", &killed(2, &["0@2", "1@3..6"]), 1);
    let at = |s: &Sample| s.arrived.since(BEGIN).as_secs_f64();
    for sample in &outcome.samples {
        match at(sample) {
            t if (3.2..6.0).contains(&t) => assert_eq!(sample.ended, Ended::Unplaced, "{sample:?}"),
            t if t > 6.1 => assert_eq!((sample.ended, sample.pod), (Ended::Complete, 1), "{sample:?}"),
            _ => {}
        }
    }
}

#[test]
fn more_routers_know_less_each() {
    let workload = small("unique:requests=400,rate=60,question=2000");
    let wait = |routers, name| {
        let fleet = FleetOptions { pods: 4, routers, ..FleetOptions::default() };
        Summary::of(&play(&workload, name, &fleet, 1), 4, Slo::default()).get("ttft_mean")
    };
    for name in ["least-request", "default"] {
        assert!(wait(8, name) > wait(1, name), "{name}: {} {}", wait(8, name), wait(1, name));
    }
    assert!((wait(8, "round-robin") / wait(1, "round-robin") - 1.0).abs() < 0.5);
}

#[test]
fn a_slow_engine_gets_less_from_who_counts() {
    let workload = small("unique:requests=400,rate=40");
    let fleet = FleetOptions { pods: 2, slower: vec![1.0, 3.0], ..FleetOptions::default() };
    let share = |name| play(&workload, name, &fleet, 1).samples.iter().filter(|s| s.pod == 1).count();
    assert!(share("default") < 160 && share("round-robin") == 200, "{} {}", share("default"), share("round-robin"));
}

#[test]
fn what_warms_up_is_not_counted() {
    let fleet = FleetOptions::default();
    let text = "shared-prefix:groups=5,prompts=4,ending=cycle,stages=10x2+10x5";
    let counted = play(&small(&format!("{text},warm=20")), "default", &fleet, 1);
    let all = play(&small(text), "default", &fleet, 1);
    assert_eq!((counted.samples.len(), all.samples.len()), (50, 70));
    assert_eq!(counted.samples, all.samples[20..]);
    assert!(counted.seconds < all.seconds && counted.seconds > 4.0, "{} {}", counted.seconds, all.seconds);
    let none = play(&small(&format!("{text},warm=70")), "default", &fleet, 1);
    assert!(none.samples.is_empty());
}

#[test]
fn prefill_and_decode_engines_may_die_too() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/lab/disagg.yaml");
    let choice = Choice::document("disagg", std::fs::read(path).expect("in the tree"));
    let workload = small("unique:requests=200,rate=20,question=3000,output=20");
    for (dies, back) in [(0, 1), (3, 2)] {
        let mut fleet = killed(4, &[&format!("{dies}@4..6"), &format!("{back}@7..8")]);
        fleet.disaggregation.prefill_pods = 2;
        let mut policy = choice.make(&fleet, 1).expect("no faults");
        let outcome = run(&fleet, &workload, &mut *policy, 1, &mut |_, _| ControlFlow::Continue(()));
        assert_eq!(outcome.samples.len(), 200);
        assert!(outcome.samples.iter().all(|s| s.ended != Ended::Open), "every request ends");
        let whole = outcome.samples.iter().filter(|s| s.ended == Ended::Complete).count();
        assert!(whole > 180, "{whole}");
        assert!(outcome.samples.iter().filter(|s| s.prefill.is_some()).count() > 100);
    }
}
