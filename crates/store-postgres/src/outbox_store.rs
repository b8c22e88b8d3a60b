//! The outbox of webhooks, as the store offers it.

use std::time::Duration;

use async_trait::async_trait;

use super::transaction::{Access, transact};
use super::{PostgresStore, outbox};
use antwort_store::{DueNotice, StoreError, WebhookOutbox};

#[async_trait]
impl WebhookOutbox for PostgresStore {
    async fn take_due_notices(
        &self,
        limit: usize,
        lease: Duration,
        except: &[&str],
    ) -> Result<Vec<DueNotice>, StoreError> {
        self.startup.check()?;
        transact!(self.pool, Access::Statement, session => {
            outbox::take(session, limit, lease, except).await
        })
    }

    async fn remove_notice(&self, notice: &DueNotice) -> Result<(), StoreError> {
        transact!(self.pool, Access::Statement, session => outbox::remove(session, notice).await)
    }

    async fn retry_notice(&self, notice: &DueNotice, after: Duration) -> Result<(), StoreError> {
        transact!(self.pool, Access::Statement, session => outbox::put_off(session, notice, after).await)
    }
}
