//! The schema: its version, and the migrations to the current one.
//!
//! Several processes may start at once: one migrates, under a lock that the others wait for. A process of an earlier
//! version goes on with a later schema as long as that says it may, so that replicas are replaced one after another.

use std::cmp::Ordering;

use tokio_postgres::types::Type;

use super::pool::Pool;
use super::session::Session;
use super::transaction::{Access, Attempts, Transaction, transact};
use super::values::get;
use crate::store::StoreError;

/// Every migration in order. The n-th leads to schema version n; a released one is never edited.
const MIGRATIONS: &[Migration] = &[
    Migration { sql: include_str!("../../../migrations/postgres/0001_responses.sql"), compatible_with: 1 },
    Migration {
        sql: include_str!("../../../migrations/postgres/0002_conversations_and_keys.sql"),
        compatible_with: 1,
    },
    Migration {
        sql: include_str!("../../../migrations/postgres/0003_logs_jobs_webhooks.sql"),
        compatible_with: 1,
    },
    Migration { sql: include_str!("../../../migrations/postgres/0004_inputs.sql"), compatible_with: 1 },
    Migration { sql: include_str!("../../../migrations/postgres/0005_tasks.sql"), compatible_with: 1 },
    Migration { sql: include_str!("../../../migrations/postgres/0006_traces.sql"), compatible_with: 1 },
    Migration { sql: include_str!("../../../migrations/postgres/0007_deleted_keys.sql"), compatible_with: 1 },
    Migration {
        sql: include_str!("../../../migrations/postgres/0008_conversation_queues.sql"),
        compatible_with: 1,
    },
    Migration {
        sql: include_str!("../../../migrations/postgres/0009_lists_and_shares.sql"),
        compatible_with: 1,
    },
    Migration {
        sql: include_str!("../../../migrations/postgres/0010_indexes_of_lists.sql"),
        compatible_with: 1,
    },
];

/// A migration: in one transaction.
struct Migration {
    sql: &'static str,
    /// The earliest version whose programs can use the tables as they are afterwards.
    compatible_with: i32,
}

/// The schema version that this build writes.
const CURRENT: i32 = MIGRATIONS.len() as i32;

/// How the schema of a database relates to the one that this build knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseSchema {
    /// There is none yet.
    New,
    /// Written by an earlier version of antwort.
    Older(i32),
    /// The current schema, or a later one that this build can use.
    Usable(i32),
    /// Written by a later version of antwort, and of no use to this one.
    Newer(i32),
}

impl DatabaseSchema {
    /// The version that this build writes.
    pub const CURRENT: i32 = CURRENT;

    /// Why a database of this schema cannot be used; `None` if it can.
    pub fn refusal(self) -> Option<StoreError> {
        Some(StoreError::Schema(match self {
            Self::Usable(_) => return None,
            Self::New => {
                "the database has no schema yet: run `antwort store migrate` (store.migrate: auto does so at \
                 the start)"
                    .to_owned()
            }
            Self::Older(version) => format!(
                "the database has schema {version} and this antwort needs schema {CURRENT}: run `antwort store migrate` \
                 (store.migrate: auto does so at the start); gateways of the version before go on meanwhile"
            ),
            Self::Newer(version) => format!(
                "the database has schema {version}, which a later antwort has made, and this antwort knows schemas up to \
                 {CURRENT}: start the later version again, or restore a backup from before the migration \
                 (docs/upgrading.md)"
            ),
        }))
    }

    fn of(version: i32, compatible_with: i32) -> Self {
        match version.cmp(&CURRENT) {
            Ordering::Less => Self::Older(version),
            Ordering::Equal => Self::Usable(version),
            Ordering::Greater if compatible_with <= CURRENT => Self::Usable(version),
            Ordering::Greater => Self::Newer(version),
        }
    }
}

/// The schema of the database, which is not changed.
pub(super) async fn look(pool: &Pool) -> Result<DatabaseSchema, StoreError> {
    transact!(pool, Access::Snapshot, session => read(session).await)
}

/// Brings the database to the current schema. Returns the version that it had, 0 if none; `None` if there was nothing
/// to do.
pub(super) async fn migrate(pool: &Pool) -> Result<Option<i32>, StoreError> {
    match look(pool).await? {
        DatabaseSchema::Usable(_) => return Ok(None),
        newer @ DatabaseSchema::Newer(_) => return newer.refusal().map_or(Ok(None), Err),
        DatabaseSchema::New | DatabaseSchema::Older(_) => {}
    }
    // Statements of gateways that go on meanwhile may be in its way: a deadlock ends either.
    let mut attempts = Attempts::default();
    loop {
        let transaction = pool.begin(Access::Write).await?;
        let migrated = apply(&transaction).await;
        if let Some(ended) = transaction.end(migrated, &mut attempts).await {
            return ended;
        }
    }
}

async fn apply(transaction: &Transaction) -> Result<Option<i32>, StoreError> {
    let session = transaction.session();
    // Migrations take as long as they take. The number is arbitrary, and the lock ends with the transaction: of several
    // processes one makes the table, and a lock of it keeps the others.
    session.batch("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL client_min_messages = warning").await?;
    session.batch_unlimited("SELECT pg_advisory_xact_lock(4703919738795935662)").await?;
    session
        .batch_unlimited(
            "CREATE TABLE IF NOT EXISTS schema_version (
                 version integer NOT NULL, compatible_with integer NOT NULL);
             LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE",
        )
        .await?;
    // Another process may have migrated meanwhile.
    let from = match read(session).await? {
        DatabaseSchema::New => 0,
        DatabaseSchema::Older(version) => version,
        DatabaseSchema::Usable(_) | DatabaseSchema::Newer(_) => return Ok(None),
    };
    let mut compatible_with = 1;
    for (version, migration) in (1..).zip(MIGRATIONS) {
        compatible_with = compatible_with.max(migration.compatible_with);
        if version > from {
            session.batch_unlimited(migration.sql).await?;
        }
    }
    session.batch("DELETE FROM schema_version").await?;
    let version = "INSERT INTO schema_version (version, compatible_with) VALUES ($1, $2)";
    session.execute(version, &[(&CURRENT, Type::INT4), (&compatible_with, Type::INT4)]).await?;
    tracing::info!(from, to = CURRENT, "store: migrated the schema");
    Ok(Some(from))
}

async fn read(session: Session<'_>) -> Result<DatabaseSchema, StoreError> {
    let tables = "SELECT to_regclass('schema_version') IS NOT NULL, to_regclass('responses') IS NOT NULL";
    let Some(row) = session.query_opt(tables, &[]).await? else { return Ok(DatabaseSchema::New) };
    let (has_version, has_responses): (bool, bool) = (get(&row, 0)?, get(&row, 1)?);
    let version = match has_version {
        true => session.query_opt("SELECT version, compatible_with FROM schema_version", &[]).await?,
        false => None,
    };
    match version {
        Some(row) => Ok(DatabaseSchema::of(get(&row, 0)?, get(&row, 1)?)),
        None if has_responses => Err(StoreError::Schema(
            "the database is another program's: it has a table `responses` that antwort has not made; give antwort a \
             database of its own"
                .to_owned(),
        )),
        None => Ok(DatabaseSchema::New),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_schema_is_used_as_long_as_it_says_that_this_version_can() {
        assert_eq!(DatabaseSchema::of(CURRENT + 1, CURRENT), DatabaseSchema::Usable(CURRENT + 1));
        assert_eq!(DatabaseSchema::of(CURRENT + 2, CURRENT + 1), DatabaseSchema::Newer(CURRENT + 2));
        assert_eq!(DatabaseSchema::of(CURRENT - 1, 1), DatabaseSchema::Older(CURRENT - 1));
        assert!(DatabaseSchema::Newer(99).refusal().unwrap().to_string().contains("99"));
    }
}
