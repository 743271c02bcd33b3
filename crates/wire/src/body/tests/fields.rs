//! Fields, bounds, refusals, and cases that users reported.

use super::*;

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

#[test]
fn an_sglang_request_is_its_ids_salted_by_its_extra_key() {
    let body = read(
        Api::SglangGenerate,
        r#"{"model":"m","cache_salt":"no","sampling_params":{"max_tokens":9,"max_new_tokens":4},"stream":true,"input_ids":[1,2,3],"extra_key":"tenant-a"}"#,
    );
    assert_eq!(body.prompts, [prompt_of(&[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0], 64)]);
    assert_eq!((body.model, body.model_span), (None, None), "it names no model");
    assert_eq!(body.cache_salt.as_deref(), Some("tenant-a"));
    assert_eq!((body.stream, body.max_output_tokens), (true, Some(4)));
}

#[test]
fn an_sglang_request_without_a_flat_array_of_ids_is_refused() {
    for (body, text) in [
        ("{", "unexpected end of JSON input"),
        ("[1]", "a JSON object is needed, not an array"),
        (r#"{"text":"hi"}"#, "input_ids must be provided"),
        (r#"{"input_ids":[]}"#, "input_ids must be provided"),
        (r#"{"input_ids":null}"#, "input_ids must be provided"),
        (r#"{"input_ids":"1"}"#, "input_ids must be provided"),
        (r#"{"input_ids":[1,-2]}"#, "input_ids[1]: invalid value -2"),
        (r#"{"input_ids":[[1,2]]}"#, "input_ids[0]: invalid value Array"),
        (r#"{"input_ids":[4294967296]}"#, "input_ids[0]: invalid value 4294967296"),
    ] {
        assert_eq!(refusal(Api::SglangGenerate, body), format!("invalid generate request: {text}"), "{body}");
    }
}
