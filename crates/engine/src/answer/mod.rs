//! The wire shapes of answers, one file per API.
//!
//! Each API has a [`Wire`]: it is fed tokens as they come and says what to put on the stream; the same object, fed everything at once,
//! gives the answer of a request that does not stream. Key order is that of vLLM 0.32.

mod chat;
mod completions;
mod embeddings;
mod messages;
mod responses;

pub(crate) use embeddings::{embeddings, inputs};

use pointsman_wire::body::Api;
use serde_json::Value;

use crate::ask::{Answer, Ask};
use crate::core::Progress;
use crate::metrics::Ended;

/// What every shape needs to know.
pub(crate) struct Context {
    /// Id without prefix, escaped for JSON.
    pub(crate) id: String,
    /// Unix seconds.
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) limit: Option<u64>,
    pub(crate) temperature: f64,
    /// Another engine decodes.
    pub(crate) remote_decode: bool,
    pub(crate) include_usage: bool,
    pub(crate) continuous_usage: bool,
    /// Whether `prompt_tokens_details` are filled.
    pub(crate) details: bool,
    pub(crate) answers: Vec<Answer>,
}

impl Context {
    pub(crate) fn new(id: String, created: u64, details: bool, ask: Ask) -> Self {
        Self {
            id,
            created,
            model: ask.model,
            limit: ask.limit,
            temperature: ask.temperature,
            remote_decode: ask.remote_decode,
            include_usage: ask.include_usage,
            continuous_usage: ask.continuous_usage,
            details,
            answers: ask.answers,
        }
    }

    fn prompt_tokens(&self) -> u64 {
        self.answers.iter().map(|a| a.prompt_tokens).sum()
    }
}

/// Tokens that one prompt's answer gained.
pub(crate) struct Gain<'a> {
    /// Which prompt.
    pub(crate) index: usize,
    pub(crate) text: &'a str,
    /// Its tokens so far, these included.
    pub(crate) produced: u64,
    /// Set when these are the last.
    pub(crate) ended: Option<Ended>,
}

/// Sums over all prompts of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) prompt: u64,
    pub(crate) output: u64,
    pub(crate) cached: u64,
    pub(crate) created: u64,
}

impl Totals {
    pub(crate) fn of(context: &Context, progress: &[Progress]) -> Self {
        let mut totals = Self { prompt: context.prompt_tokens(), ..Self::default() };
        for (answer, progress) in context.answers.iter().zip(progress) {
            totals.output += progress.produced;
            totals.cached += progress.cached;
            totals.created += answer.cacheable_tokens.saturating_sub(progress.cached);
        }
        totals
    }
}

/// One API's way to say things.
pub(crate) trait Wire: Send {
    /// Sent before the engine has done anything.
    fn at_once(&mut self, _c: &Context, _out: &mut String) {}
    /// Sent before the first tokens.
    fn open(&mut self, _c: &Context, _out: &mut String) {}
    /// Some tokens.
    fn tokens(&mut self, c: &Context, gain: &Gain<'_>, out: &mut String);
    /// After the last token.
    fn close(&mut self, c: &Context, totals: &Totals, out: &mut String);
    /// The answer as one JSON document; `texts` has one text per prompt.
    fn whole(&mut self, c: &Context, texts: &[String], totals: &Totals) -> String;
}

/// The shapes of an API that generates text.
pub(crate) fn wire(api: Api) -> Box<dyn Wire> {
    match api {
        Api::Completions => Box::new(completions::Completions),
        Api::Responses => Box::<responses::Responses>::default(),
        Api::Messages => Box::new(messages::Messages),
        _ => Box::new(chat::Chat),
    }
}

const FINGERPRINT: &str = "vllm-0.32.0-pointsman";

/// A JSON string literal.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn reason(ended: Ended) -> &'static str {
    match ended {
        Ended::Length => "length",
        Ended::Stop | Ended::Abort => "stop",
    }
}

/// Why a whole answer ended.
fn whole_reason(c: &Context, ended: Ended) -> &'static str {
    if c.remote_decode { "remote_decode" } else { reason(ended) }
}

/// Where another engine finds the prompt's KV. There is none behind these names: the engine that is told them waits as long as it would take.
fn transfer_params(c: &Context) -> &'static str {
    if !c.remote_decode {
        return "null";
    }
    r#"{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":["DUMMY_ID"],"remote_engine_id":"DUMMY_ID","remote_host":"DUMMY","remote_port":1234,"tp_size":1}"#
}

/// `usage` of the OpenAI completion APIs, without details.
fn counts(totals: &Totals) -> String {
    format!(
        r#""prompt_tokens":{},"total_tokens":{},"completion_tokens":{}"#,
        totals.prompt,
        totals.prompt + totals.output,
        totals.output
    )
}

/// `usage` as it stands in a whole answer.
fn usage(c: &Context, totals: &Totals, created: bool) -> String {
    let details = if c.details {
        let created = if created { totals.created.to_string() } else { "null".to_owned() };
        format!(r#"{{"cached_tokens":{},"created_cache_tokens":{created},"multimodal_tokens":null}}"#, totals.cached)
    } else {
        "null".to_owned()
    };
    format!(r#"{{{},"prompt_tokens_details":{details},"completion_tokens_details":null}}"#, counts(totals))
}

/// `usage` of one stream chunk while the answer grows, or nothing.
fn running_usage(c: &Context, produced: u64) -> String {
    if !c.continuous_usage {
        return String::new();
    }
    let totals = Totals { prompt: c.prompt_tokens(), output: produced, ..Totals::default() };
    format!(r#","usage":{{{}}}"#, counts(&totals))
}
