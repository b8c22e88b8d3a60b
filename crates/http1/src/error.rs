//! Why a request got no response, or not all of one.

use std::error::Error;
use std::io;

/// A failure of a request. No text contains the URL.
#[derive(Debug, thiserror::Error)]
pub enum Http1Error {
    /// No connection; nothing was sent.
    #[error("no connection")]
    Connect(#[source] Box<dyn Error + Send + Sync>),
    /// No connection in time; nothing was sent.
    #[error("no connection in time")]
    ConnectTimeout,
    /// The server closed the connection before the first byte of a response, or broke it off.
    #[error("the connection was closed before the response")]
    Unanswered(#[source] Cause),
    /// The same of a reused connection: the server may have closed it while it was idle.
    #[error("the reused connection was closed before the response")]
    Stale(#[source] Cause),
    /// The connection ended within the response.
    #[error("the connection was cut")]
    Cut(#[source] Cause),
    /// The response is not valid HTTP/1.1, or beyond a limit.
    #[error("invalid response")]
    Invalid(#[source] InvalidResponse),
}

/// What happened to a connection.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    #[error("connection closed by the server")]
    Closed,
    #[error("{0}")]
    Io(io::Error),
}

/// What is wrong with a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResponse {
    #[error("response head: {0}")]
    Head(httparse::Error),
    #[error("response head: larger than {} bytes", super::limits::MAX_HEAD_BYTES)]
    HeadTooLarge,
    #[error("response head: invalid status")]
    Status,
    #[error("response head: invalid content-length")]
    ContentLength,
    #[error("response head: unsupported transfer-encoding")]
    TransferEncoding,
    #[error("more than {} informational responses", super::limits::MAX_INFORMATIONAL)]
    Informational,
    #[error("invalid chunk size")]
    ChunkSize,
    #[error("invalid end of a chunk")]
    ChunkEnd,
    #[error("chunk extensions and trailers of more than {} bytes", super::limits::MAX_OVERHEAD_BYTES)]
    ChunkOverhead,
}

impl Http1Error {
    /// Whether the connection could not be established.
    pub fn is_connect(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::ConnectTimeout)
    }

    /// Whether the connection could not be established in time.
    pub fn is_connect_timeout(&self) -> bool {
        match self {
            Self::ConnectTimeout => true,
            Self::Connect(error) => is_timeout(&**error),
            _ => false,
        }
    }

    /// Whether a reused connection ended as one does that the server had closed already: a new one may do.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale(_))
    }

    /// The error of a reused connection.
    pub(super) fn on_reused(self) -> Self {
        match self {
            Self::Unanswered(cause) => Self::Stale(cause),
            other => other,
        }
    }
}

/// The system's own timeout, or the library's for one of several addresses.
fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    let own = error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut);
    own || error.source().is_some_and(is_timeout)
}

impl From<InvalidResponse> for Http1Error {
    fn from(error: InvalidResponse) -> Self {
        Self::Invalid(error)
    }
}
