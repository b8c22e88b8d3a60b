//! Looks at and migrates a database without opening a store in it.

use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::limits::Limits;
use super::pool::Pool;
use super::schema::{self, DatabaseSchema, Migrations};
use super::url::Target;
use antwort_store::StoreError;

/// The limit of the statements around a migration.
const LIMITS: Limits = Limits { statement: Duration::from_secs(30), transaction: Duration::from_secs(30) };

/// The result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostgresMigration {
    /// The version of the schema before; 0: there was none.
    pub from: i32,
}

/// The schema of the database at this URL, which is not changed.
pub async fn schema_of(url: &str) -> Result<DatabaseSchema, StoreError> {
    schema::look(&pool(url)?, Migrations::of_program()).await
}

/// Brings the database at this URL to the current schema; `None` if it is usable as it is. Other processes may use it
/// meanwhile.
pub async fn migrate(url: &str) -> Result<Option<PostgresMigration>, StoreError> {
    let migrated = schema::migrate(&pool(url)?, Migrations::of_program()).await?;
    Ok(migrated.map(|from| PostgresMigration { from }))
}

fn pool(url: &str) -> Result<Pool, StoreError> {
    Pool::new(Target::parse(url)?, 1, LIMITS, false, TaskTracker::new())
}
