//! A request body in the making: its bytes are reserved before they are read, and have to come at a minimum rate.
//!
//! A body that says its length reserves that. One that does not may be small; if it is not, it gives back what it has
//! and reserves the most that a body may be, so that no two bodies wait for each other with half of what they need.
//! Small bodies have a budget of their own: large ones never stand in front of them.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::admission::{Admission, Permit, Requester};
use crate::protocol::error::ApiError;

/// A body of at most so much is small.
const MAX_SMALL_BODY: usize = 64 << 10;
/// Bytes a second, beyond the time that a body may pause.
const MIN_RATE: u64 = 16 << 10;

/// How a body is read.
pub(super) struct BodyReader<'a> {
    /// Where its bytes are reserved.
    pub admission: &'a Admission,
    /// For whom.
    pub requester: &'a Requester,
    /// Its most bytes.
    pub limit: usize,
    /// How long it may pause.
    pub idle_timeout: Duration,
}

/// Why a body could not be read.
pub(super) enum BodyError {
    /// It breaks off, or is none.
    Broken(axum::Error),
    /// It is longer than the limit.
    TooLong,
    /// Anything else.
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
        // Pages that nothing was written to cost nothing.
        let mut bytes = Vec::with_capacity(length.unwrap_or(0));
        let mut is_enough = length.is_some();
        let mut pace = MinRate::new(self.idle_timeout);
        while let Some(frame) = pace.keep(body.frame()).await? {
            let Ok(data) = frame.map_err(BodyError::Broken)?.into_data() else { continue };
            let total = bytes.len() + data.len();
            if total > self.limit {
                return Err(BodyError::TooLong);
            }
            if total > MAX_SMALL_BODY && !is_enough {
                drop(reserved);
                reserved = self.reserve(self.limit.max(MAX_SMALL_BODY + 1)).await?;
                is_enough = true;
                // At once: a vector that grows takes twice as much as was reserved, and its copy besides.
                bytes.reserve_exact(self.limit.saturating_sub(bytes.len()));
                pace.resume(total);
            }
            pace.count(data.len());
            bytes.extend_from_slice(&data);
        }
        reserved.shrink_to(bytes.len() as u64);
        Ok((bytes.into(), reserved))
    }

    async fn reserve(&self, bytes: usize) -> Result<Permit, BodyError> {
        let Admission { small_bodies, large_bodies, .. } = self.admission;
        let budget = if bytes <= MAX_SMALL_BODY { small_bodies } else { large_bodies };
        budget.acquire(self.requester, bytes as u64).await.map_err(BodyError::Refused)
    }
}

/// How fast a body comes.
struct MinRate {
    idle_timeout: Duration,
    since: Instant,
    received: u64,
}

impl MinRate {
    fn new(idle_timeout: Duration) -> Self {
        Self { idle_timeout, since: Instant::now(), received: 0 }
    }

    /// Waits for the next piece for as long as the pause and the rate allow.
    async fn keep<T>(&self, next: impl Future<Output = T>) -> Result<T, BodyError> {
        let by_rate = self.since + self.idle_timeout + Duration::from_secs(self.received / MIN_RATE);
        let deadline = by_rate.min(Instant::now() + self.idle_timeout);
        tokio::time::timeout_at(deadline, next).await.map_err(|_| BodyError::Refused(too_slow()))
    }

    fn count(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// Counts anew: it was the gateway that was waited for.
    fn resume(&mut self, received: usize) {
        let age = Duration::from_secs(received as u64 / MIN_RATE);
        self.since = Instant::now().checked_sub(age).unwrap_or(self.since);
    }
}

fn too_slow() -> ApiError {
    ApiError::new(
        408,
        "timeout",
        "request_timeout",
        format!(
            "The request body did not arrive in time: it may pause for server.body_idle_timeout, and beyond that needs \
             {MIN_RATE} bytes a second."
        ),
    )
}
