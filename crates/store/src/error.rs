//! Why a store operation failed, and what its client is told.

use std::time::Duration;

use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::id::{Id, is_conversation_id};
use antwort_protocol::parse;

/// `Retry-After` of a full store.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(10);

/// `Retry-After` of a database that cannot be reached.
const AWAY_RETRY_AFTER: Duration = Duration::from_secs(2);

/// Why a store operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database failed, is full, or is gone.
    #[error("the database failed: {0}")]
    Database(String),
    /// The database cannot be reached now.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The schema is that of an earlier or a later version.
    #[error("{0}")]
    Schema(String),
    /// There is no room for more data.
    #[error("there is no room: {0}")]
    Full(String),
    /// The path leads to another file than the open one, or to none.
    #[error("{0} was removed or replaced while it was open: stop the gateway, and put the file back")]
    Replaced(String),
    /// A response of the chain was deleted or has expired.
    #[error("response {missing} of the chain no longer exists")]
    BrokenChain {
        /// The missing response.
        missing: Id,
    },
    /// A row cannot be read: it is damaged, or of a later version.
    #[error("a stored row cannot be read: {0}")]
    Corrupt(String),
    /// A read exceeded its time limit, waiting included.
    #[error("a read timed out")]
    Timeout,
    /// The data is larger than the limit of the read.
    #[error("{bytes} bytes exceed the read limit")]
    TooLarge {
        /// The size, or how far it was measured.
        bytes: u64,
    },
    /// The chain has more responses than one query follows.
    #[error("the chain of responses is too long")]
    ChainTooLong,
    /// A cursor names an element that the list does not have.
    #[error("the list has no element {cursor}")]
    UnknownCursor {
        /// The parameter with the cursor: `after` or `before`.
        param: &'static str,
        /// The cursor.
        cursor: String,
    },
    /// The row has ended or is owned by another process; it was not changed.
    #[error("the row was not changed: it has ended or belongs to another process")]
    Superseded,
    /// The process of the run was not heard of for so long that its conversation was given to another run. Nothing was
    /// written.
    #[error("another run has taken the conversation, as the lease of this one was over")]
    ConversationLost,
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::BrokenChain { missing } => Self::invalid(
                "previous_response_not_found",
                "previous_response_id",
                match is_conversation_id(missing.as_str()) {
                    true => format!(
                        "The response cannot be continued: conversation '{missing}', in which its chain began, was deleted or has expired."
                    ),
                    false => format!(
                        "The conversation cannot be continued: response '{missing}' of its chain was deleted or has expired."
                    ),
                },
            ),
            StoreError::ChainTooLong => Self::invalid(
                "previous_response_not_found",
                "previous_response_id",
                "The conversation cannot be continued: its chain of responses is too long. Send the items as input instead.",
            ),
            StoreError::UnknownCursor { param, cursor } => Self::invalid(
                "invalid_value",
                param,
                format!(
                    "Invalid value for '{param}': the list has no element '{}'.",
                    parse::truncate_for_display(&cursor)
                ),
            ),
            StoreError::Timeout => {
                tracing::warn!(%error, "store: a read timed out");
                Self::new(ErrorKind::Unavailable, "The response store did not answer in time. Try again shortly.").with_code("storage_timeout")
                .with_retry_after(Duration::from_secs(1))
            }
            StoreError::Unavailable(_) => {
                tracing::warn!(%error, "store: an operation failed");
                Self::new(ErrorKind::Unavailable, "The response store is not available. Try again shortly.").with_code("storage_unavailable")
                .with_retry_after(AWAY_RETRY_AFTER)
            }
            StoreError::TooLarge { bytes } => Self::invalid(
                "context_length_exceeded",
                "input",
                format!("The stored items that the request refers to have at least {bytes} bytes, more than the limit."),
            ),
            // Logged once, when it was found out.
            StoreError::Full(_) => Self::new(ErrorKind::Unavailable, "The gateway has no room to store a response. Delete responses, send 'store': false, or try again later.").with_code("storage_full")
            .with_retry_after(FULL_RETRY_AFTER),
            StoreError::Database(_)
            | StoreError::Replaced(_)
            | StoreError::Schema(_)
            | StoreError::Corrupt(_)
            | StoreError::Superseded
            | StoreError::ConversationLost => {
                tracing::error!(%error, "store: an operation failed");
                Self::new(ErrorKind::Internal, "The response store failed. Try again.").with_code("storage_error")
            }
        }
    }
}
