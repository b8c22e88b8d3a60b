//! Idempotency keys and the log of events, as the store offers them.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;

use super::operation::{Write, WriteOutcome};
use super::reader::ReadKind;
use super::{SqliteStore, event_log, idempotency};
use crate::protocol::id::Id;
use crate::store::{
    EventLog, IdempotencyKeys, KeyedResponse, Lease, LogEnd, LogPage, LogState, LoggedEvents, LoggedRun,
    Owner, ResponseRecord, StoreError,
};

#[async_trait]
impl IdempotencyKeys for SqliteStore {
    async fn keyed_response(&self, owner: &Owner, key: &str) -> Result<Option<KeyedResponse>, StoreError> {
        let key = key.to_owned();
        let find = move |connection: &Connection, owner: &Owner| idempotency::find(connection, owner, &key);
        self.read(ReadKind::Point, owner, find).await
    }

    async fn begin_logged(&self, run: LoggedRun) -> Result<Option<KeyedResponse>, StoreError> {
        loop {
            match self.writer.write(Write::BeginLogged(Box::new(run.clone()))).await? {
                WriteOutcome::Superseded => return Err(StoreError::Superseded),
                WriteOutcome::KeyTaken => {
                    // The other response may have been deleted or withdrawn since: then the key is free.
                    let Some(key) = &run.key else { return Ok(None) };
                    let taken = self.keyed_response(&run.record.owner, &key.key).await?;
                    if taken.is_some() {
                        return Ok(taken);
                    }
                }
                _ => return Ok(None),
            }
        }
    }

    async fn withdraw(&self, lease: Lease) -> Result<(), StoreError> {
        match self.writer.write(Write::Withdraw(lease)).await? {
            WriteOutcome::Superseded => Err(StoreError::Superseded),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl EventLog for SqliteStore {
    async fn log_events(&self, lease: &Lease, events: LoggedEvents) -> Result<(), StoreError> {
        match self.writer.write(Write::Log(lease.clone(), events)).await? {
            WriteOutcome::Superseded => Err(StoreError::Superseded),
            _ => Ok(()),
        }
    }

    async fn finish_logged(&self, record: ResponseRecord, end: LogEnd) -> Result<(), StoreError> {
        match self.writer.write(Write::FinishLogged(Box::new((record, end)))).await? {
            WriteOutcome::Superseded => Err(StoreError::Superseded),
            _ => Ok(()),
        }
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
}
