//! Entry points for fuzz targets: each takes any bytes, checks what must hold for all of them, and panics when it does not.

use crate::body::{Api, BodyError, BodyReader, ParsedBody, ReadOptions, splice};
use crate::exposition::{Spec, Wanted, scan};
use crate::rewrite::ModelRewriter;
use crate::usage::{Observed, UsageReader};
use bytes::Bytes;

const APIS: [Api; 13] = [
    Api::Completions,
    Api::Chat,
    Api::Messages,
    Api::Responses,
    Api::Conversations,
    Api::Embeddings,
    Api::Images,
    Api::Generate,
    Api::SglangGenerate,
    Api::VllmGrpcGenerate,
    Api::VllmGrpcEmbed,
    Api::VertexChat,
    Api::VertexResponses,
];

/// Cuts `data` into chunks whose sizes come from the first bytes. Returns what is left as one piece, and the chunks.
fn cut(data: &[u8]) -> (&[u8], Vec<&[u8]>) {
    let (sizes, text) = data.split_at(data.len().min(4));
    let mut chunks = Vec::new();
    let mut rest = text;
    for &size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, more) = rest.split_at(rest.len().min(usize::from(size).max(1)));
        chunks.push(chunk);
        rest = more;
    }
    (text, chunks)
}

fn read_body(api: Api, chunks: &[Bytes]) -> Result<ParsedBody, BodyError> {
    let options = ReadOptions { block_tokens: 2, max_blocks: 16, ..ReadOptions::default() };
    let mut reader = BodyReader::new(api, options);
    for chunk in chunks {
        reader.push(chunk);
    }
    reader.finish(chunks)
}

/// A request body, its API taken from the first byte: every cut must read alike, and the model must be where it is said to be.
pub fn body(data: &[u8]) {
    let Some((&api, data)) = data.split_first() else { return };
    let api = APIS[usize::from(api) % APIS.len()];
    let (text, chunks) = cut(data);
    let chunks: Vec<Bytes> = chunks.into_iter().map(Bytes::copy_from_slice).collect();
    let whole = read_body(api, &[Bytes::copy_from_slice(text)]);
    assert_eq!(read_body(api, &chunks), whole, "chunks change nothing");
    let Ok(body) = whole else { return };
    assert!(body.prompts.iter().all(|p| p.contents.len() <= 16 && p.contents.len() as u64 <= p.tokens.div_ceil(2)));
    if let Some(span) = body.model_span.clone() {
        let renamed = splice(&chunks, span, "another \"model\"");
        let renamed = read_body(api, &renamed).expect("a body with another model is still a body");
        assert_eq!(renamed.model.as_deref(), Some("another \"model\""));
        assert_eq!(renamed.prompts, body.prompts, "the model is no part of the prompt");
    }
}

fn read_usage<'a>(
    api: Api,
    kind: Option<&str>,
    encoding: Option<&str>,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Observed {
    let mut reader = UsageReader::new(api, kind, encoding);
    for chunk in chunks {
        reader.push(chunk);
    }
    reader.finish()
}

/// A response, its kind taken from the first byte: every cut must read alike.
pub fn usage(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let api = APIS[usize::from(first) % APIS.len()];
    let kind = if first & 0x40 != 0 { "text/event-stream" } else { "application/json" };
    let encoding = (first & 0x80 != 0).then_some("gzip");
    let (text, chunks) = cut(data);
    let whole = read_usage(api, Some(kind), encoding, [text]);
    assert_eq!(read_usage(api, Some(kind), encoding, chunks), whole, "chunks change nothing");
}

/// A gRPC request or response, its API taken from the first byte and its frame put around it: every cut must read alike.
pub fn grpc(data: &[u8]) {
    let Some((&api, data)) = data.split_first() else { return };
    let apis: Vec<Api> = APIS.into_iter().filter(|api| api.is_grpc()).collect();
    let api = apis[usize::from(api) % apis.len()];
    let (sizes, message) = data.split_at(data.len().min(4));
    let mut framed = sizes.to_vec();
    // The sizes of chunks come first. The message is sent whole, then as two: its halves.
    let (first, second) = message.split_at(message.len() / 2);
    for message in [message, first, second] {
        framed.push(0);
        framed.extend((message.len() as u32).to_be_bytes());
        framed.extend_from_slice(message);
    }
    let (text, chunks) = cut(&framed);
    let whole = read_body(api, &[Bytes::copy_from_slice(text)]);
    let chunks: Vec<Bytes> = chunks.into_iter().map(Bytes::copy_from_slice).collect();
    assert_eq!(read_body(api, &chunks), whole, "chunks change nothing");
    let observed = read_usage(api, None, None, [text]);
    assert_eq!(read_usage(api, None, None, chunks.iter().map(|c| &c[..])), observed, "chunks change nothing");
}

/// A response whose model is given another name, an event stream or a document by the first byte: every cut must come out alike, and as it was
/// where nothing is replaced; what is held back is short, and never the end of a line.
pub fn rewrite(data: &[u8]) {
    const TARGET: &str = "ab";
    let Some((&first, data)) = data.split_first() else { return };
    let events = first & 1 != 0;
    let incoming = if first & 2 != 0 { TARGET } else { "\"new\" name" };
    let (text, chunks) = cut(data);
    let run = |chunks: &[&[u8]]| {
        let mut rewriter = ModelRewriter::new(TARGET, incoming, events);
        let (mut out, mut taken) = (Vec::new(), 0);
        for chunk in chunks {
            rewriter.push(Bytes::copy_from_slice(chunk), &mut |piece| out.extend_from_slice(&piece));
            taken += chunk.len();
            // A name with escapes gives way to a shorter one.
            if incoming == TARGET && !text.contains(&b'\\') {
                let shorter = taken.saturating_sub(out.len());
                assert!(shorter <= 6 * TARGET.len() + 16, "{shorter} bytes are held back");
            }
            if events && chunk.ends_with(b"\n") {
                assert_eq!(out.last(), Some(&b'\n'), "an event is not held back");
            }
        }
        rewriter.finish(&mut |piece| out.extend_from_slice(&piece));
        out
    };
    let whole = run(&[text]);
    assert_eq!(run(&chunks), whole, "chunks change nothing");
    let names = ["ab", "\\u"];
    if !names.iter().any(|name| memchr::memmem::find(text, name.as_bytes()).is_some()) {
        assert_eq!(whole, text, "nothing else is touched");
    }
}

/// A metric page: labels and values of what is found can be read.
pub fn exposition(data: &[u8]) {
    let specs = ["a", "ab{c=d}", "vllm:num_requests_waiting", "vllm:lora_requests_info{max_lora=\"2\"}"];
    let wanted = Wanted::new(specs.iter().filter_map(|s| Spec::parse(s).expect("a selector")));
    let mut samples = 0;
    let scanned = scan(data, &wanted, |sample| {
        samples += 1;
        assert!(sample.index < specs.len());
        for (name, value) in sample.labels.iter() {
            assert!(!name.is_empty() && value.len() <= data.len() * 3);
        }
    });
    assert_eq!(scanned.samples, samples);
    let _ = Spec::parse(&String::from_utf8_lossy(data));
}
