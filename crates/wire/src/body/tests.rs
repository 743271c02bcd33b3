//! The reader against the specification: vectors, recorded bodies, cases from users, and a slow reference.

use super::*;
use bytes::Bytes;
use pointsman_core::{BlockHash, chain, chain_seed, xxh64};
use proptest::prelude::*;
use serde_json::{Value, json};

fn options(block_tokens: usize) -> ReadOptions {
    ReadOptions { block_tokens, ..ReadOptions::default() }
}

fn read_chunks(api: Api, chunks: &[Bytes], options: ReadOptions) -> Result<ParsedBody, BodyError> {
    let mut reader = BodyReader::new(api, options);
    for chunk in chunks {
        reader.push(chunk);
    }
    reader.finish(chunks)
}

fn try_read(api: Api, body: &str) -> Result<ParsedBody, BodyError> {
    read_chunks(api, &[Bytes::copy_from_slice(body.as_bytes())], options(64))
}

fn read(api: Api, body: &str) -> ParsedBody {
    try_read(api, body).unwrap_or_else(|e| panic!("{body}: {e}"))
}

fn refusal(api: Api, body: &str) -> String {
    try_read(api, body).expect_err(body).to_string()
}

fn hashes(body: &ParsedBody, model: &str, prompt: usize) -> Vec<u64> {
    let mut out = Vec::new();
    let salt = body.cache_salt.as_deref().unwrap_or_default();
    chain(chain_seed(model, salt), &body.prompts[prompt].contents, &mut out);
    out.into_iter().map(|BlockHash(h)| h).collect()
}

/// What a prompt of these bytes must be.
fn prompt_of(bytes: &[u8], block_tokens: usize) -> Prompt {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(4), 0);
    Prompt {
        tokens: padded.len() as u64 / 4,
        contents: padded.chunks(block_tokens * 4).take(2048).map(xxh64).collect(),
    }
}

fn assert_flattens(api: Api, body: &str, bytes: &[u8]) {
    assert_eq!(read(api, body).prompts, [prompt_of(bytes, 64)], "{body}");
}

// === vectors and worked examples ===

#[test]
fn vector_v3_completions_prompt() {
    let body = read(Api::Completions, r#"{"model":"llama3","prompt":"Hello, world!"}"#);
    assert_eq!(body.prompts, [Prompt { tokens: 4, contents: vec![0x54bb_2691_ed4c_a2c8] }]);
    assert_eq!(hashes(&body, "llama3", 0), [0xa7e9_732c_77dd_75b4]);
}

#[test]
fn vector_v4_role_and_content_stand_together_without_a_separator() {
    let body = read(Api::Chat, r#"{"model":"llama3","messages":[{"role":"user","content":"Hello"}]}"#);
    assert_eq!(body.prompts, [Prompt { tokens: 3, contents: vec![0xa277_8d1c_4ee7_8fa5] }]);
    assert_eq!(hashes(&body, "llama3", 0), [0x95bd_29e7_33c9_ec9a]);
}

#[test]
fn vector_v5_an_image_url_becomes_225_placeholders() {
    let body = read(
        Api::Chat,
        r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/cat.png"}}]}]}"#,
    );
    assert_eq!(
        body.features,
        [Feature { modality: "image".into(), hash: "4585d6895fac9f64".into(), offset: 1, length: 225 }]
    );
    let mut bytes = b"user".to_vec();
    bytes.extend(1_605_148_516u32.to_le_bytes().repeat(225));
    assert_eq!(body.prompts, [prompt_of(&bytes, 64)]);
}

#[test]
fn worked_example_block_size_2_with_and_without_salt() {
    let read = |salt: &str| {
        let body = format!(r#"{{"prompt":"Hello, world!"{salt}}}"#);
        read_chunks(Api::Completions, &[body.into()], options(2)).expect("valid")
    };
    assert_eq!(hashes(&read(""), "my-model", 0), [0x9efe_b989_e7c0_8392, 0x8397_d290_1fb4_125b]);
    assert_eq!(
        hashes(&read(r#","cache_salt":"tenant-a""#), "my-model", 0),
        [0xf4c7_8071_81cd_4717, 0xf153_728f_4a2a_f231]
    );
}

#[test]
fn worked_example_chat_hi_and_image_placeholder() {
    assert_flattens(
        Api::Chat,
        r#"{"messages":[{"role":"user","content":"Hi"}]}"#,
        &[1_919_251_317u32.to_le_bytes(), 26_952u32.to_le_bytes()].concat(),
    );
    let body = read(
        Api::Chat,
        r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://ex.com/a.png"}}]}]}"#,
    );
    assert_eq!(body.features[0].hash, "d88be8db98b163ae");
    assert_eq!(body.prompts, [prompt_of(&2_561_762_222u32.to_le_bytes().repeat(225), 64)]);
}

#[test]
fn vector_v2_token_ids_are_used_as_they_are() {
    let ids: Vec<u32> = (1..=130).collect();
    for (api, key) in [(Api::Completions, "prompt"), (Api::Embeddings, "input"), (Api::Generate, "token_ids")] {
        let body = read(api, &json!({ key: ids }).to_string());
        assert_eq!(
            body.prompts,
            [Prompt {
                tokens: 130,
                contents: vec![0xcc4d_5fce_efa7_bb2c, 0x13b5_5ed7_3ea7_34b5, 0x8f08_6032_0b6e_f404]
            }]
        );
        assert_eq!(hashes(&body, "llama3", 0), [0xb8f4_c754_d195_d930, 0x1f3c_ef99_7885_3455, 0xeff6_e010_269d_fe97]);
    }
}

// === flattening ===

#[test]
fn chat_tools_stand_first_with_sorted_keys_and_empty_ones_do_not_count() {
    let want = br#"[{"function":{"name":"f"},"type":"function"}]userx"#;
    let messages = r#""messages":[{"role":"user","content":"x"}]"#;
    for tools in [
        r#"[{"type":"function","function":{"name":"f"}}]"#,
        r#"[ {"function" : {"name":"\u0066"}, "type":"function"} ]"#,
    ] {
        assert_flattens(Api::Chat, &format!(r#"{{"tools":{tools},{messages}}}"#), want);
        assert_flattens(Api::Chat, &format!(r#"{{{messages},"tools":{tools}}}"#), want);
    }
    for tools in ["[]", "null", "[ ]"] {
        assert_flattens(Api::Chat, &format!(r#"{{"tools":{tools},{messages}}}"#), b"userx");
        assert_flattens(Api::Chat, &format!(r#"{{{messages},"tools":{tools}}}"#), b"userx");
    }
}

#[test]
fn chat_content_may_be_blocks_or_null_and_other_fields_do_not_count() {
    for (messages, want) in [
        (r#"[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]"#, "userab"),
        (
            r#"[{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"f"}}]},{"role":"tool","content":"r"}]"#,
            "assistanttoolr",
        ),
        (r#"[{"role":"user","name":"bob","content":"a\n\u00e9","refusal":"no"}]"#, "usera\n\u{e9}"),
        (r#"[{"content":"late","role":"user"},{"role":"assistant","content":"x"}]"#, "userlateassistantx"),
        (r#"[{"role":"user","content":[{"text":"type last","type":"text"}]}]"#, "usertype last"),
        (r#"[{"role":"user","content":[{"type":"image_url","text":"not text"},{"type":"text","text":"t"}]}]"#, "usert"),
    ] {
        assert_flattens(Api::Chat, &format!(r#"{{"messages":{messages}}}"#), want.as_bytes());
    }
}

#[test]
fn sounds_and_videos_have_placeholders_too() {
    let body = read(
        Api::Chat,
        r#"{"messages":[{"role":"user","content":[
            {"type":"input_audio","input_audio":{"format":"wav","data":"AAAAAAA"}},
            {"type":"video_url","video_url":{"url":"https://ex.com/v.mp4"}},
            {"type":"audio_url","audio_url":{"url":"https://ex.com/a.wav"}}]}]}"#,
    );
    let features: Vec<_> = body.features.iter().map(|f| (&*f.modality, f.hash.clone(), f.offset, f.length)).collect();
    let hash = |s: &str| format!("{:x}", xxh64(s.as_bytes()));
    assert_eq!(
        features,
        [
            ("audio", hash("AAAAAAAwav"), 1, 3),
            ("video", hash("https://ex.com/v.mp4"), 4, 4500),
            ("audio", hash("https://ex.com/a.wav"), 4504, 5)
        ]
    );
    assert_eq!(body.prompts[0].tokens, 4509);
}

#[test]
fn an_images_size_is_read_from_its_data() {
    // A PNG header of 1024 x 768, in base64.
    let data = "iVBORw0KGgoAAAANSUhEUgAABAAAAAMACAIAAAA=";
    let chat = format!(
        r#"{{"messages":[{{"content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}]}}]}}"#
    );
    assert_eq!(read(Api::Chat, &chat).features[0].length, 768);
    let messages = format!(
        r#"{{"messages":[{{"role":"user","content":[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}]}}]}}"#
    );
    let body = read(Api::Messages, &messages);
    assert_eq!(
        (body.features[0].length, body.features[0].hash.as_str()),
        (768, &*format!("{:x}", xxh64(data.as_bytes())))
    );
}

#[test]
fn messages_stand_behind_tools_and_system_without_billing_blocks() {
    let body = r#"{"model":"m","max_tokens":4,
        "system":[{"type":"text","text":"x-anthropic-billing-header: cc=1"},{"type":"text","text":"Be "},{"type":"text","text":"brief."},{"type":"text","text":"x-anthropic-billing-heade"}],
        "messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"t"},{"type":"tool_use","id":"i","name":"n","input":{"b": 1,"a":[ ]}}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"r1"},{"type":"text","text":"r2"}]},{"type":"tool_result","content":"r3"},{"type":"server_thing","id":"no"}]}],
        "tools":[{"name":"n","input_schema":{"type":"object"},"description":"d"}]}"#;
    let want = br#"[{"description":"d","input_schema":{"type":"object"},"name":"n"}]Be brief.x-anthropic-billing-headeuserqassistanthmtin{"b":1,"a":[]}userr1
r2r3"#;
    assert_flattens(Api::Messages, body, want);
    let parsed = read(Api::Messages, body);
    assert_eq!((parsed.model.as_deref(), parsed.max_output_tokens), (Some("m"), Some(4)));
    assert_flattens(
        Api::Messages,
        r#"{"system":"x-anthropic-billing-header","messages":[{"role":"user","content":"a"}]}"#,
        b"x-anthropic-billing-headerusera",
    );
}

#[test]
fn images_of_a_tool_result_stand_behind_its_text() {
    let image = |url: &str| json!({"type":"image","source":{"type":"url","url":url}});
    let body = json!({"messages":[{"role":"user","content":[{"type":"tool_result","content":[image("u"), {"type":"text","text":"text"}]}]}]});
    let parsed = read(Api::Messages, &body.to_string());
    assert_eq!((parsed.features[0].offset, parsed.prompts[0].tokens), (2, 227));
}

#[test]
fn responses_are_hashed_as_an_array_of_what_is_there() {
    for (body, want) in [
        (r#"{"input":"hi"}"#, r#"[{"input":"hi"}]"#),
        (
            r#"{"instructions":"be\tbrief","tools":[{"type":"x","name":"y"}],"input":[ {"role":"user"} , 1.50]}"#,
            r#"[{"instructions":"be\tbrief"},{"tools":[{"name":"y","type":"x"}]},{"input":[{"role":"user"},1.50]}]"#,
        ),
        (r#"{"input":"a","instructions":"b","tools":null}"#, r#"[{"instructions":"b"},{"input":"a"}]"#),
    ] {
        assert_flattens(Api::Responses, body, want.as_bytes());
    }
}

#[test]
fn conversations_and_embeddings_are_hashed_as_their_json() {
    assert_flattens(
        Api::Conversations,
        r#"{"items":[ {"type":"message","role":"user"} ],"metadata":{"a":1}}"#,
        br#"[{"type":"message","role":"user"}]"#,
    );
    assert_flattens(Api::Embeddings, r#"{"input":"a\"b"}"#, br#""a\"b""#);
    assert_flattens(Api::Embeddings, r#"{"input":[ "a" , "b" ]}"#, br#"["a","b"]"#);
    assert_eq!(read(Api::Embeddings, r#"{"input":[[1,2],[3]]}"#).prompts.len(), 2);
}

#[test]
fn nothing_is_hashed_of_images_and_nothing_read_of_other_paths() {
    let body = read(Api::Images, r#"{"model":"m","prompt":"a cat","stream":true}"#);
    assert_eq!((body.model.as_deref(), body.stream, body.prompts.len()), (Some("m"), true, 0));
    for api in [Api::Raw, Api::CountTokens] {
        let body = read(api, r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#);
        assert_eq!((body.model, body.stream, body.prompts.len()), (None, false, 0));
        assert!(try_read(api, "\u{0}not json").is_ok());
    }
}

#[test]
fn generate_takes_ids_and_features_as_supplied() {
    let body = read(
        Api::Generate,
        r#"{"model":"m","token_ids":[1,2.0,3e0],"cache_salt":"s","sampling_params":{"max_tokens":7,"n":1},
            "features":{"mm_hashes":{"image":["h1"],"audio":["h2"]},"mm_placeholders":{"audio":[{"offset":9,"length":2}],"image":[{"offset":1,"length":3},{"offset":5,"length":1}]}}}"#,
    );
    assert_eq!(body.prompts, [prompt_of(&[1u32, 2, 3].map(u32::to_le_bytes).concat(), 64)]);
    assert_eq!((body.max_output_tokens, body.cache_salt.as_deref()), (Some(7), Some("s")));
    let features: Vec<_> = body.features.iter().map(|f| (&*f.modality, &*f.hash, f.offset, f.length)).collect();
    assert_eq!(features, [("image", "h1", 1, 3), ("image", "", 5, 1), ("audio", "h2", 9, 2)]);
}

// === cases from users ===

#[test]
fn br_01_a_chat_needs_messages_and_no_prompt() {
    let body = read(
        Api::Chat,
        r#"{"model":"acme-chat","temperature":0,"messages":[{"role":"user","content":"who are you"}]}"#,
    );
    assert_eq!(body.model.as_deref(), Some("acme-chat"));
    let text = "invalid chat completions request: must have valid messages field";
    for messages in [
        "[]",
        "null",
        "\"hi\"",
        "{}",
        "3",
        "[null]",
        "[3]",
        "[{\"content\":3}]",
        "[{\"content\":{}}]",
        "[{\"role\":1}]",
        "[{\"content\":[1]}]",
    ] {
        assert_eq!(
            refusal(Api::Chat, &format!(r#"{{"model":"m","prompt":"x","messages":{messages}}}"#)),
            text,
            "{messages}"
        );
    }
    assert_eq!(refusal(Api::Chat, r#"{"model":"m","prompt":"x"}"#), text);
}

#[test]
fn br_02_an_explicit_null_is_the_same_as_an_absent_field() {
    let given = read(
        Api::Chat,
        r#"{"model":"acme-chat","messages":[{"role":"user","content":"hi"}],"max_tokens":null,"stop":null,"stop_token_ids":null,
 "cache_salt":null,"stream":null,"tools":null,"max_completion_tokens":null,"stream_options":{"include_usage":null}}"#,
    );
    assert_eq!(given, read(Api::Chat, r#"{"model":"acme-chat","messages":[{"role":"user","content":"hi"}]}"#));
    assert!(!given.stream);
    for (api, with, without) in [
        (
            Api::Messages,
            r#"{"system":null,"tools":null,"messages":[{"content":null,"role":"u"}]}"#,
            r#"{"messages":[{"role":"u"}]}"#,
        ),
        (
            Api::Responses,
            r#"{"tools":null,"instructions":null,"input":"x","max_output_tokens":null}"#,
            r#"{"input":"x"}"#,
        ),
        (Api::Generate, r#"{"features":null,"sampling_params":null,"token_ids":[1]}"#, r#"{"token_ids":[1]}"#),
        (Api::Completions, r#"{"model":null,"prompt":"x"}"#, r#"{"prompt":"x"}"#),
    ] {
        assert_eq!(read(api, with), read(api, without));
    }
}

#[test]
fn br_05_completions_prompt_in_every_legal_shape() {
    let prompts = |prompt: &str| {
        read(Api::Completions, &format!(r#"{{"model":"acme","prompt":{prompt},"max_tokens":8}}"#)).prompts
    };
    let ids = |ids: &[u32]| prompt_of(&ids.iter().flat_map(|i| i.to_le_bytes()).collect::<Vec<_>>(), 64);
    assert_eq!(prompts(r#"["list five frameworks"]"#), [prompt_of(b"list five frameworks", 64)]);
    assert_eq!(prompts(r#""text""#), [prompt_of(b"text", 64)]);
    assert_eq!(prompts("[101,7592,102]"), [ids(&[101, 7592, 102])]);
    assert_eq!(prompts(r#"["a","b"]"#), [prompt_of(b"a", 64), prompt_of(b"b", 64)]);
    assert_eq!(prompts("[[101,102],[103]]"), [ids(&[101, 102]), ids(&[103])]);
    for bad in [
        "\"\"",
        "[]",
        "null",
        "[\"\"]",
        "[[]]",
        "3",
        "{}",
        "true",
        "[1,\"a\"]",
        "[\"a\",1]",
        "[[1],2]",
        "[1,[2]]",
        "[1.5]",
        "[-1]",
        "[4294967296]",
        "[null]",
        "[[\"a\"]]",
        "[{}]",
    ] {
        assert_eq!(
            refusal(Api::Completions, &format!(r#"{{"prompt":{bad}}}"#)),
            "invalid completions request: must have prompt field",
            "{bad}"
        );
    }
    assert_eq!(refusal(Api::Completions, "{}"), "invalid completions request: must have prompt field");
}

// === fields and refusals ===

#[test]
fn the_first_output_cap_that_is_a_whole_number_counts() {
    let cap = |api, extra: &str| {
        let body = format!(
            r#"{{"prompt":"x","input":"x","messages":[{{"role":"u","content":"x"}}],"token_ids":[1],{extra}}}"#
        );
        read(api, &body).max_output_tokens
    };
    for (api, extra, want) in [
        (Api::Chat, r#""max_completion_tokens":-1,"max_tokens":64"#, Some(64)),
        (Api::Chat, r#""max_tokens":64,"max_completion_tokens":32"#, Some(32)),
        (Api::Chat, r#""max_completion_tokens":0,"max_tokens":64"#, Some(0)),
        (Api::Chat, r#""max_completion_tokens":"5","max_tokens":1.5"#, None),
        (Api::Chat, r#""max_tokens":6.4e1"#, Some(64)),
        (Api::Chat, r#""max_tokens":1e300"#, None),
        (Api::Chat, r#""max_tokens":5,"max_tokens":7"#, Some(7)),
        (Api::Chat, r#""max_tokens":5,"max_tokens":{}"#, None),
        (Api::Completions, r#""max_tokens":1,"max_completion_tokens":2"#, Some(1)),
        (Api::Messages, r#""max_tokens":3"#, Some(3)),
        (Api::Responses, r#""max_output_tokens":4,"max_tokens":9"#, Some(4)),
        (Api::Generate, r#""max_tokens":9,"sampling_params":{"max_tokens":2}"#, Some(2)),
    ] {
        assert_eq!(cap(api, extra), want, "{extra}");
    }
}

#[test]
fn keys_match_exactly_and_of_equal_ones_the_last_wins() {
    let body = read(
        Api::Completions,
        r#"{"model":"a","prompt":"first","Prompt":"no","stream":true,"model":"b","prompt":"last","stream":"true"}"#,
    );
    assert_eq!((body.model.as_deref(), body.stream), (Some("b"), false));
    assert_eq!(body.prompts, [prompt_of(b"last", 64)]);
    assert!(try_read(Api::Completions, r#"{"Prompt":"x"}"#).is_err());
    assert!(try_read(Api::Completions, r#"{"prompt":"x","prompt":null}"#).is_err());
    assert_eq!(read(Api::Completions, r#"{"prompt":"x","model":"a","model":3}"#).model_span, None);
    let chat = r#"{"messages":[{"role":"user","content":"a"}],"tools":[1],"messages":[{"role":"user","content":"b"}],"tools":[]}"#;
    assert_flattens(Api::Chat, chat, b"userb");
    let chat = r#"{"messages":[3],"messages":[{"role":"user","content":"b"}]}"#;
    assert_flattens(Api::Chat, chat, b"userb");
}

#[test]
fn the_models_place_is_that_of_its_json_string() {
    let text = r#" { "x":{"model":"no"}, "model" : "a\u0063me" , "prompt":"x"}"#;
    let body = read(Api::Completions, text);
    assert_eq!(body.model.as_deref(), Some("acme"));
    assert_eq!(&text[body.model_span.expect("a model")], r#""a\u0063me""#);
}

#[test]
fn the_tokens_field_of_chat_bodies_is_ignored() {
    let ids: Vec<u32> = (1..=130).collect();
    let chat = |content: &str, tokens: Value| {
        json!({"model":"m","messages":[{"role":"user","content":content}],"tokens":tokens}).to_string()
    };
    let plain = read(Api::Chat, r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#).prompts;
    for tokens in
        [json!({"token_ids":ids}), json!({"token_ids":null}), json!("x"), json!({"token_ids":ids,"features":{}})]
    {
        assert_eq!(read(Api::Chat, &chat("hi", tokens.clone())).prompts, plain);
        assert_ne!(read(Api::Chat, &chat("completely different", tokens)).prompts, plain);
    }
}

#[test]
fn every_refusal_has_the_words_of_the_specification() {
    for (api, body, text) in [
        (Api::Chat, "", "error unmarshaling request bodyMap: unexpected end of JSON input"),
        (
            Api::Chat,
            "no healthy upstream",
            "error unmarshaling request bodyMap: invalid character 'o' in literal null (expecting 'u')",
        ),
        (Api::Chat, "[1,2]", "error unmarshaling request bodyMap: a JSON object is needed, not an array"),
        (Api::Chat, "\"x\"", "error unmarshaling request bodyMap: a JSON object is needed, not a string"),
        (Api::Chat, "17", "error unmarshaling request bodyMap: a JSON object is needed, not a number"),
        (Api::Chat, "true", "error unmarshaling request bodyMap: a JSON object is needed, not a boolean"),
        (Api::Chat, "null", "invalid chat completions request: must have valid messages field"),
        (
            Api::Chat,
            r#"{"messages":[{"role":"user","content":"x"}]"#,
            "error unmarshaling request bodyMap: unexpected end of JSON input",
        ),
        (Api::Messages, "{}", "invalid messages request: must have at least one message"),
        (Api::Messages, r#"{"messages":[]}"#, "invalid messages request: must have at least one message"),
        (Api::Responses, r#"{"input":null}"#, "invalid responses request: must have input field"),
        (Api::Conversations, r#"{"items":[]}"#, "invalid conversations request: must have items field"),
        (Api::Conversations, r#"{"items":"x"}"#, "invalid conversations request: must have items field"),
        (Api::Embeddings, r#"{"input":""}"#, "invalid embeddings request: must have input field"),
        (Api::Embeddings, r#"{"input":[1,"a"]}"#, "invalid embeddings request: must have input field"),
        (Api::Images, r#"{"prompt":["x"]}"#, "invalid images generations request: must have prompt field"),
        (Api::Generate, r#"{"token_ids":[]}"#, "invalid generate request: must have non-empty token_ids field"),
        (Api::Generate, r#"{"token_ids":[1,-1]}"#, "token_ids[1]: invalid value -1"),
        (Api::Generate, r#"{"token_ids":[1.5]}"#, "token_ids[0]: invalid value 1.5"),
        (Api::Generate, r#"{"token_ids":[1,2,4294967296]}"#, "token_ids[2]: invalid value 4294967296"),
    ] {
        assert_eq!(refusal(api, body), text, "{body}");
    }
}

#[test]
fn the_cap_bounds_hashes_not_tokens_whatever_the_order() {
    let text = "x".repeat(10_000);
    let options = ReadOptions { block_tokens: 64, max_blocks: 3, ..ReadOptions::default() };
    let tools = r#""tools":[{"a":1}]"#;
    let messages = format!(r#""messages":[{{"role":"user","content":"{text}"}}]"#);
    let read = |body: String| read_chunks(Api::Chat, &[body.into()], options.clone()).expect("valid").prompts;
    let early = read(format!("{{{tools},{messages}}}"));
    assert_eq!((early[0].tokens, early[0].contents.len()), ((9 + 4 + 10_000u64).div_ceil(4), 3));
    assert_eq!(read(format!("{{{messages},{tools}}}")), early);
    let none = ReadOptions { max_blocks: 0, ..options.clone() };
    let body = format!("{{{messages},{tools}}}");
    assert_eq!(
        read_chunks(Api::Chat, &[body.into()], none).expect("valid").prompts,
        [Prompt { tokens: early[0].tokens, contents: vec![] }]
    );
}

#[test]
fn tools_too_large_to_sort_are_hashed_as_sent() {
    let filler = "y".repeat(MAX_TOOLS);
    let tools = format!(r#"[{{"b": "{filler}", "a": 1}}]"#);
    let body = format!(r#"{{"tools":{tools},"messages":[{{"role":"user","content":"x"}}]}}"#);
    let want = format!(r#"[{{"b":"{filler}","a":1}}]userx"#);
    let whole = read(Api::Chat, &body);
    assert_eq!(whole.prompts, [prompt_of(want.as_bytes(), 64)]);
    let chunks: Vec<Bytes> = body.as_bytes().chunks(1000).map(Bytes::copy_from_slice).collect();
    assert_eq!(read_chunks(Api::Chat, &chunks, options(64)).expect("valid"), whole);
}

#[test]
fn names_are_bounded() {
    let long = "n".repeat(MAX_NAME + 1);
    let body = read(Api::Completions, &json!({"model": long, "cache_salt": long, "prompt": "x"}).to_string());
    assert_eq!((body.model, body.cache_salt.map(|s| s.len())), (None, Some(MAX_NAME)));
}

#[test]
fn chunks_that_are_not_the_same_bytes_do_no_harm() {
    let mut reader = BodyReader::new(Api::Chat, ReadOptions::default());
    reader.push(br#"{"messages":[{"role":"user","content":"a"}],"tools":[1]}"#);
    assert!(reader.finish(&[Bytes::from_static(b"{\"\xff")]).is_ok());
}

// === a slow reference ===

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
    fn no_json_makes_the_reader_panic_or_read_differently_in_chunks(
        api in 0u8..8,
        sizes in any::<[u8; 4]>(),
        parts in prop::collection::vec(prop::sample::select(PARTS), 0..40),
    ) {
        let mut data = vec![api];
        data.extend(sizes);
        data.extend(parts.concat().bytes());
        crate::fuzzing::body(&data);
        data.truncate(5);
        data.extend(format!("{{{}}}", parts.chunks(2).map(|p| format!("\"{}\":[{{\"content\":1}}]", p.concat().replace('"', ""))).collect::<Vec<_>>().join(",")).bytes());
        crate::fuzzing::body(&data);
    }
}

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
