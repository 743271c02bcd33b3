//! One request as Envoy takes it through a picker, every answer checked: its kind, its turn, and the bytes that return.

use std::time::{Duration, Instant};

use anyhow::Error;

use super::script::Script;
use super::stream::{Connection, Stream};
use crate::extproc::{Answer, CommonResponse, DESTINATION, Kind, NAMESPACE, PIECE, ProcessingResponse, Struct};

/// Why a request did not end well.
#[derive(Debug)]
pub(super) enum Fault {
    /// The picker refused it, or its stream or connection broke.
    Failed(String),
    /// The picker answered, but not what it must.
    Wrong(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

fn wrong<T>(text: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Wrong(text.into()))
}

/// What one request took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// From the last byte of the body to the decision.
    pub(super) decision: Duration,
    /// From opening the stream to its end.
    pub(super) total: Duration,
}

/// A request on its way. The steps follow each other; a stream may be given up between any two of them.
pub(super) struct Exchange<'s> {
    script: &'s Script,
    stream: Stream,
    opened: Instant,
    body_sent: Instant,
    decided: Instant,
}

/// Takes one request from its first message to its end.
pub(super) async fn whole(connection: &Connection, script: &Script, number: u64) -> Result<Timing, Fault> {
    let mut exchange = Exchange::open(connection, script, number).await?;
    exchange.send_body(script.messages.len()).await?;
    exchange.decision().await?;
    exchange.body_back().await?;
    exchange.send_response()?;
    exchange.response_back().await?;
    exchange.close().await
}

impl<'s> Exchange<'s> {
    /// Opens the stream and sends the headers.
    pub(super) async fn open(connection: &Connection, script: &'s Script, number: u64) -> Result<Self, Fault> {
        let opened = Instant::now();
        let mut stream = connection.stream().await?;
        stream.send(script.opening(number))?;
        Ok(Self { script, stream, opened, body_sent: opened, decided: opened })
    }

    /// Sends the first `count` messages of the body; the last of all is empty and says that nothing follows.
    pub(super) async fn send_body(&mut self, count: usize) -> Result<(), Fault> {
        let messages = &self.script.messages;
        for message in &messages[..count.min(messages.len() - 1)] {
            self.stream.send_all(message.clone()).await?;
        }
        if count == messages.len() {
            self.body_sent = Instant::now();
            self.stream.send(messages[count - 1].clone())?;
        }
        Ok(())
    }

    /// Waits for the decision, which must be the first answer.
    pub(super) async fn decision(&mut self) -> Result<(), Fault> {
        let answer = self.next().await?;
        self.decided = Instant::now();
        let Some(Answer::RequestHeaders(headers)) = answer.response else {
            return wrong(format!("the first answer is {answer:?}"));
        };
        let header = headers.response.as_ref().and_then(|common| common.set_value(DESTINATION));
        let Some(header) = header.filter(|value| value.starts_with(b"127.0.")) else {
            return wrong("the decision names no engine");
        };
        match answer.dynamic_metadata.as_ref().and_then(destination) {
            Some(metadata) if metadata.as_bytes() == header => Ok(()),
            other => wrong(format!("header {header:?} and metadata {other:?} differ")),
        }
    }

    /// Takes the body back and compares it.
    pub(super) async fn body_back(&mut self) -> Result<(), Fault> {
        let mut have = 0;
        loop {
            let answer = self.next().await?;
            let Some(Answer::RequestBody(body)) = answer.response else {
                return wrong(format!("within the request's body: {answer:?}"));
            };
            if compare(body.response, &self.script.body, &mut have)? {
                return Ok(());
            }
        }
    }

    /// Sends the whole response: it is there at once, as a JSON answer is.
    pub(super) fn send_response(&mut self) -> Result<(), Fault> {
        self.stream.send(self.script.reply.opening.clone())?;
        self.send_response_body()
    }

    /// Sends the response's body alone.
    pub(super) fn send_response_body(&mut self) -> Result<(), Fault> {
        for message in &self.script.reply.messages {
            self.stream.send(message.clone())?;
        }
        Ok(())
    }

    /// Takes the response back and compares it.
    pub(super) async fn response_back(&mut self) -> Result<(), Fault> {
        self.response_headers_back().await?;
        let mut have = 0;
        loop {
            let answer = self.next().await?;
            let Some(Answer::ResponseBody(body)) = answer.response else {
                return wrong(format!("within the response's body: {answer:?}"));
            };
            if compare(body.response, &self.script.reply.body, &mut have)? {
                return Ok(());
            }
        }
    }

    /// Sends the response's headers and waits for their answer.
    pub(super) async fn response_headers(&mut self) -> Result<(), Fault> {
        self.stream.send(self.script.reply.opening.clone())?;
        self.response_headers_back().await
    }

    async fn response_headers_back(&mut self) -> Result<(), Fault> {
        let answer = self.next().await?;
        match answer.response {
            Some(Answer::ResponseHeaders(_)) => Ok(()),
            other => wrong(format!("instead of the response's headers: {other:?}")),
        }
    }

    /// Ends the stream.
    pub(super) async fn close(self) -> Result<Timing, Fault> {
        self.stream.close().await?;
        Ok(Timing { decision: self.decided.saturating_duration_since(self.body_sent), total: self.opened.elapsed() })
    }

    /// The stream, for whoever carries it on.
    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    async fn next(&mut self) -> Result<ProcessingResponse, Fault> {
        match self.stream.answers.next().await? {
            Some(ProcessingResponse { response: Some(Answer::Immediate(refusal)), .. }) => {
                let status = refusal.status.map_or(0, |status| status.code);
                Err(Fault::Failed(format!("refused with {status}: {}", String::from_utf8_lossy(&refusal.body))))
            }
            Some(answer) => Ok(answer),
            None => Err(Fault::Failed("the stream ended without an answer".into())),
        }
    }
}

/// Compares a returned piece with what was sent; `true` when it was the last and everything is there.
pub(super) fn compare(response: Option<CommonResponse>, sent: &[u8], have: &mut usize) -> Result<bool, Fault> {
    let Some(piece) = response.and_then(CommonResponse::into_piece) else {
        return wrong("an answer to a body without a piece of it");
    };
    if piece.body.len() > PIECE {
        return wrong(format!("a piece of {} bytes", piece.body.len()));
    }
    let end = *have + piece.body.len();
    if sent.get(*have..end) != Some(&piece.body[..]) {
        return wrong(format!("other bytes than were sent, after {have} of {}", sent.len()));
    }
    *have = end;
    match (piece.end_of_stream, end == sent.len()) {
        (true, false) => wrong(format!("the end after {end} of {} bytes", sent.len())),
        (ended, _) => Ok(ended),
    }
}

/// The chosen endpoint in the metadata.
fn destination(metadata: &Struct) -> Option<&str> {
    let Some(Kind::Object(namespace)) = &metadata.fields.get(NAMESPACE)?.kind else { return None };
    match &namespace.fields.get(DESTINATION)?.kind {
        Some(Kind::Text(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::script::Reply;
    use bytes::Bytes;

    fn piece(bytes: &'static [u8], last: bool) -> Option<CommonResponse> {
        Some(CommonResponse::piece(Bytes::from_static(bytes), last))
    }

    #[test]
    fn a_body_that_returns_whole_in_any_cut_is_right() {
        for cut in 0..=5 {
            let mut have = 0;
            let (head, tail) = b"abcde".split_at(cut);
            assert!(matches!(compare(piece(head, false), b"abcde", &mut have), Ok(false)));
            assert!(matches!(compare(piece(tail, true), b"abcde", &mut have), Ok(true)));
        }
    }

    #[test]
    fn other_bytes_too_many_too_few_and_too_large_pieces_are_wrong() {
        let is_wrong =
            |response, have: usize| matches!(compare(response, b"abcde", &mut { have }), Err(Fault::Wrong(_)));
        assert!(is_wrong(piece(b"abx", false), 0));
        assert!(is_wrong(piece(b"def", false), 3));
        assert!(is_wrong(piece(b"abcd", true), 0));
        assert!(is_wrong(Some(CommonResponse::default()), 0));
        let long: &'static [u8] = &[0; PIECE + 1];
        assert!(matches!(compare(piece(long, false), long, &mut 0), Err(Fault::Wrong(_))));
    }

    #[tokio::test]
    async fn whole_requests_of_any_size_go_through_the_echo_unharmed() {
        let address = crate::process::free_port().unwrap();
        tokio::spawn(crate::bench::echo::serve(address, 8000));
        let mut connection = Connection::open(address).await;
        for _ in 0..200 {
            if connection.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            connection = Connection::open(address).await;
        }
        let connection = connection.expect("the echo listens");
        for (size, events) in [(512, 0), (65_536, 3), (220_000, 0), (1_000_000, 700)] {
            let reply = if events == 0 { Reply::json() } else { Reply::events(events) };
            let script = Script::chat(size, 1, reply);
            let timing = whole(&connection, &script, 1).await.unwrap_or_else(|fault| panic!("{size}: {fault:?}"));
            assert!(timing.total >= timing.decision);
        }
        // What a picker returns is compared with what was sent: another body would be noticed.
        let mut other = Script::chat(512, 1, Reply::json());
        other.body = Bytes::from_static(b"other");
        assert!(matches!(whole(&connection, &other, 1).await, Err(Fault::Wrong(_))));
    }
}
