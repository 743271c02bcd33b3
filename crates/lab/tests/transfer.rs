//! A prompt computed by one engine and decoded by another, through the fleet: the worked times of simulator 2.7.

use std::ops::ControlFlow;
use std::time::Duration;

use pointsman_core::Nanos;
use pointsman_lab::fleet::{Disaggregation, Ended, FleetOptions, Outcome, run};
use pointsman_lab::policy::{Ask, Choice, Policy, View};
use pointsman_lab::workload::{Arrival, Prompt, Spec, When, Workload};
use pointsman_sim::Profile;

/// One 8B engine for prompts, one for tokens, nothing else that takes time.
fn pair() -> FleetOptions {
    FleetOptions {
        pods: 2,
        dispatch: Duration::ZERO,
        api_overhead: Duration::ZERO,
        noise: 0.0,
        disaggregation: Disaggregation { prefill_pods: 1, ..Disaggregation::default() },
        ..FleetOptions::default()
    }
}

/// Where each request goes: (who decodes, who computes the prompt).
struct Fixed(Vec<(usize, Option<usize>)>, u32);

impl Policy for Fixed {
    fn pick(&mut self, ask: &Ask<'_>, _: &View<'_>) -> Option<usize> {
        self.1 = ask.id;
        Some(self.0[ask.id as usize].0)
    }

    fn prefill(&self) -> Option<usize> {
        self.0[self.1 as usize].1
    }
}

fn asks(seconds: u64, units: &[u64]) -> Arrival {
    let prompt = Prompt { tokens: units.len() as u64 * 1_000, unit: 1_000, ids: units.into() };
    Arrival { when: When::At(Nanos(seconds * 1_000_000_000)), prompt, output: 2, session: None, lora: None }
}

const SHARED: [u64; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const LONGER: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 21, 22];

/// The first 8,000 tokens have been asked for at the engines `warm`; then all 10,000 are.
fn play(fleet: &FleetOptions, warm: &[usize], prefill: Option<usize>) -> Outcome {
    let mut requests: Vec<Arrival> = warm.iter().map(|_| asks(0, &SHARED)).collect();
    requests.push(asks(10, &LONGER));
    let mut places: Vec<(usize, Option<usize>)> = warm.iter().map(|pod| (*pod, None)).collect();
    places.push((1, prefill));
    let workload = Workload::new("worked", requests);
    run(fleet, &workload, &mut Fixed(places, 0), 1, &mut |_, _| ControlFlow::Continue(()))
}

#[test]
fn times_to_first_token_are_those_of_the_worked_example() {
    // One token behind 9,999.
    let step = 7.04;
    for (what, warm, prefill, want, moved) in [
        ("all on a decode engine that has 8,000 tokens", &[1][..], None, 80.8, 0),
        ("the prefill engine has them too", &[0, 1], Some(0), 80.8 + 24.8 + step, 2_000),
        ("the prefill engine has nothing", &[1], Some(0), 355.2 + 24.8 + step, 2_000),
        ("the decode engine has nothing", &[0], Some(0), 80.8 + 120.2 + step, 10_000),
    ] {
        let outcome = play(&pair(), warm, prefill);
        let last = outcome.samples.last().expect("it was asked");
        let got = last.ttft() * 1e3;
        assert!((got / want - 1.0).abs() < 0.01, "{what}: {got:.1} ms, expected {want:.1}");
        assert_eq!((last.moved, last.ended), (moved, Ended::Complete), "{what}");
    }
}

#[test]
fn a_prompt_that_the_prefill_engine_gave_up_before_it_was_read_is_a_failed_request() {
    let mut fleet = pair();
    fleet.disaggregation.hold = Duration::from_millis(20);
    let outcome = play(&fleet, &[1], Some(0));
    assert_eq!(outcome.samples.last().map(|s| s.ended), Some(Ended::Broken));
}

fn disagg() -> Choice {
    let path = format!("{}/../../testdata/lab/disagg.yaml", env!("CARGO_MANIFEST_DIR"));
    Choice::document("disagg", std::fs::read(path).expect("the configuration is in the tree"))
}

#[test]
fn the_production_router_names_both_engines_and_the_fleet_follows_it() {
    let fleet = FleetOptions {
        pods: 4,
        profile: *Profile::named("8b-h100").expect("known"),
        disaggregation: Disaggregation { prefill_pods: 2, ..Disaggregation::default() },
        ..FleetOptions::default()
    };
    let workload =
        Spec::parse("shared-prefix:requests=200,rate=10,system=2048,question=256").expect("fine").generate(1);
    let play = |choice: &Choice| {
        let mut policy = choice.make(&fleet, 1).expect("no faults");
        run(&fleet, &workload, &mut *policy, 1, &mut |_, _| ControlFlow::Continue(()))
    };
    let outcome = play(&disagg());
    assert!(outcome.samples.iter().all(|s| s.ended == Ended::Complete && s.pod >= 2));
    let apart = outcome.samples.iter().filter(|s| s.prefill.is_some_and(|pod| pod < 2) && s.moved > 0).count();
    assert!((10..200).contains(&apart), "{apart}: long prompts that nobody holds go to two engines, others to one");
    // Who names no second engine is served whole, whatever the labels say.
    let alone = play(&Choice::named("least-request").expect("known"));
    assert!(alone.samples.iter().all(|s| s.ended == Ended::Complete && s.prefill.is_none() && s.moved == 0));
}
