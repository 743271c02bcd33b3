//! Tokens of prompts as vLLM's own tokenizer and chat template make them: the render endpoints.
//!
//! A body goes to the endpoint of its API as it is, but for its model, which becomes `modelName`; token ids and multimodal items come back. Ids that
//! the client sent need no rendering. Everything else (an API without such an endpoint, a compressed body, one that names no model, an answer that is
//! late, too long or makes no sense) leaves the estimate in force: rendering never fails a request.
//!
//! Upstream turns Anthropic messages into a chat first; vLLM has a render endpoint for them, and for responses, which is asked here. The I/O is behind
//! [`RenderClient`]. Source: plugin specification 9.1.

use crate::build::Build;
use bytes::Bytes;
use pointsman_config::{Param, ParamKind, Params};
use pointsman_wire::body::{Api, Feature, MAX_FEATURES, ParsedBody, Prompt, prompts_of_ids, splice};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an answer that tells of an error, of which the beginning is shown.
const SHOWN: usize = 1024;

/// An image of one pixel, PNG.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Who renders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Render {
    /// Whether it is reached over TLS.
    pub tls: bool,
    /// Its host, an IPv6 address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What its paths begin with; no `/` at the end.
    pub base: String,
    /// The model it is asked for.
    pub model: Arc<str>,
    /// What an answer may take.
    pub timeout: Duration,
    /// The same for a prompt with images, videos or sounds.
    pub mm_timeout: Duration,
}

/// One thing to render.
#[derive(Clone, Debug)]
pub struct RenderCall {
    /// Who renders it.
    pub render: Arc<Render>,
    /// Where it is posted.
    pub path: String,
    /// What is posted, JSON in pieces.
    pub body: Vec<Bytes>,
    /// What the answer may take, waiting for a connection included.
    pub timeout: Duration,
}

/// Why there is no rendered prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenderError {
    /// Nobody answered, or not in time.
    Failed(String),
    /// It says no.
    Status(u16, String),
    /// What it says makes no sense.
    Malformed(String),
}

impl std::fmt::Display for RenderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(why) => f.write_str(why),
            Self::Status(status, body) if body.is_empty() => write!(f, "status {status}"),
            Self::Status(status, body) => write!(f, "status {status}: {body}"),
            Self::Malformed(why) => write!(f, "the answer is not a rendered prompt: {why}"),
        }
    }
}

impl std::error::Error for RenderError {}

impl RenderError {
    /// An answer with a status other than 200.
    #[must_use]
    pub fn status(status: u16, body: &[u8]) -> Self {
        Self::Status(status, String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).trim().to_owned())
    }
}

/// What will have come of a [`RenderCall`].
pub type Rendering = Pin<Box<dyn Future<Output = Result<Bytes, RenderError>> + Send>>;

/// Posts what is to be rendered.
pub trait RenderClient: std::fmt::Debug + Send + Sync + 'static {
    /// The body of a good answer. Dropped early, it is given up.
    fn post(&self, call: RenderCall) -> Rendering;
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The prompts, in blocks.
    pub prompts: Vec<Prompt>,
    /// Multimodal items, by their place.
    pub features: Vec<Feature>,
}

impl Render {
    /// What to post for a body, if it is one to render.
    #[must_use]
    pub fn call(self: &Arc<Self>, parsed: &ParsedBody, body: &[Bytes]) -> Option<RenderCall> {
        let endpoint = match parsed.api {
            Api::Completions => "/v1/completions/render",
            Api::Chat => "/v1/chat/completions/render",
            Api::Messages => "/v1/messages/render",
            Api::Responses => "/v1/responses/render",
            _ => return None,
        };
        let model = parsed.model_span.clone().filter(|_| !parsed.supplied && !parsed.prompts.is_empty())?;
        Some(RenderCall {
            render: Arc::clone(self),
            path: format!("{}{endpoint}", self.base),
            body: splice(body, model, &self.model),
            timeout: if parsed.features.is_empty() { self.timeout } else { self.mm_timeout },
        })
    }

    /// Something small, with which a server gets its tokenizer ready (and its image processor, `with_image`) before a request needs it.
    #[must_use]
    pub fn warm_up(self: &Arc<Self>, with_image: bool) -> RenderCall {
        let content = if with_image {
            let url = format!("data:image/png;base64,{PIXEL}");
            serde_json::json!([{"type": "image_url", "image_url": {"url": url}}])
        } else {
            serde_json::json!("hi")
        };
        let body = serde_json::json!({"model": &*self.model, "messages": [{"role": "user", "content": content}]});
        RenderCall {
            render: Arc::clone(self),
            path: format!("{}/v1/chat/completions/render", self.base),
            body: vec![body.to_string().into()],
            timeout: self.mm_timeout,
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    token_ids: Vec<u32>,
    features: Option<Features>,
}

#[derive(Deserialize)]
struct Features {
    mm_hashes: Option<BTreeMap<String, Vec<Option<String>>>>,
    mm_placeholders: Option<BTreeMap<String, Vec<Placeholder>>>,
}

#[derive(Deserialize)]
struct Placeholder {
    offset: u64,
    length: u64,
}

/// Reads an answer: one rendered prompt, or a list of them.
///
/// # Errors
/// It is none, or has no tokens.
pub fn read(answer: &[u8], block_tokens: usize, max_blocks: usize) -> Result<Rendered, RenderError> {
    let malformed = |e: serde_json::Error| RenderError::Malformed(e.to_string());
    let answers: Vec<Answer> = match answer.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'[') => serde_json::from_slice(answer).map_err(malformed)?,
        _ => vec![serde_json::from_slice(answer).map_err(malformed)?],
    };
    let mut features = Vec::new();
    let mut ids = Vec::with_capacity(answers.len());
    for (n, answer) in answers.into_iter().enumerate() {
        // Items of further prompts have places of their own.
        features.extend(answer.features.filter(|_| n == 0).map(items).unwrap_or_default());
        ids.push(answer.token_ids);
    }
    let prompts = prompts_of_ids(&ids, block_tokens, max_blocks);
    if prompts.is_empty() {
        return Err(RenderError::Malformed("it has no tokens".to_owned()));
    }
    Ok(Rendered { prompts, features })
}

/// One item for each placeholder, with the hash of the same rank of its modality.
fn items(features: Features) -> Vec<Feature> {
    let mut hashes = features.mm_hashes.unwrap_or_default();
    let mut items: Vec<Feature> = Vec::new();
    for (modality, placeholders) in features.mm_placeholders.unwrap_or_default() {
        let mut hashes = hashes.remove(&modality).unwrap_or_default().into_iter();
        items.extend(placeholders.into_iter().map(|at| Feature {
            hash: hashes.next().flatten().unwrap_or_default(),
            modality: modality.clone().into(),
            offset: at.offset,
            length: at.length,
        }));
    }
    items.sort_by_key(|item| item.offset);
    items.truncate(MAX_FEATURES);
    items
}

pub(super) const VLLM: ParamKind = ParamKind::Object(&[
    Param::new("url", ParamKind::String, "A vLLM server that renders, `http://host:port`.")
        .default("\"http://localhost:8000\""),
    Param::new("timeout", ParamKind::Duration, "What an answer may take; the estimate is used then.").default("\"5s\""),
    Param::new("mmTimeout", ParamKind::Duration, "The same for a prompt with images, videos or sounds.")
        .default("\"30s\""),
]);

/// Who renders, by the parameters `vllm` and `modelName`.
pub(super) fn render(b: &mut Build<'_>) -> Option<Arc<Render>> {
    let defaults;
    let vllm: &Params = match b.params.object("vllm") {
        Some(vllm) => vllm,
        None => {
            let ParamKind::Object(rows) = VLLM else { return None };
            defaults = Params::defaults(rows);
            &defaults
        }
    };
    let url = vllm.str("url");
    let model: Arc<str> = b.params.str("modelName").into();
    if model.is_empty() {
        b.fault("modelName", "`modelName` is needed: it is the model whose tokenizer renders prompts");
        return None;
    }
    let Some((tls, host, port, base)) = split(url) else {
        b.fault_in(vllm, "url", &format!("`{url}` is not an address such as `http://localhost:8000`"));
        return None;
    };
    let mut timeout = |param: &str, default: u64| {
        let given = vllm.duration(param);
        if given.is_zero() {
            b.corrected_in(vllm, param, &format!("{default}s"));
            return Duration::from_secs(default);
        }
        given
    };
    let (timeout, mm_timeout) = (timeout("timeout", 5), timeout("mmTimeout", 30));
    Some(Arc::new(Render { tls, host: host.to_owned(), port, base: base.to_owned(), model, timeout, mm_timeout }))
}

/// TLS or not, host, port, and what paths begin with.
fn split(url: &str) -> Option<(bool, &str, u16, &str)> {
    let (scheme, rest) = url.trim().split_once("://")?;
    let tls = match scheme {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let base = base.trim_end_matches('/');
    let ok = |b: u8| b.is_ascii_graphic() && !matches!(b, b'?' | b'#' | b'"' | b'<' | b'>' | b'\\' | b'@');
    if authority.is_empty() || !rest.bytes().all(ok) {
        return None;
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(six) => {
            let (host, after) = six.split_once(']')?;
            (host, after.strip_prefix(':').or(after.is_empty().then_some("")))
        }
        None => {
            let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
            (host, Some(port))
        }
    };
    let port = match port? {
        "" => {
            if tls {
                443
            } else {
                80
            }
        }
        port => port.parse().ok().filter(|p| *p > 0)?,
    };
    (!host.is_empty()).then_some((tls, host, port, base))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_wire::body::{BodyReader, ReadOptions};

    fn render() -> Arc<Render> {
        Arc::new(Render {
            tls: false,
            host: "localhost".into(),
            port: 8000,
            base: "/tok".into(),
            model: "org/base".into(),
            timeout: Duration::from_secs(5),
            mm_timeout: Duration::from_secs(30),
        })
    }

    fn call(api: Api, body: &'static str) -> Option<(String, String, u64)> {
        let chunks = [Bytes::from_static(body.as_bytes())];
        let mut reader = BodyReader::new(api, ReadOptions::default());
        reader.push(&chunks[0]);
        let call = render().call(&reader.finish(&chunks).expect("readable"), &chunks)?;
        Some((call.path, String::from_utf8(call.body.concat()).unwrap(), call.timeout.as_secs()))
    }

    #[test]
    fn a_body_is_posted_as_it_is_but_for_its_model() {
        let chat = r#"{"messages":[{"role":"user","content":"hi"}],"model":"adapter","max_tokens":3}"#;
        let want = chat.replace("\"adapter\"", "\"org/base\"");
        assert_eq!(call(Api::Chat, chat), Some(("/tok/v1/chat/completions/render".into(), want, 5)));
        for (api, body, path) in [
            (Api::Completions, r#"{"model":"m","prompt":"x"}"#, "/tok/v1/completions/render"),
            (
                Api::Messages,
                r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]}"#,
                "/tok/v1/messages/render",
            ),
            (Api::Responses, r#"{"model":"m","input":"x"}"#, "/tok/v1/responses/render"),
        ] {
            assert_eq!(call(api, body).map(|c| c.0).as_deref(), Some(path));
        }
    }

    #[test]
    fn ids_of_the_client_and_apis_without_a_render_endpoint_are_not_posted() {
        for (api, body) in [
            (Api::Completions, r#"{"model":"m","prompt":[1,2,3]}"#),
            (Api::Completions, r#"{"model":"m","prompt":[[1,2],[3]]}"#),
            (Api::Generate, r#"{"model":"m","token_ids":[1,2]}"#),
            (Api::Embeddings, r#"{"model":"m","input":"x"}"#),
            (Api::Completions, r#"{"prompt":"no model"}"#),
        ] {
            assert_eq!(call(api, body), None, "{body}");
        }
    }

    #[test]
    fn a_prompt_with_an_image_may_take_longer() {
        let chat = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://e/a.png"}}]}]}"#;
        assert_eq!(call(Api::Chat, chat).map(|c| c.2), Some(30));
    }

    #[test]
    fn one_answer_or_a_list_of_them_becomes_prompts_in_blocks() {
        let one = read(br#" {"request_id":"x","token_ids":[1,2,3,4,5,6,7,8],"features":null}"#, 4, 10).unwrap();
        // Vector V1.
        assert_eq!(one.prompts[0].contents, [0x27f0_147e_6ec5_14a6, 0xa7be_d138_63bc_3975]);
        let two = read(br#"[{"token_ids":[1]},{"token_ids":[]},{"token_ids":[2,3]}]"#, 4, 10).unwrap();
        assert_eq!(two.prompts.iter().map(|p| p.tokens).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(read(br#"{"token_ids":[1,2,3,4,5]}"#, 2, 1).unwrap().prompts[0].contents.len(), 1);
    }

    #[test]
    fn multimodal_items_come_with_their_hashes_in_the_order_of_their_places() {
        let answer = br#"{"token_ids":[1,2,3],"features":{"mm_hashes":{"image":["aa","bb"],"audio":["cc"]},
            "mm_placeholders":{"image":[{"offset":9,"length":4},{"offset":2,"length":4}],"audio":[{"offset":5,"length":1}]}}}"#;
        let items = read(answer, 4, 10).unwrap().features;
        let short: Vec<(&str, &str, u64)> = items.iter().map(|f| (&*f.modality, &*f.hash, f.offset)).collect();
        assert_eq!(short, [("image", "bb", 2), ("audio", "cc", 5), ("image", "aa", 9)]);
    }

    #[test]
    fn recordings_of_vllm_are_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/fixtures/vllm/http");
        for (name, tokens) in
            [("chat", 135), ("completions", 10), ("messages", 11), ("responses", 11), ("chat-salt-lora", 9)]
        {
            let text = std::fs::read_to_string(format!("{folder}/render-{name}.response")).unwrap();
            let body = text.replace("\r\n", "\n");
            let body = body.split_once("\n\n").unwrap().1;
            assert_eq!(read(body.as_bytes(), 64, 10).unwrap().prompts[0].tokens, tokens, "{name}");
        }
    }

    #[test]
    fn what_is_no_rendered_prompt_is_refused() {
        for answer in
            ["", "null", "[]", "{}", "[{}]", r#"{"token_ids":[]}"#, r#"{"token_ids":[-1]}"#, r#"{"token_ids":"1"}"#]
        {
            assert!(matches!(read(answer.as_bytes(), 64, 10), Err(RenderError::Malformed(_))), "{answer}");
        }
        let long = "é".repeat(2_000);
        assert!(RenderError::status(500, long.as_bytes()).to_string().len() < 1_100);
    }

    #[test]
    fn addresses_are_taken_apart() {
        for (url, want) in [
            ("http://localhost:8000", Some((false, "localhost", 8000, ""))),
            ("http://10.0.0.1", Some((false, "10.0.0.1", 80, ""))),
            ("https://r.example/base/", Some((true, "r.example", 443, "/base"))),
            ("http://[fd00::7]:81/", Some((false, "fd00::7", 81, ""))),
            ("https://[fd00::7]", Some((true, "fd00::7", 443, ""))),
            ("localhost:8000", None),
            ("unix:///tmp/x", None),
            ("http://", None),
            ("http://a:0", None),
            ("http://a:b", None),
            ("http://a b", None),
            ("http://a/?x=1", None),
            ("http://user@a", None),
        ] {
            assert_eq!(split(url), want, "{url}");
        }
    }
}
