//! `cargo xtask e2e vllm`: what users send, through the gateway, to two real servers.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use serde_json::{Value, json};

use super::server::{ADAPTER, MODEL, Server, all_ready};
use super::{agreement, install, prompts};
use crate::client::Client;
use crate::completion::{End, complete};
use crate::pointsman::{self, Gateway};
use crate::report::{Tally, check};
use crate::workspace;

/// How long one short completion of the tiny model may take, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Groups of three or four prompts in the agreement run.
const GROUPS: usize = 16;

/// Installs, starts, checks, stops.
pub(crate) async fn run() -> Result<Tally> {
    let binary = pointsman::build()?;
    let folder = workspace::scratch("e2e")?;
    let client = Client::new();
    let servers = start(&client, &folder, 2).await?;

    let mut tally = Tally::default();
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    {
        let gateway = Gateway::start(&client, &binary, &folder, "serve-surface", &addresses, None).await?;
        surface(&client, &gateway, &names, &mut tally).await?;
    }
    let prompts = prompts::groups(GROUPS, 3);
    agreement::run(&client, &binary, &folder, &servers, &prompts, &mut tally).await?;
    Ok(tally)
}

/// Starts servers, says where they are, and stops them when it is interrupted or one of them ends.
pub(super) async fn keep_up(count: u8) -> Result<Tally> {
    let client = Client::new();
    let folder = workspace::scratch("e2e-engines")?;
    let mut servers = start(&client, &folder, count).await?;
    let addresses: Vec<String> = servers.iter().map(|server| server.address.to_string()).collect();
    println!("Try:  pointsman serve --endpoints {}", addresses.join(","));
    loop {
        for server in &mut servers {
            server.must_be_alive()?;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn start(client: &Client, folder: &Path, count: u8) -> Result<Vec<Server>> {
    let vllm = install::vllm()?;
    println!("logs: {}", folder.display());
    let mut servers = (1..=count)
        .map(|number| Server::start(&vllm, folder, &format!("vllm-{number}")))
        .collect::<Result<Vec<_>>>()?;
    all_ready(client, &mut servers).await?;
    Ok(servers)
}

/// Every kind of request that the gateway must carry to a real engine.
async fn surface(client: &Client, gateway: &Gateway, addresses: &[String], tally: &mut Tally) -> Result<()> {
    println!("\n  what users send");
    let messages = json!([{"role": "user", "content": "Which way does this train go?"}]);
    let chat = json!({"model": MODEL, "messages": messages, "max_tokens": 8});
    expect_complete(client, gateway, "chat completion", "/v1/chat/completions", &chat, Some(8), tally).await;

    let text = json!({"model": MODEL, "prompt": "The signal stands at", "max_tokens": 8, "ignore_eos": true});
    expect_complete(client, gateway, "completion", "/v1/completions", &text, Some(8), tally).await;

    let streaming = json!({"model": MODEL, "messages": messages, "max_tokens": 8, "stream": true,
        "stream_options": {"include_usage": true}, "ignore_eos": true});
    expect_complete(client, gateway, "streamed chat with usage", "/v1/chat/completions", &streaming, Some(8), tally)
        .await;

    let lora = json!({"model": ADAPTER, "messages": messages, "max_tokens": 8});
    expect_complete(client, gateway, "LoRA adapter by model name", "/v1/chat/completions", &lora, None, tally).await;

    let unknown = json!({"model": "no-such-model", "messages": messages, "max_tokens": 8});
    let answer =
        complete(client, &gateway.url("/v1/chat/completions"), Bytes::from(unknown.to_string()), DEADLINE).await;
    let refused = matches!(&answer.end, End::Refused(404, body) if body.contains("\"error\""));
    check(tally, refused, format!("a model that no engine has is refused with 404 ({:?})", answer.end));

    let models = client.get_json(&gateway.url("/v1/models")).await?;
    let mut ids: Vec<&str> = models
        .get("data")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(|model| model.get("id").and_then(Value::as_str)).collect())
        .unwrap_or_default();
    ids.sort_unstable();
    check(tally, ids == [ADAPTER, MODEL], format!("/v1/models lists each model of the pool once: {ids:?}"));

    let states = gateway.endpoints(client).await?;
    let listed: Vec<&str> = states.iter().map(|state| state.address.as_str()).collect();
    let both = addresses.iter().all(|address| listed.contains(&address.as_str()));
    let unready = states.iter().filter(|state| !state.ready).map(|state| &state.reason).collect::<Vec<_>>();
    check(tally, both && unready.is_empty(), format!("both engines are listed and ready {unready:?}"));
    Ok(())
}

/// Sends one request, expects a whole answer with usage (of `tokens` generated tokens at most) and an ended record.
async fn expect_complete(
    client: &Client,
    gateway: &Gateway,
    what: &str,
    path: &str,
    body: &Value,
    tokens: Option<u64>,
    tally: &mut Tally,
) {
    let answer = complete(client, &gateway.url(path), Bytes::from(body.to_string()), DEADLINE).await;
    let counted =
        answer.usage.is_some_and(|usage| usage.prompt > 0 && tokens.is_none_or(|most| usage.completion <= most));
    let record = gateway.outcome(client, &answer.decision).await;
    let held = answer.end == End::Complete && counted && record.is_some() && !answer.endpoint.is_empty();
    let detail = if held {
        format!("{what}, by {}", answer.endpoint)
    } else {
        format!("{what}: {:?}, usage {:?}, record {record:?}", answer.end, answer.usage)
    };
    check(tally, held, detail);
}
