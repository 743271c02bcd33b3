//! Kubernetes label selectors: `app=vllm,env in (prod,staging),!old`.

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    DoesNotExist(String),
}

/// Reads a selector.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut requirements = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    for (i, c) in text.char_indices().chain([(text.len(), ',')]) {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or("`)` without `(`")?,
            ',' if depth == 0 || i == text.len() => {
                requirements.push(requirement(text[start..i].trim())?);
                start = i + 1;
            }
            _ => {}
        }
    }
    if depth > 0 { Err("`(` without `)`".to_owned()) } else { Ok(requirements) }
}

fn requirement(text: &str) -> Result<Requirement, String> {
    if let Some(key) = text.strip_prefix('!') {
        return Ok(Requirement::DoesNotExist(name(key)?));
    }
    if let Some((head, values)) = text.split_once('(') {
        let values = values.strip_suffix(')').ok_or("something comes after `)`")?;
        let values = values.split(',').map(|v| value(v.trim())).collect::<Result<Vec<_>, _>>()?;
        return match head.split_whitespace().collect::<Vec<_>>()[..] {
            [key, "in"] => Ok(Requirement::In(name(key)?, values)),
            [key, "notin"] => Ok(Requirement::NotIn(name(key)?, values)),
            _ => Err(format!("`{text}`: write `key in (a,b)` or `key notin (a,b)`")),
        };
    }
    for (operator, negated) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, wanted)) = text.split_once(operator) {
            let (key, values) = (name(key)?, vec![value(wanted.trim())?]);
            return Ok(if negated { Requirement::NotIn(key, values) } else { Requirement::In(key, values) });
        }
    }
    name(text).map(Requirement::Exists)
}

fn name(text: &str) -> Result<String, String> {
    let text = text.trim();
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if text.is_empty() || !text.chars().all(sound) {
        Err(format!("`{text}` is not a label key"))
    } else {
        Ok(text.to_owned())
    }
}

fn value(text: &str) -> Result<String, String> {
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.len() <= 63 && text.chars().all(sound) {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is not a label value"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_sets_and_existence_are_read() {
        let list = |values: &[&str]| values.iter().map(|&v| v.to_owned()).collect();
        assert_eq!(
            parse("app=vllm, env in (prod, staging),tier!=frontend,key,!deprecated,a==b,x notin (y)"),
            Ok(vec![
                Requirement::In("app".into(), list(&["vllm"])),
                Requirement::In("env".into(), list(&["prod", "staging"])),
                Requirement::NotIn("tier".into(), list(&["frontend"])),
                Requirement::Exists("key".into()),
                Requirement::DoesNotExist("deprecated".into()),
                Requirement::In("a".into(), list(&["b"])),
                Requirement::NotIn("x".into(), list(&["y"])),
            ])
        );
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for bad in ["", "a in (b", "a in b)", "a b", "=x", "a=b c", "in (x)", "a=b,,c"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
