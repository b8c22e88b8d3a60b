//! Copies all data of one database to another, whichever backends they have.
//!
//! Rows that the target has already are passed, so that a copy that was stopped is run again. Then both databases are read
//! again, and compared by the number and the hash of their rows.

use std::path::PathBuf;

use tokio::sync::mpsc;

use antwort_store::StoreError;
use antwort_store::copy_side::{CopySide, ImportError};
use antwort_store::neutral_row::{NeutralRow, RowsDigest};
use antwort_store::row_kinds::{KINDS, Kind};
#[cfg(feature = "postgres")]
use antwort_store_postgres::PostgresSide;
use antwort_store_sqlite::SqliteSide;

/// Batches of rows that wait to be written.
const WAITING_BATCHES: usize = 2;

/// A database.
#[derive(Clone, PartialEq, Eq)]
pub enum CopyPlace {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// The URL of a PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres(String),
}

/// What a copy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyProgress {
    /// Rows of a table were written, or were there already.
    Written {
        /// The table.
        table: &'static str,
        /// How many rows of it have been read.
        rows: u64,
        /// How many of them were not there yet.
        new: u64,
        /// Whether these are all.
        is_all: bool,
    },
    /// All rows were written, and are read again to compare them.
    Comparing,
}

/// A table whose rows are the same in both databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiedTable {
    /// Its name.
    pub table: &'static str,
    /// Its rows.
    pub digest: RowsDigest,
}

/// Why a copy failed. What was written stays; run again, it goes on.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Both are one database.
    #[error("both are the same database")]
    SameDatabase,
    /// One of the databases failed, is in use, or has another schema.
    #[error("{database}: {error}")]
    Store {
        /// The database.
        database: String,
        /// Why.
        error: StoreError,
    },
    /// The target has a row with other content.
    #[error("{database} has other content in {table} ({row}): copy to an empty database")]
    Differs {
        /// The target.
        database: String,
        /// The table.
        table: &'static str,
        /// The row.
        row: String,
    },
    /// A table is not the same in both.
    #[error(
        "{table} is not the same in both: {} rows, hash {from}, and {} rows, hash {to}. Rows were in the target before, or \
         a gateway has written to one of them: stop all gateways, and copy to an empty database", from.rows, to.rows
    )]
    Unequal {
        /// The table.
        table: &'static str,
        /// Its rows where they were read.
        from: RowsDigest,
        /// Its rows where they were written.
        to: RowsDigest,
    },
}

/// Copies all data. The target is created, or gets its schema, if it is empty; rows that it has already are compared.
/// Nothing is changed in `from`.
pub async fn copy(
    from: &CopyPlace,
    to: &CopyPlace,
    progress: &mut (dyn FnMut(CopyProgress) + Send),
) -> Result<Vec<CopiedTable>, CopyError> {
    if is_same(from, to) {
        return Err(CopyError::SameDatabase);
    }
    let from = open(from, Role::Source).await?;
    let to = open(to, Role::Target).await?;
    for kind in KINDS {
        copy_kind(kind, &*from, &*to, progress).await?;
    }
    to.sync().await.map_err(|error| failed(&*to, error))?;
    progress(CopyProgress::Comparing);
    let mut copied = Vec::with_capacity(KINDS.len());
    for kind in KINDS {
        let (source, target) = tokio::join!(digest(kind, &*from), digest(kind, &*to));
        let (source, target) = (source?, target?);
        if source != target {
            return Err(CopyError::Unequal { table: kind.table, from: source, to: target });
        }
        copied.push(CopiedTable { table: kind.table, digest: source });
    }
    Ok(copied)
}

/// What a database is to a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Source,
    Target,
}

async fn open(place: &CopyPlace, role: Role) -> Result<Box<dyn CopySide>, CopyError> {
    let is_target = role == Role::Target;
    let opened: Result<Box<dyn CopySide>, StoreError> = match place {
        CopyPlace::Sqlite(path) => SqliteSide::open(path, is_target).map(|side| Box::new(side) as _),
        #[cfg(feature = "postgres")]
        CopyPlace::Postgres(url) => PostgresSide::open(url, is_target).await.map(|side| Box::new(side) as _),
    };
    let database = || match place {
        CopyPlace::Sqlite(path) => path.display().to_string(),
        // Its URL has a password.
        #[cfg(feature = "postgres")]
        CopyPlace::Postgres(_) if is_target => "the PostgreSQL database to copy to".to_owned(),
        #[cfg(feature = "postgres")]
        CopyPlace::Postgres(_) => "the PostgreSQL database to copy from".to_owned(),
    };
    opened.map_err(|error| CopyError::Store { database: database(), error })
}

/// Whether both are one database. PostgreSQL's may have several URLs: a copy to itself changes nothing.
fn is_same(from: &CopyPlace, to: &CopyPlace) -> bool {
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    match (from, to) {
        (CopyPlace::Sqlite(from), CopyPlace::Sqlite(to)) => real(from) == real(to),
        #[cfg(feature = "postgres")]
        _ => from == to,
    }
}

async fn copy_kind(
    kind: &'static Kind,
    from: &dyn CopySide,
    to: &dyn CopySide,
    progress: &mut (dyn FnMut(CopyProgress) + Send),
) -> Result<(), CopyError> {
    let (sender, batches) = mpsc::channel(WAITING_BATCHES);
    let (read, written) = tokio::join!(from.export(kind, sender), write(kind, to, batches, progress));
    let (rows, new) = written?;
    read.map_err(|error| failed(from, error))?;
    progress(CopyProgress::Written { table: kind.table, rows, new, is_all: true });
    Ok(())
}

/// Writes rows as they come. Returns how many there were, and how many of them were new.
async fn write(
    kind: &'static Kind,
    to: &dyn CopySide,
    mut batches: mpsc::Receiver<Vec<NeutralRow>>,
    progress: &mut (dyn FnMut(CopyProgress) + Send),
) -> Result<(u64, u64), CopyError> {
    let (mut rows, mut new) = (0, 0);
    while let Some(batch) = batches.recv().await {
        rows += batch.len() as u64;
        new += to.import(kind, batch).await.map_err(|error| refused(kind, to, error))? as u64;
        progress(CopyProgress::Written { table: kind.table, rows, new, is_all: false });
    }
    Ok((rows, new))
}

/// The number and the hash of all rows of a kind.
async fn digest(kind: &'static Kind, side: &dyn CopySide) -> Result<RowsDigest, CopyError> {
    let (sender, mut batches) = mpsc::channel::<Vec<NeutralRow>>(WAITING_BATCHES);
    let mut digest = RowsDigest::default();
    let add = async {
        while let Some(batch) = batches.recv().await {
            batch.iter().for_each(|row| digest.add(row));
        }
    };
    let (read, ()) = tokio::join!(side.export(kind, sender), add);
    read.map_err(|error| failed(side, error))?;
    Ok(digest)
}

fn failed(side: &dyn CopySide, error: StoreError) -> CopyError {
    CopyError::Store { database: side.name(), error }
}

fn refused(kind: &Kind, to: &dyn CopySide, error: ImportError) -> CopyError {
    match error {
        ImportError::Store(error) => failed(to, error),
        ImportError::Differs(row) => CopyError::Differs { database: to.name(), table: kind.table, row },
    }
}
