//! Reading of request bodies: bytes are reserved in a budget before they are read, and must arrive at a minimum rate.
//!
//! A body with a length reserves that. One without is taken for small; if it is not, it releases its reservation and
//! reserves the maximum size of a body, so that no two bodies deadlock waiting for the rest of what they need. Small bodies
//! have a budget of their own, so that they never queue behind large ones.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::time::Instant;

use antwort_identity::Requester;
use antwort_limits::{Admission, Permit};
use antwort_protocol::error::{ApiError, ErrorKind};

/// Largest body that counts as small.
const MAX_SMALL_BODY: usize = 64 << 10;
/// Minimum rate in bytes per second, beyond the idle timeout.
const MIN_RATE: u64 = 16 << 10;

/// Reads one body within its limits.
pub(super) struct BodyReader<'a> {
    /// The budgets in which bytes are reserved.
    pub admission: &'a Admission,
    /// The caller that the reservation is counted for.
    pub requester: &'a Requester,
    /// Maximum size of the body in bytes.
    pub limit: usize,
    /// Longest pause between two chunks.
    pub idle_timeout: Duration,
    /// How many times its size a large body counts, for what is made of it while its reservation is held.
    pub copies: u64,
}

/// Why a body could not be read.
pub(super) enum BodyError {
    /// The connection or the decompression failed.
    Broken(axum::Error),
    /// It is longer than the limit.
    TooLong,
    /// No budget in time, or too slow.
    Refused(ApiError),
}

impl BodyReader<'_> {
    /// The whole body, and its reservation.
    pub(super) async fn read(&self, mut body: Body) -> Result<(Bytes, Permit), BodyError> {
        let size = body.size_hint();
        if size.lower() > self.limit as u64 {
            return Err(BodyError::TooLong);
        }
        let length = size.exact().and_then(|length| usize::try_from(length).ok());
        let mut reserved = self.reserve(length.unwrap_or(MAX_SMALL_BODY)).await?;
        // Reserving the claimed length is cheap: pages that are not written to take no memory.
        let mut bytes = Vec::with_capacity(length.unwrap_or(0));
        let mut is_enough = length.is_some();
        let mut rate = MinRate::new(self.idle_timeout);
        while let Some(frame) = rate.enforce(body.frame()).await? {
            let Ok(data) = frame.map_err(BodyError::Broken)?.into_data() else { continue };
            let total = bytes.len() + data.len();
            if total > self.limit {
                return Err(BodyError::TooLong);
            }
            if total > MAX_SMALL_BODY && !is_enough {
                drop(reserved);
                reserved = self.reserve(self.limit.max(MAX_SMALL_BODY + 1)).await?;
                is_enough = true;
                // In one step: a vector that grows by doubling holds twice the reserved bytes, and its old copy.
                bytes.reserve_exact(self.limit.saturating_sub(bytes.len()));
                rate.restart(total);
            }
            rate.count(data.len());
            bytes.extend_from_slice(&data);
        }
        reserved.shrink_to(self.weight(bytes.len()));
        Ok((bytes.into(), reserved))
    }

    async fn reserve(&self, bytes: usize) -> Result<Permit, BodyError> {
        let Admission { small_bodies, large_bodies, .. } = self.admission;
        let budget = if bytes <= MAX_SMALL_BODY { small_bodies } else { large_bodies };
        budget.acquire(self.requester, self.weight(bytes)).await.map_err(BodyError::Refused)
    }

    /// What is reserved for so many bytes; of what is more than the caller's share, the share.
    fn weight(&self, bytes: usize) -> u64 {
        let copies = if bytes <= MAX_SMALL_BODY { 1 } else { self.copies };
        (bytes as u64).saturating_mul(copies)
    }
}

/// The minimum-rate check of one body.
struct MinRate {
    idle_timeout: Duration,
    since: Instant,
    received: u64,
}

impl MinRate {
    fn new(idle_timeout: Duration) -> Self {
        Self { idle_timeout, since: Instant::now(), received: 0 }
    }

    /// Waits for the next chunk as long as the idle timeout and the minimum rate allow.
    async fn enforce<T>(&self, next: impl Future<Output = T>) -> Result<T, BodyError> {
        let by_rate = self.since + self.idle_timeout + Duration::from_secs(self.received / MIN_RATE);
        let deadline = by_rate.min(Instant::now() + self.idle_timeout);
        tokio::time::timeout_at(deadline, next).await.map_err(|_| BodyError::Refused(too_slow()))
    }

    fn count(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// Restarts the clock after the body waited for the gateway rather than for the client.
    fn restart(&mut self, received: usize) {
        let age = Duration::from_secs(received as u64 / MIN_RATE);
        self.since = Instant::now().checked_sub(age).unwrap_or(self.since);
    }
}

fn too_slow() -> ApiError {
    ApiError::new(
        ErrorKind::RequestTimeout,
        format!(
            "The request body did not arrive in time: it may pause for server.body_idle_timeout, and otherwise must arrive \
             at {MIN_RATE} bytes per second or more."
        ),
    )
}
