//! Watching an event stream of 10,000 chunks go by: time for the whole stream.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pointsman_wire::body::Api;
use pointsman_wire::usage::UsageReader;
use std::hint::black_box;

const CHUNKS: usize = 10_000;

fn stream(usage: &str) -> Vec<Vec<u8>> {
    (0..CHUNKS)
        .map(|i| {
            let text = r#""delta":{"content":" word"},"logprobs":null,"finish_reason":null,"token_ids":null"#;
            format!(
                "data: {{\"id\":\"chatcmpl-8ca45bd0b8f02297\",\"object\":\"chat.completion.chunk\",\"created\":1795974017,\"model\":\"tiny\",\"choices\":[{{\"index\":0,{text}}}]{}}}\n\n",
                usage.replace("{}", &(i + 1).to_string())
            )
            .into_bytes()
        })
        .chain([b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":135,\"total_tokens\":10135,\"completion_tokens\":10000}}\n\n".to_vec(), b"data: [DONE]\n\n".to_vec()])
        .collect()
}

fn watch(chunks: &[Vec<u8>]) -> u64 {
    let mut reader = UsageReader::new(Api::Chat, Some("text/event-stream"), None);
    for chunk in chunks {
        reader.push(chunk);
    }
    reader.finish().usage.expect("there is usage").completion
}

fn streams(c: &mut Criterion) {
    let mut group = c.benchmark_group("stream-10k-chunks");
    let continuous = r#","usage":{"prompt_tokens":135,"total_tokens":999,"completion_tokens":{}}"#;
    for (name, usage) in [("usage-at-end", ""), ("usage-null", ",\"usage\":null"), ("usage-in-each", continuous)] {
        let chunks = stream(usage);
        group.throughput(Throughput::Elements(CHUNKS as u64));
        group.bench_function(name, |b| b.iter(|| watch(black_box(&chunks))));
    }
    group.finish();
}

criterion_group!(benches, streams);
criterion_main!(benches);
