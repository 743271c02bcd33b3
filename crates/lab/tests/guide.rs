//! What docs/laboratory.md claims of its generated workloads, in fewer runs.

use std::time::Duration;

use pointsman_lab::fleet::FleetOptions;
use pointsman_lab::metrics::Slo;
use pointsman_lab::policy::Choice;
use pointsman_lab::race::{Axis, Race, Source};
use pointsman_lab::report::Report;
use pointsman_lab::workload::Spec;

fn race(workload: &str, policies: &[&str], sweep: Option<(Axis, Vec<f64>)>) -> Report {
    let race = Race {
        source: Source::Made(Box::new(Spec::parse(workload).expect("fine"))),
        fleet: FleetOptions { pods: 8, scrape: Duration::from_millis(50), ..FleetOptions::default() },
        choices: policies.iter().map(|name| Choice::named(name).expect(name)).collect(),
        seeds: 2,
        after: 0,
        slo: Slo::default(),
        rate: None,
        sweep,
    };
    Report::of(&race, &race.run_all().expect("no faults"))
}

fn p95(report: &Report, policy: &str, at: usize) -> f64 {
    let rows: Vec<_> = report.policies.iter().filter(|row| row.policy == policy).collect();
    rows[at].metrics.get("ttft_p95").mean
}

#[test]
fn scraped_gauges_alone_herd_the_more_the_rarer_they_are_read() {
    let sweep = Some((Axis::Scrape, vec![10.0, 200.0]));
    let report = race("shared-prefix:groups=40,requests=600,rate=40,system=1024", &["load", "default"], sweep);
    let [load, default] = ["load", "default"].map(|policy| p95(&report, policy, 1) / p95(&report, policy, 0));
    assert!(load > 1.25 && (default - 1.0).abs() < 0.1, "load {load:.2}, default {default:.2}");
}

#[test]
fn affinity_hurts_where_few_prefixes_are_popular_and_short() {
    let workload = "shared-prefix:groups=4,zipf=1.5,requests=800,rate=40,system=512,question=3000,output=200";
    let report = race(workload, &["least-request", "default", "chatbot", "prefix-only"], None);
    let to_least = |policy: &str| p95(&report, policy, 0) / p95(&report, "least-request", 0);
    assert!(to_least("default") < 1.2, "default {:.2}", to_least("default"));
    assert!(to_least("chatbot") > 1.2, "chatbot {:.2}", to_least("chatbot"));
    assert!(to_least("prefix-only") > 10.0, "prefix-only {:.2}", to_least("prefix-only"));
}
