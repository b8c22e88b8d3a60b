//! [`ConversationStore`] in PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;

use super::transaction::{Access, transact};
use super::{PostgresStore, conversation_context, conversation_expiry, conversation_items, conversations};
use antwort_store::conversation_write::ConversationWrite;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::now;
use antwort_store::{
    AddedItems, ConversationContext, ConversationItem, ConversationLock, ConversationRecord,
    ConversationStore, Owner, Page, PageRequest, ReadLimit, StoreError, StoredConversation,
};

/// Reads of a conversation that this owner has: `read_of!(store, access, owner, id, (session, row) => read)`; `None` without
/// it.
macro_rules! read_of {
    ($store:expr, $access:expr, $owner:expr, $id:expr, ($session:ident, $row:ident) => $read:expr) => {{
        let oldest = $store.oldest_conversation($owner);
        transact!($store.pool, $access, $session => {
            let Some(key) = $store.owners.find($session, $owner).await? else { return Ok(None) };
            let Some($row) = conversations::find($session, key, $id, oldest).await? else { return Ok(None) };
            $read.await.map(Some)
        })
    }};
}

impl PostgresStore {
    /// The last use of this owner's conversations that have expired.
    fn oldest_conversation(&self, owner: &Owner) -> i64 {
        self.policy.conversations.of(&owner.tenant).oldest_use(now())
    }

    /// A change of an owner that may have stored nothing.
    async fn change(&self, owner: &Owner, write: ConversationWrite) -> Result<WriteOutcome, StoreError> {
        transact!(self.pool, Access::Write, session => {
            match self.owners.find(session, owner).await? {
                Some(owner) => conversations::apply(session, &self.policy, owner, &write).await,
                None => Ok(WriteOutcome::Absent),
            }
        })
    }
}

#[async_trait]
impl ConversationStore for PostgresStore {
    async fn create_conversation(&self, record: ConversationRecord) -> Result<AddedItems, StoreError> {
        let owner = self.owners.key(&self.pool, &record.owner).await?;
        let write = ConversationWrite::Create(record);
        let created = transact!(self.pool, Access::Write, session => {
            conversations::apply(session, &self.policy, owner, &write).await
        });
        Ok(added(created?))
    }

    async fn conversation(&self, owner: &Owner, id: &str) -> Result<Option<StoredConversation>, StoreError> {
        let oldest = self.oldest_conversation(owner);
        transact!(self.pool, Access::Statement, session => {
            match self.owners.find(session, owner).await? {
                Some(owner) => conversations::conversation(session, owner, id, oldest).await,
                None => Ok(None),
            }
        })
    }

    async fn update_conversation(
        &self,
        owner: &Owner,
        id: &str,
        metadata: Arc<str>,
    ) -> Result<bool, StoreError> {
        let write = ConversationWrite::Update { owner: owner.clone(), id: id.to_owned(), metadata };
        Ok(self.change(owner, write).await? == WriteOutcome::Changed)
    }

    async fn delete_conversation(&self, owner: &Owner, id: &str) -> Result<bool, StoreError> {
        let write = ConversationWrite::Delete { owner: owner.clone(), id: id.to_owned() };
        let WriteOutcome::Deleting(key) = self.change(owner, write).await? else { return Ok(false) };
        // Should the caller stop waiting, maintenance goes on.
        while !transact!(self.pool, Access::Write, session => {
            conversation_expiry::delete_part(session, key).await
        })? {}
        Ok(true)
    }

    async fn add_conversation_items(
        &self,
        owner: &Owner,
        id: &str,
        items: Vec<ConversationItem>,
    ) -> Result<AddedItems, StoreError> {
        let write = ConversationWrite::AddItems { owner: owner.clone(), id: id.to_owned(), items };
        Ok(added(self.change(owner, write).await?))
    }

    async fn conversation_item(
        &self,
        owner: &Owner,
        id: &str,
        item: &str,
        max_bytes: u64,
    ) -> Result<Option<Arc<str>>, StoreError> {
        let found: Result<Option<Option<Arc<str>>>, StoreError> = read_of!(self, Access::Statement, owner, id, (session, row) => {
            conversation_items::item(session, row.key, item, max_bytes)
        });
        Ok(found?.flatten())
    }

    async fn delete_conversation_item(
        &self,
        owner: &Owner,
        id: &str,
        item: &str,
    ) -> Result<bool, StoreError> {
        let (id, item) = (id.to_owned(), item.to_owned());
        let write = ConversationWrite::DeleteItem { owner: owner.clone(), id, item };
        Ok(self.change(owner, write).await? == WriteOutcome::Changed)
    }

    async fn conversation_items(
        &self,
        owner: &Owner,
        id: &str,
        page: &PageRequest,
    ) -> Result<Option<Page>, StoreError> {
        read_of!(self, Access::Snapshot, owner, id, (session, row) => {
            conversation_items::list(session, row.key, page)
        })
    }

    async fn conversation_context(
        &self,
        owner: &Owner,
        id: &str,
        limit: ReadLimit,
    ) -> Result<Option<ConversationContext>, StoreError> {
        read_of!(self, Access::Snapshot, owner, id, (session, row) => {
            conversation_context::context(session, row, limit)
        })
    }

    async fn lock_conversation(
        &self,
        owner: &Owner,
        id: &str,
    ) -> Result<Option<ConversationLock>, StoreError> {
        let owner = self.owners.key(&self.pool, owner).await?;
        transact!(self.pool, Access::Statement, session => {
            let (instance, grace) = (self.policy.instance.as_str(), self.takeover_grace.millis());
            self.conversation_locks.lock(session, (instance, self.policy.lease, grace), owner, id).await
        })
    }
}

fn added(outcome: WriteOutcome) -> AddedItems {
    match outcome {
        WriteOutcome::Changed => AddedItems::Added,
        WriteOutcome::Duplicate(place) => AddedItems::Duplicate(place),
        _ => AddedItems::Unknown,
    }
}
