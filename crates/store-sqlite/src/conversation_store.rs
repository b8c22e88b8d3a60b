//! [`ConversationStore`] in SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;

use super::reader::ReadKind;
use super::{SqliteStore, conversation_context, conversation_expiry, conversation_items, conversations};
use antwort_store::conversation_write::ConversationWrite;
use antwort_store::operation::{Write, WriteOutcome};
use antwort_store::row_policy::now;
use antwort_store::{
    AddedItems, ConversationContext, ConversationItem, ConversationLock, ConversationRecord,
    ConversationStore, Owner, Page, PageRequest, ReadLimit, StoreError, StoredConversation,
};

impl SqliteStore {
    async fn change(&self, write: ConversationWrite) -> Result<WriteOutcome, StoreError> {
        self.writer.write(Write::Conversation(Box::new(write))).await
    }

    /// Reads the items of a conversation.
    async fn read_items<T: Send + 'static>(
        &self,
        kind: ReadKind,
        owner: &Owner,
        id: &str,
        read: impl FnOnce(&Connection, i64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Option<T>, StoreError> {
        let (id, retention) = (id.to_owned(), self.policy.conversations.of(&owner.tenant));
        self.read(kind, owner, move |connection, owner| {
            let snapshot = connection.unchecked_transaction().map_err(super::error::database)?;
            let found = conversations::find_of(&snapshot, owner, &id, retention.oldest_use(now()))?;
            found.map(|row| read(&snapshot, row.key)).transpose()
        })
        .await
    }
}

#[async_trait]
impl ConversationStore for SqliteStore {
    async fn create_conversation(&self, record: ConversationRecord) -> Result<AddedItems, StoreError> {
        Ok(added(self.change(ConversationWrite::Create(record)).await?))
    }

    async fn conversation(&self, owner: &Owner, id: &str) -> Result<Option<StoredConversation>, StoreError> {
        let (id, retention) = (id.to_owned(), self.policy.conversations.of(&owner.tenant));
        self.read(ReadKind::Point, owner, move |connection, owner| {
            conversations::conversation(connection, owner, &id, retention.oldest_use(now()))
        })
        .await
    }

    async fn update_conversation(
        &self,
        owner: &Owner,
        id: &str,
        metadata: Arc<str>,
    ) -> Result<bool, StoreError> {
        let write = ConversationWrite::Update { owner: owner.clone(), id: id.to_owned(), metadata };
        Ok(self.change(write).await? == WriteOutcome::Changed)
    }

    async fn delete_conversation(&self, owner: &Owner, id: &str) -> Result<bool, StoreError> {
        let write = ConversationWrite::Delete { owner: owner.clone(), id: id.to_owned() };
        let WriteOutcome::Deleting(key) = self.change(write).await? else { return Ok(false) };
        // Should the caller stop waiting, maintenance goes on.
        while self.writer.maintain(move |connection| conversation_expiry::delete(connection, key)).await? {}
        Ok(true)
    }

    async fn add_conversation_items(
        &self,
        owner: &Owner,
        id: &str,
        items: Vec<ConversationItem>,
    ) -> Result<AddedItems, StoreError> {
        let write = ConversationWrite::AddItems { owner: owner.clone(), id: id.to_owned(), items };
        Ok(added(self.change(write).await?))
    }

    async fn conversation_item(
        &self,
        owner: &Owner,
        id: &str,
        item: &str,
        max_bytes: u64,
    ) -> Result<Option<Arc<str>>, StoreError> {
        let item = item.to_owned();
        let read =
            move |connection: &Connection, key| conversation_items::item(connection, key, &item, max_bytes);
        Ok(self.read_items(ReadKind::Point, owner, id, read).await?.flatten())
    }

    async fn delete_conversation_item(
        &self,
        owner: &Owner,
        id: &str,
        item: &str,
    ) -> Result<bool, StoreError> {
        let (owner, id, item) = (owner.clone(), id.to_owned(), item.to_owned());
        Ok(self.change(ConversationWrite::DeleteItem { owner, id, item }).await? == WriteOutcome::Changed)
    }

    async fn conversation_items(
        &self,
        owner: &Owner,
        id: &str,
        page: &PageRequest,
    ) -> Result<Option<Page>, StoreError> {
        let page = page.clone();
        let read = move |connection: &Connection, key| conversation_items::list(connection, key, &page);
        self.read_items(ReadKind::Long, owner, id, read).await
    }

    async fn conversation_context(
        &self,
        owner: &Owner,
        id: &str,
        limit: ReadLimit,
    ) -> Result<Option<ConversationContext>, StoreError> {
        let (id, retention) = (id.to_owned(), self.policy.conversations.of(&owner.tenant));
        self.read(ReadKind::Long, owner, move |connection, owner| {
            conversation_context::context(connection, owner, &id, retention.oldest_use(now()), limit)
        })
        .await
    }

    async fn lock_conversation(
        &self,
        owner: &Owner,
        id: &str,
    ) -> Result<Option<ConversationLock>, StoreError> {
        Ok(self.conversation_locks.lock(owner, id))
    }
}

fn added(outcome: WriteOutcome) -> AddedItems {
    match outcome {
        WriteOutcome::Changed => AddedItems::Added,
        WriteOutcome::Duplicate(place) => AddedItems::Duplicate(place),
        _ => AddedItems::Unknown,
    }
}
