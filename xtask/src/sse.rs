//! Server-sent events, read as they arrive.

/// No event of an engine comes near this many bytes; beyond it the stream is not an event stream.
const MAX_EVENT: usize = 1 << 20;

/// Splits a stream into the payloads of its `data:` lines.
#[derive(Default)]
pub(crate) struct Events {
    rest: Vec<u8>,
}

impl Events {
    /// Takes the next bytes and returns the payloads that are complete with them. CRLF and LF both end a line.
    ///
    /// `None` when a line grows beyond every bound, which means that this is no event stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<Vec<String>> {
        self.rest.extend_from_slice(bytes);
        let mut payloads = Vec::new();
        let mut start = 0;
        while let Some(length) = self.rest[start..].iter().position(|&byte| byte == b'\n') {
            let line = self.rest[start..start + length].trim_ascii_end();
            if let Some(payload) = line.strip_prefix(b"data:") {
                payloads.push(String::from_utf8_lossy(payload.trim_ascii_start()).into_owned());
            }
            start += length + 1;
        }
        self.rest.drain(..start);
        (self.rest.len() <= MAX_EVENT).then_some(payloads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_whole_however_the_bytes_are_cut() {
        let stream = b"event: x\r\ndata: {\"a\":1}\r\n\r\ndata:{\"b\":2}\n\n: comment\ndata: [DONE]\n\n";
        for cut in 1..stream.len() {
            let mut events = Events::default();
            let mut seen = Vec::new();
            for piece in stream.chunks(cut) {
                seen.extend(events.push(piece).expect("short lines"));
            }
            assert_eq!(seen, ["{\"a\":1}", "{\"b\":2}", "[DONE]"], "cut at {cut}");
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut events = Events::default();
        assert!(events.push(&vec![b'x'; MAX_EVENT + 1]).is_none());
    }
}
