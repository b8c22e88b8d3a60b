//! The outbox of webhooks, as the store offers it.

use std::time::Duration;

use async_trait::async_trait;

use super::error::database;
use super::{SqliteStore, outbox};
use antwort_store::{DueNotice, StoreError, WebhookOutbox};

#[async_trait]
impl WebhookOutbox for SqliteStore {
    async fn take_due_notices(
        &self,
        limit: usize,
        lease: Duration,
        except: &[&str],
    ) -> Result<Vec<DueNotice>, StoreError> {
        let except = serde_json::json!(except).to_string();
        let take =
            move |connection: &mut _| outbox::take(connection, limit, lease, &except).map_err(database);
        self.writer.run_job(take).await
    }

    async fn remove_notice(&self, notice: &DueNotice) -> Result<(), StoreError> {
        let (key, attempt) = (notice.key, notice.attempt);
        let remove = move |connection: &mut _| outbox::remove(connection, key, attempt).map_err(database);
        self.writer.run_job(remove).await
    }

    async fn retry_notice(&self, notice: &DueNotice, after: Duration) -> Result<(), StoreError> {
        let (key, attempt) = (notice.key, notice.attempt);
        let put_off =
            move |connection: &mut _| outbox::put_off(connection, key, attempt, after).map_err(database);
        self.writer.run_job(put_off).await
    }
}
