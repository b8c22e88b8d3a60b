//! Idempotency keys and the log of events, as the store offers them.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;

use super::reader::ReadKind;
use super::{SqliteStore, event_log, idempotency};
use antwort_protocol::id::Id;
use antwort_store::begin_keyed::begin_keyed;
use antwort_store::operation::{Write, WriteOutcome};
use antwort_store::{
    EventLog, IdempotencyKeys, KeyUse, Lease, LogEnd, LogPage, LogState, LoggedEvents, LoggedRun, Owner,
    ResponseRecord, StoreError,
};

#[async_trait]
impl IdempotencyKeys for SqliteStore {
    async fn key_use(&self, owner: &Owner, key: &str) -> Result<Option<KeyUse>, StoreError> {
        let key = key.to_owned();
        let find = move |connection: &Connection, owner: &Owner| idempotency::find(connection, owner, &key);
        self.read(ReadKind::Point, owner, find).await
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
impl EventLog for SqliteStore {
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
        let (id, policy) = (id.clone(), Arc::clone(&self.policy));
        let read = move |connection: &Connection, owner: &Owner| {
            event_log::page(connection, &policy, (owner, &id), from, max_bytes)
        };
        self.read(ReadKind::Long, owner, read).await
    }

    async fn log_state(&self, owner: &Owner, id: &Id) -> Result<Option<LogState>, StoreError> {
        let (id, policy) = (id.clone(), Arc::clone(&self.policy));
        let read =
            move |connection: &Connection, owner: &Owner| event_log::state(connection, &policy, owner, &id);
        self.read(ReadKind::Point, owner, read).await
    }

    async fn run_state(&self, owner: &Owner, id: &Id) -> Result<Option<Arc<[u8]>>, StoreError> {
        let id = id.clone();
        let read = move |connection: &Connection, owner: &Owner| event_log::run_state(connection, owner, &id);
        self.read(ReadKind::Point, owner, read).await
    }
}
