//! What of each API is hashed, and in which order.

use super::*;

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
