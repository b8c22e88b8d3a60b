//! Where the body of a response ends (RFC 9112, section 6.3), decoded in place as bytes come in.

use super::chunked::{ChunkedDecoder, Decoded};
use super::error::InvalidResponse;

/// A body that is being read.
#[derive(Debug)]
pub(super) enum Body {
    /// So many bytes are left.
    Length(u64),
    Chunked(ChunkedDecoder),
    /// It ends with the connection.
    UntilClose,
}

impl Body {
    /// Decodes the next bytes: moves the payload to their front.
    pub(super) fn decode(&mut self, bytes: &mut [u8]) -> Result<Decoded, InvalidResponse> {
        match self {
            Self::Length(left) => {
                let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= taken as u64;
                Ok(Decoded { payload: taken, consumed: taken })
            }
            Self::Chunked(decoder) => decoder.decode(bytes),
            Self::UntilClose => Ok(Decoded { payload: bytes.len(), consumed: bytes.len() }),
        }
    }

    /// Whether all of it was read.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(decoder) => decoder.is_over(),
            Self::UntilClose => false,
        }
    }
}
