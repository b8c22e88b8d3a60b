//! Where reads run: on a few connections of their own, away from tokio's workers.
//!
//! An in-memory database has one connection, the writer's; its reads take their turn there.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connection;
use super::error::closed;
use super::writer::Writer;
use crate::store::StoreError;

/// Reads at the same time; more wait.
const READERS: usize = 2;

/// Runs reads.
pub(super) enum Readers {
    /// On the writer's connection.
    OnWriter,
    /// On connections of their own.
    Pool(Pool),
}

impl Readers {
    /// Runs a read; what was committed when it is called is seen.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        writer: &Writer,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self {
            Self::OnWriter => writer.work(|connection| job(connection)).await,
            Self::Pool(pool) => pool.read(job).await,
        }
    }

    /// Ends the connections; later reads fail.
    pub(super) fn close(&self) {
        if let Self::Pool(pool) = self {
            pool.permits.close();
            pool.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }
}

/// Reading connections to one file, opened when first needed.
pub(super) struct Pool {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
}

impl Pool {
    /// A pool without connections yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, idle: Arc::default(), permits: Arc::new(Semaphore::new(READERS)) }
    }

    async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| closed())?;
        let (idle, path) = (Arc::clone(&self.idle), self.path.clone());
        let read = move || {
            let taken = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match taken {
                Some(connection) => connection,
                None => connection::reader(&path)?,
            };
            let result = job(&connection);
            // A connection that failed may go on failing: the next read opens another.
            if !matches!(result, Err(StoreError::Database(_))) && !permit.semaphore().is_closed() {
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            }
            drop(permit);
            result
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| StoreError::Database(format!("a read was cut off: {error}")))?
    }
}
