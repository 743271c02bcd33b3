//! From a request body to jobs for the engine, with vLLM's checks in vLLM's order and words.

use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use pointsman_core::{chain, chain_seed};
use pointsman_sim::Leg;
use pointsman_wire::body::{Api, BodyReader, ParsedBody, ReadOptions};
use serde_json::Value;

use crate::core::{Core, Job, Shared};
use crate::error::ApiError;
use crate::extras::{self, Extras, Number};
use crate::lengths;
use crate::metrics::Ended;
use crate::options::{Mode, Settings};
use crate::text::Text;

/// Prompts in one completions request.
const MAX_PROMPTS: usize = 256;

/// A generation request, understood.
pub(crate) struct Ask {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) continuous_usage: bool,
    pub(crate) limit: Option<u64>,
    pub(crate) temperature: f64,
    /// Another engine will decode: one token, and word of where the prompt's KV is.
    pub(crate) remote_decode: bool,
    /// One per prompt.
    pub(crate) answers: Vec<Answer>,
    pub(crate) jobs: Vec<Job>,
}

/// What will be answered to one prompt.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) prompt_tokens: u64,
    /// Prompt tokens in full blocks: what the cache can hold of it.
    pub(crate) cacheable_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) text: Text,
    pub(crate) ended: Ended,
}

/// The body as the router would read it, in blocks of this engine.
pub(crate) fn parse(api: Api, body: &Bytes, settings: &Settings) -> Result<ParsedBody, ApiError> {
    in_blocks(settings.options.block_size as usize, api, body, settings)
}

/// The body in blocks of a single token: what identifies a block then follows from the token alone.
pub(crate) fn tokens(api: Api, body: &Bytes, settings: &Settings) -> Result<ParsedBody, ApiError> {
    in_blocks(1, api, body, settings)
}

fn in_blocks(block: usize, api: Api, body: &Bytes, settings: &Settings) -> Result<ParsedBody, ApiError> {
    let most = usize::try_from(settings.options.max_model_len).unwrap_or(usize::MAX);
    let options = ReadOptions { block_tokens: block, max_blocks: most / block + 1, ..ReadOptions::default() };
    let mut reader = BodyReader::new(api, options);
    reader.push(body);
    reader.finish(std::slice::from_ref(body)).map_err(|e| ApiError::body(e.to_string()))
}

/// The other fields.
pub(crate) fn extras(body: &[u8], keep_content: bool) -> Result<Extras, ApiError> {
    extras::read(body, keep_content).map_err(|e| ApiError::body(format!("1 validation error: JSON decode error: {e}")))
}

/// Which model is meant: the name to show, and the adapter if it is one. No name means the first.
pub(crate) fn model(
    named: Option<&str>,
    core: &Core,
    settings: &Settings,
) -> Result<(String, Option<Arc<str>>), ApiError> {
    let Some(name) = named else { return Ok((settings.names[0].clone(), None)) };
    if settings.names.iter().any(|n| n == name) {
        return Ok((name.to_owned(), None));
    }
    if let Some(adapter) = core.adapters.find(name) {
        return Ok((name.to_owned(), Some(Arc::clone(&adapter.name))));
    }
    let message = format!("The model `{name}` does not exist. Valid aliases: {}.", settings.names.join(", "));
    Err(ApiError { param: Some("model"), ..ApiError::new(StatusCode::NOT_FOUND, message) })
}

/// A model that is named must be named by a text.
pub(crate) fn named(extras: &Extras) -> Result<(), ApiError> {
    match &extras.model {
        None | Some(Value::String(_)) => Ok(()),
        Some(_) => {
            Err(ApiError { param: Some("model"), ..ApiError::body("1 validation error: model must be a text.") })
        }
    }
}

/// Reads a generation request.
pub(crate) fn read(api: Api, body: &Bytes, shared: &Shared) -> Result<Ask, ApiError> {
    let settings = &shared.settings;
    let parsed = parse(api, body, settings)?;
    let echo = settings.options.mode == Mode::Echo;
    let extras = extras(body, echo)?;
    named(&extras)?;
    // What takes long is done: from here on the engine may wait.
    let mut core = shared.core();
    let (model, lora) = self::model(parsed.model.as_deref(), &core, settings)?;
    let temperature = match extras.temperature {
        Number::Absent => 1.0,
        Number::Is(t) if t >= 0.0 => t,
        Number::Is(t) => {
            let message = format!("temperature must be non-negative, got {t:?}. (parameter=temperature, value={t:?})");
            return Err(ApiError::value("temperature", message));
        }
        Number::Not => return Err(ApiError::value("temperature", "temperature must be a number.")),
    };
    if !matches!(extras.n, Number::Absent | Number::Is(1.0)) {
        return Err(ApiError::value("n", "This engine gives one answer per prompt: n must be 1."));
    }
    if parsed.prompts.is_empty() {
        return Err(ApiError::value(
            "prompt",
            "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)",
        ));
    }
    if parsed.prompts.len() > MAX_PROMPTS {
        return Err(ApiError::value(
            "prompt",
            format!("At most {MAX_PROMPTS} prompts can be answered in one request."),
        ));
    }
    if extras.remote_decode && parsed.stream {
        return Err(ApiError::value("stream", "An answer that another engine will decode cannot be streamed."));
    }
    let limit = limit(api, &extras, settings)?;
    if extras.ignore_eos && limit.is_none() {
        return Err(ApiError::value("ignore_eos", "ignore_eos needs a maximum number of tokens."));
    }

    let mut ask = Ask {
        stream: parsed.stream,
        include_usage: extras.include_usage,
        continuous_usage: extras.include_usage && extras.continuous_usage,
        limit,
        temperature,
        remote_decode: extras.remote_decode,
        answers: Vec::with_capacity(parsed.prompts.len()),
        jobs: Vec::with_capacity(parsed.prompts.len()),
        model,
    };
    // Aliases of the base model share its cache; an adapter has one of its own.
    let seed =
        chain_seed(lora.as_deref().unwrap_or(&settings.options.model), parsed.cache_salt.as_deref().unwrap_or(""));
    let longest = settings.options.max_model_len;
    let block = u64::from(settings.options.block_size);
    let mut texts = if echo { echoes(extras.content.as_ref(), parsed.prompts.len()) } else { Vec::new() }.into_iter();
    for prompt in parsed.prompts {
        let tokens = prompt.tokens.max(1);
        if tokens.saturating_add(limit.unwrap_or(1)) > longest {
            let asked = limit.map_or(String::new(), |l| format!(" and {l} in the completion"));
            return Err(ApiError::value(
                "prompt",
                format!(
                    "This model's maximum context length is {longest} tokens. However, you requested {tokens} tokens in the prompt{asked}. Please reduce the length of the prompt or of the completion."
                ),
            ));
        }
        let mut hashes = Vec::new();
        chain(seed, &prompt.contents, &mut hashes);
        let identity = hashes.last().map_or(seed, |h| h.0) ^ tokens;
        hashes.truncate((tokens / block) as usize);
        let (output, ended, text) = match (texts.next(), limit) {
            _ if extras.remote_decode => (1, Ended::Length, Text::Words(identity)),
            (Some(text), _) => {
                let text = Text::echo(&text, usize::try_from(longest - tokens).unwrap_or(usize::MAX).max(1));
                (text.own_length().unwrap_or(1), Ended::Stop, text)
            }
            (None, Some(limit)) if extras.ignore_eos => (limit, Ended::Length, Text::Words(identity)),
            (None, limit) => {
                let output = lengths::draw(limit, longest - tokens, &mut core.rng);
                let ended = if limit == Some(output) { Ended::Length } else { Ended::Stop };
                (output, ended, Text::Words(identity))
            }
        };
        ask.jobs.push(Job {
            keys: hashes.iter().map(|h| h.0).collect(),
            prompt_tokens: tokens,
            output_tokens: output,
            limit,
            ended,
            lora: lora.clone(),
            leg: if extras.remote_prefill { Leg::Decode } else { Leg::Whole },
        });
        ask.answers.push(Answer {
            prompt_tokens: tokens,
            cacheable_tokens: tokens / block * block,
            output_tokens: output,
            text,
            ended,
        });
    }
    Ok(ask)
}

fn limit(api: Api, extras: &Extras, settings: &Settings) -> Result<Option<u64>, ApiError> {
    let (name, value) = match api {
        Api::Chat if extras.max_completion_tokens != Number::Absent => {
            ("max_completion_tokens", &extras.max_completion_tokens)
        }
        Api::Responses => ("max_output_tokens", &extras.max_output_tokens),
        _ => ("max_tokens", &extras.max_tokens),
    };
    let longest = settings.options.max_model_len;
    match *value {
        Number::Absent => Ok(None),
        Number::Is(n) if n >= 1.0 && n.fract() == 0.0 => {
            if n > longest as f64 {
                let message = format!(
                    "{name}={n} cannot be greater than max_model_len={longest}. Please request fewer output tokens. (parameter={name}, value={n})"
                );
                return Err(ApiError::value(name, message));
            }
            Ok(Some(n as u64))
        }
        Number::Is(n) => {
            Err(ApiError::value(name, format!("{name} must be at least 1, got {n}. (parameter={name}, value={n})")))
        }
        Number::Not => Err(ApiError::value(name, format!("{name} must be a whole number."))),
    }
}

/// What to echo for each prompt.
fn echoes(content: Option<&Value>, prompts: usize) -> Vec<String> {
    let mut texts = match content {
        Some(Value::Array(list)) if list.iter().all(Value::is_string) => {
            list.iter().map(|t| t.as_str().unwrap_or_default().to_owned()).collect()
        }
        Some(Value::Array(messages)) => {
            vec![messages.last().map_or_else(String::new, |m| spoken(m.get("content").unwrap_or(&Value::Null)))]
        }
        Some(other) => vec![spoken(other)],
        None => Vec::new(),
    };
    texts.resize(prompts, String::new());
    texts
}

/// Text of a message's content: a text, or the texts of its parts.
pub(crate) fn spoken(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|p| p.get("text").and_then(Value::as_str)).collect(),
        _ => String::new(),
    }
}
