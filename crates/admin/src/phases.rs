//! `GET /api/phases`: both ways to compute a prompt, here and on another engine, and from which length on the other one pays.

use hyper::StatusCode;
use pointsman_plugins::deciders::cost::{LINKS, MODELS, Situation, Ways};
use serde_json::{Value, json};

use crate::reply::{Reply, fault, json as json_reply};

/// Longest prompt looked at, in tokens.
const LONGEST: u32 = 131_072;
const SHORTEST: f64 = 64.0;
/// Points of the curve.
const POINTS: usize = 45;

pub(crate) fn answer(query: &str) -> Reply {
    match asked(query) {
        Ok((prompt, situation)) => json_reply(&report(prompt, &situation)),
        Err(why) => fault(StatusCode::BAD_REQUEST, &why),
    }
}

fn asked(query: &str) -> Result<(f64, Situation), String> {
    let model = MODELS[3];
    let mut prompt = 8_192.0;
    let mut s = Situation {
        model,
        gpus: 0.0,
        bandwidth: 45e9,
        overhead: 0.010,
        decoding: 32.0,
        stall_weight: 0.02,
        held_decode: 0.0,
        held_prefill: 0.0,
    };
    for (key, value) in query.split('&').filter(|p| !p.is_empty()).map(|p| p.split_once('=').unwrap_or((p, ""))) {
        let number = |low: f64, high: f64| {
            let parsed = value.parse::<f64>().ok().filter(|v| (low..=high).contains(v));
            parsed.ok_or_else(|| format!("{key} is a number from {low} to {high}"))
        };
        match key {
            "model" => {
                let known = MODELS.iter().find(|m| m.name == value);
                s.model = *known.ok_or_else(|| {
                    let all: Vec<&str> = MODELS.iter().map(|m| m.name).collect();
                    format!("known models are {}", all.join(", "))
                })?;
            }
            "prompt" => prompt = number(1.0, f64::from(LONGEST))?,
            "gpus" => s.gpus = number(1.0, 1_024.0)?,
            "bandwidth" => s.bandwidth = number(1e6, 1e13)?,
            "overhead_ms" => s.overhead = number(0.0, 60_000.0)? / 1e3,
            "decoding" => s.decoding = number(0.0, 10_000.0)?,
            "stall_weight" => s.stall_weight = number(0.0, 1.0)?,
            "held_decode" => s.held_decode = number(0.0, 1.0)?,
            "held_prefill" => s.held_prefill = number(0.0, 1.0)?,
            _ => {
                return Err(
                    "known parameters are model, prompt, gpus, bandwidth, overhead_ms, decoding, stall_weight, \
                            held_decode and held_prefill"
                        .to_owned(),
                );
            }
        }
    }
    if s.gpus == 0.0 {
        s.gpus = s.model.gpus;
    }
    Ok((prompt, s))
}

fn report(prompt: f64, s: &Situation) -> Value {
    let curve = (0..POINTS).map(|at| {
        let share = at as f64 / (POINTS - 1) as f64;
        let tokens = (SHORTEST * (f64::from(LONGEST) / SHORTEST).powf(share)).round();
        point(tokens, &s.ways(tokens))
    });
    json!({
        "model": s.model.name,
        "prompt": prompt,
        "gpus": s.gpus,
        "bandwidth": s.bandwidth,
        "overhead_ms": s.overhead * 1e3,
        "decoding": s.decoding,
        "stall_weight": s.stall_weight,
        "held_decode": s.held_decode,
        "held_prefill": s.held_prefill,
        "at": point(prompt, &s.ways(prompt)),
        "threshold_tokens": s.threshold(LONGEST),
        "curve": curve.collect::<Vec<_>>(),
        "models": MODELS.iter().map(|m| json!({"name": m.name, "kv_bytes": m.kv_bytes, "gpus": m.gpus})).collect::<Vec<_>>(),
        "links": LINKS.iter().map(|(name, bandwidth)| json!({"name": name, "bandwidth": bandwidth})).collect::<Vec<_>>(),
    })
}

fn point(tokens: f64, ways: &Ways) -> Value {
    json!({
        "tokens": tokens,
        "local_ms": ways.local * 1e3,
        "local_prefill_ms": ways.local_prefill * 1e3,
        "remote_ms": ways.remote * 1e3,
        "remote_prefill_ms": ways.remote_prefill * 1e3,
        "transfer_ms": ways.transfer * 1e3,
        "disaggregate": ways.disaggregate(),
    })
}
