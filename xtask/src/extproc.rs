//! The messages of Envoy's external processing protocol, as far as the chores need them.
//!
//! Written by hand from `envoy.service.ext_proc.v3` (and what it uses of `envoy.config.core.v3` and `google.protobuf`), so
//! that neither a protobuf compiler nor the product's own codec is needed: what measures and checks the product must not
//! share its mistakes. Unknown fields are skipped, as protobuf demands. Bodies are slices of what was read, never copies.

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message;

/// The method every stream is a call of.
pub(crate) const METHOD: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// Header, and key of the dynamic metadata, that carries the chosen endpoint.
pub(crate) const DESTINATION: &str = "x-gateway-destination-endpoint";

/// The namespace of that metadata.
pub(crate) const NAMESPACE: &str = "envoy.lb";

/// Most bytes of a body in one answer, for proxies that take no more than 64 KiB per message.
pub(crate) const PIECE: usize = 62_000;

/// `FULL_DUPLEX_STREAMED` of `BodySendMode`.
const FULL_DUPLEX: i32 = 4;

/// What Envoy sends.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProcessingRequest {
    /// One message of the exchange.
    #[prost(oneof = "Sent", tags = "2, 3, 4, 5, 6, 7")]
    pub(crate) request: Option<Sent>,
    /// Always present, and empty unless metadata is forwarded.
    #[prost(message, optional, tag = "8")]
    pub(crate) metadata_context: Option<Metadata>,
    /// In the first message of a stream only.
    #[prost(message, optional, tag = "11")]
    pub(crate) protocol_config: Option<ProtocolConfiguration>,
}

/// The kinds of [`ProcessingRequest`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Sent {
    /// Headers of the request.
    #[prost(message, tag = "2")]
    RequestHeaders(HttpHeaders),
    /// Headers of the response.
    #[prost(message, tag = "3")]
    ResponseHeaders(HttpHeaders),
    /// A piece of the request's body.
    #[prost(message, tag = "4")]
    RequestBody(HttpBody),
    /// A piece of the response's body.
    #[prost(message, tag = "5")]
    ResponseBody(HttpBody),
    /// Trailers of the request.
    #[prost(message, tag = "6")]
    RequestTrailers(HttpTrailers),
    /// Trailers of the response.
    #[prost(message, tag = "7")]
    ResponseTrailers(HttpTrailers),
}

/// What the processor answers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProcessingResponse {
    /// One answer.
    #[prost(oneof = "Answer", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(crate) response: Option<Answer>,
    /// Metadata for the proxy, by namespace.
    #[prost(message, optional, tag = "8")]
    pub(crate) dynamic_metadata: Option<Struct>,
}

/// The kinds of [`ProcessingResponse`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Answer {
    /// To the request's headers: the decision.
    #[prost(message, tag = "1")]
    RequestHeaders(HeadersResponse),
    /// To the response's headers.
    #[prost(message, tag = "2")]
    ResponseHeaders(HeadersResponse),
    /// To the request's body.
    #[prost(message, tag = "3")]
    RequestBody(BodyResponse),
    /// To the response's body.
    #[prost(message, tag = "4")]
    ResponseBody(BodyResponse),
    /// To the request's trailers.
    #[prost(message, tag = "5")]
    RequestTrailers(TrailersResponse),
    /// To the response's trailers.
    #[prost(message, tag = "6")]
    ResponseTrailers(TrailersResponse),
    /// Instead of everything else.
    #[prost(message, tag = "7")]
    Immediate(ImmediateResponse),
}

/// Headers and whether they end the message.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HttpHeaders {
    /// In order of appearance, pseudo-headers included.
    #[prost(message, optional, tag = "1")]
    pub(crate) headers: Option<HeaderMap>,
    /// No body follows.
    #[prost(bool, tag = "3")]
    pub(crate) end_of_stream: bool,
}

/// A list of headers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderMap {
    /// The headers.
    #[prost(message, repeated, tag = "1")]
    pub(crate) headers: Vec<HeaderValue>,
}

/// A header; Envoy fills `raw_value`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderValue {
    /// In lower case.
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    /// Not used by Envoy.
    #[prost(string, tag = "2")]
    pub(crate) value: String,
    /// The value.
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) raw_value: Bytes,
}

/// A piece of a body.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HttpBody {
    /// Its bytes, possibly none.
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) body: Bytes,
    /// Nothing follows.
    #[prost(bool, tag = "2")]
    pub(crate) end_of_stream: bool,
}

/// Trailers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HttpTrailers {
    /// The trailers.
    #[prost(message, optional, tag = "1")]
    pub(crate) trailers: Option<HeaderMap>,
}

/// How bodies are sent.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProtocolConfiguration {
    /// `BodySendMode` of requests.
    #[prost(int32, tag = "1")]
    pub(crate) request_body_mode: i32,
    /// `BodySendMode` of responses.
    #[prost(int32, tag = "2")]
    pub(crate) response_body_mode: i32,
}

/// Forwarded metadata; only that it is there matters here.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {}

/// Answer to headers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeadersResponse {
    /// What to do.
    #[prost(message, optional, tag = "1")]
    pub(crate) response: Option<CommonResponse>,
}

/// Answer to a piece of a body.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BodyResponse {
    /// What to do.
    #[prost(message, optional, tag = "1")]
    pub(crate) response: Option<CommonResponse>,
}

/// Answer to trailers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TrailersResponse {}

/// What to do with a message.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CommonResponse {
    /// Changes of headers.
    #[prost(message, optional, tag = "2")]
    pub(crate) header_mutation: Option<HeaderMutation>,
    /// Changes of the body.
    #[prost(message, optional, tag = "3")]
    pub(crate) body_mutation: Option<BodyMutation>,
    /// The route depends on the changed headers.
    #[prost(bool, tag = "5")]
    pub(crate) clear_route_cache: bool,
}

/// Changes of headers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderMutation {
    /// To set.
    #[prost(message, repeated, tag = "1")]
    pub(crate) set_headers: Vec<HeaderValueOption>,
    /// To remove.
    #[prost(string, repeated, tag = "2")]
    pub(crate) remove_headers: Vec<String>,
}

/// A header to set.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderValueOption {
    /// The header.
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<HeaderValue>,
}

/// Changes of a body.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BodyMutation {
    /// The next piece in full-duplex mode.
    #[prost(message, optional, tag = "3")]
    pub(crate) streamed_response: Option<StreamedBodyResponse>,
}

/// A piece of the body that takes the sent one's place.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StreamedBodyResponse {
    /// Its bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) body: Bytes,
    /// It is the last one.
    #[prost(bool, tag = "2")]
    pub(crate) end_of_stream: bool,
}

/// A refusal.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ImmediateResponse {
    /// Its status.
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<HttpStatus>,
    /// Its body.
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) body: Bytes,
}

/// A status code.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HttpStatus {
    /// The code.
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
}

/// `google.protobuf.Struct`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Struct {
    /// Values by key.
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) fields: std::collections::BTreeMap<String, Value>,
}

/// `google.protobuf.Value`, as far as destinations need it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Value {
    /// The value.
    #[prost(oneof = "Kind", tags = "3, 5")]
    pub(crate) kind: Option<Kind>,
}

/// The kinds of [`Value`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Kind {
    /// Text.
    #[prost(string, tag = "3")]
    Text(String),
    /// A nested object.
    #[prost(message, tag = "5")]
    Object(Struct),
}

// === Making them ===

impl HeaderMap {
    /// Headers as Envoy fills them.
    pub(crate) fn of<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let headers = headers.into_iter().map(|(key, value)| HeaderValue {
            key: key.to_owned(),
            value: String::new(),
            raw_value: Bytes::copy_from_slice(value.as_bytes()),
        });
        Self { headers: headers.collect() }
    }
}

impl ProcessingRequest {
    /// A message after the first.
    pub(crate) fn of(request: Sent) -> Self {
        Self { request: Some(request), metadata_context: Some(Metadata {}), protocol_config: None }
    }

    /// The first message of a stream, which also says that bodies are streamed both ways.
    pub(crate) fn opening(request: Sent) -> Self {
        let modes = ProtocolConfiguration { request_body_mode: FULL_DUPLEX, response_body_mode: FULL_DUPLEX };
        Self { protocol_config: Some(modes), ..Self::of(request) }
    }
}

impl CommonResponse {
    /// A piece of a body.
    pub(crate) fn piece(body: Bytes, end_of_stream: bool) -> Self {
        let streamed_response = Some(StreamedBodyResponse { body, end_of_stream });
        Self { body_mutation: Some(BodyMutation { streamed_response }), ..Self::default() }
    }

    /// Headers to set.
    pub(crate) fn set(headers: HeaderMap) -> Self {
        let set_headers = headers.headers.into_iter().map(|header| HeaderValueOption { header: Some(header) });
        let mutation = HeaderMutation { set_headers: set_headers.collect(), remove_headers: Vec::new() };
        Self { header_mutation: Some(mutation), ..Self::default() }
    }

    /// The value that a header is set to.
    pub(crate) fn set_value(&self, key: &str) -> Option<&Bytes> {
        let set = &self.header_mutation.as_ref()?.set_headers;
        let header = set.iter().filter_map(|option| option.header.as_ref()).find(|header| header.key == key)?;
        Some(&header.raw_value)
    }

    /// The piece of a body in it.
    pub(crate) fn into_piece(self) -> Option<StreamedBodyResponse> {
        self.body_mutation?.streamed_response
    }
}

/// A message with the five bytes that gRPC puts before it.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(5 + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).expect("messages here are far below 4 GiB"));
    message.encode(&mut frame).expect("the buffer grows");
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field numbers, against bytes put together from the published definition.
    #[test]
    fn messages_have_the_field_numbers_of_the_published_definition() {
        let body =
            ProcessingRequest::of(Sent::RequestBody(HttpBody { body: Bytes::from_static(b"ab"), end_of_stream: true }));
        // request_body = 4 { body = 1 "ab", end_of_stream = 2 true }, metadata_context = 8 {}
        assert_eq!(body.encode_to_vec(), [0x22, 6, 0x0a, 2, b'a', b'b', 0x10, 1, 0x42, 0]);

        let opening = ProcessingRequest::opening(Sent::RequestHeaders(HttpHeaders {
            headers: Some(HeaderMap::of([("k", "v")])),
            end_of_stream: false,
        }));
        // request_headers = 2 { headers = 1 { headers = 1 { key = 1, raw_value = 3 } } }, protocol_config = 11 { 4, 4 }
        let expected = [0x12, 10, 0x0a, 8, 0x0a, 6, 0x0a, 1, b'k', 0x1a, 1, b'v', 0x42, 0, 0x5a, 4, 0x08, 4, 0x10, 4];
        assert_eq!(opening.encode_to_vec(), expected);

        let piece = ProcessingResponse {
            response: Some(Answer::RequestBody(BodyResponse {
                response: Some(CommonResponse::piece(Bytes::from_static(b"x"), true)),
            })),
            dynamic_metadata: None,
        };
        // request_body = 3 { response = 1 { body_mutation = 3 { streamed_response = 3 { body = 1, end_of_stream = 2 } } } }
        let expected = [0x1a, 11, 0x0a, 9, 0x1a, 7, 0x1a, 5, 0x0a, 1, b'x', 0x10, 1];
        assert_eq!(piece.encode_to_vec(), expected);
    }

    #[test]
    fn a_framed_message_says_its_length() {
        let frame = framed(&HttpBody { body: Bytes::from_static(b"abc"), end_of_stream: false });
        assert_eq!(frame[..], [0, 0, 0, 0, 5, 0x0a, 3, b'a', b'b', b'c']);
    }
}
