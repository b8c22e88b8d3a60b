//! Responses of one connection that are not stored: what a continuation on the same connection starts from.
//!
//! Nothing of them reaches the store. Only the newest one can be continued; it holds its whole conversation.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use antwort_identity::{Owner, Requester};
use antwort_limits::{Permit, Resource};
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_protocol::response::ResponseStatus;
use antwort_store::{Lineage, ModelView, ReadLimit, ResponseRecord, ResponseStore, StoreError, StoredItem};

/// Up to this size, a conversation is kept without a memory permit.
const UNRESERVED_BYTES: u64 = 64 << 10;

/// The newest response of a connection, if it is not stored.
#[derive(Debug, Default)]
pub struct ConnectionHistory(Mutex<Option<Newest>>);

#[derive(Debug)]
struct Newest {
    response: Arc<KeptResponse>,
    /// Of the bytes of its conversation.
    _memory: Option<Permit>,
}

/// A response that is kept in memory, with all those before it that are not stored.
///
/// Flat, because a chain of responses has no bound of its own: one without any item adds no bytes.
#[derive(Debug, Clone)]
struct KeptResponse {
    id: Id,
    status: ResponseStatus,
    /// The first response of those in memory.
    oldest: Id,
    /// The stored response that the oldest one continues.
    stored: Option<Id>,
    /// Of all of them.
    items: Vec<StoredItem>,
    /// Of all items, as [`ReadLimit`] counts.
    bytes: u64,
}

impl ConnectionHistory {
    /// Keeps a response as the newest. If there is no memory for its conversation, it cannot be continued.
    pub(super) async fn keep(&self, record: ResponseRecord, memory: &Resource, requester: &Requester) {
        // What was kept is released first: the two share most of their items.
        let newest = self.0.lock().take();
        let mut response = KeptResponse::after(newest, record.previous, &record.lease.id);
        response.bytes = response.bytes.saturating_add(record.items.iter().map(size).sum());
        response.items.extend(record.items);
        (response.id, response.status) = (record.lease.id, record.status);
        let permit = match response.bytes {
            0..=UNRESERVED_BYTES => None,
            bytes => match memory.acquire(requester, bytes).await {
                Ok(permit) => Some(permit),
                Err(_) => return,
            },
        };
        *self.0.lock() = Some(Newest { response: Arc::new(response), _memory: permit });
    }

    /// Whether it has this response.
    pub(super) fn has(&self, id: &str) -> bool {
        self.find(id).is_some()
    }

    /// Forgets a response: a continuation of it has failed.
    pub fn evict(&self, id: &str) {
        self.0.lock().take_if(|newest| newest.response.id.as_str() == id);
    }

    /// The conversation of a response, if this connection or the store has it.
    pub(super) async fn lineage(
        &self,
        store: &dyn ResponseStore,
        owner: &Owner,
        id: &str,
        limit: ReadLimit,
    ) -> Result<Option<Lineage>, StoreError> {
        let Some(newest) = self.find(id) else { return store.lineage(owner, id, limit).await };
        if newest.bytes > limit.max_read_bytes {
            return Err(StoreError::TooLarge { bytes: newest.bytes });
        }
        let mut lineage = match &newest.stored {
            Some(stored) => match stored_part(store, owner, stored, limit, newest.bytes).await? {
                Some(lineage) => lineage,
                None => return Err(StoreError::BrokenChain { missing: stored.clone() }),
            },
            None => Lineage {
                items: Vec::new(),
                states: HashMap::new(),
                root: newest.oldest.clone(),
                status: newest.status,
            },
        };
        lineage.status = newest.status;
        for item in &newest.items {
            add(&mut lineage, item)?;
        }
        Ok(Some(lineage))
    }

    fn find(&self, id: &str) -> Option<Arc<KeptResponse>> {
        let newest = self.0.lock();
        let found = newest.as_ref().filter(|newest| newest.response.id.as_str() == id)?;
        Some(Arc::clone(&found.response))
    }
}

impl KeptResponse {
    /// What is in memory of the conversation that a response continues, for that response to be added.
    fn after(newest: Option<Newest>, previous: Option<Id>, id: &Id) -> Self {
        match newest.map(|newest| newest.response) {
            Some(kept) if Some(&kept.id) == previous.as_ref() => Arc::unwrap_or_clone(kept),
            _ => Self {
                id: id.clone(),
                status: ResponseStatus::InProgress,
                oldest: id.clone(),
                stored: previous,
                items: Vec::new(),
                bytes: 0,
            },
        }
    }
}

/// The stored beginning of a conversation, of which `kept` bytes are in memory.
async fn stored_part(
    store: &dyn ResponseStore,
    owner: &Owner,
    id: &Id,
    limit: ReadLimit,
    kept: u64,
) -> Result<Option<Lineage>, StoreError> {
    let rest = ReadLimit {
        max_read_bytes: limit.max_read_bytes.saturating_sub(kept),
        max_count_bytes: limit.max_count_bytes.saturating_sub(kept),
    };
    store.lineage(owner, id.as_str(), rest).await.map_err(|error| match error {
        StoreError::TooLarge { bytes } => StoreError::TooLarge { bytes: bytes.saturating_add(kept) },
        other => other,
    })
}

/// Adds an item as the model sees it.
fn add(lineage: &mut Lineage, item: &StoredItem) -> Result<(), StoreError> {
    let text = match &item.model_view {
        ModelView::Same => &item.wire,
        ModelView::Override(other) => other,
        ModelView::Hidden => return Ok(()),
    };
    let parsed: Item = serde_json::from_str(text).map_err(|error| StoreError::Database(error.to_string()))?;
    if let Some(state) = &item.state {
        lineage.states.insert(lineage.items.len(), Arc::clone(&state.blob));
    }
    lineage.items.push(parsed);
    Ok(())
}

fn size(item: &StoredItem) -> u64 {
    let text = match &item.model_view {
        ModelView::Same => item.wire.len(),
        ModelView::Override(other) => item.wire.len() + other.len(),
        ModelView::Hidden => item.wire.len(),
    };
    let state = item.state.as_ref().map_or(0, |state| state.blob.len());
    ReadLimit::ITEM_OVERHEAD + (text + state) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use antwort_limits::{Admission, AdmissionLimits};
    use antwort_store::Lease;
    use antwort_telemetry::metrics::Metrics;

    fn record(id: Id, previous: Option<Id>) -> ResponseRecord {
        ResponseRecord {
            lease: Lease::first(id),
            owner: Owner { tenant: "t".into(), principal: "p".into() },
            status: ResponseStatus::Completed,
            model: "m".into(),
            created_at: 0,
            previous,
            conversation: None,
            body: "{}".into(),
            items: Vec::new(),
            outbox: Vec::new(),
            approvals: Vec::new(),
            trace: None,
            is_unlisted: false,
        }
    }

    /// Kept as a linked list, it overflowed the stack when it was dropped.
    #[tokio::test]
    async fn a_chain_of_a_hundred_thousand_responses_without_items_takes_no_more_than_one() {
        let admission = Admission::new(&AdmissionLimits::default(), &Metrics::new());
        let requester = Requester::new(&"t".into(), &"k".into());
        let history = ConnectionHistory::default();
        let mut previous = None;
        for _ in 0..100_000 {
            let id = Id::generate("resp");
            history
                .keep(record(id.clone(), previous.replace(id)), &admission.kept_conversations, &requester)
                .await;
        }
        let last = previous.expect("a response");
        let kept = history.find(last.as_str()).expect("the newest");
        assert_eq!((kept.items.len(), kept.bytes, &kept.stored), (0, 0, &None));
    }
}
