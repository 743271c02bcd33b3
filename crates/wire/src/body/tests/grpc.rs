//! Bodies of gRPC requests.

use super::*;
use crate::grpc::write::{field, frame, int, packed};

/// Reads whole, then checks that every cut into two and single bytes give the same.
fn try_grpc(api: Api, body: &[u8]) -> Result<ParsedBody, BodyError> {
    let body = Bytes::copy_from_slice(body);
    let whole = read_chunks(api, std::slice::from_ref(&body), options(2));
    for cut in 0..=body.len() {
        assert_eq!(read_chunks(api, &[body.slice(..cut), body.slice(cut..)], options(2)), whole, "cut at {cut}");
    }
    let single: Vec<Bytes> = (0..body.len()).map(|i| body.slice(i..=i)).collect();
    assert_eq!(read_chunks(api, &single, options(2)), whole, "byte by byte");
    whole
}

fn grpc(api: Api, message: &[u8]) -> ParsedBody {
    try_grpc(api, &frame(message)).expect("it is read")
}

fn refused(api: Api, body: &[u8]) -> String {
    try_grpc(api, body).expect_err("it is refused").to_string()
}

fn ids(ids: &[u32]) -> Prompt {
    prompt_of(&ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>(), 2)
}

const UNSUPPORTED: &str = "invalid or unsupported gRPC payload";

#[test]
fn a_text_is_hashed_as_that_of_a_completion() {
    let message = [field(1, "r1"), field(3, "Hello, world!"), field(4, int(8, 16))].concat();
    let body = grpc(Api::VllmGrpcGenerate, &message);
    assert_eq!(body.prompts, [prompt_of(b"Hello, world!", 2)]);
    assert_eq!((body.model, body.cache_salt, body.stream), (None, None, false));
    assert_eq!(body.max_output_tokens, Some(16));
    let completion = read_chunks(Api::Completions, &[r#"{"prompt":"Hello, world!"}"#.into()], options(2));
    assert_eq!(completion.expect("it is read").prompts, [prompt_of(b"Hello, world!", 2)]);
}

#[test]
fn token_ids_are_taken_as_they_are_packed_or_not() {
    let tokenized = [field(1, "hi"), packed(2, &[1, 2, 300]), int(2, u64::from(u32::MAX))].concat();
    let body = grpc(Api::VllmGrpcGenerate, &[field(2, &tokenized), int(5, 1)].concat());
    assert_eq!(body.prompts, [ids(&[1, 2, 300, u32::MAX])]);
    assert!(body.stream);
    let body = grpc(Api::VllmGrpcEmbed, &[field(1, "r"), field(2, &tokenized), int(5, 1)].concat());
    assert_eq!((body.prompts, body.stream), (vec![ids(&[1, 2, 300, u32::MAX])], false));
}

#[test]
fn of_two_prompts_the_last_one_counts_and_parts_of_ids_are_joined() {
    let (a, b, text) = (field(2, packed(2, &[1, 2])), field(2, packed(2, &[3])), field(3, "abcd"));
    for (message, want) in [
        ([&a[..], &b].concat(), ids(&[1, 2, 3])),
        ([&a[..], &text].concat(), prompt_of(b"abcd", 2)),
        ([&a[..], &text, &b].concat(), ids(&[3])),
        ([&text[..], &text].concat(), prompt_of(b"abcd", 2)),
    ] {
        assert_eq!(grpc(Api::VllmGrpcGenerate, &message).prompts, [want]);
    }
}

#[test]
fn a_placeholder_is_an_image_with_the_hash_of_its_rank() {
    let multimodal = [
        field(5, [int(1, 4), int(2, 10)].concat()),
        field(5, int(2, 3)),
        field(6, "second"),
        field(5, [int(1, 20), int(2, 1)].concat()),
        field(6, "first"),
    ]
    .concat();
    let message = [field(7, &multimodal), field(2, packed(2, &[7; 30]))].concat();
    let features: Vec<_> = grpc(Api::VllmGrpcGenerate, &message)
        .features
        .into_iter()
        .map(|f| (f.modality.into_owned(), f.hash, f.offset, f.length))
        .collect();
    let image = |hash: &str, offset, length| ("image".to_owned(), hash.to_owned(), offset, length);
    assert_eq!(features, [image("first", 0, 3), image("second", 4, 10), image("", 20, 1)]);
    let text = [field(7, &multimodal), field(3, "x")].concat();
    assert!(grpc(Api::VllmGrpcGenerate, &text).features.is_empty());
}

#[test]
fn an_output_cap_below_zero_is_none() {
    for (value, want) in [(0, Some(0)), (5, Some(5)), (-1_i64 as u64, None)] {
        let message = [field(4, int(8, value)), field(3, "x")].concat();
        assert_eq!(grpc(Api::VllmGrpcGenerate, &message).max_output_tokens, want);
    }
}

#[test]
fn what_is_no_plain_message_is_refused() {
    let good = frame(field(3, "Hello"));
    let compressed = [&[1], &good[1..]].concat();
    for api in [Api::VllmGrpcGenerate, Api::VllmGrpcEmbed, Api::VertexChat, Api::VertexResponses] {
        for bad in [&compressed[..], &good[..good.len() - 1], b"", b"\0\0\0", b"{}", &frame([0x0b]), &frame([0x1a, 9])]
        {
            assert_eq!(refused(api, bad), UNSUPPORTED, "{api:?} {bad:?}");
        }
    }
}

#[test]
fn what_follows_the_message_is_not_looked_at() {
    let body = [frame(field(3, "Hello")), vec![1, 2, 3]].concat();
    assert_eq!(try_grpc(Api::VllmGrpcGenerate, &body).expect("it is read").prompts, [prompt_of(b"Hello", 2)]);
}

#[test]
fn embeddings_need_token_ids_and_generation_does_without_a_prompt() {
    for message in [field(1, "r4"), field(3, "text"), vec![]] {
        assert_eq!(refused(Api::VllmGrpcEmbed, &frame(&message)), "missing tokenized input in EmbedRequest");
    }
    assert_eq!(grpc(Api::VllmGrpcGenerate, b"").prompts, []);
}

fn vertex(json: &str) -> Vec<u8> {
    [field(1, "projects/p"), field(2, [field(1, "application/json"), field(2, json)].concat())].concat()
}

#[test]
fn a_vertex_request_is_read_as_the_json_in_it() {
    let chat = r#"{"model": "base-model", "stream":true, "max_tokens":7, "cache_salt":"s", "messages": [{"role": "user", "content": "Hello"}]}"#;
    let responses = r#"{"model":"m","input":"x","instructions":"late"}"#;
    for (outer, inner, json) in [(Api::VertexChat, Api::Chat, chat), (Api::VertexResponses, Api::Responses, responses)]
    {
        let plain = read_chunks(inner, &[Bytes::copy_from_slice(json.as_bytes())], options(2)).expect("it is read");
        assert_eq!(grpc(outer, &vertex(json)), ParsedBody { api: outer, model_span: None, ..plain });
    }
}

#[test]
fn fields_in_a_vertex_request_may_come_in_any_order() {
    let late = r#"{"messages":[{"content":"Hello","role":"user"}],"tools":[{"name":"f"}]}"#;
    let plain = read_chunks(Api::Chat, &[Bytes::copy_from_slice(late.as_bytes())], options(2)).expect("it is read");
    assert_eq!(plain.prompts, [prompt_of(br#"[{"name":"f"}]userHello"#, 2)]);
    assert_eq!(grpc(Api::VertexChat, &vertex(late)).prompts, plain.prompts);
}

#[test]
fn of_repeated_data_the_last_one_counts() {
    let json = |text: &str| format!(r#"{{"messages":[{{"content":"{text}","role":"user"}}]}}"#);
    let body = [field(2, json("one")), field(2, json("three")), field(2, json("two"))].concat();
    let body = [field(2, body), field(2, field(1, "application/json"))].concat();
    assert_eq!(grpc(Api::VertexChat, &body).prompts, [prompt_of(b"usertwo", 2)]);
}

#[test]
fn a_vertex_request_without_what_its_api_needs_is_refused_in_the_words_of_that() {
    let refused = |api, json| refused(api, &frame(vertex(json)));
    assert_eq!(refused(Api::VertexChat, "{"), "error unmarshaling request bodyMap: unexpected end of JSON input");
    assert_eq!(refused(Api::VertexChat, "{}"), "invalid chat completions request: must have valid messages field");
    assert_eq!(refused(Api::VertexResponses, "{}"), "invalid responses request: must have input field");
    let without = frame(field(1, "projects/p"));
    assert_eq!(
        try_grpc(Api::VertexChat, &without).expect_err("refused").to_string(),
        "error unmarshaling request bodyMap: unexpected end of JSON input"
    );
}
