//! Runs that wait for answers, as the store offers them.

use std::time::Duration;

use async_trait::async_trait;

use super::transaction::{Access, transact};
use super::{PostgresStore, inputs};
use crate::store::operation::Write;
use crate::store::{InputAnswer, InputOutcome, Lease, RunInputs, StoreError};

#[async_trait]
impl RunInputs for PostgresStore {
    async fn wait_for_inputs(&self, lease: Lease) -> Result<Duration, StoreError> {
        self.writer.write(Write::WaitForInputs(lease)).await?.waits()
    }

    async fn answer_input(&self, answer: InputAnswer) -> Result<InputOutcome, StoreError> {
        // Not among the writes of this process, which lock its own runs alone.
        transact!(self.pool, Access::Write, session => inputs::answer(session, &answer).await)?.answered()
    }
}
