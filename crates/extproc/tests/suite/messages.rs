//! Recorded messages as bytes, and answers as recordings spell them.

use pointsman_grpc::{Fields, Frames, Message, Rope, WireType, Writer};
use serde_json::{Map, Value, json};

/// A recorded message of the proxy, as protobuf.
pub(crate) fn encode(message: &Value) -> Message {
    let mut w = Writer::default();
    let kind = message["type"].as_str().expect("a type");
    let end = message["end_of_stream"].as_bool().unwrap_or_default();
    match kind {
        "request_headers" | "response_headers" => {
            w.message(if kind == "request_headers" { 2 } else { 3 }, |w| {
                w.message(1, |map| headers(map, &message["headers"]));
                w.flag(3, end);
            });
        }
        "request_body" | "response_body" => {
            let body = bytes_of(&message["body"]);
            w.message(if kind == "request_body" { 4 } else { 5 }, |w| {
                if !body.is_empty() {
                    w.bytes(1, &body);
                }
                w.flag(2, end);
            });
        }
        "request_trailers" | "response_trailers" => {
            w.message(if kind == "request_trailers" { 6 } else { 7 }, |w| {
                w.message(1, |map| headers(map, &message["headers"]));
            });
        }
        other => panic!("{other} is no message of a proxy"),
    }
    if let Some(namespaces) = message["metadata_context"].as_object() {
        w.message(8, |metadata| {
            for (namespace, fields) in namespaces {
                metadata.message(1, |entry| {
                    entry.bytes(1, namespace.as_bytes());
                    entry.message(2, |w| structure(w, fields.as_object().expect("a struct")));
                });
            }
        });
    }
    if let Some(modes) = message["protocol_config"].as_object() {
        let number = |key: &str| match modes[key].as_str().expect("a mode") {
            "NONE" => 0,
            "STREAMED" => 1,
            "BUFFERED" => 2,
            "BUFFERED_PARTIAL" => 3,
            _ => 4,
        };
        w.message(11, |config| {
            config.varint(1, number("request_body_mode"));
            config.varint(2, number("response_body_mode"));
        });
    }
    Message::from(w.finish())
}

fn headers(map: &mut Writer, list: &Value) {
    for header in list.as_array().into_iter().flatten() {
        let (name, value) = (header[0].as_str().expect("a name"), header[1].as_str().expect("a value"));
        let field = if header[2] == "value" { 2 } else { 3 };
        map.message(1, |w| {
            w.bytes(1, name.as_bytes());
            if !value.is_empty() {
                w.bytes(field, value.as_bytes());
            }
        });
    }
}

fn structure(w: &mut Writer, fields: &Map<String, Value>) {
    for (key, v) in fields {
        w.message(1, |entry| {
            entry.bytes(1, key.as_bytes());
            entry.message(2, |w| value(w, v));
        });
    }
}

fn value(w: &mut Writer, v: &Value) {
    match v {
        Value::Null => w.varint(1, 0),
        Value::Bool(b) => w.varint(4, u64::from(*b)),
        Value::Number(n) => w.double(2, n.as_f64().expect("a number")),
        Value::String(s) => w.bytes(3, s.as_bytes()),
        Value::Array(list) => w.message(6, |w| list.iter().for_each(|v| w.message(1, |w| value(w, v)))),
        Value::Object(fields) => w.message(5, |w| structure(w, fields)),
    }
}

/// A recorded body.
pub(crate) fn bytes_of(body: &Value) -> Vec<u8> {
    match body {
        Value::String(s) => s.clone().into_bytes(),
        Value::Object(parts) => {
            if let Some(text) = parts.get("base64").and_then(Value::as_str) {
                return base64(text);
            }
            let text = |k: &str| parts.get(k).and_then(Value::as_str).unwrap_or_default();
            let times = parts.get("times").and_then(Value::as_u64).unwrap_or(1) as usize;
            format!("{}{}{}", text("before"), text("repeat").repeat(times), text("after")).into_bytes()
        }
        _ => Vec::new(),
    }
}

fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes().filter(|b| *b != b'=') {
        bits = bits << 6 | ALPHABET.iter().position(|a| *a == byte).expect("base64") as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

/// Every answer in `rope`. Bodies come as arrays of bytes under `bytes`.
pub(crate) fn decode(rope: &Rope) -> Vec<Value> {
    let mut frames = Frames::new(usize::MAX, false);
    rope.pieces().for_each(|piece| frames.push(piece.clone()));
    let mut answers = Vec::new();
    while let Some(message) = frames.take().expect("well-formed frames") {
        answers.push(answer(&flat(&message)));
    }
    assert!(!frames.within(), "half a message was sent");
    answers
}

fn flat(message: &Message) -> Vec<u8> {
    message.pieces().flatten().copied().collect()
}

fn each<'a>(bytes: &'a [u8], mut take: impl FnMut(u32, &'a [u8], u64)) {
    let mut fields = Fields(bytes);
    while let Some((field, wire)) = fields.field().expect("a field") {
        match wire {
            WireType::Length => take(field, fields.bytes().expect("bytes"), 0),
            WireType::Varint => take(field, &[], fields.varint().expect("a number")),
            WireType::Fixed64 => {
                let before = fields.0;
                fields.skip(wire).expect("eight bytes");
                let bits = u64::from_le_bytes(before[..8].try_into().expect("eight bytes"));
                take(field, &before[..8], bits);
            }
            WireType::Fixed32 => fields.skip(wire).expect("four bytes"),
        }
    }
}

fn answer(bytes: &[u8]) -> Value {
    let mut told = Map::new();
    each(bytes, |field, inner, _| match field {
        1 | 2 => {
            told.insert("type".into(), if field == 1 { "request_headers" } else { "response_headers" }.into());
            each(inner, |_, common, _| common_response(&mut told, common));
        }
        3 | 4 => {
            told.insert("type".into(), if field == 3 { "request_body" } else { "response_body" }.into());
            told.insert("bytes".into(), json!([]));
            told.insert("end_of_stream".into(), false.into());
            each(inner, |_, common, _| common_response(&mut told, common));
        }
        5 | 6 => {
            told.insert("type".into(), if field == 5 { "request_trailers" } else { "response_trailers" }.into());
        }
        7 => {
            told.insert("type".into(), "immediate_response".into());
            each(inner, |field, inner, _| match field {
                1 => each(inner, |_, _, code| drop(told.insert("status".into(), code.into()))),
                2 => mutation(&mut told, inner),
                3 => drop(told.insert("body".into(), String::from_utf8_lossy(inner).into())),
                _ => panic!("field {field} of an immediate response"),
            });
        }
        8 => drop(told.insert("dynamic_metadata".into(), read_structure(inner))),
        _ => panic!("field {field} of an answer"),
    });
    Value::Object(told)
}

fn common_response(told: &mut Map<String, Value>, common: &[u8]) {
    each(common, |field, inner, number| match field {
        2 => mutation(told, inner),
        3 => each(inner, |field, inner, _| match field {
            1 => drop(told.insert("replaced".into(), String::from_utf8_lossy(inner).into())),
            3 => each(inner, |field, inner, number| match field {
                1 => drop(told.insert("bytes".into(), inner.into())),
                2 => drop(told.insert("end_of_stream".into(), (number != 0).into())),
                _ => panic!("field {field} of a streamed body"),
            }),
            _ => panic!("field {field} of a body mutation"),
        }),
        5 => drop(told.insert("clear_route_cache".into(), (number != 0).into())),
        _ => panic!("field {field} of a common response"),
    });
}

fn mutation(told: &mut Map<String, Value>, bytes: &[u8]) {
    let (mut set, mut removed) = (Vec::new(), Vec::new());
    each(bytes, |field, inner, _| match field {
        1 => each(inner, |field, header, _| {
            assert_eq!(field, 1, "append fields stay unset");
            let (mut name, mut value) = (String::new(), String::new());
            each(header, |field, text, _| {
                let text = String::from_utf8_lossy(text).into_owned();
                match field {
                    1 => name = text,
                    3 => value = text,
                    _ => panic!("field {field} of a header: values are in raw_value"),
                }
            });
            set.push(json!([name, value]));
        }),
        2 => removed.push(String::from_utf8_lossy(inner).into_owned()),
        _ => panic!("field {field} of a header mutation"),
    });
    if !set.is_empty() {
        told.insert("set_headers".into(), set.into());
    }
    if !removed.is_empty() {
        told.insert("removed".into(), removed.into());
    }
}

fn read_structure(bytes: &[u8]) -> Value {
    let mut fields = Map::new();
    each(bytes, |_, entry, _| {
        let (mut key, mut held) = (String::new(), Value::Null);
        each(entry, |field, inner, _| match field {
            1 => key = String::from_utf8_lossy(inner).into_owned(),
            2 => each(inner, |field, inner, number| {
                held = match field {
                    2 => json!(f64::from_bits(number)),
                    3 => String::from_utf8_lossy(inner).into(),
                    5 => read_structure(inner),
                    _ => panic!("field {field} of a value"),
                };
            }),
            _ => panic!("field {field} of an entry"),
        });
        fields.insert(key, held);
    });
    Value::Object(fields)
}
