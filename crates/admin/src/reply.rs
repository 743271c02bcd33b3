//! Answers.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tokio::sync::mpsc::Receiver;

pub(crate) type Reply = Response<Content>;

/// What an answer holds.
pub(crate) enum Content {
    /// All of it.
    Whole(Full<Bytes>),
    /// Pieces, as they come; the end is when nobody sends any more.
    Pieces(Receiver<Bytes>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::Pieces(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Pieces(_) => SizeHint::default(),
        }
    }
}

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const JSON: &str = "application/json";

/// An answer that is not to be kept by anyone: all of it is about this moment.
pub(crate) fn with_type(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Content::Whole(Full::new(body.into())));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// 200 with JSON.
pub(crate) fn json(value: &impl Serialize) -> Reply {
    match serde_json::to_vec(value) {
        Ok(body) => with_type(StatusCode::OK, JSON, body),
        Err(error) => fault(StatusCode::INTERNAL_SERVER_ERROR, &format!("the answer cannot be written: {error}")),
    }
}

/// An error with its sentence: `{"error":{"message":".."}}`.
pub(crate) fn fault(status: StatusCode, message: &str) -> Reply {
    let body = serde_json::json!({"error": {"message": message}}).to_string();
    with_type(status, JSON, body)
}
