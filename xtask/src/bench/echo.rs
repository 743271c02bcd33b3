//! The do-nothing picker on tonic: what a picker cannot be cheaper than, short of leaving tonic.
//!
//! It waits for the whole request body, answers one fixed destination, returns all bytes, passes the response back
//! message by message, and fetches every engine's metrics page at the usual interval only to drop it. It is written as
//! the leanest reasonable use of tonic: one state machine per stream, polled in place, without tasks or channels.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use clap::Args;
use tonic::server::{Grpc, StreamingService};
use tonic::{Request, Response, Status, Streaming};

use super::engines;
use super::fetch;
use crate::extproc::{
    Answer, BodyResponse, CommonResponse, DESTINATION, HeaderMap, HeadersResponse, Kind, METHOD, NAMESPACE, PIECE,
    ProcessingRequest, ProcessingResponse, Sent, Struct, TrailersResponse, Value,
};

/// What the echo listens on and fetches.
#[derive(Args)]
pub(crate) struct Options {
    /// The port of ext-proc on loopback
    #[arg(long)]
    grpc_port: u16,
    /// Engines whose pages are fetched
    #[arg(long, default_value_t = 0)]
    engines: u32,
    /// The port of the engines
    #[arg(long, default_value_t = 0)]
    page_port: u16,
    /// Run everything on one thread instead of tokio's work-stealing runtime
    #[arg(long)]
    one_thread: bool,
}

/// Serves until it is killed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut builder = if options.one_thread {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = builder.enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(async {
        fetch::every_page(options.engines, options.page_port);
        serve(SocketAddr::from(([127, 0, 0, 1], options.grpc_port)), options.page_port).await
    })
}

/// Serves on `address`, for a first engine on `page_port`.
pub(super) async fn serve(address: SocketAddr, page_port: u16) -> Result<()> {
    let service = Echo { destination: engines::address(0, page_port).to_string().into() };
    tonic::transport::Server::builder().tcp_nodelay(true).serve(address, service).await.context("cannot serve")
}

/// The service.
#[derive(Clone)]
struct Echo {
    destination: Bytes,
}

impl tower_service::Service<http::Request<tonic::body::Body>> for Echo {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let echo = self.clone();
        Box::pin(async move {
            if request.uri().path() != METHOD {
                return Ok(Status::unimplemented("the echo knows one method").into_http());
            }
            let codec = tonic_prost::ProstCodec::default();
            Ok(Grpc::new(codec).max_decoding_message_size(64 << 20).streaming(echo, request).await)
        })
    }
}

impl StreamingService<ProcessingRequest> for Echo {
    type Response = ProcessingResponse;
    type ResponseStream = Exchange;
    type Future = Ready<Result<Response<Exchange>, Status>>;

    fn call(&mut self, request: Request<Streaming<ProcessingRequest>>) -> Self::Future {
        let exchange = Exchange {
            sent: request.into_inner(),
            destination: self.destination.clone(),
            held: VecDeque::new(),
            answers: VecDeque::new(),
        };
        ready(Ok(Response::new(exchange)))
    }
}

/// One stream: what came of the request's body, and the answers that are due.
struct Exchange {
    sent: Streaming<ProcessingRequest>,
    destination: Bytes,
    held: VecDeque<Bytes>,
    answers: VecDeque<ProcessingResponse>,
}

impl tokio_stream::Stream for Exchange {
    type Item = Result<ProcessingResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Poll::Ready(Some(Ok(answer)));
            }
            match std::task::ready!(Pin::new(&mut self.sent).poll_next(context)) {
                Some(Ok(message)) => self.take(message),
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Exchange {
    fn take(&mut self, message: ProcessingRequest) {
        match message.request {
            Some(Sent::RequestHeaders(headers)) if headers.end_of_stream => self.decide(),
            Some(Sent::RequestHeaders(_)) | None => {}
            Some(Sent::RequestBody(piece)) => {
                if !piece.body.is_empty() {
                    self.held.push_back(piece.body);
                }
                if piece.end_of_stream {
                    self.decide();
                    self.give_back(true);
                }
            }
            Some(Sent::RequestTrailers(_)) => {
                self.decide();
                self.give_back(false);
                self.answer(Answer::RequestTrailers(TrailersResponse {}));
            }
            Some(Sent::ResponseHeaders(_)) => {
                let set = CommonResponse::set(HeaderMap::of([("x-went-into-resp-headers", "true")]));
                self.answer(Answer::ResponseHeaders(HeadersResponse { response: Some(set) }));
            }
            Some(Sent::ResponseBody(piece)) => {
                let response = Some(CommonResponse::piece(piece.body, piece.end_of_stream));
                self.answer(Answer::ResponseBody(BodyResponse { response }));
            }
            Some(Sent::ResponseTrailers(_)) => self.answer(Answer::ResponseTrailers(TrailersResponse {})),
        }
    }

    /// The fixed destination, as header and as metadata.
    fn decide(&mut self) {
        let destination = String::from_utf8_lossy(&self.destination).into_owned();
        let mut common = CommonResponse::set(HeaderMap::of([(DESTINATION, destination.as_str())]));
        common.clear_route_cache = true;
        let object = |key: &str, kind| Struct { fields: [(key.to_owned(), Value { kind: Some(kind) })].into() };
        let inner = object(DESTINATION, Kind::Text(destination));
        self.answers.push_back(ProcessingResponse {
            response: Some(Answer::RequestHeaders(HeadersResponse { response: Some(common) })),
            dynamic_metadata: Some(object(NAMESPACE, Kind::Object(inner))),
        });
    }

    /// The request's body in pieces of at most [`PIECE`] bytes; the last one marked, unless trailers follow.
    ///
    /// A piece never spans two messages, since joining them would copy.
    fn give_back(&mut self, ends: bool) {
        if self.held.is_empty() {
            self.held.push_back(Bytes::new());
        }
        while let Some(mut body) = self.held.pop_front() {
            loop {
                let piece = body.split_to(body.len().min(PIECE));
                let last = ends && body.is_empty() && self.held.is_empty();
                let response = Some(CommonResponse::piece(piece, last));
                self.answer(Answer::RequestBody(BodyResponse { response }));
                if body.is_empty() {
                    break;
                }
            }
        }
    }

    fn answer(&mut self, answer: Answer) {
        self.answers.push_back(ProcessingResponse { response: Some(answer), dynamic_metadata: None });
    }
}
