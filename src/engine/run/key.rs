//! The idempotency key of a run, and what those who wait for the run are told of its end.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::engine::EngineParts;
use crate::engine::live_runs::{LiveRun, RunEnding};
use crate::protocol::error::ApiError;
use crate::protocol::id::Id;
use crate::store::{IdempotencyKey, KeyedResponse, Lease};

/// What comes of a key: `None`, the run has it; else the response that it has led to before.
pub(in crate::engine) type KeyAnswer = Result<Option<KeyedResponse>, ApiError>;

/// The key of a run.
pub(in crate::engine) enum Keyed {
    /// It is to be written.
    Wanted(IdempotencyKey, oneshot::Sender<KeyAnswer>),
    /// It was written.
    Taken(Arc<LiveRun>),
}

impl Keyed {
    /// Deletes what was written of a run that came to nothing, so that its key is free.
    pub(super) async fn withdraw(&self, parts: &EngineParts, id: &Id, error: &ApiError) {
        let withdrawn = parts.store.withdraw(Lease::first(id.clone())).await;
        self.ended(match withdrawn {
            Ok(()) => RunEnding::Refused(Box::new(error.clone())),
            Err(error) => {
                tracing::warn!(%error, "deleting the row of a refused response failed; it will be a failed one");
                RunEnding::NotStored
            }
        });
    }

    /// Tells those who wait for the run.
    pub(super) fn ended(&self, ending: RunEnding) {
        if let Self::Taken(live) = self {
            live.ended(ending);
        }
    }
}
