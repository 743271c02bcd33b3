//! The standard health service, `grpc.health.v1.Health`: `Check`, `List` and `Watch`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use hyper::body::Incoming;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::{Body, Call, Code, DEFAULT_MAX_MESSAGE, Frames, Listed, Message, Out, Status, Stream, WireType, Writer};

/// How often a watched service is looked at.
const WATCH: Duration = Duration::from_millis(250);

/// Whether a service can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Serving {
    /// It can.
    Serving = 1,
    /// It cannot, now.
    NotServing = 2,
    /// There is no such service. `Check` answers with the status NOT_FOUND only where [`Health::status`] says `None`.
    Unknown = 3,
}

/// Who knows.
pub trait Health: Send + Sync + 'static {
    /// The state of a service; `None` when it is not known.
    fn status(&self, service: &str) -> Option<Serving>;

    /// Services that `List` names.
    fn services(&self) -> &[&'static str];
}

/// Answers a health call; `None`: `path` is not of this service.
pub fn answer(
    health: &Arc<dyn Health>,
    path: &str,
    incoming: impl FnOnce() -> Incoming,
    listed: impl FnOnce() -> Listed,
) -> Option<Response<Body>> {
    let method = match path.strip_prefix("/grpc.health.v1.Health/")? {
        "Check" => Method::Check,
        "List" => Method::List,
        "Watch" => Method::Watch(None),
        other => {
            let message = format!("unknown method {other} for service grpc.health.v1.Health");
            return Some(crate::refuse(&Status::new(Code::Unimplemented, message)));
        }
    };
    let call = HealthCall { health: Arc::clone(health), method };
    Some(Stream::response(call, incoming(), Frames::new(DEFAULT_MAX_MESSAGE, true), listed()))
}

enum Method {
    Check,
    List,
    Watch(Option<Watching>),
}

struct Watching {
    service: String,
    last: Option<Serving>,
    beat: Pin<Box<Interval>>,
}

struct HealthCall {
    health: Arc<dyn Health>,
    method: Method,
}

/// `HealthCheckRequest.service`.
fn service(message: Message) -> Option<String> {
    let mut cursor = message.cursor();
    let mut name = Bytes::new();
    while let Some((field, wire)) = cursor.field().ok()? {
        match (field, wire) {
            (1, WireType::Length) => name = cursor.bytes().ok()?,
            _ => cursor.skip(wire).ok()?,
        }
    }
    String::from_utf8(name.to_vec()).ok()
}

/// `HealthCheckResponse`.
fn response(serving: Serving) -> Bytes {
    let mut writer = Writer::with_capacity(8);
    writer.frame(0, |w| w.varint(1, serving as u64));
    writer.finish()
}

impl HealthCall {
    fn list(&self) -> Bytes {
        let mut writer = Writer::default();
        writer.frame(0, |w| {
            for service in self.health.services() {
                let serving = self.health.status(service).unwrap_or(Serving::Unknown);
                // `statuses`, a map from name to response.
                w.message(1, |w| {
                    w.bytes(1, service.as_bytes());
                    w.message(2, |w| w.varint(1, serving as u64));
                });
            }
        });
        writer.finish()
    }
}

impl Watching {
    fn look(&mut self, health: &dyn Health, out: &mut Out) {
        let now = health.status(&self.service).unwrap_or(Serving::Unknown);
        let before = self.last.replace(now);
        if before != Some(now) {
            out.send(response(now));
        }
        if before == Some(Serving::Serving) && now == Serving::NotServing {
            // The process drains, and a watch that stays would keep it.
            out.end(Status::new(Code::Unavailable, "the process is stopping"));
        }
    }
}

impl Call for HealthCall {
    fn message(&mut self, message: Message, out: &mut Out) {
        let Some(service) = service(message) else {
            return out.end(Status::new(Code::InvalidArgument, "not a health request"));
        };
        match &mut self.method {
            Method::Check => match self.health.status(&service) {
                Some(serving) => {
                    out.send(response(serving));
                    out.end(Status::OK);
                }
                None => out.end(Status::new(Code::NotFound, "unknown service")),
            },
            Method::List => {
                out.send(self.list());
                out.end(Status::OK);
            }
            Method::Watch(watching) => {
                let mut beat = interval(WATCH);
                beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
                let watching = watching.insert(Watching { service, last: None, beat: Box::pin(beat) });
                watching.look(&*self.health, out);
            }
        }
    }

    fn half_closed(&mut self, out: &mut Out) {
        match &self.method {
            Method::Watch(Some(_)) => {}
            _ => out.end(Status::new(Code::InvalidArgument, "no request came")),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut Out) {
        if let Method::Watch(Some(watching)) = &mut self.method {
            while !out.is_ended() && watching.beat.as_mut().poll_tick(cx).is_ready() {
                watching.look(&*self.health, out);
            }
        }
    }
}
