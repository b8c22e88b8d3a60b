//! Pending calls and the runs that wait for them, as the store offers them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::transaction::{Access, transact};
use super::{PostgresStore, async_calls, pending_calls};
use antwort_protocol::id::Id;
use antwort_store::operation::Write;
use antwort_store::{
    AskedQuestions, AsyncCallKey, AsyncOutcome, AsyncResult, AsyncSettlement, CompletedCall, DueTask,
    GivenAnswer, InputAnswer, InputOutcome, Lease, Owner, PendingCalls, StartedCall, StoreError,
};

#[async_trait]
impl PendingCalls for PostgresStore {
    async fn wait_for_inputs(&self, lease: Lease) -> Result<Duration, StoreError> {
        self.writer.write(Write::WaitForInputs(lease)).await?.waits()
    }

    async fn ask_questions(&self, asked: AskedQuestions) -> Result<(), StoreError> {
        self.writer.write(Write::AskQuestions(Box::new(asked))).await?.unless_superseded()
    }

    async fn given_answers(&self, owner: &Owner, response: &Id) -> Result<Vec<GivenAnswer>, StoreError> {
        transact!(self.pool, Access::Statement, session => pending_calls::given(session, owner, response).await)
    }

    async fn answer_input(&self, answer: InputAnswer) -> Result<InputOutcome, StoreError> {
        // Not among the writes of this process, which lock its own runs alone.
        transact!(self.pool, Access::Write, session => pending_calls::answer(session, &answer).await)?
            .answered()
    }

    async fn start_async(&self, call: StartedCall) -> Result<(), StoreError> {
        self.writer.write(Write::StartAsync(Box::new(call))).await?.unless_superseded()
    }

    async fn complete_async(&self, result: AsyncResult) -> Result<AsyncOutcome, StoreError> {
        transact!(self.pool, Access::Write, session => async_calls::complete(session, &result).await)?
            .async_result()
    }

    async fn completed_calls(&self, limit: usize) -> Result<Vec<CompletedCall>, StoreError> {
        transact!(self.pool, Access::Statement, session => async_calls::completed(session, limit).await)
    }

    async fn async_results(&self, owner: &Owner, responses: &[Id]) -> Result<Vec<CompletedCall>, StoreError> {
        transact!(self.pool, Access::Statement, session => async_calls::results(session, owner, responses).await)
    }

    async fn async_spec(&self, key: &AsyncCallKey) -> Result<Option<Arc<[u8]>>, StoreError> {
        transact!(self.pool, Access::Statement, session => async_calls::spec(session, key).await)
    }

    async fn due_tasks(&self, limit: usize, lease: Duration) -> Result<Vec<DueTask>, StoreError> {
        transact!(self.pool, Access::Write, session => async_calls::due(session, limit, lease).await)
    }

    async fn open_tasks(&self, owner: &Owner, response: &Id) -> Result<Vec<Arc<[u8]>>, StoreError> {
        transact!(self.pool, Access::Statement, session => {
            match self.owners.find(session, owner).await? {
                Some(owner) => async_calls::open_tasks(session, owner, response).await,
                None => Ok(Vec::new()),
            }
        })
    }

    async fn poll_task(&self, key: AsyncCallKey, after: Option<Duration>) -> Result<(), StoreError> {
        transact!(self.pool, Access::Write, session => async_calls::poll(session, &key, after).await)?
            .unless_superseded()
    }

    async fn settle_async(&self, settlement: AsyncSettlement) -> Result<(), StoreError> {
        transact!(self.pool, Access::Write, session => async_calls::settle(session, &settlement).await)?
            .unless_superseded()
    }
}
