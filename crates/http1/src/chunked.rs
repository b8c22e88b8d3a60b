//! The chunked transfer coding (RFC 9112, section 7.1), decoded in place as bytes come in.

use super::error::InvalidResponse;
use super::limits::MAX_OVERHEAD_BYTES;

/// Decodes one body. Extensions and trailers are skipped.
#[derive(Debug)]
pub(super) struct ChunkedDecoder {
    state: State,
    /// Bytes of extensions and trailers so far.
    overhead: usize,
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The size of a chunk: its first digit, or another one.
    Size,
    MoreSize(u64),
    /// White space behind the size.
    SizeSpace(u64),
    Extension(u64),
    /// The line feed of the line of a size.
    SizeEnd(u64),
    Data(u64),
    /// Carriage return and line feed behind the data.
    DataEnd,
    DataEndLf,
    TrailerStart,
    Trailer,
    TrailerEnd,
    /// The last line feed.
    LastLf,
    Over,
}

/// What one piece of a body came to: the payload is at its front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decoded {
    pub payload: usize,
    /// Bytes that belong to the body; those behind it do not.
    pub(crate) consumed: usize,
}

impl ChunkedDecoder {
    pub(super) fn new() -> Self {
        Self { state: State::Size, overhead: 0 }
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Decodes the next bytes: moves the data of all their chunks to the front.
    pub(super) fn decode(&mut self, bytes: &mut [u8]) -> Result<Decoded, InvalidResponse> {
        let (mut payload, mut consumed) = (0, 0);
        while self.state != State::Over {
            if let State::Data(left) = self.state {
                let here = bytes.len() - consumed;
                let taken = usize::try_from(left).map_or(here, |left| left.min(here));
                bytes.copy_within(consumed..consumed + taken, payload);
                payload += taken;
                consumed += taken;
                let left = left - taken as u64;
                self.state = if left == 0 { State::DataEnd } else { State::Data(left) };
            }
            let Some(&byte) = bytes.get(consumed) else { break };
            self.state = self.step(byte)?;
            consumed += 1;
        }
        Ok(Decoded { payload, consumed })
    }

    /// The state behind a byte that is not data.
    fn step(&mut self, byte: u8) -> Result<State, InvalidResponse> {
        match (self.state, byte) {
            (State::Size, _) => Ok(State::MoreSize(digit(byte)?)),
            (State::MoreSize(size) | State::SizeSpace(size) | State::Extension(size), b'\r') => {
                Ok(State::SizeEnd(size))
            }
            (State::MoreSize(size) | State::SizeSpace(size), b' ' | b'\t') => {
                self.count()?;
                Ok(State::SizeSpace(size))
            }
            (State::MoreSize(size) | State::SizeSpace(size), b';') => Ok(State::Extension(size)),
            (State::MoreSize(size), _) => {
                let size = size.checked_mul(16).and_then(|size| size.checked_add(digit(byte).ok()?));
                size.map(State::MoreSize).ok_or(InvalidResponse::ChunkSize)
            }
            // A line feed alone ends no line: peers that disagree about it can be made to disagree about the body.
            (State::SizeSpace(_), _) | (State::Extension(_), b'\n') => Err(InvalidResponse::ChunkSize),
            (State::Extension(size), _) => {
                self.count()?;
                Ok(State::Extension(size))
            }
            (State::SizeEnd(0), b'\n') => Ok(State::TrailerStart),
            (State::SizeEnd(size), b'\n') => Ok(State::Data(size)),
            (State::SizeEnd(_), _) => Err(InvalidResponse::ChunkSize),
            (State::DataEnd, b'\r') => Ok(State::DataEndLf),
            (State::DataEndLf, b'\n') => Ok(State::Size),
            (State::TrailerStart, b'\r') => Ok(State::LastLf),
            (State::Trailer, b'\r') => Ok(State::TrailerEnd),
            (State::TrailerStart | State::Trailer, _) if byte != b'\n' => {
                self.count()?;
                Ok(State::Trailer)
            }
            (State::TrailerEnd, b'\n') => Ok(State::TrailerStart),
            (State::LastLf, b'\n') => Ok(State::Over),
            _ => Err(InvalidResponse::ChunkEnd),
        }
    }

    fn count(&mut self) -> Result<(), InvalidResponse> {
        self.overhead += 1;
        if self.overhead > MAX_OVERHEAD_BYTES { Err(InvalidResponse::ChunkOverhead) } else { Ok(()) }
    }
}

fn digit(byte: u8) -> Result<u64, InvalidResponse> {
    char::from(byte).to_digit(16).map(u64::from).ok_or(InvalidResponse::ChunkSize)
}
