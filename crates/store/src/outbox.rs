//! The outbox: notices to webhooks that are written with the end of their response, and delivered later.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use antwort_protocol::id::Id;

/// A notice, as it is written with the end of its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxNotice {
    /// The name of the webhook.
    pub webhook: Arc<str>,
    /// The id of the event, the same at each delivery.
    pub event_id: Id,
    /// The body as it is sent.
    pub body: Arc<str>,
}

/// A notice that was taken for delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueNotice {
    /// Its row.
    pub key: i64,
    /// The how manieth try it is, from 1. With the key it is the right to say what comes of it.
    pub attempt: u32,
    /// The name of the webhook.
    pub webhook: String,
    /// The id of the event.
    pub event_id: Id,
    /// The body as it is sent.
    pub body: String,
}

/// Notices to webhooks. They go with the erasure of their owner.
#[async_trait]
pub trait WebhookOutbox: Send + Sync {
    /// Takes at most `limit` notices whose time has come, the oldest first, of all webhooks but those that are named in
    /// `except`. Each is due again after `lease`, unless it is removed or put off before. Of several processes that ask, one
    /// gets each.
    async fn take_due_notices(
        &self,
        limit: usize,
        lease: Duration,
        except: &[&str],
    ) -> Result<Vec<DueNotice>, StoreError>;

    /// Removes a notice that was delivered or is given up. One that was taken again since stays.
    async fn remove_notice(&self, notice: &DueNotice) -> Result<(), StoreError>;

    /// Puts a notice off. One that was taken again since stays as it is.
    async fn retry_notice(&self, notice: &DueNotice, after: Duration) -> Result<(), StoreError>;
}
