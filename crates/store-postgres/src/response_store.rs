//! [`ResponseStore`] in PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;

use super::transaction::{Access, transact};
use super::{PostgresStore, item_states, items, lineage, list, read};
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_store::operation::{Write, WriteOutcome};
use antwort_store::{
    ItemWithState, Lineage, Owner, Page, PageRequest, ReadLimit, ResponseFilter, ResponseStore, StateKey,
    StoreError,
};

#[async_trait]
impl ResponseStore for PostgresStore {
    async fn response(
        &self,
        owner: &Owner,
        id: &str,
        max_bytes: u64,
    ) -> Result<Option<Arc<str>>, StoreError> {
        transact!(self.pool, Access::Statement, session => read::response(session, owner, id, max_bytes).await)
    }

    async fn delete(&self, owner: &Owner, id: &str) -> Result<bool, StoreError> {
        let outcome = self.writer.write(Write::Delete(owner.clone(), id.to_owned())).await?;
        Ok(outcome == WriteOutcome::Changed)
    }

    async fn lineage(
        &self,
        owner: &Owner,
        id: &str,
        limit: ReadLimit,
    ) -> Result<Option<Lineage>, StoreError> {
        let retention = self.policy.conversations.of(&owner.tenant);
        transact!(self.pool, Access::Snapshot, session => {
            match self.owners.find(session, owner).await? {
                Some(owner) => lineage::lineage(session, owner, id, limit, retention).await,
                None => Ok(None),
            }
        })
    }

    async fn items(
        &self,
        owner: &Owner,
        ids: &[Id],
        limit: ReadLimit,
    ) -> Result<Vec<Option<Item>>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        transact!(self.pool, Access::Snapshot, session => {
            match self.owners.find(session, owner).await? {
                Some(owner) => items::items(session, owner, ids, limit).await,
                None => Ok(vec![None; ids.len()]),
            }
        })
    }

    async fn provider_states(
        &self,
        owner: &Owner,
        keys: &[StateKey],
        limit: ReadLimit,
    ) -> Result<Vec<Vec<ItemWithState>>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        transact!(self.pool, Access::Snapshot, session => {
            match self.owners.find(session, owner).await? {
                Some(owner) => item_states::provider_states(session, owner, keys, limit).await,
                None => Ok(vec![Vec::new(); keys.len()]),
            }
        })
    }

    async fn input_items(
        &self,
        owner: &Owner,
        id: &str,
        page: &PageRequest,
    ) -> Result<Option<Page>, StoreError> {
        transact!(self.pool, Access::Snapshot, session => {
            match self.owners.find(session, owner).await? {
                Some(owner) => list::input_items(session, owner, id, page).await,
                None => Ok(None),
            }
        })
    }

    async fn responses(
        &self,
        owner: &Owner,
        page: &PageRequest,
        filter: &ResponseFilter,
    ) -> Result<Page, StoreError> {
        transact!(self.pool, Access::Snapshot, session => {
            let owner = self.owners.find(session, owner).await?;
            list::responses(session, owner, page, filter).await
        })
    }

    async fn traces(&self, owner: &Owner, ids: &[Id]) -> Result<Vec<Option<Arc<str>>>, StoreError> {
        transact!(self.pool, Access::Snapshot, session => {
            match self.owners.find(session, owner).await? {
                Some(owner) => read::traces(session, owner, ids).await,
                None => Ok(vec![None; ids.len()]),
            }
        })
    }
}
