//! Inflating a copy of a gzipped response.

use super::{MAX_INFLATED, UsageError};
use flate2::write::MultiGzDecoder;
use std::io::{self, Write};

/// Inflates gzip chunk by chunk, up to [`MAX_INFLATED`] bytes.
#[derive(Debug)]
pub(super) struct Inflate {
    decoder: MultiGzDecoder<Plain>,
    total: usize,
}

impl Default for Inflate {
    fn default() -> Self {
        Self { decoder: MultiGzDecoder::new(Plain(Vec::new())), total: 0 }
    }
}

/// What came out of the decoder and was not yet taken.
#[derive(Debug)]
struct Plain(Vec<u8>);

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Compressed bytes given to the decoder at a time, so that what comes out at a time is bounded too (deflate can expand a
/// thousandfold).
const STEP: usize = 1024;

impl Inflate {
    pub(super) fn push(&mut self, chunk: &[u8], mut plain: impl FnMut(&[u8])) -> Result<(), UsageError> {
        for step in chunk.chunks(STEP) {
            let written = self.decoder.write_all(step).and_then(|()| self.decoder.flush());
            let mut out = std::mem::take(&mut self.decoder.get_mut().0);
            self.total += out.len();
            if self.total > MAX_INFLATED {
                return Err(UsageError::TooLarge);
            }
            plain(&out);
            out.clear();
            self.decoder.get_mut().0 = out;
            written.map_err(|_| UsageError::Gzip)?;
        }
        Ok(())
    }
}
