//! One exchange with the proxy: the ladder of its states (request-lifecycle 1.2), without I/O.
//!
//! | proxy sends | answer, bodies in full duplex | answer, other modes |
//! | --- | --- | --- |
//! | request headers | none before the body is in; at once for a request without one | goes on (buffered); destination by load (streamed, none) |
//! | request body | at its end: headers with the destination, then the body in pieces | destination (buffered); goes on (streamed) |
//! | request trailers | end the body; then trailers | trailers |
//! | response headers | headers; before a decision, as they are | the same |
//! | response body | the same bytes, at once | goes on, unless its bytes change |
//! | response trailers | trailers | the same |
//!
//! Where a decision waits for something (a rendered prompt, others to be placed with), its answer comes later, and all else goes on: the proxy may leave, or
//! answer by itself.
//!
//! Whatever a proxy does, in whatever order: at most one decision is made, the end of the request is reported exactly once, and after an immediate
//! response nothing more is sent.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use pointsman_core::{DropReason, ErrorCode, Refusal};
use pointsman_grpc::{Call, Code, Cursor, Message, Out, Rope, Status};
use pointsman_router::metrics::{OpenStream, StreamMetrics};
use pointsman_router::{Preparing, Reading, Routed};
use pointsman_scheduling::Termination;

use crate::answer::{self, Destination};
use crate::budget::Held;
use crate::head::Head;
use crate::options::Compat;
use crate::proto::metadata;
use crate::proto::request::{Body, BodyMode, Event, Headers, Modes, ProcessingRequest};
use crate::proto::response::{self, Change, Direction, Metadata};
use crate::service::Shared;

/// One HTTP request in the proxy.
pub struct Exchange {
    shared: Arc<Shared>,
    state: State,
    modes: Modes,
    started: bool,
    /// Counted as open until it is ended or dropped.
    counted: Option<OpenStream>,
}

enum State {
    /// No headers yet.
    Fresh,
    /// The body arrives.
    Reading(Box<Arriving>),
    /// The body is here, and the decision waits for something.
    Waiting(Box<Waiting>),
    /// An endpoint is chosen.
    Routed(Box<Going>),
    /// The proxy answers by itself, before it heard where the request goes: what it says passes.
    Passing,
    /// Nothing is left to say.
    Over,
}

struct Arriving {
    reading: Reading,
    forged: Vec<(Box<str>, Box<str>)>,
    made_id: bool,
    held: Held,
}

struct Waiting {
    arriving: Arriving,
    wait: Preparing,
    seen: Seen,
    /// Whether nothing of the request follows its body.
    end: bool,
}

struct Going {
    /// Until its end is told.
    routed: Option<Box<Routed>>,
    /// The response's head was seen.
    answered: bool,
    /// Request bytes that the proxy may not have taken yet.
    held: Option<Held>,
}

/// What is known of a body when the decision must be made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// There is none.
    Nothing,
    /// There is one, which the router does not see.
    Unseen,
    /// All of it.
    All,
}

impl Exchange {
    /// A new exchange.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        let counted = shared.streams.as_ref().map(StreamMetrics::opened);
        Self { shared, state: State::Fresh, modes: Modes::default(), started: false, counted }
    }

    fn event(&mut self, request: ProcessingRequest, out: &mut Out) -> Result<(), Status> {
        if !std::mem::replace(&mut self.started, true) {
            self.modes = request.modes.unwrap_or_default();
            self.shared.met(request.modes);
        }
        let metadata = request.metadata;
        match request.event {
            Some(Event::RequestHeaders(headers)) => self.request_headers(&headers, metadata.as_ref(), out),
            Some(Event::RequestBody(body)) => self.request_body(body, metadata.as_ref(), out),
            Some(Event::RequestTrailers) => self.request_trailers(metadata.as_ref(), out),
            Some(Event::ResponseHeaders(headers)) => self.response_headers(&headers, metadata.as_ref(), out),
            Some(Event::ResponseBody(body)) => {
                self.response_body(body, out);
                Ok(())
            }
            Some(Event::ResponseTrailers) => {
                self.response_trailers(out);
                Ok(())
            }
            None => Err(Status::new(Code::Unknown, "unknown request type")),
        }
    }

    fn request_headers(&mut self, headers: &Headers, metadata: Option<&Cursor>, out: &mut Out) -> Result<(), Status> {
        // Headers that come again before an answer replace those before; after an answer they make no sense.
        if !matches!(self.state, State::Fresh | State::Reading(_)) {
            return Ok(());
        }
        let pool = &self.shared.pool;
        let head = Head::read(headers, pool.clock.now()).map_err(malformed)?;
        let reading = pool.begin(head.head);
        let held = self.shared.budget.nothing();
        let (forged, made_id) = (head.forged, head.made_id);
        self.state = State::Reading(Box::new(Arriving { reading, forged, made_id, held }));
        match self.modes.request {
            _ if headers.end => self.decide(Seen::Nothing, metadata, out),
            BodyMode::FullDuplex => Ok(()),
            BodyMode::Buffered | BodyMode::BufferedPartial => {
                response::go_on_with_headers(out, Direction::Request);
                Ok(())
            }
            BodyMode::Streamed | BodyMode::None => self.decide(Seen::Unseen, metadata, out),
        }
    }

    fn request_body(&mut self, body: Body, metadata: Option<&Cursor>, out: &mut Out) -> Result<(), Status> {
        let State::Reading(arriving) = &mut self.state else {
            if matches!(self.state, State::Routed(_) | State::Passing) && self.modes.request != BodyMode::FullDuplex {
                response::whole_body(out, Direction::Request, Change::default(), None);
            }
            return Ok(());
        };
        let options = &self.shared.options;
        let bytes = body.bytes.len() as u64;
        if options.max_body_bytes > 0 && arriving.reading.bytes() + bytes > options.max_body_bytes {
            let message = format!("the request body is larger than {} bytes", options.max_body_bytes);
            self.refuse(Refusal::new(ErrorCode::PayloadTooLarge, message), out);
            return Ok(());
        }
        let reading = &mut arriving.reading;
        let beside: usize = body.bytes.pieces().map(|piece| reading.take(piece.clone(), body.end)).sum();
        if !arriving.held.take(bytes + beside as u64, options.buffer_budget_bytes) {
            let limit = options.buffer_budget_bytes;
            let message = format!("too many request bytes are being held (limit {limit}); try again later");
            let refusal = Refusal::new(ErrorCode::ServiceUnavailable, message).because(DropReason::Saturated);
            self.refuse(refusal, out);
            return Ok(());
        }
        match self.modes.request {
            BodyMode::BufferedPartial if !body.end => self.decide(Seen::Unseen, metadata, out),
            BodyMode::Buffered => self.decide(Seen::All, metadata, out),
            _ if body.end => self.decide(Seen::All, metadata, out),
            _ => Ok(()),
        }
    }

    fn request_trailers(&mut self, metadata: Option<&Cursor>, out: &mut Out) -> Result<(), Status> {
        if let State::Reading(arriving) = &self.state {
            let buffered = matches!(self.modes.request, BodyMode::Buffered | BodyMode::BufferedPartial);
            if buffered && arriving.reading.bytes() == 0 {
                // No answer to trailers can name a destination.
                let message = "trailers without a body cannot be routed when bodies are buffered";
                self.refuse(Refusal::new(ErrorCode::BadRequest, message), out);
                return Ok(());
            }
            return self.decide_with(Seen::All, false, metadata, out);
        }
        match &mut self.state {
            // Answered in their turn.
            State::Waiting(waiting) => waiting.end = false,
            State::Routed(_) | State::Passing => response::trailers(out, Direction::Request, None),
            _ => {}
        }
        Ok(())
    }

    fn decide(&mut self, seen: Seen, metadata: Option<&Cursor>, out: &mut Out) -> Result<(), Status> {
        self.decide_with(seen, true, metadata, out)
    }

    /// Makes the decision, as soon as it can be made. `end`: nothing of the request follows its body.
    fn decide_with(&mut self, seen: Seen, end: bool, metadata: Option<&Cursor>, out: &mut Out) -> Result<(), Status> {
        let State::Reading(mut arriving) = std::mem::replace(&mut self.state, State::Over) else { return Ok(()) };
        let reading = &mut arriving.reading;
        let options = &self.shared.options;
        let hinted = options.subset_filter && (seen == Seen::All || !options.keeps(Compat::SubsetNotForBodyless));
        if let Some(metadata) = metadata.filter(|_| hinted) {
            let mut subset = metadata::subset(metadata).map_err(malformed)?;
            if options.keeps(Compat::SubsetAnyPort) {
                subset.iter_mut().flatten().for_each(strip_port);
            }
            reading.restrict_to(subset);
        }
        if seen != Seen::All {
            reading.without_body(seen == Seen::Unseen);
        }
        self.go_on(*arriving, seen, end, out);
        Ok(())
    }

    /// Waits for what there is to wait for, else decides.
    fn go_on(&mut self, mut arriving: Arriving, seen: Seen, end: bool, out: &mut Out) {
        match arriving.reading.prepare() {
            Some(wait) => self.state = State::Waiting(Box::new(Waiting { arriving, wait, seen, end })),
            None => self.tell(arriving, seen, end, out),
        }
    }

    /// Makes the decision and tells it.
    fn tell(&mut self, arriving: Arriving, seen: Seen, end: bool, out: &mut Out) {
        let Arriving { reading, forged, made_id, held } = arriving;
        let shared = Arc::clone(&self.shared);
        let options = &shared.options;
        let mut routed = match reading.decide() {
            Ok(routed) => Box::new(routed),
            Err(refused) => {
                answer::refused(out, options, &refused);
                out.end(Status::OK);
                return;
            }
        };
        let full_duplex = self.modes.request == BodyMode::FullDuplex;
        let destination = Destination {
            options,
            routed: &routed,
            list: answer::list(&routed),
            forged: &forged,
            made_id,
            content_length: (full_duplex && seen == Seen::All).then(|| routed.body_len()),
            scored: seen == Seen::All,
        };
        match (self.modes.request, seen) {
            (BodyMode::Buffered, Seen::All) | (BodyMode::BufferedPartial, Seen::All | Seen::Unseen) => {
                let body = (seen == Seen::All && routed.rewritten()).then(|| response::rope(routed.body().iter()));
                let headers = |w: &mut _| destination.mutation(w);
                let metadata = |w: &mut _| destination.metadata(w);
                let change = Change { headers: Some(&headers), metadata: Some(&metadata) };
                response::whole_body(out, Direction::Request, change, body.as_ref());
            }
            _ => {
                let metadata = |w: &mut _| destination.metadata(w);
                response::headers(out, Direction::Request, true, |w| destination.mutation(w), Some(&metadata));
                if full_duplex && seen == Seen::All {
                    response::streamed_body(out, Direction::Request, response::rope(routed.body().iter()), end, None);
                }
            }
        }
        routed.dispatched();
        self.state = State::Routed(Box::new(Going { routed: Some(routed), answered: false, held: Some(held) }));
        if !end {
            response::trailers(out, Direction::Request, None);
        }
    }

    /// Goes on with a request that waits, once there is nothing more to wait for.
    fn waited(&mut self, cx: &mut Context<'_>, out: &mut Out) {
        while let State::Waiting(waiting) = &mut self.state {
            let Poll::Ready(prepared) = Pin::new(&mut waiting.wait).poll(cx) else { return };
            let State::Waiting(waiting) = std::mem::replace(&mut self.state, State::Over) else { return };
            let Waiting { mut arriving, seen, end, .. } = *waiting;
            arriving.reading.resume(prepared);
            self.go_on(arriving, seen, end, out);
        }
    }

    fn response_headers(&mut self, headers: &Headers, metadata: Option<&Cursor>, out: &mut Out) -> Result<(), Status> {
        if self.undecided() {
            self.state = State::Passing;
        }
        if matches!(self.state, State::Passing) {
            response::go_on_with_headers(out, Direction::Response);
            return Ok(());
        }
        let State::Routed(going) = &mut self.state else { return Ok(()) };
        let Some(routed) = going.routed.as_deref_mut().filter(|_| !going.answered) else { return Ok(()) };
        let (mut pseudo, mut plain) = (None, None);
        let (mut content_type, mut coding) = (None, None);
        headers
            .for_each(|name, value| match name {
                b":status" => pseudo = Some(value),
                b"status" => plain = Some(value),
                _ if name.eq_ignore_ascii_case(b"content-type") => content_type = std::str::from_utf8(value).ok(),
                _ if name.eq_ignore_ascii_case(b"content-encoding") => coding = std::str::from_utf8(value).ok(),
                _ => {}
            })
            .map_err(malformed)?;
        let status = pseudo.or(plain).and_then(|s| std::str::from_utf8(s).ok()).and_then(|s| s.parse().ok());
        routed.response_head(status.unwrap_or(0), content_type, coding);
        going.answered = true;
        going.held = None;
        let served = metadata::served(metadata).map_err(malformed)?;
        let options = &self.shared.options;
        response::headers(
            out,
            Direction::Response,
            false,
            |w| answer::response_mutation(w, options, routed, headers, &served),
            None,
        );
        if headers.end {
            self.complete();
        }
        Ok(())
    }

    fn response_body(&mut self, body: Body, out: &mut Out) {
        let mode = self.modes.response;
        // A buffered body comes in one message; that it is not the end means that trailers follow, which a proxy need not tell of.
        let end = body.end || mode == BodyMode::Buffered;
        let (mut bytes, mut changed, mut attributes) = (body.bytes, false, &[][..]);
        match &mut self.state {
            State::Routed(going) => {
                if let Some(routed) = going.routed.as_deref_mut() {
                    routed.response_pieces(bytes.pieces().map(|piece| &piece[..]));
                    // Piece by piece nothing can be held back, and a name may be cut.
                    if routed.rewrites_response() && (mode == BodyMode::FullDuplex || end) {
                        bytes = rewritten(routed, &bytes, end);
                        changed = true;
                    }
                    if end {
                        attributes = routed.attributes();
                    }
                }
            }
            State::Passing => {}
            _ => return,
        }
        let metadata = |w: &mut _| answer::attributes(attributes, w);
        let metadata: Metadata<'_> = if attributes.is_empty() { None } else { Some(&metadata) };
        if mode == BodyMode::FullDuplex {
            response::streamed_body(out, Direction::Response, bytes, body.end, metadata);
        } else {
            let change = Change { headers: None, metadata };
            response::whole_body(out, Direction::Response, change, changed.then_some(&bytes));
        }
        if end {
            self.complete();
        }
    }

    fn response_trailers(&mut self, out: &mut Out) {
        if let State::Routed(going) = &mut self.state {
            if let Some(routed) = going.routed.as_deref_mut().filter(|r| r.rewrites_response()) {
                // What waited for the rest of a name that never came.
                let rest = rewritten(routed, &Rope::default(), true);
                if !rest.is_empty() && self.modes.response == BodyMode::FullDuplex {
                    response::streamed_body(out, Direction::Response, rest, false, None);
                }
            }
            let attributes = going.routed.as_deref_mut().map(Routed::attributes).unwrap_or_default();
            let metadata = |w: &mut _| answer::attributes(attributes, w);
            let metadata: Metadata<'_> = if attributes.is_empty() { None } else { Some(&metadata) };
            response::trailers(out, Direction::Response, metadata);
            self.complete();
        } else if matches!(self.state, State::Passing) {
            response::trailers(out, Direction::Response, None);
        }
    }

    /// The response is over.
    fn complete(&mut self) {
        if let State::Routed(going) = &mut self.state
            && let Some(routed) = going.routed.take()
        {
            routed.finish(Termination::Natural, None);
        }
    }

    /// Refuses a request that is not decided.
    fn refuse(&mut self, refusal: Refusal, out: &mut Out) {
        let reading = match std::mem::replace(&mut self.state, State::Over) {
            State::Reading(arriving) => arriving.reading,
            State::Waiting(waiting) => waiting.arriving.reading,
            _ => return,
        };
        answer::refused(out, &self.shared.options, &reading.refuse(refusal));
        out.end(Status::OK);
    }

    /// Whether the proxy still waits to hear where the request goes.
    fn undecided(&self) -> bool {
        matches!(self.state, State::Fresh | State::Reading(_) | State::Waiting(_))
    }
}

impl Exchange {
    fn handle(&mut self, message: Message, out: &mut Out) {
        self.contained(out, |exchange, out| {
            let request = ProcessingRequest::read(message).map_err(malformed)?;
            exchange.event(request, out)
        });
    }

    /// Does something that must not take the process with it.
    fn contained(&mut self, out: &mut Out, act: impl FnOnce(&mut Self, &mut Out) -> Result<(), Status>) {
        let undecided = self.undecided();
        // What was begun when a panic struck is dropped, and with it all that is held for the request.
        match catch_unwind(AssertUnwindSafe(|| act(self, out))) {
            Ok(Ok(())) => {}
            Ok(Err(status)) => {
                self.state = State::Over;
                out.end(status);
            }
            Err(_) => {
                tracing::error!("a request could not be handled, which is a fault of this program: please report it");
                self.state = State::Over;
                let _ = out.take();
                if undecided {
                    answer::refusal(out, &Refusal::new(ErrorCode::Internal, "the request could not be handled"), None);
                    out.end(Status::OK);
                } else {
                    out.end(Status::new(Code::Internal, "the request could not be handled"));
                }
            }
        }
    }

    /// Counts the stream as ended, once it is.
    fn count(&mut self, status: Option<&Status>) {
        if let Some(status) = status
            && let Some(counted) = self.counted.take()
        {
            counted.closed(status.code as u32);
        }
    }
}

impl Call for Exchange {
    fn message(&mut self, message: Message, out: &mut Out) {
        if !out.is_ended() {
            self.handle(message, out);
            self.count(out.status());
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut Out) {
        if matches!(self.state, State::Waiting(_)) && !out.is_ended() {
            self.contained(out, |exchange, out| {
                exchange.waited(cx, out);
                Ok(())
            });
            self.count(out.status());
        }
    }

    fn half_closed(&mut self, out: &mut Out) {
        // A proxy that is not sent response bodies leaves after the response's headers: that is all there was to see.
        if self.modes.response == BodyMode::None && matches!(&self.state, State::Routed(going) if going.answered) {
            self.complete();
        }
        self.state = State::Over;
        out.end(Status::OK);
        self.count(out.status());
    }

    fn ended(&mut self, status: &Status, out: &mut Out) {
        if status.code == Code::ResourceExhausted {
            self.shared.too_large(&status.message);
        }
        if status.code == Code::Unavailable && matches!(self.state, State::Reading(_) | State::Waiting(_)) {
            let message = "this endpoint picker is shutting down";
            let refusal = Refusal::new(ErrorCode::ServiceUnavailable, message).because(DropReason::ShuttingDown);
            self.refuse(refusal, out);
        }
        self.count(Some(out.status().unwrap_or(status)));
        let state = std::mem::replace(&mut self.state, State::Over);
        if let State::Routed(mut going) = state
            && let Some(routed) = going.routed.take()
        {
            let how =
                if status.code == Code::Unavailable { Termination::Shutdown } else { Termination::ClientDisconnect };
            routed.finish(how, (how == Termination::Shutdown).then(|| status.message.to_string()));
        }
    }
}

fn malformed(error: pointsman_grpc::WireError) -> Status {
    Status::new(Code::Internal, format!("grpc: failed to unmarshal the received message: {error}"))
}

/// A piece of a response, its model's name being that which the client asked for.
fn rewritten(routed: &mut Routed, bytes: &Rope, end: bool) -> Rope {
    let mut rope = Rope::default();
    for piece in bytes.pieces() {
        routed.rewrite_response(piece.clone(), false, &mut |piece| rope.push(piece));
    }
    if end {
        routed.rewrite_response(Bytes::new(), true, &mut |piece| rope.push(piece));
    }
    rope
}

/// `ip:port` without its port, as upstream cuts it.
fn strip_port(entry: &mut String) {
    if let Some((address, _)) = entry.rsplit_once(':')
        && (!address.contains(':') || address.ends_with(']'))
    {
        *entry = address.to_owned();
    }
}
