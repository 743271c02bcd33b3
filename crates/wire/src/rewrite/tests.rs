//! Names in responses.

use super::*;
use proptest::prelude::*;

const TARGET: &str = "acme/chat-v2";
const INCOMING: &str = "chat \"é\"";

/// What comes out for each chunk, and at the end.
fn pieces(target: &str, incoming: &str, events: bool, chunks: &[Bytes]) -> Vec<Vec<Bytes>> {
    let mut rewriter = ModelRewriter::new(target, incoming, events);
    let mut all = Vec::new();
    for chunk in chunks {
        let mut out = Vec::new();
        rewriter.push(chunk.clone(), &mut |piece| out.push(piece));
        all.push(out);
    }
    let mut out = Vec::new();
    rewriter.finish(&mut |piece| out.push(piece));
    all.push(out);
    assert!(all.iter().flatten().all(|piece| !piece.is_empty()));
    all
}

/// Rewrites whole, then checks that every cut into two and single bytes give the same.
fn rewritten(events: bool, body: &str) -> String {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let run = |chunks: &[Bytes]| pieces(TARGET, INCOMING, events, chunks).concat().concat();
    let whole = run(std::slice::from_ref(&body));
    for cut in 0..=body.len() {
        assert_eq!(run(&[body.slice(..cut), body.slice(cut..)]), whole, "cut at {cut}");
    }
    let single: Vec<Bytes> = (0..body.len()).map(|i| body.slice(i..=i)).collect();
    assert_eq!(run(&single), whole, "byte by byte");
    String::from_utf8(whole).expect("text")
}

/// Rewrites it as a document and as an event.
fn both(json: &str) -> String {
    let document = rewritten(false, json);
    assert_eq!(rewritten(true, &format!("event: x\ndata: {json}\n\n")), format!("event: x\ndata: {document}\n\n"));
    document
}

#[test]
fn the_name_is_replaced_at_the_top_in_response_and_in_message_and_nowhere_else() {
    let json = r#"{"id":"1","model":"acme/chat-v2","choices":[{"model":"acme/chat-v2","message":{"model":"acme/chat-v2"}}],"response":{"model":"acme/chat-v2","x":{"model":"acme/chat-v2"}},"usage":{"model":"acme/chat-v2"},"message":{"content":[{"model":"acme/chat-v2"}],"model":"acme/chat-v2"},"models":"acme/chat-v2","model_name":"acme/chat-v2","text":"acme/chat-v2"}"#;
    let mut want = json.replacen("acme/chat-v2", r#"chat \"é\""#, 1);
    want = want.replacen(r#""response":{"model":"acme/chat-v2""#, r#""response":{"model":"chat \"é\"""#, 1);
    want = want.replacen(r#"}],"model":"acme/chat-v2""#, r#"}],"model":"chat \"é\"""#, 1);
    assert_eq!(both(json), want);
}

#[test]
fn blanks_and_escapes_do_not_hide_the_name() {
    for (json, want) in [
        (r#"{ "model" :  "acme/chat-v2" }"#, r#"{ "model" :  "chat \"é\"" }"#),
        (r#"{"model":"acme\/chat\u002dv2"}"#, r#"{"model":"chat \"é\""}"#),
        (r#"{"m\u006fdel":"acme/chat-v2"}"#, r#"{"m\u006fdel":"chat \"é\""}"#),
        (r#"{"model":"acme/chat-v2","model":"acme/chat-v2"}"#, r#"{"model":"chat \"é\"","model":"chat \"é\""}"#),
    ] {
        assert_eq!(both(json), want);
    }
    let tabbed = "{\r\n\t\"model\":\t\"acme/chat-v2\"\r\n}";
    assert_eq!(rewritten(false, tabbed), "{\r\n\t\"model\":\t\"chat \\\"é\\\"\"\r\n}");
}

#[test]
fn what_is_not_the_name_stays() {
    for json in [
        r#"{"model":"acme/chat-v"}"#,
        r#"{"model":"acme/chat-v22"}"#,
        r#"{"model":"Acme/chat-v2"}"#,
        r#"{"model":""}"#,
        r#"{"model":["acme/chat-v2"],"response":["model","acme/chat-v2"]}"#,
        r#"{"model":{"model":"acme/chat-v2"}}"#,
        r#"{"response":[{"model":"acme/chat-v2"}]}"#,
        r#"{"response":{"response":{"model":"acme/chat-v2"}}}"#,
        r#"[{"model":"acme/chat-v2"}]"#,
        r#""acme/chat-v2""#,
        r#"{"text":"\"model\":\"acme/chat-v2\""}"#,
        r#"{"acme/chat-v2":"model"}"#,
    ] {
        assert_eq!(both(json), json);
    }
}

#[test]
fn what_is_not_json_passes_from_there_on() {
    for (body, want) in [
        ("no healthy upstream", "no healthy upstream"),
        (
            r#"{"model":"acme/chat-v2",oops,"model":"acme/chat-v2"}"#,
            r#"{"model":"chat \"é\"",oops,"model":"acme/chat-v2"}"#,
        ),
        (r#"{"model":"acme/chat-v2"} {"model":"acme/chat-v2"}"#, r#"{"model":"chat \"é\""} {"model":"acme/chat-v2"}"#),
        (r#"{"model":"acme/ch"#, r#"{"model":"acme/ch"#),
        ("{\"model\":\"acme/\nchat-v2\"}", "{\"model\":\"acme/\nchat-v2\"}"),
        ("", ""),
    ] {
        assert_eq!(rewritten(false, body), want);
    }
}

#[test]
fn each_event_stands_for_itself() {
    let body = concat!(
        ": comment {\"model\":\"acme/chat-v2\"}\n",
        "data: {\"model\":\"acme/chat-v2\"\ndata: {\"model\":\"acme/chat-v2\"}\r\n\r\n",
        "data:{oops}\n\ndata:{\"model\":\"acme/chat-v2\"}\rdata: {\"model\":\"acme/chat-v2\"}\r\r",
        "dat: {\"model\":\"acme/chat-v2\"}\n datadata: {\"model\":\"acme/chat-v2\"}\n",
        "data: [DONE]\n\ndata: {\"model\":\"acme/chat-v2",
    );
    let want = concat!(
        ": comment {\"model\":\"acme/chat-v2\"}\n",
        "data: {\"model\":\"chat \\\"é\\\"\"\ndata: {\"model\":\"chat \\\"é\\\"\"}\r\n\r\n",
        "data:{oops}\n\ndata:{\"model\":\"chat \\\"é\\\"\"}\rdata: {\"model\":\"chat \\\"é\\\"\"}\r\r",
        "dat: {\"model\":\"acme/chat-v2\"}\n datadata: {\"model\":\"acme/chat-v2\"}\n",
        "data: [DONE]\n\ndata: {\"model\":\"acme/chat-v2",
    );
    assert_eq!(rewritten(true, body), want);
}

#[test]
fn what_passes_is_shared_not_copied() {
    let chunk = Bytes::from_static(br#"{"model":"acme/chat-v2","text":"x"}"#);
    let out = pieces(TARGET, INCOMING, false, std::slice::from_ref(&chunk)).concat();
    assert_eq!(out.len(), 3);
    assert_eq!((out[0].as_ptr(), out[2].as_ptr()), (chunk.as_ptr(), chunk[23..].as_ptr()));
    let other = Bytes::from_static(br#"{"model":"other","text":"x"}"#);
    let out = pieces(TARGET, INCOMING, false, std::slice::from_ref(&other)).concat();
    assert_eq!((out.len(), out[0].as_ptr(), out[0].len()), (1, other.as_ptr(), other.len()));
}

#[test]
fn only_what_may_be_the_name_is_held_back() {
    let chunks = ["{\"model\":\"acme", "/chat", "-v3\",\"x\":1}"].map(Bytes::from);
    let out = pieces(TARGET, INCOMING, false, &chunks);
    let text: Vec<String> = out.iter().map(|o| String::from_utf8(o.concat()).expect("text")).collect();
    assert_eq!(text, ["{\"model\":", "", "\"acme/chat-v3\",\"x\":1}", ""]);
    // An event is never held, not even when its string does not end.
    let chunks = ["data: {\"model\":\"acme", "\n\n"].map(Bytes::from);
    let out = pieces(TARGET, INCOMING, true, &chunks);
    assert_eq!([out[0].concat(), out[1].concat()], [b"data: {\"model\":".to_vec(), b"\"acme\n\n".to_vec()]);
}

#[test]
fn what_comes_after_the_end_passes() {
    let mut rewriter = ModelRewriter::new(TARGET, INCOMING, false);
    let mut out = Vec::new();
    rewriter.push(Bytes::from_static(b"{\"model\":\"acme"), &mut |piece| out.push(piece));
    rewriter.finish(&mut |piece| out.push(piece));
    rewriter.push(Bytes::from_static(b"/chat-v2\"}"), &mut |piece| out.push(piece));
    assert_eq!(out.concat(), br#"{"model":"acme/chat-v2"}"#);
}

/// Text from which JSON with names in it comes up often.
fn soup() -> impl Strategy<Value = String> {
    let tokens = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"model\":",
        "\"model\" : ",
        "\"response\":",
        "\"message\":{",
        "\"ab\"",
        "\"a\\u0062\"",
        "\"a\"",
        "\"abc\"",
        "data: ",
        "data:",
        "\n",
        "\r\n",
        "\n\n",
        " ",
        "1",
        "null",
        "{\"model\":\"ab\"}",
        "\"x",
        "\\",
        "\\u00",
        "é",
    ];
    prop::collection::vec(prop::sample::select(tokens.to_vec()), 0..24).prop_map(|t| t.concat())
}

proptest! {
    #[test]
    fn any_cut_gives_the_same(body in soup(), first in any::<u8>(), sizes in any::<[u8; 4]>()) {
        let mut data = vec![first];
        data.extend(sizes.map(|s| s % 8));
        data.extend(body.bytes());
        crate::fuzzing::rewrite(&data);
    }

    #[test]
    fn every_value_of_a_document_but_the_names_stays(
        model in prop::sample::select(vec!["ab", "abc", "a", "b\"\\é"]),
        text in ".{0,20}",
        owner in prop::sample::select(vec!["response", "message", "other"]),
    ) {
        let value = serde_json::json!({"model": model, "text": text, owner: {"model": model, "inner": {"model": model}}});
        let body = value.to_string();
        for target in ["ab", "b\"\\é"] {
            let out = pieces(target, "new \\ name", false, &[body.clone().into()]).concat().concat();
            let mut want = value.clone();
            if model == target {
                want["model"] = "new \\ name".into();
                if owner != "other" {
                    want[owner]["model"] = "new \\ name".into();
                }
            } else {
                prop_assert_eq!(&out, body.as_bytes());
            }
            prop_assert_eq!(serde_json::from_slice::<serde_json::Value>(&out).expect("JSON"), want);
        }
    }
}
