//! Reading a 450 KB chat body in chunks of 64 KiB: what one core does per second.

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pointsman_wire::body::{Api, BodyReader, ReadOptions};
use std::hint::black_box;

const SIZE: usize = 450_000;

/// Numbers that look random and are the same in every run.
struct Noise(u64);

impl Noise {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

fn words(noise: &mut Noise, text: &mut String, len: usize) {
    let end = text.len() + len;
    while text.len() < end {
        for _ in 0..2 + noise.below(9) {
            text.push(char::from(b'a' + noise.below(26) as u8));
        }
        text.push(' ');
    }
}

/// A chat of turns of about 2 KB each.
fn chat(mut content: impl FnMut(&mut Noise, &mut String), fields_behind: &str) -> Bytes {
    let mut noise = Noise(1);
    let mut body = String::from(r#"{"model":"llama3","stream":true,"messages":["#);
    while body.len() < SIZE {
        body.push_str(if body.ends_with('[') { "" } else { "," });
        body.push_str(r#"{"role":"user","content":""#);
        content(&mut noise, &mut body);
        body.push_str(r#""}"#);
    }
    body.push(']');
    body.push_str(fields_behind);
    body.push('}');
    Bytes::from(body)
}

/// Prose.
fn plain() -> Bytes {
    chat(|noise, text| words(noise, text, 2000), "")
}

/// Source code in JSON: about every tenth byte begins an escape.
fn escaped() -> Bytes {
    chat(
        |noise, text| {
            for _ in 0..200 {
                let len = noise.below(14);
                words(noise, text, len);
                text.push_str(["\\n", "\\\"", "\\t", "\\n\\n", "\\\\", "\\\""][noise.below(6)]);
            }
        },
        "",
    )
}

/// Nothing but escapes of six bytes, as some clients send Chinese.
fn unicode() -> Bytes {
    chat(
        |noise, text| {
            for _ in 0..300 {
                text.push_str(&format!("\\u{:04x}", 0x4e00 + noise.below(0x5000)));
            }
        },
        "",
    )
}

fn read(chunks: &[Bytes]) -> u64 {
    let mut reader = BodyReader::new(Api::Chat, ReadOptions::default());
    for chunk in chunks {
        reader.push(chunk);
    }
    reader.finish(chunks).expect("valid").prompts[0].tokens
}

fn body(c: &mut Criterion) {
    let tools = r#","tools":[{"type":"function","function":{"name":"f"}}]"#;
    let late = chat(|noise, text| words(noise, text, 2000), tools);
    let mut group = c.benchmark_group("body-450KB");
    for (name, body) in
        [("plain", plain()), ("escaped", escaped()), ("unicode-escapes", unicode()), ("plain-tools-late", late)]
    {
        let chunks: Vec<Bytes> =
            (0..body.len()).step_by(64 << 10).map(|i| body.slice(i..body.len().min(i + (64 << 10)))).collect();
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |b| b.iter(|| read(black_box(&chunks))));
    }
    group.finish();
    let small = [Bytes::from_static(br#"{"model":"m","messages":[{"role":"user","content":"Hello"}],"max_tokens":8}"#)];
    c.bench_function("body-75B", |b| b.iter(|| read(black_box(&small))));
}

criterion_group!(benches, body);
criterion_main!(benches);
