//! The prompts of the agreement run: groups that share a head, as conversations and documents do.

use bytes::Bytes;
use serde_json::json;

use super::server::MODEL;
use crate::text::{Draw, prose};

/// A request of the run.
pub(crate) struct Prompt {
    /// Its group; only prompts of one group share anything.
    pub(crate) group: usize,
    /// Where it goes.
    pub(crate) path: &'static str,
    /// The JSON body.
    pub(crate) body: Bytes,
    /// Bytes of the prompt's text.
    pub(crate) bytes: usize,
}

/// Fewest and most bytes of a prompt.
const SIZE: (u64, u64) = (600, 6_000);

/// Fewest bytes that a group shares at the beginning.
const HEAD: u64 = 512;

/// `groups` groups of three or four prompts, the groups mixed. The same `seed` gives the same requests.
///
/// Mixed, because one group after the other would hide a router that forgets, and would flatter round robin.
pub(crate) fn groups(groups: usize, seed: u64) -> Vec<Prompt> {
    let mut draw = Draw::new(seed);
    let mut prompts = Vec::new();
    for group in 0..groups {
        let head = draw.between(HEAD, SIZE.1 / 2);
        let shared = prose(draw.next(), usize::try_from(head).expect("a few thousand"));
        let path = if group % 2 == 0 { "/v1/completions" } else { "/v1/chat/completions" };
        for _ in 0..draw.between(3, 5) {
            let total = draw.between(SIZE.0.max(head + 64), SIZE.1 + 1);
            let own = prose(draw.next(), usize::try_from(total - head).expect("a few thousand"));
            let text = format!("{shared}{own}");
            let bytes = text.len();
            let body = if group % 2 == 0 {
                json!({"model": MODEL, "prompt": text, "max_tokens": 4, "temperature": 0})
            } else {
                let messages = json!([{"role": "user", "content": text}]);
                json!({"model": MODEL, "messages": messages, "max_tokens": 4, "temperature": 0})
            };
            prompts.push(Prompt { group, path, body: body.to_string().into(), bytes });
        }
    }
    for last in (1..prompts.len()).rev() {
        let other = usize::try_from(draw.between(0, last as u64 + 1)).expect("an index");
        prompts.swap(last, other);
    }
    prompts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn text(prompt: &Prompt) -> String {
        let body: Value = serde_json::from_slice(&prompt.body).unwrap();
        let text = body.pointer("/prompt").or_else(|| body.pointer("/messages/0/content")).and_then(Value::as_str);
        text.expect("a prompt").to_owned()
    }

    fn common(a: &str, b: &str) -> usize {
        a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
    }

    #[test]
    fn prompts_of_a_group_share_their_head_and_groups_share_less_than_a_block() {
        let prompts = groups(12, 7);
        for (at, one) in prompts.iter().enumerate() {
            assert!((600..=6_000).contains(&one.bytes), "{} bytes", one.bytes);
            for other in &prompts[at + 1..] {
                let shared = common(&text(one), &text(other));
                if one.group == other.group {
                    assert!(shared >= 512, "{shared}");
                } else {
                    assert!(shared < 64, "{shared}");
                }
            }
        }
    }

    #[test]
    fn groups_have_three_or_four_prompts_and_are_mixed() {
        let prompts = groups(12, 7);
        for group in 0..12 {
            assert!((3..=4).contains(&prompts.iter().filter(|prompt| prompt.group == group).count()));
        }
        let same = prompts.windows(2).filter(|pair| pair[0].group == pair[1].group).count();
        assert!(same < prompts.len() / 3, "{same} neighbours of one group");
    }
}
