//! How pickers share requests out: what came of many draws against what should, by chi-square. `docs/pickers.md` shows the figures, and is made from them.

use pointsman_plugins::pickers::max_score_picker::MaxScorePicker;
use pointsman_plugins::pickers::random_picker::RandomPicker;
use pointsman_plugins::pickers::weighted_random_picker::WeightedRandomPicker;
use pointsman_scheduling::Picker;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const DRAWS: u32 = 100_000;

/// One picker over one list of sums.
struct Case {
    picker: &'static str,
    sums: &'static [f64],
    count: usize,
}

const fn case(picker: &'static str, sums: &'static [f64], count: usize) -> Case {
    Case { picker, sums, count }
}

const MAX: &str = "max-score-picker";
const WEIGHTED: &str = "weighted-random-picker";
const RANDOM: &str = "random-picker";

const CASES: &[Case] = &[
    case(MAX, &[1.0, 0.5, 1.0, 1.0], 1),
    case(MAX, &[1.0, 0.5, 1.0, 0.5], 3),
    case(WEIGHTED, &[3.0, 1.0, 2.0], 1),
    case(WEIGHTED, &[3e-6, 1e-6, 2e-6], 1),
    case(WEIGHTED, &[3e-300, 1e-300, 2e-300], 1),
    case(WEIGHTED, &[0.81, 0.8, 0.79, 0.8], 1),
    case(WEIGHTED, &[1000.0, 1.0, 0.0, -2.0], 1),
    case(WEIGHTED, &[0.6, 0.3, 0.1, 0.0], 2),
    case(WEIGHTED, &[6e-4, 3e-4, 1e-4], 3),
    case(WEIGHTED, &[2.0, 1.0, 0.0, 0.0], 3),
    case(WEIGHTED, &[0.0, -1.0, 0.0], 1),
    case(RANDOM, &[9.0, 0.0, 1.0, -4.0], 1),
    case(RANDOM, &[9.0, 0.0, 1.0, -4.0], 2),
];

/// Whole answers, each with a number.
type Answers = BTreeMap<Vec<usize>, f64>;

impl Case {
    fn picker(&self) -> Box<dyn Picker> {
        let count = self.count;
        match self.picker {
            MAX => Box::new(MaxScorePicker { count }),
            WEIGHTED => Box::new(WeightedRandomPicker { count }),
            _ => Box::new(RandomPicker { count }),
        }
    }

    /// With which weight each of `left` takes the next place.
    fn weights(&self, left: &[usize]) -> Vec<f64> {
        let sums = left.iter().map(|&i| self.sums[i]);
        match self.picker {
            RANDOM => vec![1.0; left.len()],
            MAX => {
                let best = sums.clone().fold(f64::NEG_INFINITY, f64::max);
                sums.map(|s| f64::from(s == best)).collect()
            }
            _ if sums.clone().any(|s| s > 0.0) => sums.map(|s| s.max(0.0)).collect(),
            _ => vec![1.0; left.len()],
        }
    }

    /// The chance of every answer: place after place, without replacement.
    fn expected(&self) -> Answers {
        let mut begun: Vec<(Vec<usize>, f64)> = vec![(Vec::new(), 1.0)];
        for _ in 0..self.count {
            let mut further = Vec::new();
            for (answer, chance) in begun {
                let left: Vec<usize> = (0..self.sums.len()).filter(|i| !answer.contains(i)).collect();
                let weights = self.weights(&left);
                let all: f64 = weights.iter().sum();
                for (next, weight) in left.into_iter().zip(weights).filter(|(_, w)| *w > 0.0) {
                    further.push(([&answer[..], &[next]].concat(), chance * weight / all));
                }
            }
            begun = further;
        }
        begun.into_iter().collect()
    }

    /// The share of every answer that came.
    fn observed(&self) -> Answers {
        let seed = CASES.iter().position(|case| std::ptr::eq(case, self));
        let (picker, mut rng) = (self.picker(), fastrand::Rng::with_seed(seed.map_or(0, |s| s as u64)));
        let mut seen = Answers::new();
        for _ in 0..DRAWS {
            let mut out = Vec::new();
            picker.pick(self.sums, &mut rng, &mut out);
            *seen.entry(out).or_default() += 1.0 / f64::from(DRAWS);
        }
        seen
    }
}

/// The chi-square of what came against what should; infinite where something came that cannot.
fn chi_square(expected: &Answers, observed: &Answers) -> f64 {
    if observed.keys().any(|answer| !expected.contains_key(answer)) {
        return f64::INFINITY;
    }
    let term = |(answer, chance): (&Vec<usize>, &f64)| {
        let came = observed.get(answer).copied().unwrap_or(0.0);
        (came - chance).powi(2) / chance * f64::from(DRAWS)
    };
    expected.iter().map(term).sum()
}

/// What chi-square exceeds once in a thousand times, with one degree of freedom less than there are answers (Wilson and Hilferty).
fn bound(answers: usize) -> f64 {
    let freedom = answers.saturating_sub(1) as f64;
    let spread = 2.0 / (9.0 * freedom);
    if freedom == 0.0 { 0.0 } else { freedom * (1.0 - spread + 3.0902 * spread.sqrt()).powi(3) }
}

#[test]
fn every_answer_comes_as_often_as_it_should() {
    for case in CASES {
        let (expected, observed) = (case.expected(), case.observed());
        let chi = chi_square(&expected, &observed);
        let what = format!("{} {:?} {}", case.picker, case.sums, case.count);
        assert!((expected.values().sum::<f64>() - 1.0).abs() < 1e-9, "{what}");
        // Single answers have no freedom; rounding alone is left.
        assert!(chi <= bound(expected.len()).max(1e-6), "{what}: chi-square {chi}\n{expected:?}\n{observed:?}");
    }
}

#[test]
fn the_bound_is_that_of_the_tables() {
    for (answers, want) in [(3, 13.82), (4, 16.27), (13, 32.91), (25, 51.18)] {
        assert!((bound(answers) / want - 1.0).abs() < 0.03, "{answers}: {}", bound(answers));
    }
}

#[test]
fn a_picker_that_leans_is_found_out() {
    let case = &CASES[2];
    let mut leaning = case.expected();
    *leaning.get_mut(&vec![0]).expect("an answer") += 0.01;
    *leaning.get_mut(&vec![2]).expect("an answer") -= 0.01;
    assert!(chi_square(&case.expected(), &leaning) > bound(3));
}

const BEGIN: &str = "<!-- shares: begin";
const END: &str = "<!-- shares: end -->";

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pickers.md")
}

/// How often `wanted` holds of an answer.
fn share(answers: &Answers, wanted: impl Fn(&[usize]) -> bool) -> f64 {
    answers.iter().filter(|(answer, _)| wanted(answer)).fold(0.0, |all, (_, share)| all + share)
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn tables() -> String {
    let mut out = String::new();
    for case in CASES {
        let (expected, observed) = (case.expected(), case.observed());
        let (chi, bound) = (chi_square(&expected, &observed), bound(expected.len()));
        let places = if case.count == 1 { String::new() } else { format!(", {} endpoints", case.count) };
        let answers = if expected.len() == 1 { "one answer".to_owned() } else { format!("{} answers", expected.len()) };
        let _ = writeln!(out, "\n`{}`{places}: chi-square {chi:.1} over {answers}, bound {bound:.1}\n", case.picker);
        let among = if case.count == 1 { "" } else { " expected among them | observed |" };
        let _ = writeln!(out, "| sum | expected first | observed |{among}");
        let _ = writeln!(out, "| ---: | ---: | ---: |{}", if case.count == 1 { "" } else { " ---: | ---: |" });
        for (i, sum) in case.sums.iter().enumerate() {
            let both = |wanted: &dyn Fn(&[usize]) -> bool| {
                format!("{} | {} |", percent(share(&expected, wanted)), percent(share(&observed, wanted)))
            };
            let first = both(&|answer| answer.first() == Some(&i));
            let among = if case.count == 1 { String::new() } else { format!(" {}", both(&|a| a.contains(&i))) };
            let _ = writeln!(out, "| {sum:?} | {first}{among}");
        }
    }
    out.push('\n');
    out
}

#[test]
fn the_figures_of_the_page_are_those_of_the_draws() {
    let text = std::fs::read_to_string(page()).expect("the page");
    let (before, rest) = text.split_once(BEGIN).expect("where the figures begin");
    let (marker, rest) = rest.split_once('\n').expect("a line");
    let (shown, after) = rest.split_once(END).expect("where the figures end");
    let tables = tables();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(page(), format!("{before}{BEGIN}{marker}\n{tables}{END}{after}")).expect("the page");
        return;
    }
    assert_eq!(shown, tables, "stale: UPDATE_GOLDEN=1 cargo test -p pointsman-plugins --test pickers");
}
