//! The schema: its version, and the migrations to the current one.
//!
//! Several processes may start at once: one migrates, under a lock that the others wait for. A process of an earlier
//! version goes on with a later schema as long as that says it may, so that replicas are replaced one after another.

use std::cmp::Ordering;
use std::sync::OnceLock;

use tokio_postgres::types::Type;

use super::pool::Pool;
use super::session::Session;
use super::transaction::{Access, Attempts, Transaction, transact};
use super::values::get;
use antwort_store::StoreError;

/// A migration: in one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Its statements.
    pub sql: &'static str,
    /// The earliest version whose programs can use the tables as they are afterwards.
    pub compatible_with: i32,
}

/// The migrations that a program knows, in order. The n-th leads to schema version n; a released one is never edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrations(pub &'static [Migration]);

/// Those of the program, if they are others than the released ones.
static OF_PROGRAM: OnceLock<Migrations> = OnceLock::new();

impl Migrations {
    /// Those of this version.
    pub const RELEASED: Self = Self(&[Migration {
        sql: include_str!("../../../migrations/postgres/0001_schema.sql"),
        compatible_with: 1,
    }]);

    /// Those that this program knows.
    pub fn of_program() -> Self {
        OF_PROGRAM.get().copied().unwrap_or(Self::RELEASED)
    }

    /// Makes this program one of another version, before it opens a database. For tests of upgrades.
    pub fn set_of_program(self) {
        OF_PROGRAM.set(self).ok();
    }

    /// The schema version that a program with these migrations writes.
    pub fn latest(self) -> i32 {
        i32::try_from(self.0.len()).unwrap_or(i32::MAX)
    }

    /// Why a database of this schema cannot be used; `None` if it can.
    pub fn refusal(self, schema: DatabaseSchema) -> Option<StoreError> {
        let latest = self.latest();
        Some(StoreError::Schema(match schema {
            DatabaseSchema::Usable(_) => return None,
            DatabaseSchema::New => {
                "the database has no schema yet: run `antwort store migrate` (store.migrate: auto does so at \
                 the start)"
                    .to_owned()
            }
            DatabaseSchema::Older(version) => format!(
                "the database has schema {version} and this antwort needs schema {latest}: run `antwort store migrate` \
                 (store.migrate: auto does so at the start); gateways of the version before go on meanwhile"
            ),
            DatabaseSchema::Newer(version) => format!(
                "the database has schema {version}, which a later antwort has made, and this antwort knows schemas up to \
                 {latest}: start the later version again, or restore a backup from before the migration \
                 (docs/upgrading.md)"
            ),
        }))
    }

    fn schema(self, version: i32, compatible_with: i32) -> DatabaseSchema {
        match version.cmp(&self.latest()) {
            Ordering::Less => DatabaseSchema::Older(version),
            Ordering::Equal => DatabaseSchema::Usable(version),
            Ordering::Greater if compatible_with <= self.latest() => DatabaseSchema::Usable(version),
            Ordering::Greater => DatabaseSchema::Newer(version),
        }
    }
}

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

/// The schema of the database, which is not changed.
pub(super) async fn look(pool: &Pool, migrations: Migrations) -> Result<DatabaseSchema, StoreError> {
    transact!(pool, Access::Snapshot, session => read(session, migrations).await)
}

/// Brings the database to the current schema. Returns the version that it had, 0 if none; `None` if there was nothing
/// to do.
pub(super) async fn migrate(pool: &Pool, migrations: Migrations) -> Result<Option<i32>, StoreError> {
    match look(pool, migrations).await? {
        DatabaseSchema::Usable(_) => return Ok(None),
        newer @ DatabaseSchema::Newer(_) => return migrations.refusal(newer).map_or(Ok(None), Err),
        DatabaseSchema::New | DatabaseSchema::Older(_) => {}
    }
    // Statements of gateways that go on meanwhile may be in its way: a deadlock ends either.
    let mut attempts = Attempts::default();
    loop {
        let transaction = pool.begin(Access::Write).await?;
        let migrated = apply(&transaction, migrations).await;
        if let Some(ended) = transaction.end(migrated, &mut attempts).await {
            return ended;
        }
    }
}

async fn apply(transaction: &Transaction, migrations: Migrations) -> Result<Option<i32>, StoreError> {
    let session = transaction.session();
    // Migrations take as long as they take. The number is arbitrary, and the lock ends with the transaction: of several
    // processes one makes the table, and a lock of it keeps the others.
    session.batch("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL client_min_messages = warning").await?;
    session.batch_unlimited("SELECT pg_advisory_xact_lock(4703919738795935662)").await?;
    session
        .batch_unlimited(
            "CREATE TABLE IF NOT EXISTS antwort_schema (
                 version integer NOT NULL, compatible_with integer NOT NULL);
             LOCK TABLE antwort_schema IN ACCESS EXCLUSIVE MODE",
        )
        .await?;
    // Another process may have migrated meanwhile.
    let from = match read(session, migrations).await? {
        DatabaseSchema::New => 0,
        DatabaseSchema::Older(version) => version,
        DatabaseSchema::Usable(_) | DatabaseSchema::Newer(_) => return Ok(None),
    };
    let mut compatible_with = 1;
    for (version, migration) in (1..).zip(migrations.0) {
        compatible_with = compatible_with.max(migration.compatible_with);
        if version > from {
            session.batch_unlimited(migration.sql).await?;
        }
    }
    session.batch("DELETE FROM antwort_schema").await?;
    let latest = migrations.latest();
    let version = "INSERT INTO antwort_schema (version, compatible_with) VALUES ($1, $2)";
    session.execute(version, &[(&latest, Type::INT4), (&compatible_with, Type::INT4)]).await?;
    tracing::info!(from, to = latest, "store: migrated the schema");
    Ok(Some(from))
}

async fn read(session: Session<'_>, migrations: Migrations) -> Result<DatabaseSchema, StoreError> {
    let tables = "SELECT to_regclass('antwort_schema') IS NOT NULL, to_regclass('responses') IS NOT NULL";
    let Some(row) = session.query_opt(tables, &[]).await? else { return Ok(DatabaseSchema::New) };
    let (has_version, has_responses): (bool, bool) = (get(&row, 0)?, get(&row, 1)?);
    let version = match has_version {
        true => session.query_opt("SELECT version, compatible_with FROM antwort_schema", &[]).await?,
        false => None,
    };
    match version {
        Some(row) => Ok(migrations.schema(get(&row, 0)?, get(&row, 1)?)),
        None if has_responses => Err(StoreError::Schema(
            "the database is another program's, or one of a build before antwort 0.1.0: it has a table `responses` that this \
             antwort has not made; give antwort a database of its own"
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
        let migrations = Migrations::RELEASED;
        let latest = migrations.latest();
        assert_eq!(migrations.schema(latest + 1, latest), DatabaseSchema::Usable(latest + 1));
        assert_eq!(migrations.schema(latest + 2, latest + 1), DatabaseSchema::Newer(latest + 2));
        assert_eq!(migrations.schema(latest - 1, 1), DatabaseSchema::Older(latest - 1));
        assert!(migrations.refusal(DatabaseSchema::Newer(99)).unwrap().to_string().contains("99"));
    }
}
