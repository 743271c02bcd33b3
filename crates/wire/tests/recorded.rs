//! Bodies recorded from the Go endpoint picker and from real engines.

use bytes::Bytes;
use pointsman_core::{BlockHash, chain, chain_seed};
use pointsman_wire::body::{Api, BodyReader, ParsedBody, ReadOptions};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fixtures").join(folder)
}

fn api_of(path: &str) -> Api {
    match path {
        "/v1/chat/completions" => Api::Chat,
        "/v1/completions" => Api::Completions,
        "/v1/messages" => Api::Messages,
        "/v1/messages/count_tokens" => Api::CountTokens,
        "/v1/responses" => Api::Responses,
        "/v1/embeddings" => Api::Embeddings,
        "/inference/v1/generate" => Api::Generate,
        other => panic!("unknown path {other}"),
    }
}

fn read(api: Api, chunks: &[Bytes]) -> ParsedBody {
    let mut reader = BodyReader::new(api, ReadOptions::default());
    for chunk in chunks {
        reader.push(chunk);
    }
    reader.finish(chunks).expect("a recorded body is valid")
}

/// Replays a recorded sequence on a perfect index: what was sent to an endpoint is there from then on. The recorded scores are
/// the matched share of the prompt's blocks, so they say which bodies share which blocks.
fn replay(name: &str) -> usize {
    let text = std::fs::read_to_string(fixtures("golden/prefix-cache").join(name)).expect("the fixture is in the tree");
    let golden: Value = serde_json::from_str(&text).expect("JSON");
    let mut held: BTreeMap<String, HashSet<BlockHash>> = BTreeMap::new();
    let mut compared = 0;
    for exchange in golden["exchanges"].as_array().expect("exchanges") {
        let steps = exchange["exchange"].as_array().expect("steps");
        let sent = |kind: &str| steps.iter().map(|s| &s["send"]).find(|s| s["type"] == kind).expect("sent");
        let headers = sent("request_headers")["headers"].as_array().expect("headers");
        let path = headers.iter().find(|h| h[0] == ":path").and_then(|h| h[1].as_str()).expect("a path");
        let body = sent("request_body")["body"].as_str().expect("text");
        let parsed = read(api_of(path), &[Bytes::copy_from_slice(body.as_bytes())]);
        let seed = chain_seed(parsed.model.as_deref().unwrap_or_default(), "");
        let chains: Vec<Vec<BlockHash>> = parsed
            .prompts
            .iter()
            .map(|p| {
                let mut out = Vec::new();
                chain(seed, &p.contents, &mut out);
                out
            })
            .collect();
        let total: usize = chains.iter().map(Vec::len).sum();
        let lb = steps
            .iter()
            .map(|s| &s["recv"]["dynamic_metadata"]["envoy.lb"])
            .find(|m| m.is_object())
            .expect("a decision");
        for (endpoint, score) in lb["x-gateway-destination-endpoint-scores"].as_object().expect("scores") {
            let known = held.entry(endpoint.clone()).or_default();
            let matched: usize = chains.iter().map(|c| c.iter().take_while(|h| known.contains(*h)).count()).sum();
            let want = score.as_f64().expect("a number");
            let got = if total == 0 { 0.0 } else { matched as f64 / total as f64 };
            assert!((got - want).abs() < 1e-9, "{name}, {}: {endpoint} scored {want}, here {got}", exchange["name"]);
            compared += 1;
        }
        let destination = lb["x-gateway-destination-endpoint"].as_str().expect("a destination");
        held.entry(destination.to_owned()).or_default().extend(chains.into_iter().flatten());
    }
    compared
}

#[test]
fn bodies_share_blocks_as_recorded_for_every_api() {
    assert!(replay("chat-and-completions.json") > 40);
}

#[test]
fn supplied_tokens_of_chats_are_ignored_as_recorded() {
    assert!(replay("supplied-tokens.json") > 10);
}

#[test]
fn requests_that_a_real_engine_took_are_read_alike_through_every_cut() {
    let mut seen = 0;
    for entry in std::fs::read_dir(fixtures("vllm/http")).expect("the fixtures are in the tree") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "request") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("text");
        let Some((line, body)) = text.split_once('\n') else { continue };
        let Some(target) = line.strip_prefix("POST ") else { continue };
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if !matches!(
            target,
            "/v1/chat/completions" | "/v1/completions" | "/v1/messages" | "/v1/responses" | "/inference/v1/generate"
        ) || name.starts_with("error-")
        {
            continue;
        }
        seen += 1;
        let api = api_of(target);
        let body = Bytes::copy_from_slice(body.trim_end().as_bytes());
        let whole = read(api, std::slice::from_ref(&body));
        assert!(whole.prompt_tokens() > 0 && whole.model.is_some(), "{name}");
        for cut in 0..=body.len() {
            assert_eq!(read(api, &[body.slice(..cut), body.slice(cut..)]), whole, "{name} cut at {cut}");
        }
    }
    assert!(seen > 15, "{seen}");
}
