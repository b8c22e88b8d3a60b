//! Pending calls and the runs that wait for them, as the store offers them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;

use super::reader::ReadKind;
use super::{SqliteStore, async_calls, pending_calls};
use antwort_protocol::id::Id;
use antwort_store::operation::Write;
use antwort_store::{
    AskedQuestions, AsyncCallKey, AsyncOutcome, AsyncResult, AsyncSettlement, CompletedCall, DueTask,
    GivenAnswer, InputAnswer, InputOutcome, Lease, Owner, PendingCalls, StartedCall, StoreError,
};

#[async_trait]
impl PendingCalls for SqliteStore {
    async fn wait_for_inputs(&self, lease: Lease) -> Result<Duration, StoreError> {
        self.writer.write(Write::WaitForInputs(lease)).await?.waits()
    }

    async fn ask_questions(&self, asked: AskedQuestions) -> Result<(), StoreError> {
        self.writer.write(Write::AskQuestions(Box::new(asked))).await?.unless_superseded()
    }

    async fn given_answers(&self, owner: &Owner, response: &Id) -> Result<Vec<GivenAnswer>, StoreError> {
        let (owner, response) = (owner.clone(), response.clone());
        self.writer.run_job(move |connection| pending_calls::given(connection, &owner, &response)).await
    }

    async fn answer_input(&self, answer: InputAnswer) -> Result<InputOutcome, StoreError> {
        self.writer.write(Write::AnswerInput(Box::new(answer))).await?.answered()
    }

    async fn start_async(&self, call: StartedCall) -> Result<(), StoreError> {
        self.writer.write(Write::StartAsync(Box::new(call))).await?.unless_superseded()
    }

    async fn complete_async(&self, result: AsyncResult) -> Result<AsyncOutcome, StoreError> {
        self.writer.write(Write::CompleteAsync(Box::new(result))).await?.async_result()
    }

    async fn completed_calls(&self, limit: usize) -> Result<Vec<CompletedCall>, StoreError> {
        self.writer.run_job(move |connection| async_calls::completed(connection, limit)).await
    }

    async fn async_results(&self, owner: &Owner, responses: &[Id]) -> Result<Vec<CompletedCall>, StoreError> {
        let responses = responses.to_vec();
        let read = move |connection: &_, owner: &_| async_calls::results(connection, owner, &responses);
        self.read(ReadKind::Point, owner, read).await
    }

    async fn async_spec(&self, key: &AsyncCallKey) -> Result<Option<Arc<[u8]>>, StoreError> {
        let (owner, key) = (key.owner.clone(), key.clone());
        let read = move |connection: &_, _: &_| async_calls::spec(connection, &key);
        self.read(ReadKind::Point, &owner, read).await
    }

    async fn due_tasks(&self, limit: usize, lease: Duration) -> Result<Vec<DueTask>, StoreError> {
        self.writer.run_job(move |connection| async_calls::due(connection, limit, lease)).await
    }

    async fn open_tasks(&self, owner: &Owner, response: &Id) -> Result<Vec<Arc<[u8]>>, StoreError> {
        let id = response.clone();
        let read =
            move |connection: &Connection, owner: &Owner| async_calls::open_tasks(connection, owner, &id);
        self.read(ReadKind::Point, owner, read).await
    }

    async fn poll_task(&self, key: AsyncCallKey, after: Option<Duration>) -> Result<(), StoreError> {
        self.writer.write(Write::PollTask(Box::new(key), after)).await?.unless_superseded()
    }

    async fn settle_async(&self, settlement: AsyncSettlement) -> Result<(), StoreError> {
        self.writer.write(Write::SettleAsync(Box::new(settlement))).await?.unless_superseded()
    }
}
