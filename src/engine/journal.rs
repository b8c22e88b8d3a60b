//! The journal of a run's calls, kept in the store: what the tools' stack writes to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;

use crate::store::{CallOutcome, Store, StoreError, TurnRecord};
use crate::tools::{CallKey, Code, Journal, ToolError, ToolOutput};

/// Journals the calls of one stored run.
pub(super) struct RunJournal {
    store: Arc<dyn Store>,
    /// Turns that are committed: calls of later ones must not be made.
    turns: AtomicU32,
}

impl RunJournal {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, turns: AtomicU32::new(0) }
    }

    /// Commits a turn with the calls that follow from it, all in one write.
    pub(super) async fn commit(&self, turn: TurnRecord) -> Result<(), StoreError> {
        let number = turn.turn;
        self.store.turn(turn).await?;
        self.turns.store(number + 1, Ordering::Release);
        Ok(())
    }
}

#[async_trait]
impl Journal for RunJournal {
    async fn dispatching(&self, key: &CallKey) -> Result<(), ToolError> {
        // The call was written with its turn.
        if key.turn < self.turns.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(ToolError::fatal(Code::StorageError, "the call was not journalled"))
    }

    fn completed(&self, key: &CallKey, outcome: &Result<ToolOutput, ToolError>) {
        let (output, error) = match outcome {
            Ok(output) if output.is_error => (&output.for_model, Some(Code::ToolExecutionFailed.as_str())),
            Ok(output) => (&output.for_model, None),
            Err(error) => (&error.message, Some(error.code.as_str())),
        };
        self.store.call_ended(CallOutcome {
            id: key.response.clone(),
            turn: key.turn,
            index: key.index,
            output: output.clone(),
            error,
        });
    }
}
