//! Vectors and worked examples of the specification.

use super::*;

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
