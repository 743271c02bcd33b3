//! Advice for a name that is nearly a known one, also where the two look the same on a screen.

/// What to say of `name` when `near` was meant: `did you mean ...?`, and which character of the two cannot be seen, or looks like another one.
///
/// ```
/// let advice = pointsman_config::did_you_mean("queue-scorer\u{200b}", "queue-scorer");
/// assert_eq!(advice, "U+200B after `queue-scorer`: did you mean `queue-scorer`?");
/// ```
#[must_use]
pub fn did_you_mean(name: &str, near: &str) -> String {
    let same = name.chars().zip(near.chars()).take_while(|(a, b)| a == b).count();
    let strange = |text: &str| text.chars().nth(same).filter(|c| !c.is_ascii_graphic());
    let place = || match near.chars().take(same).collect::<String>() {
        before if before.is_empty() => "at its beginning".to_owned(),
        before => format!("after `{before}`"),
    };
    match (strange(name), strange(near)) {
        (Some(c), _) => format!("U+{:04X} {}: did you mean `{near}`?", u32::from(c), place()),
        (None, Some(c)) => format!("did you mean `{near}`, which has U+{:04X} {}?", u32::from(c), place()),
        (None, None) => format!("did you mean `{near}`?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_cannot_be_told_by_its_looks_is_named_with_its_place() {
        for (name, near, want) in [
            ("qeue", "queue", "did you mean `queue`?"),
            ("queue", "queue ", "did you mean `queue `, which has U+0020 after `queue`?"),
            ("\u{feff}queue", "queue", "U+FEFF at its beginning: did you mean `queue`?"),
            ("queue-s\u{441}orer", "queue-scorer", "U+0441 after `queue-s`: did you mean `queue-scorer`?"),
            ("queue", "queue\u{a0}", "did you mean `queue\u{a0}`, which has U+00A0 after `queue`?"),
        ] {
            assert_eq!(did_you_mean(name, near), want);
        }
    }
}
