//! A SQLite file that is copied, or copied to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::connection;
use super::copy_tables::Table;
use super::error::database;
use super::lock::{LockError, ServerLock};
use super::migrations::Migrations;
use super::options::{Location, Synchronous};
use super::schema::Schema;
use antwort_store::StoreError;
use antwort_store::copy_side::{Batch, CopySide, ImportError};
use antwort_store::neutral_row::{Known, NeutralRow, missing};
use antwort_store::row_kinds::Kind;

/// A file that no server uses meanwhile.
pub struct SqliteSide {
    path: PathBuf,
    tables: Arc<Vec<Table>>,
    /// Of a target.
    writer: Option<Arc<Mutex<Connection>>>,
    _lock: ServerLock,
}

impl SqliteSide {
    /// Opens a file with the current schema; a target is created if there is none.
    pub fn open(path: &Path, is_target: bool) -> Result<Self, StoreError> {
        let migrations = Migrations::of_program();
        let schema = migrations.schema_of_file(path)?;
        let location = Location::File(path.to_owned());
        if let Some(refusal) = migrations.refusal(schema, &location) {
            return Err(refusal);
        }
        if schema == Schema::New && !is_target {
            return Err(StoreError::Schema("there is no such database".to_owned()));
        }
        let lock = ServerLock::acquire(path).map_err(|error| match error {
            LockError::Failed(error) => error,
            taken @ LockError::Taken { .. } => StoreError::Schema(format!("{taken}. Stop the gateway first")),
        })?;
        let (connection, writer) = match is_target {
            true => {
                let mut writer = connection::writer(&location, Synchronous::Normal, None)?;
                migrations.create_or_check(&mut writer, &location)?;
                (connection::reader(path)?, Some(Arc::new(Mutex::new(writer))))
            }
            false => (connection::reader(path)?, None),
        };
        let tables = Arc::new(Table::all(&connection)?);
        Ok(Self { path: path.to_owned(), tables, writer, _lock: lock })
    }

    /// Runs what blocks.
    async fn run<T: Send + 'static, E: From<StoreError> + Send + 'static>(
        job: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        spawn_blocking(job).await.unwrap_or_else(|error| Err(StoreError::Database(error.to_string()).into()))
    }

    fn writer(&self) -> Result<Arc<Mutex<Connection>>, StoreError> {
        self.writer.clone().ok_or_else(|| StoreError::Database("it is only read".to_owned()))
    }
}

#[async_trait]
impl CopySide for SqliteSide {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    async fn export(&self, kind: &'static Kind, to: mpsc::Sender<Vec<NeutralRow>>) -> Result<(), StoreError> {
        let (path, tables) = (self.path.clone(), Arc::clone(&self.tables));
        Self::run(move || {
            let connection = connection::reader(&path)?;
            export(&connection, table(&tables, kind)?, &to)
        })
        .await
    }

    async fn import(&self, kind: &'static Kind, rows: Vec<NeutralRow>) -> Result<usize, ImportError> {
        let (writer, tables) = (self.writer()?, Arc::clone(&self.tables));
        Self::run(move || import(&mut writer.lock(), table(&tables, kind)?, rows)).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        let writer = self.writer()?;
        Self::run(move || {
            let emptied = writer.lock().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            emptied.map_err(database)
        })
        .await
    }
}

fn table<'a>(tables: &'a [Table], kind: &Kind) -> Result<&'a Table, StoreError> {
    let found = tables.iter().find(|table| table.kind.table == kind.table);
    found.ok_or_else(|| StoreError::Schema(format!("there is no table {}", kind.table)))
}

fn export(
    connection: &Connection,
    table: &Table,
    to: &mpsc::Sender<Vec<NeutralRow>>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare(&table.export).map_err(database)?;
    let mut found = statement.query([]).map_err(database)?;
    let mut batch = Batch::default();
    while let Some(row) = found.next().map_err(database)? {
        if let Some(rows) = batch.push(table.read(row)?)
            && to.blocking_send(rows).is_err()
        {
            return Ok(());
        }
    }
    if let Some(rows) = batch.rest() {
        // If nobody wants them, somebody else has failed.
        _ = to.blocking_send(rows);
    }
    Ok(())
}

fn import(connection: &mut Connection, table: &Table, rows: Vec<NeutralRow>) -> Result<usize, ImportError> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    let mut known = Known::new();
    for row in &rows {
        if let Some(found) = table.find(&transaction, row)? {
            known.insert(found.key(table.kind), found.digest());
        }
    }
    let new = missing(table.kind, rows, &known).map_err(ImportError::Differs)?;
    for row in &new {
        table.insert(&transaction, row)?;
    }
    transaction.commit().map_err(database)?;
    Ok(new.len())
}
