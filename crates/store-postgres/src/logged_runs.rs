//! Idempotency keys and the log of events, as the store offers them.

use std::sync::Arc;

use async_trait::async_trait;

use super::transaction::{Access, transact};
use super::{PostgresStore, event_log, idempotency};
use antwort_protocol::id::Id;
use antwort_store::begin_keyed::begin_keyed;
use antwort_store::operation::{Write, WriteOutcome};
use antwort_store::{
    EventLog, IdempotencyKeys, KeyUse, Lease, LogEnd, LogPage, LogState, LoggedEvents, LoggedRun, Owner,
    ResponseRecord, StoreError,
};

#[async_trait]
impl IdempotencyKeys for PostgresStore {
    async fn key_use(&self, owner: &Owner, key: &str) -> Result<Option<KeyUse>, StoreError> {
        transact!(self.pool, Access::Statement, session => {
            match self.owners.find(session, owner).await? {
                Some(owner) => idempotency::find(session, owner, key).await,
                None => Ok(None),
            }
        })
    }

    async fn begin_logged(&self, run: LoggedRun) -> Result<Option<KeyUse>, StoreError> {
        let begin = || self.writer.write(Write::BeginLogged(Box::new(run.clone())));
        begin_keyed(self, &run.record.owner, run.key.as_ref(), begin).await
    }

    async fn withdraw(&self, lease: Lease) -> Result<bool, StoreError> {
        let outcome = self.writer.write(Write::Withdraw(lease)).await?;
        outcome.unless_superseded().map(|()| outcome == WriteOutcome::Changed)
    }
}

#[async_trait]
impl EventLog for PostgresStore {
    async fn log_events(&self, lease: &Lease, events: LoggedEvents) -> Result<(), StoreError> {
        self.writer.write(Write::Log(lease.clone(), events)).await?.unless_superseded()
    }

    async fn finish_logged(&self, record: ResponseRecord, end: LogEnd) -> Result<(), StoreError> {
        self.writer.write(Write::FinishLogged(Box::new((record, end)))).await?.unless_superseded()
    }

    async fn logged_events(
        &self,
        owner: &Owner,
        id: &Id,
        from: u64,
        max_bytes: u64,
    ) -> Result<Option<LogPage>, StoreError> {
        transact!(self.pool, Access::Statement, session => {
            match self.owners.find(session, owner).await? {
                Some(owner) => event_log::page(session, &self.policy, (owner, id), from, max_bytes).await,
                None => Ok(None),
            }
        })
    }

    async fn log_state(&self, owner: &Owner, id: &Id) -> Result<Option<LogState>, StoreError> {
        transact!(self.pool, Access::Statement, session => {
            match self.owners.find(session, owner).await? {
                Some(owner) => event_log::state(session, &self.policy, owner, id).await,
                None => Ok(None),
            }
        })
    }

    async fn run_state(&self, owner: &Owner, id: &Id) -> Result<Option<Arc<[u8]>>, StoreError> {
        transact!(self.pool, Access::Statement, session => {
            match self.owners.find(session, owner).await? {
                Some(owner) => event_log::run_state(session, owner, id).await,
                None => Ok(None),
            }
        })
    }
}
