//! Finding the `usage` objects in one JSON document.

use crate::body::Api;
use crate::json::{Container, Scalar, Sink};
use std::ops::Range;

/// Longest key, type or number in a string that is told apart.
const SHORT: usize = 48;

/// The figures of one `usage` object; `None` where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) prompt: Option<u64>,
    pub(super) input: Option<u64>,
    pub(super) completion: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) total: Option<u64>,
    /// From `prompt_tokens_details` or `input_tokens_details`; SGLang's own figure.
    pub(super) cached: Option<u64>,
    /// Anthropic's figure.
    pub(super) cache_read: Option<u64>,
}

/// Where the innermost container stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Top,
    Response,
    Message,
    Usage(Owner),
    Details(Owner),
    Other,
}

/// Whose usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Top,
    Response,
    Message,
}

/// A sink that keeps what it finds under `usage`, `response.usage` and `message.usage`, and `type`. For SGLang `meta_info` is the usage.
#[derive(Debug)]
pub(super) struct UsageScan {
    api: Api,
    stack: Vec<Place>,
    short: [u8; SHORT],
    len: usize,
    /// What the open string is good for.
    keep: Keep,
    key: Key,
    kind: ([u8; SHORT], usize),
    pub(super) top: Option<Counts>,
    pub(super) response: Option<Counts>,
    pub(super) message: Option<Counts>,
    /// Whether SGLang says why it finished.
    pub(super) finished: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Nothing,
    Key,
    Kind,
    Number,
}

/// Keys that mean something somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Other,
    Type,
    Response,
    Message,
    Usage,
    Prompt,
    Input,
    Completion,
    Output,
    Total,
    Details,
    Cached,
    CacheRead,
    MetaInfo,
    FinishReason,
}

impl Key {
    fn of(name: &[u8]) -> Self {
        match name {
            b"type" => Self::Type,
            b"response" => Self::Response,
            b"message" => Self::Message,
            b"usage" => Self::Usage,
            b"prompt_tokens" => Self::Prompt,
            b"input_tokens" => Self::Input,
            b"completion_tokens" => Self::Completion,
            b"output_tokens" => Self::Output,
            b"total_tokens" => Self::Total,
            b"prompt_tokens_details" | b"input_tokens_details" => Self::Details,
            b"cached_tokens" => Self::Cached,
            b"cache_read_input_tokens" => Self::CacheRead,
            b"meta_info" => Self::MetaInfo,
            b"finish_reason" => Self::FinishReason,
            _ => Self::Other,
        }
    }
}

impl UsageScan {
    pub(super) fn new(api: Api) -> Self {
        Self {
            api,
            stack: Vec::new(),
            short: [0; SHORT],
            len: 0,
            keep: Keep::Nothing,
            key: Key::Other,
            kind: ([0; SHORT], 0),
            top: None,
            response: None,
            message: None,
            finished: false,
        }
    }

    /// Forgets everything, for the next document.
    pub(super) fn reset(&mut self) {
        self.stack.clear();
        self.kind.1 = 0;
        (self.top, self.response, self.message) = (None, None, None);
        self.finished = false;
    }

    /// `type` at the top.
    pub(super) fn kind(&self) -> &[u8] {
        &self.kind.0[..self.kind.1]
    }

    /// The key of usage at the top.
    fn usage_key(&self) -> Key {
        if self.api == Api::SglangGenerate { Key::MetaInfo } else { Key::Usage }
    }

    /// A value that is not null begins.
    fn value(&mut self) {
        self.finished |= self.key == Key::FinishReason && matches!(self.stack.last(), Some(Place::Usage(_)));
    }

    fn counts(&mut self, owner: Owner) -> &mut Counts {
        match owner {
            Owner::Top => &mut self.top,
            Owner::Response => &mut self.response,
            Owner::Message => &mut self.message,
        }
        .get_or_insert_default()
    }

    /// A figure stands where the last key says.
    fn figure(&mut self, text: &[u8]) {
        let place = self.stack.last().copied();
        let (Some(Place::Usage(owner) | Place::Details(owner)), Some(n)) = (place, figure(text)) else { return };
        let details = matches!(place, Some(Place::Details(_)));
        let sglang = self.api == Api::SglangGenerate;
        let key = self.key;
        let counts = self.counts(owner);
        let field = match key {
            Key::Cached if details || sglang => &mut counts.cached,
            _ if details => return,
            Key::Prompt => &mut counts.prompt,
            Key::Input => &mut counts.input,
            Key::Completion => &mut counts.completion,
            Key::Output => &mut counts.output,
            Key::Total => &mut counts.total,
            Key::CacheRead => &mut counts.cache_read,
            _ => return,
        };
        *field = Some(n);
    }
}

/// A number of tokens: a number or a number in a string, whole or not, not negative.
fn figure(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if let Ok(n) = text.parse() {
        return Some(n);
    }
    let n: f64 = text.parse().ok()?;
    (n.is_finite() && n >= 0.0).then_some(n as u64)
}

impl Sink for UsageScan {
    fn open(&mut self, container: Container, _: usize) {
        self.value();
        let object = container == Container::Object;
        let place = match (self.stack.last(), self.key) {
            _ if !object => Place::Other,
            (None, _) => Place::Top,
            (Some(Place::Top), key) if key == self.usage_key() => Place::Usage(Owner::Top),
            (Some(Place::Top), Key::Response) => Place::Response,
            (Some(Place::Top), Key::Message) if self.api == Api::Messages => Place::Message,
            (Some(Place::Response), Key::Usage) => Place::Usage(Owner::Response),
            (Some(Place::Message), Key::Usage) => Place::Usage(Owner::Message),
            (Some(Place::Usage(owner)), Key::Details) => Place::Details(*owner),
            _ => Place::Other,
        };
        if let Place::Usage(owner) = place {
            *self.counts(owner) = Counts::default();
        }
        self.stack.push(place);
        self.key = Key::Other;
    }

    fn close(&mut self, _: Container, _: usize) {
        self.stack.pop();
        self.key = Key::Other;
    }

    fn string_start(&mut self, key: bool, _: usize) {
        self.len = 0;
        if !key {
            self.value();
        }
        self.keep = match self.stack.last() {
            None | Some(Place::Other) => Keep::Nothing,
            _ if key => Keep::Key,
            Some(Place::Top) if self.key == Key::Type => Keep::Kind,
            Some(Place::Usage(_) | Place::Details(_)) => Keep::Number,
            _ => Keep::Nothing,
        };
    }

    #[inline]
    fn string_piece(&mut self, piece: &[u8]) {
        if self.keep != Keep::Nothing {
            let take = piece.len().min(SHORT - self.len);
            self.short[self.len..self.len + take].copy_from_slice(&piece[..take]);
            self.len += take;
        }
    }

    fn string_end(&mut self, _: bool, _: usize) {
        match self.keep {
            Keep::Nothing => {}
            Keep::Key => self.key = Key::of(&self.short[..self.len]),
            Keep::Kind => self.kind = (self.short, self.len),
            Keep::Number => {
                let short = self.short;
                self.figure(&short[..self.len]);
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar<'_>, _: Range<usize>) {
        if scalar != Scalar::Null {
            self.value();
        }
        if let Scalar::Number(text) = scalar {
            self.figure(text);
        }
    }
}
