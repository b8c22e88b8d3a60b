//! The body of a provider's response, read within the timeouts of the provider.

use std::time::{Duration, Instant};

use async_stream::try_stream;
use bytes::Bytes;
use futures_util::{FutureExt, Stream};
use reqwest::header::CONTENT_TYPE;

use crate::config::ProviderTimeouts;
use crate::net::FailureCause;
use crate::provider::errors::transport_cause;
use crate::provider::{ProviderError, ProviderErrorKind};

/// For the end of a body after its last event, so that the connection can be reused.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(20);

/// A response whose headers have arrived.
pub(super) struct UpstreamBody {
    response: reqwest::Response,
    limits: ProviderTimeouts,
    /// When this attempt was sent, and when the first one was.
    sent: Instant,
    started: Instant,
    begun: bool,
}

impl UpstreamBody {
    pub(super) fn new(
        response: reqwest::Response,
        limits: ProviderTimeouts,
        sent: Instant,
        started: Instant,
    ) -> Self {
        Self { response, limits, sent, started, begun: false }
    }

    /// The `Content-Type`, in lower case.
    pub(super) fn content_type(&self) -> String {
        let value = self.response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_ascii_lowercase()
    }

    /// Waits for the next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ProviderError> {
        let (limit, kind) = if self.begun {
            (self.limits.idle, ProviderErrorKind::IdleTimeout)
        } else {
            (self.limits.first_byte.saturating_sub(self.sent.elapsed()), ProviderErrorKind::FirstByteTimeout)
        };
        let total = self.limits.total.saturating_sub(self.started.elapsed());
        let piece = with_timeouts(limit, kind, total, self.response.chunk())
            .await?
            .map_err(|error| transport_error(&error))?;
        self.begun = true;
        Ok(piece)
    }

    /// The next bytes if they have arrived. Yields once, since the connection's own task reads them from the socket.
    pub(super) async fn try_next(&mut self) -> Option<Result<Option<Bytes>, ProviderError>> {
        tokio::task::yield_now().await;
        self.response.chunk().now_or_never().map(|piece| piece.map_err(|error| transport_error(&error)))
    }

    /// Reads to the end of the body, so that the connection can be reused: servers end a stream a moment after
    /// its last event.
    pub(super) async fn drain(&mut self) {
        let rest = async { while let Ok(Some(_)) = self.response.chunk().await {} };
        let _late = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
    }

    /// The whole body, of at most `limit` bytes.
    pub(super) async fn read_to_end(mut self, limit: usize) -> Result<String, ProviderError> {
        let mut body = Vec::new();
        while let Some(piece) = self.next().await? {
            if body.len() + piece.len() > limit {
                return Err(ProviderError::new(
                    ProviderErrorKind::Malformed,
                    "The model provider's answer is too large.",
                ));
            }
            body.extend_from_slice(&piece);
        }
        Ok(String::from_utf8(body)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// The body as a stream that fails at a timeout.
    pub(super) fn into_stream(mut self) -> impl Stream<Item = Result<Bytes, ProviderError>> {
        try_stream! {
            while let Some(piece) = self.next().await? {
                yield piece;
            }
        }
    }
}

/// Runs work within a timeout and the total one; the error says which of them expired.
pub(super) async fn with_timeouts<T>(
    limit: Duration,
    kind: ProviderErrorKind,
    total: Duration,
    work: impl Future<Output = T>,
) -> Result<T, ProviderError> {
    let (limit, kind) = if total < limit { (total, ProviderErrorKind::TotalTimeout) } else { (limit, kind) };
    tokio::time::timeout(limit, work).await.map_err(|_| {
        let setting = match kind {
            ProviderErrorKind::FirstByteTimeout => "timeouts.first_byte",
            ProviderErrorKind::IdleTimeout => "timeouts.idle",
            _ => "timeouts.total",
        };
        let error = ProviderError::new(kind, "the provider took too long");
        let cause = FailureCause::from_timeout(error.kind_name(), setting, limit);
        ProviderError { cause: Some(Box::new(cause)), ..error }
    })
}

/// A failure of the connection. The library's own text is not passed on, as it may contain the URL.
pub(super) fn transport_error(error: &reqwest::Error) -> ProviderError {
    let kind = match (error.is_connect(), error.is_timeout()) {
        (true, true) => ProviderErrorKind::ConnectTimeout,
        (true, false) => ProviderErrorKind::Connect,
        (false, true) => ProviderErrorKind::FirstByteTimeout,
        (false, false) => ProviderErrorKind::Cut,
    };
    ProviderError { cause: Some(transport_cause(error)), ..ProviderError::new(kind, "the connection failed") }
}
