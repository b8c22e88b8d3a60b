//! A PostgreSQL database that is copied, or copied to.

use std::pin::pin;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use tokio::sync::mpsc;
use tokio_postgres::config::Host;
use tokio_postgres::types::Type;
use tokio_util::task::TaskTracker;

use super::clock::db_now;
use super::connection::Connection;
use super::copy_columns::{Numbers, Values};
use super::copy_tables::Table;
use super::error::database;
use super::keys::ResponseKey;
use super::limits::Limits;
use super::pool::Pool;
use super::schema::{self, DatabaseSchema, Migrations};
use super::session::Session;
use super::url::Target;
use super::values::get;
use super::{item_ids, owners};
use antwort_store::StoreError;
use antwort_store::copy_side::{Batch, CopySide, ImportError};
use antwort_store::neutral_row::{Known, NeutralRow, missing};
use antwort_store::row_kinds::{Holds, Kind};

/// The limit of the statements around a copy; those of the copy itself have none.
const LIMITS: Limits = Limits { statement: Duration::from_secs(30), transaction: Duration::from_secs(30) };

/// Whether a process makes a run, or is about to.
const IS_USED: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM runs WHERE lease_until > ",
    db_now!(),
    ") OR EXISTS (SELECT 1 FROM conversation_locks WHERE until > ",
    db_now!(),
    ")"
);

/// A database that no gateway uses meanwhile.
pub struct PostgresSide {
    name: String,
    pool: Pool,
    /// The connection that writes.
    connection: Connection,
    tables: Vec<Table>,
}

impl PostgresSide {
    /// Opens a database with the current schema; a target gets it if it has none.
    pub async fn open(url: &str, is_target: bool) -> Result<Self, StoreError> {
        let target = Target::parse(url)?;
        let name = name(&target);
        // Statements are not prepared, so that poolers may stand between.
        let pool = Pool::new(target, 1, LIMITS, false, TaskTracker::new())?;
        let migrations = Migrations::of_program();
        let mut schema = schema::look(&pool, migrations).await?;
        if schema == DatabaseSchema::New && is_target {
            schema::migrate(&pool, migrations).await?;
            schema = schema::look(&pool, migrations).await?;
        }
        if let Some(refusal) = migrations.refusal(schema) {
            return Err(refusal);
        }
        let connection = pool.connect().await?;
        if let Some(row) = Session::new(&connection).query_opt(IS_USED, &[]).await?
            && get(&row, 0)?
        {
            return Err(StoreError::Schema(
                "it is in use by a gateway, which holds leases of runs: stop all gateways first. The leases of one that was \
                 killed end within a minute"
                    .to_owned(),
            ));
        }
        let tables = Table::all(&connection).await?;
        Ok(Self { name, pool, connection, tables })
    }

    fn table(&self, kind: &Kind) -> Result<&Table, StoreError> {
        let found = self.tables.iter().find(|table| table.kind.table == kind.table);
        found.ok_or_else(|| StoreError::Schema(format!("there is no table {}", kind.table)))
    }

    fn session(&self) -> Session<'_> {
        Session::new(&self.connection)
    }

    /// The numbers of what these rows belong to. Owners are added.
    async fn numbers(&self, kind: &Kind, rows: &[NeutralRow]) -> Result<Numbers, StoreError> {
        let mut numbers = Numbers::default();
        for row in rows {
            if !numbers.owners.contains_key(&row.owner) {
                let key = owners::key(self.session(), &row.owner).await?;
                numbers.owners.insert(row.owner.clone(), key);
            }
        }
        if let Some(at) = kind.place_holding(Holds::Conversation) {
            let mut ids =
                rows.iter().map(|row| row.text(at).map(str::as_bytes)).collect::<Result<Vec<_>, _>>()?;
            ids.dedup();
            let sql = "SELECT id, key FROM conversations WHERE id = ANY($1)";
            let found = self.session().query(sql, &[(&ids, Type::BYTEA_ARRAY)]).await?;
            for row in &found {
                numbers.conversations.insert(get(row, 0)?, get(row, 1)?);
            }
        }
        Ok(numbers)
    }

    /// The rows that have the keys of these.
    async fn find(&self, table: &Table, rows: &[NeutralRow], numbers: &Numbers) -> Result<Known, StoreError> {
        let key = || table.columns.iter().filter(|column| column.in_key);
        let values = key().map(|column| Values::of(column, rows, numbers)).collect::<Result<Vec<_>, _>>()?;
        let params: Vec<_> =
            values.iter().zip(key()).map(|(values, column)| (values.param(), column.array_type())).collect();
        let found = self.connection.client.query_typed_raw(&table.find, params).await;
        let mut found = pin!(found.map_err(|error| database(&error))?);
        let mut known = Known::new();
        while let Some(row) = found.try_next().await.map_err(|error| database(&error))? {
            let row = table.read(&row)?;
            known.insert(row.key(table.kind), row.digest());
        }
        Ok(known)
    }

    async fn insert(&self, table: &Table, rows: &[NeutralRow], numbers: &Numbers) -> Result<(), StoreError> {
        let columns = table.columns.iter();
        let values =
            columns.clone().map(|column| Values::of(column, rows, numbers)).collect::<Result<Vec<_>, _>>()?;
        let params: Vec<_> = values
            .iter()
            .zip(columns)
            .map(|(values, column)| (values.param(), column.array_type()))
            .collect();
        self.connection
            .client
            .execute_typed(&table.insert, &params)
            .await
            .map_err(|error| database(&error))?;
        let Some((id, index)) = table.kind.indexed_places() else { return Ok(()) };
        let names = rows.iter().map(async |row| {
            let (id, index) = (row.text(id)?, row.value(index)?.bytes()?.unwrap_or_default());
            let owner = numbers.owners.get(&row.owner).copied().unwrap_or_default();
            item_ids::replace(self.session(), (ResponseKey::of(id).uuid, owner), id, &[], index).await
        });
        try_join_all(names).await.map(drop)
    }

    async fn write(&self, table: &Table, rows: Vec<NeutralRow>) -> Result<usize, ImportError> {
        let numbers = self.numbers(table.kind, &rows).await?;
        let known = self.find(table, &rows, &numbers).await?;
        let new = missing(table.kind, rows, &known).map_err(ImportError::Differs)?;
        if !new.is_empty() {
            self.insert(table, &new, &numbers).await?;
        }
        Ok(new.len())
    }
}

#[async_trait]
impl CopySide for PostgresSide {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn export(&self, kind: &'static Kind, to: mpsc::Sender<Vec<NeutralRow>>) -> Result<(), StoreError> {
        let table = self.table(kind)?;
        // Of its own, and closed at the end: rows that nobody wants any more may be under way.
        let connection = self.pool.connect().await?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0";
        Session::new(&connection).batch(begin).await?;
        let none: [(i64, Type); 0] = [];
        let rows = connection.client.query_typed_raw(&table.export, none).await;
        let mut rows = pin!(rows.map_err(|error| database(&error))?);
        let mut batch = Batch::default();
        while let Some(row) = rows.try_next().await.map_err(|error| database(&error))? {
            if let Some(rows) = batch.push(table.read(&row)?)
                && to.send(rows).await.is_err()
            {
                return Ok(());
            }
        }
        if let Some(rows) = batch.rest() {
            // If nobody wants them, somebody else has failed.
            _ = to.send(rows).await;
        }
        Ok(())
    }

    async fn import(&self, kind: &'static Kind, rows: Vec<NeutralRow>) -> Result<usize, ImportError> {
        let table = self.table(kind)?;
        self.session().batch("BEGIN; SET LOCAL statement_timeout = 0").await?;
        let written = self.write(table, rows).await;
        let end = if written.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.session().batch(end).await;
        let new = written?;
        ended?;
        Ok(new)
    }

    async fn sync(&self) -> Result<(), StoreError> {
        // Every commit was.
        Ok(())
    }
}

/// The database and its server, for people.
fn name(target: &Target) -> String {
    let config = &target.config;
    let database = config.get_dbname().or(config.get_user()).unwrap_or("postgres");
    let host = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(folder) => folder.display().to_string(),
    };
    let hosts: Vec<_> = config.get_hosts().iter().map(host).collect();
    format!("the database {database} on {}", hosts.join(", "))
}
