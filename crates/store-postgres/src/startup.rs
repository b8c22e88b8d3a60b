//! The first time that the database is reached: its schema is checked or migrated, and what an earlier process of this name
//! has left is released. Until then nothing is read or written.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::orphans;
use super::pool::Pool;
use super::schema::{self, Migrations};
use super::transaction::{Access, transact};
use antwort_store::StoreError;
use antwort_store::row_policy::RowPolicy;

/// The pause between attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// The schema that the database must have.
#[derive(Debug, Clone, Copy)]
pub(super) struct NeededSchema {
    pub(super) migrations: Migrations,
    /// Whether it gets that if it has an earlier one, or none.
    pub(super) migrate: bool,
}

/// Whether the database was reached, and why not.
#[derive(Debug)]
pub(super) struct Startup(Mutex<Option<StoreError>>);

impl Startup {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Some(StoreError::Unavailable("it has not been reached yet".to_owned()))))
    }

    /// Why the database cannot be used yet.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.0.lock().clone().map_or(Ok(()), Err)
    }

    /// One attempt.
    pub(super) async fn attempt(
        &self,
        pool: &Pool,
        policy: &RowPolicy,
        schema: NeededSchema,
    ) -> Result<(), StoreError> {
        let done = prepare(pool, policy, schema).await;
        *self.0.lock() = done.clone().err();
        done
    }

    /// Tries until it is done.
    pub(super) async fn wait(
        self: Arc<Self>,
        pool: Pool,
        policy: Arc<RowPolicy>,
        schema: NeededSchema,
        stop: CancellationToken,
    ) {
        let mut told = String::new();
        loop {
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = stop.cancelled() => return,
            }
            match self.attempt(&pool, &policy, schema).await {
                Ok(()) => {
                    tracing::info!("store: the database is reached");
                    return;
                }
                Err(error) if error.to_string() != told => {
                    told = error.to_string();
                    tracing::warn!(%error, "store: still waiting for the database");
                }
                Err(_) => {}
            }
        }
    }
}

async fn prepare(pool: &Pool, policy: &RowPolicy, needed: NeededSchema) -> Result<(), StoreError> {
    let migrations = needed.migrations;
    if needed.migrate {
        schema::migrate(pool, migrations).await?;
    } else if let Some(refusal) = migrations.refusal(schema::look(pool, migrations).await?) {
        return Err(refusal);
    }
    transact!(pool, Access::Statement, session => orphans::release_left(session, policy).await)
}
