//! The reader against a slow reference, and against nonsense.

use super::*;
use proptest::prelude::*;

fn sorted(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by(|a, b| a.0.cmp(b.0));
            let members: Vec<String> =
                keys.iter().map(|(k, v)| format!("{}:{}", Value::from(k.as_str()), sorted(v))).collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// The bytes of a chat by the letter of the specification.
fn chat_bytes(tools: &Option<Value>, messages: &[(String, Content)]) -> Vec<u8> {
    let mut out = tools.as_ref().map(|t| sorted(t).into_bytes()).unwrap_or_default();
    for (role, content) in messages {
        out.extend(role.bytes());
        match content {
            Content::Null => {}
            Content::Text(text) => out.extend(text.bytes()),
            Content::Blocks(blocks) => {
                for block in blocks {
                    match block {
                        Block::Text(text) => out.extend(text.bytes()),
                        Block::Image(url) => {
                            out.resize(out.len().next_multiple_of(4), 0);
                            out.extend((xxh64(url.as_bytes()) as u32).to_le_bytes().repeat(225));
                        }
                    }
                }
            }
        }
    }
    out
}

#[derive(Clone, Debug)]
enum Content {
    Null,
    Text(String),
    Blocks(Vec<Block>),
}

#[derive(Clone, Debug)]
enum Block {
    Text(String),
    Image(String),
}

impl Content {
    fn json(&self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Text(text) => Value::from(text.as_str()).to_string(),
            Self::Blocks(blocks) => {
                let blocks: Vec<Value> = blocks
                    .iter()
                    .map(|b| match b {
                        Block::Text(text) => json!({"type":"text","text":text}),
                        Block::Image(url) => json!({"type":"image_url","image_url":{"url":url}}),
                    })
                    .collect();
                Value::from(blocks).to_string()
            }
        }
    }
}

fn content() -> impl Strategy<Value = Content> {
    let text = "[ -~\u{e9}\n\t]{0,80}";
    let block = prop_oneof![4 => text.prop_map(Block::Text), 1 => "https://[a-z]{1,9}".prop_map(Block::Image)];
    prop_oneof![
        1 => Just(Content::Null),
        4 => text.prop_map(Content::Text),
        2 => prop::collection::vec(block, 0..4).prop_map(Content::Blocks),
    ]
}

fn tools() -> impl Strategy<Value = Option<Value>> {
    let tool = prop::collection::btree_map("[a-z\"\\\\]{1,3}", "[ -~]{0,9}", 1..4).prop_map(|m| json!(m));
    prop::option::of(prop::collection::vec(tool, 1..3).prop_map(Value::from))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_chat_is_hashed_by_the_letter_whatever_the_order_and_the_cuts(
        tools in tools(),
        messages in prop::collection::vec(("(user|assistant|system)", content(), any::<bool>()), 1..5),
        tools_late in any::<bool>(),
        sizes in prop::collection::vec(1usize..60, 1..8),
    ) {
        let list: Vec<String> = messages.iter().map(|(role, content, late)| {
            let (role, content) = (format!("\"role\":\"{role}\""), format!("\"content\":{}", content.json()));
            if *late { format!("{{{content},{role}}}") } else { format!("{{{role},{content}}}") }
        }).collect();
        let messages: Vec<_> = messages.into_iter().map(|(role, content, _)| (role, content)).collect();
        let mut fields = vec![format!("\"messages\":[{}]", list.join(","))];
        if let Some(tools) = &tools {
            fields.insert(usize::from(tools_late), format!("\"tools\":{tools}"));
        }
        let body = format!("{{{}}}", fields.join(","));
        let mut chunks = Vec::new();
        let mut rest = body.as_bytes();
        for size in sizes.iter().cycle() {
            if rest.is_empty() { break; }
            let (chunk, more) = rest.split_at(rest.len().min(*size));
            chunks.push(Bytes::copy_from_slice(chunk));
            rest = more;
        }
        let got = read_chunks(Api::Chat, &chunks, options(4)).expect("valid");
        prop_assert_eq!(&got.prompts, &[prompt_of(&chat_bytes(&tools, &messages), 4)]);
        let images = messages.iter().filter_map(|(_, c)| match c { Content::Blocks(b) => Some(b), _ => None }).flatten();
        prop_assert_eq!(got.features.len(), images.filter(|b| matches!(b, Block::Image(_))).count());
        // The same through every pair of chunks.
        for cut in 0..=body.len() {
            let pair = [&body.as_bytes()[..cut], &body.as_bytes()[cut..]].map(Bytes::copy_from_slice);
            prop_assert_eq!(&read_chunks(Api::Chat, &pair, options(4)).expect("valid"), &got);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic_or_read_differently_in_chunks(data in prop::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzzing::body(&data);
    }

    #[test]
    fn no_damaged_body_makes_the_reader_panic_or_read_differently_in_chunks(
        (api, body) in prop::sample::select(BODIES),
        sizes in any::<[u8; 4]>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0usize..6, prop::sample::select(PARTS)), 0..4),
    ) {
        let mut body = body.to_owned();
        for (at, cut, part) in damage {
            let at = at.index(body.len() + 1);
            let end = (at + cut).min(body.len());
            body.replace_range(at..end, part);
        }
        let mut data = vec![api];
        data.extend(sizes);
        data.extend(body.bytes());
        crate::fuzzing::body(&data);
    }
}

/// Bodies with everything in them that the APIs know, for damaging.
const BODIES: &[(u8, &str)] = &[
    (0, r#"{"prompt":["a\u00e9",""],"model":"m","max_tokens":3,"prompt":[[1,2],[3]],"stream":true,"cache_salt":"s"}"#),
    (
        1,
        r#"{"messages":[{"content":[{"type":"text","text":"ab"},{"image_url":{"url":"data:image/gif;base64,R0lGODlhAQABAA"},"type":"image_url"}],"role":"user"},{"role":"assistant","content":null}],"tools":[{"b":[],"a":{}}],"model":"m"}"#,
    ),
    (
        1,
        r#"{"model":"m","messages":[{"role":"u","content":[{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}},{"type":"video_url","video_url":{"url":"v"}}]}],"messages":[{"role":"u","content":"x"}]}"#,
    ),
    (
        2,
        r#"{"system":[{"type":"text","text":"x-anthropic-billing-header: 1"},{"text":"s"}],"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","source":{"data":"AA"}},{"text":"t"},{"text":"u"}]},{"type":"tool_use","id":"i","input":{"k":[1,null]}}]}],"tools":[{"x":1}],"model":"m"}"#,
    ),
    (
        3,
        r#"{"input":[{"role":"user"}],"tools":[{"b":1,"a":2}],"instructions":"i\n","model":"m","max_output_tokens":7}"#,
    ),
    (4, r#"{"items":[{"type":"message","content":"c"}],"model":"m"}"#),
    (5, r#"{"input":["a","b"],"model":"m","input":[1,2,3]}"#),
    (6, r#"{"prompt":"p","model":"m"}"#),
    (
        7,
        r#"{"token_ids":[1,2,3,4,5],"features":{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":[{"offset":1,"length":2}]}},"sampling_params":{"max_tokens":3},"model":"m"}"#,
    ),
];

const PARTS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"model\"",
    "\"messages\"",
    "\"role\"",
    "\"content\"",
    "\"tools\"",
    "\"prompt\"",
    "\"input\"",
    "\"items\"",
    "\"system\"",
    "\"type\"",
    "\"text\"",
    "\"image_url\"",
    "\"url\"",
    "\"token_ids\"",
    "\"features\"",
    "\"mm_hashes\"",
    "\"a\\u00e9\"",
    "1",
    "-1",
    "null",
    "true",
    " ",
];
