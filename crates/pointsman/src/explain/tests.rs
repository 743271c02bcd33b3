//! Records as files beside what is shown of them.

use super::record::Record;
use super::render::render;
use crate::snapshot;
use crate::terminal::Paint;

fn shown(record: &str, signals: bool) -> String {
    render(&serde_json::from_str::<Record>(record).expect("a record"), signals, Paint::PLAIN)
}

#[test]
fn a_decision_is_shown_with_scores_drops_prefix_signals_steps_and_outcome() {
    let text = shown(include_str!("../../tests/data/decision.json"), true);
    snapshot::same("explain.txt", &text);
}

#[test]
fn ties_retries_and_errors_are_told_and_scorers_keep_their_order() {
    let text = shown(include_str!("../../tests/data/decision-tied-and-retried.json"), false);
    snapshot::same("explain-tied-and-retried.txt", &text);
    assert!(!text.contains('\u{1b}'), "a model name must not steer the terminal");
}

#[test]
fn a_draw_among_all_names_the_sum_of_those_who_tied_not_that_of_the_one_drawn() {
    let rated = |name: &str, total: f64| format!(r#"{{"endpoint":"{name}","total":{total}}}"#);
    let candidates = [rated("a", 2.0), rated("b", 2.0), rated("c", 1.0)].join(",");
    let text =
        shown(&format!(r#"{{"profiles":[{{"candidates":[{candidates}],"ties":["a","b"],"picked":["c"]}}]}}"#), false);
    assert!(text.contains("a, b tied at 2.000; c was drawn"), "{text}");
}

#[test]
fn a_request_that_was_refused_before_any_profile_ran_is_told_as_such() {
    snapshot::same("explain-refused.txt", &shown(include_str!("../../tests/data/decision-refused.json"), false));
}

/// Each is another thing to look into, so each is counted and told by its own name.
#[test]
fn not_ready_without_the_model_outside_the_subset_and_filtered_are_told_apart() {
    let text = shown(include_str!("../../tests/data/decision-out-before-any-filter.json"), false);
    snapshot::same("explain-out-before-any-filter.txt", &text);
    for part in [
        "6 endpoints, 1 not ready, 2 without the model, 1 not in the subset, 1 filtered,",
        "  B          the engine does not list the requested model\n",
        "  C          the engine does not list the requested model\n",
        "  D          not ready for 10s: health check failed: status 503\n",
        "  E          not in the subset that the proxy allows\n",
        "  F          dropped by utilization-filter: waiting is 900, limit 128\n",
        "metrics 20 ms old (A 20, F 20)\n",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}

#[test]
fn a_record_with_every_key_missing_is_shown_without_a_panic() {
    assert!(shown("{}", true).contains("no profile ran"));
    assert!(shown(r#"{"profiles":[{}]}"#, true).contains("nobody picked"));
}

#[test]
fn the_pick_is_marked_and_candidates_stand_in_the_order_of_their_totals() {
    let text = shown(include_str!("../../tests/data/decision.json"), false);
    let names: Vec<&str> =
        text.lines().filter(|l| l.starts_with("> ") || l.starts_with("  ")).map(|l| &l[..3]).collect();
    assert_eq!(names, ["  e", "> C", "  A", "  B", "  D"]);
}
