//! A writer's way to the database: its connection, and what becomes of writes while there is none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::limits::Limits;
use super::owners::OwnerKeys;
use super::pool::Pool;
use super::session::Session;
use super::startup::Startup;
use antwort_store::health::StoreHealth;
use antwort_store::{Owner, StoreError};

/// The pause between attempts to connect, while writes wait.
const PAUSE: Duration = Duration::from_millis(100);

/// The pause between attempts to connect, when writes fail at once.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// A writer's way to the database.
pub(super) struct Link {
    pool: Pool,
    owners: Arc<OwnerKeys>,
    pub health: Arc<StoreHealth>,
    startup: Arc<Startup>,
    connection: Option<Arc<Connection>>,
    lost: Option<Lost>,
}

/// Since when there is no connection, and why.
struct Lost {
    since: Instant,
    tried: Instant,
    error: StoreError,
}

impl Link {
    pub(super) fn new(
        pool: Pool,
        owners: Arc<OwnerKeys>,
        health: Arc<StoreHealth>,
        startup: Arc<Startup>,
    ) -> Self {
        Self { pool, owners, health, startup, connection: None, lost: None }
    }

    pub(super) fn limits(&self) -> Limits {
        self.pool.limits()
    }

    /// The connection, or a new one. A short interruption is waited out, as long as a statement may take; after that,
    /// writes fail at once until there is a connection again.
    pub(super) async fn connection(&mut self) -> Result<Arc<Connection>, StoreError> {
        if let Some(connection) = self.connection.as_ref().filter(|open| !open.client.is_closed()) {
            return Ok(Arc::clone(connection));
        }
        self.connection = None;
        self.startup.check()?;
        loop {
            if let Some(lost) = &self.lost
                && lost.since.elapsed() > self.limits().statement
                && lost.tried.elapsed() < LONG_PAUSE
            {
                return Err(lost.error.clone());
            }
            let began = Instant::now();
            let error = match self.pool.connect().await {
                Ok(connection) => {
                    self.lost = None;
                    return Ok(Arc::clone(self.connection.insert(Arc::new(connection))));
                }
                Err(error) => error,
            };
            let since = self.lost.as_ref().map_or(began, |lost| lost.since);
            self.lost = Some(Lost { since, tried: Instant::now(), error: error.clone() });
            if since.elapsed() > self.limits().statement {
                return Err(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The number of an owner; the session is that of the connection, on which no transaction is open.
    pub(super) async fn owner(&self, session: Session<'_>, owner: &Owner) -> Result<i64, StoreError> {
        match session.is_limited() {
            true => self.owners.key_on(session, owner).await,
            false => self.owners.key(&self.pool, owner).await,
        }
    }

    /// The connection is of no more use.
    pub(super) fn leave(&mut self) {
        self.connection = None;
    }

    /// A write has failed. If others would, too, responses cannot be stored now.
    pub(super) fn failed(&self, error: &StoreError) {
        if self.connection.is_none() || matches!(error, StoreError::Full(_)) {
            self.health.impair(error);
        }
    }
}
