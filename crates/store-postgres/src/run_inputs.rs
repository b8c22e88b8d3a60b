//! Runs that wait for answers, as the store offers them.

use std::time::Duration;

use async_trait::async_trait;

use super::transaction::{Access, transact};
use super::{PostgresStore, inputs};
use antwort_protocol::id::Id;
use antwort_store::operation::Write;
use antwort_store::{
    AskedQuestions, GivenAnswer, InputAnswer, InputOutcome, Lease, Owner, RunInputs, StoreError,
};

#[async_trait]
impl RunInputs for PostgresStore {
    async fn wait_for_inputs(&self, lease: Lease) -> Result<Duration, StoreError> {
        self.writer.write(Write::WaitForInputs(lease)).await?.waits()
    }

    async fn ask_questions(&self, asked: AskedQuestions) -> Result<(), StoreError> {
        self.writer.write(Write::AskQuestions(Box::new(asked))).await?.unless_superseded()
    }

    async fn given_answers(&self, owner: &Owner, response: &Id) -> Result<Vec<GivenAnswer>, StoreError> {
        transact!(self.pool, Access::Statement, session => inputs::given(session, owner, response).await)
    }

    async fn answer_input(&self, answer: InputAnswer) -> Result<InputOutcome, StoreError> {
        // Not among the writes of this process, which lock its own runs alone.
        transact!(self.pool, Access::Write, session => inputs::answer(session, &answer).await)?.answered()
    }
}
