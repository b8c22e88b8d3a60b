//! Idempotency keys and the log of events, as the store offers them.

use async_trait::async_trait;
use rusqlite::Connection;

use super::reader::ReadKind;
use super::{SqliteStore, event_log, idempotency};
use crate::protocol::id::Id;
use crate::store::operation::{Write, WriteOutcome};
use crate::store::{
    EventLog, IdempotencyKeys, KeyedResponse, KeyedRun, Lease, LogEnd, LogExtent, LogPage, LoggedEvents,
    Owner, ResponseRecord, StoreError,
};

#[async_trait]
impl IdempotencyKeys for SqliteStore {
    async fn keyed_response(&self, owner: &Owner, key: &str) -> Result<Option<KeyedResponse>, StoreError> {
        let key = key.to_owned();
        let find = move |connection: &Connection, owner: &Owner| idempotency::find(connection, owner, &key);
        self.read(ReadKind::Point, owner, find).await
    }

    async fn begin_keyed(&self, run: KeyedRun) -> Result<Option<KeyedResponse>, StoreError> {
        loop {
            match self.writer.write(Write::BeginKeyed(Box::new(run.clone()))).await? {
                WriteOutcome::Superseded => return Err(StoreError::Superseded),
                WriteOutcome::KeyTaken => {
                    // The other response may have been deleted or withdrawn since: then the key is free.
                    let taken = self.keyed_response(&run.record.owner, &run.key.key).await?;
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
        let id = id.clone();
        let read = move |connection: &Connection, owner: &Owner| {
            event_log::page(connection, owner, &id, from, max_bytes)
        };
        self.read(ReadKind::Long, owner, read).await
    }

    async fn log_extent(&self, owner: &Owner, id: &Id) -> Result<Option<LogExtent>, StoreError> {
        let id = id.clone();
        self.read(ReadKind::Point, owner, move |connection, owner| event_log::extent(connection, owner, &id))
            .await
    }
}
