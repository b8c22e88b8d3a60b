//! What a process writes into its rows, whichever backend has them.

use std::time::{SystemTime, UNIX_EPOCH};

use super::failed_requests::FailedRequests;
use super::retention::{TenantRetentions, millis};

/// Responses in one chain. Far more than any model's context holds; bounds the work of one query.
pub const MAX_CHAIN_LENGTH: usize = 10_000;

/// What this process writes into its rows; times in milliseconds.
pub struct RowPolicy {
    /// The name under which this process owns rows.
    pub instance: String,
    /// How long a lease lasts without renewal.
    pub lease: i64,
    /// How long a response is kept after its last use.
    pub retention: TenantRetentions,
    /// The same of conversations.
    pub conversations: TenantRetentions,
    /// How long an idempotency key is kept.
    pub key_ttl: i64,
    /// How long the log of a response is kept after its end.
    pub event_ttl: i64,
    /// Which rows of failed requests are kept.
    pub failed_requests: FailedRequests,
}

/// The time in Unix milliseconds.
pub fn now() -> i64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}
