//! The surface: which path does what.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, SERVER};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use pointsman_wire::body::{Api, Prompt};
use serde_json::{Value, json};

use crate::answer::{self, Context, Totals};
use crate::ask::{self, Ask};
use crate::core::{Job, Shared, unix_seconds};
use crate::error::ApiError;
use crate::extras::Number;
use crate::failures::FailureKind;
use crate::metrics::Ended;
use crate::page;
use crate::stream::EventStream;

/// A client that takes longer than this to send its body gets 408.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// vLLM's version whose surface this is.
const VERSION: &str = "0.32.0";
/// Default length of an embedding.
const DIMENSIONS: usize = 384;
/// Longest embedding that can be asked for.
const MAX_DIMENSIONS: f64 = 8_192.0;

/// Ids of rendered tokens are below this.
const VOCABULARY: u32 = 128_000;

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Paths and the method each takes; `GET` and `POST` both where `None`.
const PATHS: &[(&str, Option<Method>)] = &[
    ("/v1/chat/completions", Some(Method::POST)),
    ("/v1/completions", Some(Method::POST)),
    ("/v1/responses", Some(Method::POST)),
    ("/v1/messages", Some(Method::POST)),
    ("/v1/messages/count_tokens", Some(Method::POST)),
    ("/v1/embeddings", Some(Method::POST)),
    ("/v1/chat/completions/render", Some(Method::POST)),
    ("/v1/completions/render", Some(Method::POST)),
    ("/v1/responses/render", Some(Method::POST)),
    ("/v1/messages/render", Some(Method::POST)),
    ("/v1/models", Some(Method::GET)),
    ("/v1/load_lora_adapter", Some(Method::POST)),
    ("/v1/unload_lora_adapter", Some(Method::POST)),
    ("/tokenize", Some(Method::POST)),
    ("/health", Some(Method::GET)),
    ("/health/ready", Some(Method::GET)),
    ("/ping", None),
    ("/version", Some(Method::GET)),
    ("/load", Some(Method::GET)),
    ("/metrics", Some(Method::GET)),
    ("/admin/config", None),
    ("/reset_prefix_cache", Some(Method::POST)),
];

/// Answers one request; never fails.
pub(crate) async fn handle(
    shared: Arc<Shared>,
    port: u16,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let id = request_id(request.headers(), &shared);
    let mut response = match route(&shared, &id, request).await {
        Ok(response) => response,
        Err(error) => json_response(error.status, error.json()),
    };
    let headers = response.headers_mut();
    let options = &shared.settings.options;
    headers.insert(SERVER, HeaderValue::from_static("pointsman-engine"));
    let mut put = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    put("x-request-id", &id);
    if let Some(pod) = &options.pod_name {
        put("x-inference-pod", pod);
        put("x-inference-port", &port.to_string());
    }
    if let Some(namespace) = &options.pod_namespace {
        put("x-inference-namespace", namespace);
    }
    Ok(response)
}

async fn route(shared: &Arc<Shared>, id: &str, request: Request<Incoming>) -> Result<Response<Body>, ApiError> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let Some((_, method)) = PATHS.iter().find(|(p, _)| *p == path) else {
        return Ok(json_response(StatusCode::NOT_FOUND, r#"{"detail":"Not Found"}"#.to_owned()));
    };
    let allowed = method.clone().map_or_else(|| vec![Method::GET, Method::POST], |m| vec![m]);
    let asked = if head.method == Method::HEAD { &Method::GET } else { &head.method };
    if !allowed.contains(asked) {
        let mut response =
            json_response(StatusCode::METHOD_NOT_ALLOWED, r#"{"detail":"Method Not Allowed"}"#.to_owned());
        let list: Vec<&str> = allowed.iter().map(Method::as_str).collect();
        if let Ok(list) = HeaderValue::from_str(&list.join(", ")) {
            response.headers_mut().insert(ALLOW, list);
        }
        return Ok(response);
    }
    let api = match path {
        "/v1/chat/completions" => Some(Api::Chat),
        "/v1/completions" => Some(Api::Completions),
        "/v1/responses" => Some(Api::Responses),
        "/v1/messages" => Some(Api::Messages),
        _ => None,
    };
    if api.is_some() || path == "/v1/embeddings" {
        wanted_failure(&head.headers, shared)?;
    }
    // Inside a JSON text from here on.
    let id = json!(id).to_string();
    let id = &id[1..id.len() - 1];
    if let Some(api) = api {
        return generate(shared, id, api, &collect(shared, body).await?).await;
    }
    let rendered = match path {
        "/v1/chat/completions/render" => Some(Api::Chat),
        "/v1/completions/render" => Some(Api::Completions),
        "/v1/responses/render" => Some(Api::Responses),
        "/v1/messages/render" => Some(Api::Messages),
        _ => None,
    };
    if let Some(api) = rendered {
        return render(shared, id, api, &collect(shared, body).await?);
    }
    match (path, &head.method) {
        ("/v1/embeddings", _) => embeddings(shared, id, &collect(shared, body).await?).await,
        ("/v1/messages/count_tokens", _) => count_tokens(shared, &collect(shared, body).await?),
        ("/tokenize", _) => tokenize(shared, &collect(shared, body).await?),
        ("/v1/load_lora_adapter" | "/v1/unload_lora_adapter", _) => {
            change_adapter(shared, path == "/v1/load_lora_adapter", &collect(shared, body).await?)
        }
        ("/v1/models", _) => Ok(json_response(StatusCode::OK, models(shared))),
        ("/metrics", _) => Ok(metrics(shared)),
        ("/admin/config", &Method::POST) => admin(shared, &collect(shared, body).await?),
        ("/admin/config", _) => Ok(json_response(StatusCode::OK, shared.core().runtime.to_json().to_string())),
        ("/reset_prefix_cache", _) => {
            let success = shared.core().engine.reset_prefix_cache();
            Ok(json_response(StatusCode::OK, json!({ "success": success }).to_string()))
        }
        ("/version", _) => Ok(json_response(StatusCode::OK, json!({ "version": VERSION }).to_string())),
        ("/load", _) => {
            let load = shared.core().engine.inside();
            Ok(json_response(StatusCode::OK, json!({ "server_load": load }).to_string()))
        }
        ("/health/ready", _) => {
            Ok(health(shared, shared.started.elapsed() >= shared.settings.options.startup_duration))
        }
        _ => Ok(health(shared, true)),
    }
}

/// The client's, or a new one: sixteen hexadecimal digits.
fn request_id(headers: &HeaderMap, shared: &Shared) -> String {
    match headers.get("x-request-id").and_then(|v| v.to_str().ok()).filter(|v| !v.is_empty() && v.len() <= 256) {
        Some(id) => id.to_owned(),
        None => format!("{:016x}", shared.core().rng.next_u64()),
    }
}

fn wanted_failure(headers: &HeaderMap, shared: &Shared) -> Result<(), ApiError> {
    if let Some(value) = headers.get("x-return-error") {
        let status =
            value.to_str().ok().and_then(|v| v.trim().parse::<u16>().ok()).and_then(|s| StatusCode::from_u16(s).ok());
        return Err(match status.filter(|s| s.is_client_error() || s.is_server_error()) {
            Some(status) => ApiError::new(status, format!("Error {} asked for by X-Return-Error.", status.as_u16())),
            None => ApiError::new(StatusCode::BAD_REQUEST, "X-Return-Error must be a status from 400 to 599."),
        });
    }
    let mut core = shared.core();
    if core.runtime.failure_rate > 0 && core.rng.between(0, 99) < u64::from(core.runtime.failure_rate) {
        let drawn = core.rng.next_u64() as usize;
        let kinds = if core.runtime.failure_kinds.is_empty() { FailureKind::ALL } else { &core.runtime.failure_kinds };
        return Err(kinds[drawn % kinds.len()].error());
    }
    Ok(())
}

/// The body in one piece, bounded in size and time.
async fn collect(shared: &Shared, mut body: Incoming) -> Result<Bytes, ApiError> {
    let most = shared.settings.options.max_request_body_size_mb.saturating_mul(1 << 20);
    let read = async {
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| ApiError::body(format!("the body broke off: {e}")))?;
            if let Ok(data) = frame.into_data() {
                if (whole.len() + data.len()) as u64 > most {
                    let message = format!("The request body is larger than {most} bytes.");
                    return Err(ApiError {
                        kind: "BadRequestError",
                        ..ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
                    });
                }
                whole.extend_from_slice(&data);
            }
        }
        Ok(whole.freeze())
    };
    match tokio::time::timeout(BODY_TIMEOUT, read).await {
        Ok(result) => result,
        Err(_) => Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "The request body did not arrive in time.")),
    }
}

async fn generate(shared: &Arc<Shared>, id: &str, api: Api, body: &Bytes) -> Result<Response<Body>, ApiError> {
    let mut ask: Ask = ask::read(api, body, shared)?;
    let mut ticket = shared.submit(std::mem::take(&mut ask.jobs))?;
    let streams = ask.stream;
    let context =
        Context::new(id.to_owned(), unix_seconds() as u64, !shared.settings.options.no_prompt_tokens_details, ask);
    let mut wire = answer::wire(api);
    if !streams {
        let progress = ticket.finished().await?;
        let texts: Vec<String> =
            context.answers.iter().zip(&progress).map(|(a, p)| a.text.piece(0, p.produced)).collect();
        let totals = Totals::of(&context, &progress);
        return Ok(json_response(StatusCode::OK, wire.whole(&context, &texts, &totals)));
    }
    let body = StreamBody::new(EventStream::new(ticket, context, wire).frames()).boxed_unsync();
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    Ok(response)
}

async fn embeddings(shared: &Arc<Shared>, id: &str, body: &Bytes) -> Result<Response<Body>, ApiError> {
    let extras = ask::extras(body, true)?;
    ask::named(&extras)?;
    let (model, lora) = ask::model(extras.model.as_ref().and_then(Value::as_str), &shared.core(), &shared.settings)?;
    let inputs = extras.content.as_ref().and_then(answer::inputs).ok_or_else(|| {
        ApiError::value(
            "input",
            "input must be a text, a list of texts, a list of token ids or a list of such lists, not empty.",
        )
    })?;
    let dimensions = match extras.dimensions {
        Number::Absent => DIMENSIONS,
        Number::Is(d) if (1.0..=MAX_DIMENSIONS).contains(&d) && d.fract() == 0.0 => d as usize,
        _ => {
            return Err(ApiError::value(
                "dimensions",
                format!("dimensions must be a whole number from 1 to {MAX_DIMENSIONS}."),
            ));
        }
    };
    if inputs.len() > 2_048 {
        return Err(ApiError::value("input", "input has more than 2,048 entries."));
    }
    let longest = shared.settings.options.max_model_len;
    if let Some((_, tokens)) = inputs.iter().find(|(_, tokens)| *tokens > longest) {
        return Err(ApiError::value("input", format!("an input of {tokens} tokens is longer than {longest}.")));
    }
    // An embedding is a prefill: nothing of it is shared, and it emits once.
    let tokens: u64 = inputs.iter().map(|(_, tokens)| tokens).sum();
    let job = Job {
        keys: Vec::new(),
        prompt_tokens: tokens.min(longest),
        output_tokens: 1,
        limit: None,
        ended: Ended::Stop,
        leg: pointsman_sim::Leg::Whole,
        lora,
    };
    shared.submit(vec![job])?.finished().await?;
    let body = answer::embeddings(id, unix_seconds() as u64, &model, &inputs, dimensions, extras.base64);
    Ok(json_response(StatusCode::OK, body))
}

fn count_tokens(shared: &Shared, body: &Bytes) -> Result<Response<Body>, ApiError> {
    ask::named(&ask::extras(body, false)?)?;
    let parsed = ask::parse(Api::Messages, body, &shared.settings)?;
    ask::model(parsed.model.as_deref(), &shared.core(), &shared.settings)?;
    let n = parsed.prompt_tokens();
    let body = format!(r#"{{"input_tokens":{n},"context_management":{{"original_input_tokens":{n}}}}}"#);
    Ok(json_response(StatusCode::OK, body))
}

/// Counts by the four-byte rule. Token ids are given where the prompt is one plain text: its bytes, four by four, little endian.
fn tokenize(shared: &Shared, body: &Bytes) -> Result<Response<Body>, ApiError> {
    let extras = ask::extras(body, true)?;
    ask::named(&extras)?;
    let api = if extras.has_messages { Api::Chat } else { Api::Completions };
    let parsed = ask::parse(api, body, &shared.settings)?;
    ask::model(parsed.model.as_deref(), &shared.core(), &shared.settings)?;
    let text = extras.content.as_ref().and_then(Value::as_str).unwrap_or_default();
    let (ids, strings): (Vec<u32>, Vec<_>) = text
        .as_bytes()
        .chunks(4)
        .map(|chunk| {
            let mut id = [0; 4];
            id[..chunk.len()].copy_from_slice(chunk);
            (u32::from_le_bytes(id), String::from_utf8_lossy(chunk))
        })
        .unzip();
    let strings = if extras.token_strs { json!(strings) } else { Value::Null };
    let body = format!(
        r#"{{"count":{},"max_model_len":{},"tokens":{},"token_strs":{strings}}}"#,
        parsed.prompt_tokens(),
        shared.settings.options.max_model_len,
        json!(ids)
    );
    Ok(json_response(StatusCode::OK, body))
}

/// Prompts as tokens, without an answer to them: an object, and for completions a list of them.
fn render(shared: &Shared, id: &str, api: Api, body: &Bytes) -> Result<Response<Body>, ApiError> {
    let extras = ask::extras(body, false)?;
    ask::named(&extras)?;
    let parsed = ask::tokens(api, body, &shared.settings)?;
    let (model, _) = ask::model(parsed.model.as_deref(), &shared.core(), &shared.settings)?;
    let (model, salt) = (json!(model), json!(parsed.cache_salt));
    let most = json!(parsed.max_output_tokens);
    let more = if api == Api::Responses { r#""extra_args":{},"# } else { "" };
    let one = |prompt: &Prompt| {
        let ids: Vec<u32> = prompt.contents.iter().map(|token| *token as u32 % VOCABULARY).collect();
        let ids = json!(ids);
        format!(
            r#"{{"request_id":"{id}","token_ids":{ids},"token_offsets":null,"features":null,"content_parts":null,"sampling_params":{{"presence_penalty":0.0,"frequency_penalty":0.0,"repetition_penalty":1.0,"temperature":1.0,"top_p":1.0,"min_p":0.0,"stop":[],"stop_token_ids":[],"max_tokens":{most},"output_kind":2,"skip_clone":true,{more}"bad_words":[],"skip_reading_prefix_cache":false}},"model":{model},"reasoning_ended":null,"reasoning_parser_kwargs":null,"return_token_ids":null,"output_mode":"tokens","stream":{},"stream_options":null,"cache_salt":{salt},"priority":0,"kv_transfer_params":null,"ec_transfer_params":null}}"#,
            parsed.stream
        )
    };
    let rendered: Vec<String> = parsed.prompts.iter().map(one).collect();
    let rendered = rendered.join(",");
    let whole = match api {
        Api::Completions => format!("[{rendered}]"),
        _ if rendered.is_empty() => "null".to_owned(),
        _ => rendered,
    };
    Ok(json_response(StatusCode::OK, whole))
}

fn change_adapter(shared: &Shared, load: bool, body: &Bytes) -> Result<Response<Body>, ApiError> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|e| ApiError::body(format!("1 validation error: JSON decode error: {e}")))?;
    let field = |key: &'static str| {
        let found = value.get(key).and_then(Value::as_str).filter(|v| !v.is_empty() && v.len() <= 1_024);
        found.ok_or_else(|| ApiError::value(key, format!("`{key}` must be a text of 1 to 1,024 bytes.")))
    };
    let name = field("lora_name")?;
    let message = if load {
        let path = field("lora_path")?.to_owned();
        if shared.settings.names.iter().any(|n| n == name) {
            return Err(ApiError::value("lora_name", format!("`{name}` is the name of the base model.")));
        }
        shared.core().adapters.load(name, path)?
    } else {
        shared.core().adapters.unload(name)?
    };
    Ok(response(StatusCode::OK, "text/plain; charset=utf-8", message))
}

fn models(shared: &Shared) -> String {
    let created = unix_seconds() as u64;
    let entry = |index: usize, id: &str, root: &str, parent: Option<&str>, longest: Option<u64>| {
        format!(
            r#"{{"id":{},"object":"model","created":{created},"owned_by":"vllm","root":{},"parent":{},"max_model_len":{},"permission":[{{"id":"modelperm-{index:016x}","object":"model_permission","created":{created},"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}}]}}"#,
            json!(id),
            json!(root),
            json!(parent),
            json!(longest)
        )
    };
    let settings = &shared.settings;
    let core = shared.core();
    let base = settings
        .names
        .iter()
        .map(|n| (n.as_str(), settings.options.model.as_str(), None, Some(settings.options.max_model_len)));
    let adapters = core.adapters.iter().map(|a| (&*a.name, a.path.as_str(), Some(settings.names[0].as_str()), None));
    let list: Vec<String> = base
        .chain(adapters)
        .enumerate()
        .map(|(index, (id, root, parent, longest))| entry(index, id, root, parent, longest))
        .collect();
    format!(r#"{{"object":"list","data":[{}]}}"#, list.join(","))
}

fn metrics(shared: &Shared) -> Response<Body> {
    let page = page::render(&mut shared.core(), &shared.settings);
    response(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page)
}

fn admin(shared: &Shared, body: &Bytes) -> Result<Response<Body>, ApiError> {
    let update: Value = serde_json::from_slice(body).map_err(|e| ApiError::body(format!("not JSON: {e}")))?;
    let mut core = shared.core();
    let next = core.runtime.updated(&update).map_err(|e| ApiError::new(StatusCode::BAD_REQUEST, e.to_string()))?;
    let json = next.to_json().to_string();
    shared.set_runtime(&mut core, next);
    Ok(json_response(StatusCode::OK, json))
}

fn health(shared: &Shared, started: bool) -> Response<Body> {
    let fine = started && shared.core().runtime.healthy;
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = if fine { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    response
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn json_response(status: StatusCode, body: String) -> Response<Body> {
    response(status, "application/json", body)
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(full(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
