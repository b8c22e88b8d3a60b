//! [`Store`] in PostgreSQL: readiness, maintenance, erasure and the end.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::transaction::{Access, transact};
use super::{PostgresStore, conversation_locks, erasure, orphans};
use antwort_store::operation::EraseRequest;
use antwort_store::row_policy::now;
use antwort_store::{ErasedCounts, ErasureTarget, Store, StoreError};

/// The timeout of a readiness check.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long connections may take to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How often it is checked whether responses can be stored again.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

fn warn_of(renewed: Result<(), StoreError>) {
    if let Err(error) = renewed {
        tracing::warn!(%error, "store: a lease was not renewed; trying again");
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn maintain(&self) -> Result<(), StoreError> {
        self.renew_leases().await?;
        let round = self.rounds.run(&self.pool, &self.policy).await;
        round.and(self.writer.check().await)
    }

    async fn renew_leases(&self) -> Result<(), StoreError> {
        self.startup.check()?;
        self.takeover_grace.renewing();
        let locked = transact!(self.pool, Access::Statement, session => {
            orphans::renew_leases(session, &self.policy).await
        })?;
        self.takeover_grace.renewed();
        let lease = self.policy.lease;
        // What is in the way of one is not in that of others.
        let renewed = transact!(self.pool, Access::Statement, session => self.conversation_locks.renew(session, lease).await);
        warn_of(renewed);
        for place in locked {
            warn_of(transact!(self.pool, Access::Statement, session => {
                orphans::renew_lease(session, &self.policy, place).await
            }));
        }
        Ok(())
    }

    async fn erase(&self, target: &ErasureTarget) -> Result<ErasedCounts, StoreError> {
        let _one_at_a_time = self.erasing.lock().await;
        self.rounds.restart(&target.tenant).await;
        let request = EraseRequest { target: target.clone(), at: now() };
        self.erased.lock().erase(&request);
        self.writer.erase(&request).await;
        let mut erased = ErasedCounts::default();
        let mut from_owner = Some(i64::MIN);
        while let Some(owner) = from_owner {
            let step = transact!(self.pool, Access::Write, session => {
                erasure::step(session, &request, owner).await
            })?;
            erased += step.counts;
            from_owner = step.next_owner;
        }
        self.rounds.restart(&target.tenant).await;
        Ok(erased)
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.startup.check()?;
        tokio::time::timeout(PROBE_TIMEOUT, self.writer.check())
            .await
            .map_err(|_| StoreError::Unavailable("no write was possible for three seconds".to_owned()))?
    }

    fn is_impaired(&self) -> bool {
        self.health.is_impaired()
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        // Requests that arrive during a check wait for its result.
        let mut looked_at = self.looked_at.lock().await;
        let Some(reason) = self.health.reason() else { return Ok(()) };
        if looked_at.is_some_and(|at| at.elapsed() < RECHECK_INTERVAL) {
            return Err(reason);
        }
        let found = self.ready().await;
        *looked_at = Some(Instant::now());
        found
    }

    fn closing(&self) {
        self.waits.is_over.cancel();
    }

    async fn close(&self) {
        self.closed.cancel();
        self.writer.close().await;
        let released = transact!(self.pool, Access::Write, session => {
            orphans::release_leases(session, &self.policy).await?;
            conversation_locks::release_all(session, &self.policy.instance).await
        });
        if let Err(error) = released {
            tracing::warn!(%error, "store: releasing leases failed; other processes end this one's runs when they expire");
        }
        self.pool.close();
        self.tasks.close();
        if tokio::time::timeout(CLOSE_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::debug!("store: a connection to the database was in use at the end");
        }
    }
}
