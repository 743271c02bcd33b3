//! "Did you mean": the nearest known name.

/// Longest name that is compared; longer ones are not misspelt, they are something else (and comparing takes time).
const LONGEST: usize = 100;

/// The candidate a person most likely meant: the fewest edits (a swap of neighbours counts as one), letter case ignored, at most a
/// third of the name. `None` when nothing is near.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let wanted = name.to_lowercase();
    let most = (wanted.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|c| c.len() <= LONGEST && c.len().abs_diff(wanted.len()) <= 2 * most)
        .map(|c| (strsim::osa_distance(&wanted, &c.to_lowercase()), c))
        .filter(|&(edits, _)| edits <= most)
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, c)| c)
}

/// The `count` most similar candidates, best first, however far: those that share most of the name's `-`-separated words, then by
/// edits. For a list of what there is.
pub fn nearest_few<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    if name.len() > LONGEST {
        return Vec::new();
    }
    let words: Vec<&str> = name.split('-').filter(|w| !w.is_empty()).collect();
    let score = |c: &str| {
        let shared = c.split('-').filter(|w| words.contains(w)).count();
        shared as f64 + strsim::normalized_damerau_levenshtein(name, c)
    };
    let mut scored: Vec<(f64, &str)> = candidates.into_iter().map(|c| (score(c), c)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(count).map(|(_, c)| c).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = [
        "queue-scorer",
        "prefix-cache-scorer",
        "load-aware-scorer",
        "max-score-picker",
        "pluginRef",
        "schedulingProfiles",
    ];

    #[test]
    fn a_misspelt_name_gets_the_nearest_known_one() {
        for (name, want) in [
            ("qeue-scorer", Some("queue-scorer")),
            ("Queue-Scorer", Some("queue-scorer")),
            ("prefix-cache-score", Some("prefix-cache-scorer")),
            ("plugin_ref", Some("pluginRef")),
            ("schedulerProfiles", Some("schedulingProfiles")),
            ("custom-scorer", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, KNOWN), want, "{name}");
        }
    }

    #[test]
    fn the_most_similar_names_come_first() {
        assert_eq!(
            nearest_few("custom-scorer", KNOWN, 3),
            ["queue-scorer", "load-aware-scorer", "prefix-cache-scorer"]
        );
        assert!(nearest_few(&"x".repeat(1 << 20), KNOWN, 2).is_empty());
    }
}
