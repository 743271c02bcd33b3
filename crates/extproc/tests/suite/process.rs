//! One process of a recording: a pool with the recorded endpoints and engine pages, and the exchanges that are open in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use pointsman_extproc::{Compat, Exchange, ExtProcOptions, Shared};
use pointsman_grpc::{Call, Out};
use pointsman_router::Pool;
use serde_json::{Value, json};

use crate::{messages, recordings};

/// One process.
pub(crate) struct Process {
    pub(crate) pool: Arc<Pool>,
    shared: Arc<Shared>,
    open: BTreeMap<String, (Exchange, Out)>,
}

/// What an exchange came to.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// In order, with the number of messages that had been sent by then.
    pub(crate) received: Vec<(usize, Value)>,
    /// gRPC code and message, when the server ended the stream.
    pub(crate) end: Option<(u8, String)>,
}

impl Process {
    /// `None`: the configuration needs plugins that are not there yet.
    pub(crate) fn start(folder: &str, setup: &Value, compat: &[Compat]) -> Option<Self> {
        let pool = recordings::pool(folder, setup)?;
        let flag = |name: &str| setup["flags"].as_array().into_iter().flatten().any(|f| f == name);
        let options = ExtProcOptions {
            emit_endpoint_scores: flag("--emit-endpoint-scores"),
            subset_filter: !flag("--disable-endpoint-subset-filter"),
            compat: compat.iter().copied().collect(),
            ..ExtProcOptions::default()
        };
        Some(Self::over(pool, options))
    }

    /// The default configuration with these options.
    pub(crate) fn with(setup: &Value, options: ExtProcOptions) -> Self {
        let process = Self::start("wire", setup, &[]).expect("the default configuration");
        Self::over(Arc::clone(&process.pool), options)
    }

    fn over(pool: Arc<Pool>, options: ExtProcOptions) -> Self {
        Self { shared: Shared::new(Arc::clone(&pool), options), pool, open: BTreeMap::new() }
    }

    /// Lets every engine export a page, and reads it as production does.
    pub(crate) fn engines(&self, engines: &Value) {
        recordings::engines(&self.pool, engines);
    }

    /// An exchange of nobody yet.
    pub(crate) fn new_exchange(&self) -> Exchange {
        Exchange::new(Arc::clone(&self.shared))
    }

    /// Request bytes that are held.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.shared.held_bytes()
    }

    /// Runs an exchange; it stays open under its request id unless the client or the server ends it.
    pub(crate) fn exchange(&mut self, id: &str, steps: &[Value]) -> Answered {
        let mut exchange = self.new_exchange();
        let (mut out, mut answered) = (Out::default(), Answered::default());
        let mut sent = 0;
        for step in steps {
            if let Some(message) = step.get("send") {
                sent += 1;
                let encoded = messages::encode(message);
                if encoded.len() > ExtProcOptions::default().max_message_bytes {
                    let size = encoded.len();
                    answered.end = Some((8, format!("grpc: received message larger than max ({size} vs. 4194304)")));
                    return answered;
                }
                exchange.message(encoded, &mut out);
            } else if step["client"] == "closes its side" {
                exchange.half_closed(&mut out);
                let received = messages::decode(&out.take());
                answered.received.extend(received.into_iter().map(|m| (sent, m)));
                return answered;
            } else if step["client"] == "cancels the stream" {
                return answered;
            }
            let received = messages::decode(&out.take());
            answered.received.extend(received.into_iter().map(|m| (sent, m)));
            if let Some(status) = out.status() {
                answered.end = Some((status.code as u8, status.message.to_string()));
                return answered;
            }
        }
        self.open.insert(id.to_owned(), (exchange, out));
        answered
    }

    /// Goes on with an open exchange.
    pub(crate) fn send(&mut self, id: &str, message: &Value) {
        let (exchange, out) = self.open.get_mut(id).expect("it is open");
        exchange.message(messages::encode(message), out);
        let _ = out.take();
    }

    /// The response comes and ends, and the client closes its side.
    pub(crate) fn complete(&mut self, id: &str) {
        let json = json!([[":status", "200"], ["content-type", "application/json"]]);
        self.send(id, &json!({"type": "response_headers", "headers": json, "end_of_stream": false}));
        self.send(id, &json!({"type": "response_body", "body": "{}", "end_of_stream": true}));
        let (mut exchange, mut out) = self.open.remove(id).expect("it is open");
        exchange.half_closed(&mut out);
    }

    /// The client leaves.
    pub(crate) fn cancel(&mut self, id: &str) {
        self.open.remove(id);
    }

    /// Completes whatever is open.
    pub(crate) fn complete_all(&mut self) {
        let ids: Vec<String> = self.open.keys().cloned().collect();
        ids.iter().for_each(|id| self.complete(id));
    }

    /// Drops whatever is open.
    pub(crate) fn cancel_all(&mut self) {
        self.open.clear();
    }

    /// The metrics page.
    pub(crate) fn page(&self) -> String {
        self.pool.metrics.render(&self.pool.fleet.snapshot(), self.pool.clock.now(), false)
    }
}
