//! Columns of numbers whose decimal points stand under each other.

use super::record::{Candidate, Profile, Score};

/// A column: its header and the part before the gap to the next one.
struct Column {
    header: String,
    cells: Vec<String>,
}

/// The lines of the table: its header, then one line for each candidate in `rated`, without the mark of the pick.
pub(super) fn lines(rated: &[&Candidate], names_width: usize) -> Vec<String> {
    let scorers = scorers(rated);
    let weights: Vec<f64> = scorers.iter().map(|(_, weight)| *weight).collect();
    let places = weight_places(&weights);
    let short = short_names(&scorers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>());
    let mut columns = Vec::new();
    for ((name, weight), short) in scorers.iter().zip(short) {
        let scores: Vec<Option<Score>> = rated.iter().map(|c| score_of(c, name)).collect();
        let raw = aligned(scores.iter().map(|s| s.map(|s| s.raw)), 2);
        // What the sum adds is the clamped score: the scheduler does so, and the product must add up to the total.
        let product = aligned(scores.iter().map(|s| s.map(|s| s.raw.clamp(0.0, 1.0) * s.weight)), 3);
        let cells = raw.iter().zip(&product).map(|(raw, product)| format!("{raw} {product}")).collect();
        columns.push(Column { header: format!("{short} x{weight:.places$}"), cells });
    }
    columns.push(Column { header: "total".into(), cells: aligned(rated.iter().map(|c| c.total), 3) });
    (0..=rated.len())
        .map(|row| {
            let mut line = match row.checked_sub(1) {
                None => format!("{:<names_width$}", "endpoint"),
                Some(at) => format!("{:<names_width$}", crate::terminal::clean(&rated[at].endpoint)),
            };
            for column in &columns {
                let width = column.cells.iter().chain([&column.header]).map(|c| c.chars().count()).max().unwrap_or(0);
                let cell = row.checked_sub(1).map_or(&column.header, |at| &column.cells[at]);
                line.push_str(&format!("   {cell:<width$}"));
            }
            line.trim_end().to_owned()
        })
        .collect()
}

fn score_of(candidate: &Candidate, scorer: &str) -> Option<Score> {
    candidate.scores.0.iter().find(|(name, _)| name == scorer).map(|(_, score)| *score)
}

/// Name and weight of every scorer, in the profile's order.
fn scorers(rated: &[&Candidate]) -> Vec<(String, f64)> {
    let mut out: Vec<(String, f64)> = Vec::new();
    for (name, score) in rated.iter().flat_map(|c| &c.scores.0) {
        if !out.iter().any(|(have, _)| have == name) {
            out.push((name.clone(), score.weight));
        }
    }
    out
}

/// Numbers of equal width with that many decimals; a missing one is a dash where the point would be.
fn aligned(values: impl Iterator<Item = Option<f64>>, decimals: usize) -> Vec<String> {
    // `+ 0.0` after rounding: a tiny negative number must not show as -0.00.
    let scale = 10f64.powi(decimals as i32);
    let text = |v: f64| {
        if v.is_finite() { format!("{:.decimals$}", (v * scale).round() / scale + 0.0) } else { format!("{v}") }
    };
    let cells: Vec<String> = values.map(|v| v.map_or_else(|| format!("-{:decimals$}", ""), text)).collect();
    let width = cells.iter().map(String::len).max().unwrap_or(0);
    cells.into_iter().map(|cell| format!("{cell:>width$}")).collect()
}

/// Decimals that the weights need: none when all are whole, else two to four.
fn weight_places(weights: &[f64]) -> usize {
    if weights.iter().all(|w| w.fract() == 0.0) {
        return 0;
    }
    (2..4).find(|&places| weights.iter().all(|w| (w * 10f64.powi(places)).fract().abs() < 1e-9)).unwrap_or(4) as usize
}

/// What a column is called: the scorer's name without the words that most scorers' names end with, unless two would be the same then.
pub(crate) fn short_name(scorer: &str) -> &str {
    const COMMON: [&str; 8] =
        ["-scorer", "-utilization", "-cache", "-affinity", "-size", "-requests", "-request", "-aware"];
    let mut name = scorer;
    while let Some(shorter) = COMMON.iter().find_map(|word| name.strip_suffix(word)).filter(|rest| !rest.is_empty()) {
        name = shorter;
    }
    name
}

fn short_names(scorers: &[&str]) -> Vec<String> {
    let unique = |name: &str| scorers.iter().filter(|s| short_name(s) == name).count() == 1;
    let name_of = |s: &&str| crate::terminal::clean(if unique(short_name(s)) { short_name(s) } else { s });
    scorers.iter().map(name_of).collect()
}

/// Width of the column of endpoints.
pub(super) fn names_width(profile: &Profile) -> usize {
    let names = profile.candidates.iter().map(|c| crate::terminal::clean(&c.endpoint).chars().count());
    names.max().unwrap_or(0).max("endpoint".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_names_are_the_word_that_tells_scorers_apart() {
        for (scorer, want) in [
            ("prefix-cache-scorer", "prefix"),
            ("kv-cache-utilization-scorer", "kv"),
            ("queue-scorer", "queue"),
            ("lora-affinity-scorer", "lora"),
            ("active-request-scorer", "active"),
            ("running-requests-size-scorer", "running"),
            ("load-aware-scorer", "load"),
            ("token-load-scorer", "token-load"),
            ("no-hit-lru-scorer", "no-hit-lru"),
            ("mine", "mine"),
            ("-scorer", "-scorer"),
        ] {
            assert_eq!(short_name(scorer), want);
        }
        assert_eq!(short_names(&["load-aware-scorer", "load", "queue-scorer"]), ["load-aware-scorer", "load", "queue"]);
    }

    #[test]
    fn points_stand_under_each_other_and_a_missing_number_is_a_dash() {
        assert_eq!(aligned([Some(0.5), Some(12.25), None].into_iter(), 2), [" 0.50", "12.25", "  -  "]);
        assert_eq!(aligned([Some(-1e-9)].into_iter(), 2), ["0.00"]);
    }

    #[test]
    fn weights_have_the_decimals_they_need() {
        assert_eq!(
            [
                weight_places(&[2.0, 3.0]),
                weight_places(&[0.4, 2.0]),
                weight_places(&[0.125]),
                weight_places(&[1.0 / 3.0])
            ],
            [0, 2, 3, 4]
        );
    }
}
