//! A run that its client may come back for: its idempotency key, and what those who wait for it are told of its end.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::EngineParts;
use crate::live_runs::{LiveRun, RunEnding};
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_store::{IdempotencyKey, KeyUse, Lease};

/// What comes of a key: `None`, the run has it; else what it has led to before.
pub(crate) type KeyAnswer = Result<Option<KeyUse>, ApiError>;

/// A run whose row is written before the model is asked, with its key, its first events, or both.
pub(crate) enum Logged {
    /// These are to be written.
    Wanted {
        /// Its idempotency key.
        key: Option<IdempotencyKey>,
        /// Where to tell what comes of the key.
        answer: Option<oneshot::Sender<KeyAnswer>>,
    },
    /// They were written.
    Begun(Arc<LiveRun>),
}

impl Logged {
    /// A run that nobody waits for to begin.
    pub(crate) fn without_key() -> Self {
        Self::Wanted { key: None, answer: None }
    }

    /// Deletes what was written of a run that came to nothing, so that its key is free. Returns whether its owner had not
    /// deleted it before.
    pub(super) async fn withdraw(&self, parts: &EngineParts, id: &Id, error: &ApiError) -> bool {
        let withdrawn = parts.store.withdraw(Lease::first(id.clone())).await;
        let was_there = matches!(withdrawn, Ok(true));
        self.ended(match withdrawn {
            Ok(_) => RunEnding::Refused(Box::new(error.clone())),
            Err(error) => {
                tracing::warn!(%error, "deleting the row of a refused response failed; it will be a failed one");
                RunEnding::NotStored
            }
        });
        was_there
    }

    /// Tells those who wait for the run.
    pub(super) fn ended(&self, ending: RunEnding) {
        if let Self::Begun(live) = self {
            live.ended(ending);
        }
    }
}
