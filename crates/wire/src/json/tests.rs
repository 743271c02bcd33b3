use super::*;
use proptest::prelude::*;
use std::ops::Range;

/// Events as data, strings put together again.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    Open(Container, usize),
    Close(Container, usize),
    Str { key: bool, start: usize, end: usize, bytes: Vec<u8> },
    Number(Vec<u8>, Range<usize>),
    Word(Option<bool>, Range<usize>),
}

#[derive(Default)]
struct Recorder {
    events: Vec<Event>,
    open: Option<(usize, Vec<u8>)>,
}

impl Sink for Recorder {
    fn open(&mut self, container: Container, at: usize) {
        self.events.push(Event::Open(container, at));
    }
    fn close(&mut self, container: Container, end: usize) {
        self.events.push(Event::Close(container, end));
    }
    fn string_start(&mut self, _: bool, at: usize) {
        assert!(self.open.is_none());
        self.open = Some((at, Vec::new()));
    }
    fn string_piece(&mut self, piece: &[u8]) {
        assert!(!piece.is_empty());
        self.open.as_mut().expect("a piece belongs to an open string").1.extend_from_slice(piece);
    }
    fn string_end(&mut self, key: bool, end: usize) {
        let (start, bytes) = self.open.take().expect("an end belongs to an open string");
        self.events.push(Event::Str { key, start, end, bytes });
    }
    fn scalar(&mut self, scalar: Scalar<'_>, span: Range<usize>) {
        self.events.push(match scalar {
            Scalar::Number(text) => Event::Number(text.to_vec(), span),
            Scalar::Bool(b) => Event::Word(Some(b), span),
            Scalar::Null => Event::Word(None, span),
        });
    }
}

fn tokens<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Event>, JsonError> {
    let mut tokenizer = Tokenizer::new();
    let mut recorder = Recorder::default();
    for chunk in chunks {
        tokenizer.push(chunk, &mut recorder)?;
    }
    tokenizer.finish(&mut recorder)?;
    Ok(recorder.events)
}

fn text_of(json: &str) -> Vec<u8> {
    match tokens([json.as_bytes()]).expect("valid").as_slice() {
        [Event::Str { bytes, .. }] => bytes.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn strings_come_unescaped() {
    for (json, want) in [
        (r#""""#, ""),
        (r#""plain""#, "plain"),
        (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
        (
            r#""\u0041\u00e9\u6708\uD83D\uDE00 and a longer tail, to leave the careful path near the end""#,
            "A\u{e9}\u{6708}\u{1f600} and a longer tail, to leave the careful path near the end",
        ),
        (r#""\ud83d\ude00""#, "\u{1f600}"),
    ] {
        assert_eq!(text_of(json), want.as_bytes(), "{json}");
    }
}

#[test]
fn a_lone_surrogate_becomes_the_replacement_character() {
    for (json, want) in [
        (r#""\ud83d""#, "\u{fffd}"),
        (r#""\ud83dx and some more text behind it""#, "\u{fffd}x and some more text behind it"),
        (r#""\ud83d\n and some more text behind it""#, "\u{fffd}\n and some more text behind it"),
        (r#""\ude00\ud83d and some more text""#, "\u{fffd}\u{fffd} and some more text"),
        (r#""\ud83d\ud83d\ude00 and some more text""#, "\u{fffd}\u{1f600} and some more text"),
        (r#""\ud83d\u0041""#, "\u{fffd}A"),
    ] {
        for cut in 0..json.len() {
            let (a, b) = json.as_bytes().split_at(cut);
            let events = tokens([a, b]).expect("valid");
            assert!(
                matches!(&events[0], Event::Str { bytes, .. } if bytes == want.as_bytes()),
                "{json} cut at {cut}: {events:?}"
            );
        }
    }
}

#[test]
fn bytes_that_are_not_utf8_pass_through_strings() {
    let events = tokens([b"\"a\xff\xfe\"".as_slice()]).expect("accepted");
    assert!(matches!(&events[0], Event::Str { bytes, .. } if bytes == b"a\xff\xfe"));
}

#[test]
fn offsets_are_those_of_the_whole_text() {
    let json = r#" {"a" : [-1.5e+3, true,null] , "b":{}} "#;
    let events = tokens(json.as_bytes().chunks(3)).expect("valid");
    let at = |s: &str| json.find(s).expect("present");
    assert!(events.contains(&Event::Open(Container::Object, 1)));
    assert!(events.contains(&Event::Number(b"-1.5e+3".to_vec(), at("-1.5")..at(", true"))));
    assert!(events.contains(&Event::Word(None, at("null")..at("]"))));
    assert!(events.contains(&Event::Close(Container::Array, at("]") + 1)));
    assert!(events.contains(&Event::Str { key: true, start: at("\"b\""), end: at(":{}"), bytes: b"b".to_vec() }));
}

#[test]
fn a_number_at_the_top_ends_with_the_text() {
    assert_eq!(tokens([b"12".as_slice(), b"0".as_slice()]), Ok(vec![Event::Number(b"120".to_vec(), 0..3)]));
}

#[test]
fn what_is_not_json_is_refused_with_the_offset_and_the_reason() {
    for (json, offset, text) in [
        ("", 0, "unexpected end of JSON input"),
        ("  ", 2, "unexpected end of JSON input"),
        ("[1", 2, "unexpected end of JSON input"),
        ("-", 1, "unexpected end of JSON input"),
        ("no healthy upstream", 1, "invalid character 'o' in literal null (expecting 'u')"),
        ("more", 0, "invalid character 'm' looking for beginning of value"),
        ("{} x", 3, "invalid character 'x' after top-level value"),
        ("[1,]", 3, "invalid character ']' looking for beginning of value"),
        ("[1 2]", 3, "invalid character '2' after array element"),
        (r#"{"a":1,}"#, 7, "invalid character '}' looking for beginning of object key string"),
        (r#"{"a" 1}"#, 5, "invalid character '1' after object key"),
        (r#"{"a":1 "b"}"#, 7, "invalid character '\"' after object key:value pair"),
        (r#"{"a":1]"#, 6, "invalid character ']' after object key:value pair"),
        ("\"a\nb\"", 2, "invalid character '\\n' in string literal"),
        (r#""\x""#, 2, "invalid character 'x' in string escape code"),
        (r#""\x and a tail that is long enough""#, 2, "invalid character 'x' in string escape code"),
        (r#""\u12g4 and a tail that is long enough""#, 5, "invalid character 'g' in \\u hexadecimal character escape"),
        ("01", 1, "invalid character '1' after top-level value"),
        ("-a", 1, "invalid character 'a' in numeric literal"),
        ("1.x", 2, "invalid character 'x' after decimal point in numeric literal"),
        ("1e+ ", 3, "invalid character ' ' in exponent of numeric literal"),
        ("+1", 0, "invalid character '+' looking for beginning of value"),
        ("NaN", 0, "invalid character 'N' looking for beginning of value"),
    ] {
        for cut in 0..=json.len() {
            let (a, b) = json.as_bytes().split_at(cut);
            let error = tokens([a, b]).expect_err(json);
            assert_eq!((error.offset, error.to_string()), (offset, text.to_owned()), "{json} cut at {cut}");
        }
    }
}

#[test]
fn nesting_and_numbers_are_bounded() {
    let nested = |n: usize| [b"[".repeat(n), b"]".repeat(n)].concat();
    assert!(tokens([nested(MAX_DEPTH).as_slice()]).is_ok());
    let error = tokens([nested(MAX_DEPTH + 1).as_slice()]).expect_err("too deep");
    assert_eq!((error.offset, error.to_string().as_str()), (MAX_DEPTH, "invalid character '[' exceeded max depth"));
    let digits = b"1".repeat(MAX_NUMBER + 1);
    assert!(tokens([&digits[1..]]).is_ok());
    for piece in [1, 100, 5000] {
        assert_eq!(tokens(digits.chunks(piece)).expect_err("too long").offset, MAX_NUMBER);
    }
}

/// JSON texts with more escapes, blanks and odd bytes than anyone sends, now and then broken.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("\\n".to_owned()),
        Just("\\\"".to_owned()),
        Just("\\u00e9".to_owned()),
        Just("\\ud83d\\ude00".to_owned()),
        Just("\\ud83d".to_owned()),
        Just("\\udc00".to_owned()),
        "[ -!#-\\[\\]-~\u{e9}\u{6708}]{0,90}",
    ];
    let string = prop::collection::vec(piece, 0..8).prop_map(|v| format!("\"{}\"", v.concat()));
    let leaf = prop_oneof![
        string.clone(),
        "-?(0|[1-9][0-9]{0,5})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("null".to_owned()),
    ];
    let value = leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|v| format!("[{}]", v.join(" ,"))),
            prop::collection::vec((string.clone(), inner), 0..4).prop_map(|v| format!(
                "{{{}}}",
                v.iter().map(|(k, v)| format!("{k}: {v}")).collect::<Vec<_>>().join(",")
            )),
        ]
    });
    (value, prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()))).prop_map(|(text, damage)| {
        let mut bytes = text.into_bytes();
        if let Some((at, byte)) = damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #[test]
    fn every_cut_gives_the_same_events(text in texts(), sizes in prop::collection::vec(1usize..40, 1..20)) {
        let whole = tokens([text.as_slice()]);
        for cut in 0..=text.len() {
            let (a, b) = text.split_at(cut);
            prop_assert_eq!(&tokens([a, b]), &whole);
        }
        let mut rest = text.as_slice();
        let mut pieces = Vec::new();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, more) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        prop_assert_eq!(&tokens(pieces), &whole);
        prop_assert_eq!(&tokens(text.chunks(1)), &whole);
    }

    #[test]
    fn what_serde_json_accepts_is_accepted_and_read_alike(text in texts()) {
        // Lone surrogates and bytes that are not UTF-8 are accepted here and refused there.
        if let Ok(value) = serde_json::from_slice::<serde_json::Value>(&text) {
            let events = tokens([text.as_slice()]);
            prop_assert!(events.is_ok(), "{:?}", events);
            if let (serde_json::Value::String(want), Ok(events)) = (&value, &events) {
                let alike = matches!(&events[0], Event::Str { bytes, .. } if bytes == want.as_bytes());
                prop_assert!(alike, "{:?}", events);
            }
        }
    }
}
