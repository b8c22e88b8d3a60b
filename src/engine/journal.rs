//! The journal of a run's tool calls in the store, written to by the journal layer of the tools' stack.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;

use crate::store::{CallOutcome, Lease, Store, StoreError, TurnRecord};
use crate::tools::{CallKey, Journal, ToolError, ToolErrorCode, ToolOutput};

pub(super) struct RunJournal {
    store: Arc<dyn Store>,
    lease: Lease,
    /// Turns that are committed. Calls of later ones must not be made yet.
    turns: AtomicU32,
}

impl RunJournal {
    pub(super) fn new(store: Arc<dyn Store>, lease: Lease) -> Self {
        Self { store, lease, turns: AtomicU32::new(0) }
    }

    /// So many turns were committed before.
    pub(super) fn resume(&self, turns: u32) {
        self.turns.store(turns, Ordering::Release);
    }

    /// Commits a turn together with the calls that it makes, in one write.
    pub(super) async fn commit(&self, turn: TurnRecord) -> Result<(), StoreError> {
        let number = turn.turn;
        self.store.commit_turn(turn).await?;
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
        Err(ToolError::fatal(ToolErrorCode::StorageError, "the call was not journalled"))
    }

    fn completed(&self, key: &CallKey, outcome: &Result<ToolOutput, ToolError>) {
        // After a crash the journal is also what clients are shown.
        let shown = |output: &ToolOutput| output.for_client.as_ref().unwrap_or(&output.for_model).clone();
        let (output, error) = match outcome {
            Ok(output) if output.is_error => {
                (shown(output), Some(ToolErrorCode::ToolExecutionFailed.as_str()))
            }
            Ok(output) => (shown(output), None),
            Err(error) => (error.message.clone(), Some(error.code.as_str())),
        };
        self.store.record_tool_result(CallOutcome {
            lease: self.lease.clone(),
            turn: key.turn,
            index: key.index,
            output,
            error,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Owner;
    use crate::protocol::id::Id;
    use crate::protocol::response::ResponseStatus;
    use crate::store::ResponseRecord;
    use crate::store::sqlite::{Location, SqliteOptions, SqliteStore};

    #[tokio::test]
    async fn calls_of_a_turn_that_is_not_committed_are_not_made() {
        let store = SqliteStore::open(SqliteOptions::new(Location::Memory, "test")).unwrap();
        let id = Id::from("resp_1");
        let journal = RunJournal::new(Arc::new(store), Lease::first(id.clone()));
        let may_call = async |turn| {
            let key = CallKey { response: id.clone(), turn, index: 0 };
            journal.dispatching(&key).await.map_err(|error| error.code)
        };
        assert_eq!(may_call(0).await, Err(ToolErrorCode::StorageError));
        for turn in 0..2 {
            let begin = (turn == 0).then(|| ResponseRecord {
                lease: Lease::first(id.clone()),
                owner: Owner { tenant: "acme".into(), principal: "ann".into() },
                status: ResponseStatus::InProgress,
                model: "m".to_owned(),
                created_at: 0,
                previous: None,
                conversation: None,
                body: "{}".into(),
                items: Vec::new(),
                outbox: Vec::new(),
            });
            let record = TurnRecord {
                lease: Lease::first(id.clone()),
                begin,
                items: vec![],
                first_position: 0,
                turn,
                calls: vec![],
                state: None,
            };
            journal.commit(record).await.unwrap();
            assert_eq!(may_call(turn).await, Ok(()));
            assert_eq!(may_call(turn + 1).await, Err(ToolErrorCode::StorageError));
        }
    }
}
