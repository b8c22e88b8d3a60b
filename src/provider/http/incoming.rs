//! The body of an answer, piece by piece, within the time limits of its provider.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{FutureExt, Stream, stream};
use reqwest::header::CONTENT_TYPE;

use super::failure;
use crate::config::ProviderTimeouts;
use crate::provider::{Cause, Failure, ProviderError};

/// How long the end of an answer is waited for once the server has said that nothing more will come.
const GRACE: Duration = Duration::from_millis(20);

/// An answer whose headers have come.
pub(super) struct Incoming {
    response: reqwest::Response,
    limits: ProviderTimeouts,
    /// When the request was sent, and when the first try of it was.
    sent: Instant,
    started: Instant,
    begun: bool,
}

impl Incoming {
    pub fn new(
        response: reqwest::Response,
        limits: ProviderTimeouts,
        sent: Instant,
        started: Instant,
    ) -> Self {
        Self { response, limits, sent, started, begun: false }
    }

    /// What the server says that the body is, in lower case.
    pub fn content_type(&self) -> String {
        let value = self.response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_ascii_lowercase()
    }

    /// Waits for the next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ProviderError> {
        let (limit, kind) = if self.begun {
            (self.limits.idle, Failure::IdleTimeout)
        } else {
            (self.limits.first_byte.saturating_sub(self.sent.elapsed()), Failure::FirstByteTimeout)
        };
        let total = self.limits.total.saturating_sub(self.started.elapsed());
        let piece =
            within(limit, kind, total, self.response.chunk()).await?.map_err(|error| failure(&error))?;
        self.begun = true;
        Ok(piece)
    }

    /// The next piece if it has arrived.
    ///
    /// The connection's own task brings pieces one by one, and only when it gets a turn.
    pub async fn ready(&mut self) -> Option<Result<Option<Bytes>, ProviderError>> {
        tokio::task::yield_now().await;
        self.response.chunk().now_or_never().map(|piece| piece.map_err(|error| failure(&error)))
    }

    /// Lets the connection come to the end of the answer, so that the next call can use it: servers end
    /// their answer a moment after they have said that it is over.
    pub async fn settle(&mut self) {
        let rest = async { while let Ok(Some(_)) = self.response.chunk().await {} };
        let _late = tokio::time::timeout(GRACE, rest).await;
    }

    /// The whole body, of bounded size.
    pub async fn read_whole(mut self, limit: usize) -> Result<String, ProviderError> {
        let mut body = Vec::new();
        while let Some(piece) = self.next().await? {
            if body.len() + piece.len() > limit {
                return Err(ProviderError::new(
                    Failure::Malformed,
                    "The model provider's answer is too large.",
                ));
            }
            body.extend_from_slice(&piece);
        }
        Ok(String::from_utf8(body)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// The body as a stream that fails when its time is up.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, ProviderError>> {
        stream::try_unfold(self, |mut incoming| async {
            Ok(incoming.next().await?.map(|piece| (piece, incoming)))
        })
    }
}

/// Runs work within two limits; which of them passes first decides the failure.
pub(super) async fn within<T>(
    limit: Duration,
    kind: Failure,
    total: Duration,
    work: impl Future<Output = T>,
) -> Result<T, ProviderError> {
    let (limit, kind) = if total < limit { (total, Failure::TotalTimeout) } else { (limit, kind) };
    tokio::time::timeout(limit, work).await.map_err(|_| {
        let setting = match kind {
            Failure::FirstByteTimeout => "timeouts.first_byte",
            Failure::IdleTimeout => "timeouts.idle",
            _ => "timeouts.total",
        };
        let cause = Some(Cause::limit(setting, limit));
        ProviderError { cause, ..ProviderError::new(kind, "the provider took too long") }
    })
}
