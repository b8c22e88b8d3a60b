//! Runs reads on a few connections of their own, off tokio's workers, with a time limit.
//!
//! Reads of single rows have other connections than long ones (chains, lists, items by id), so that they never
//! wait for these; long reads are shared fairly by tenant, then owner. An in-memory database has one connection, the
//! writer's, on which its reads are queued.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;

use super::connection;
use super::error::{closed, database};
use super::writer::Writer;
use antwort_identity::Requester;
use antwort_limits::{AcquireError, AcquireOutcome, FairSemaphore, Permit, Shares};
use antwort_store::{Owner, StoreError};

/// Concurrent reads of single rows.
const POINT_READERS: u64 = 2;
/// Concurrent long reads.
const LONG_READERS: u64 = 4;
/// The timeout of a read, including the wait for a connection.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Steps of SQLite's virtual machine between two checks of the deadline.
const PROGRESS_STEPS: i32 = 100;

/// The class of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadKind {
    /// A row by its key.
    Point,
    /// Many rows.
    Long,
}

/// Runs reads.
pub(super) enum Readers {
    /// On the writer's connection.
    OnWriter,
    /// On connections of their own.
    Pool(Pool),
}

impl Readers {
    /// Runs a read, which sees what was committed before the call. It is interrupted after [`READ_TIMEOUT`], and when
    /// its caller stops waiting.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        writer: &Writer,
        length: ReadKind,
        owner: &Owner,
        job: impl FnOnce(&Connection, &Owner) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reading = owner.clone();
        let job = move |connection: &Connection| job(connection, &reading);
        let deadline = Deadline::after(READ_TIMEOUT);
        let _caller = deadline.cancel_on_drop();
        match self {
            Self::OnWriter => writer.run_job(move |connection| deadline.run(connection, job)).await,
            Self::Pool(pool) => pool.read(length, owner, deadline, job).await,
        }
    }

    /// Closes the connections; later reads fail.
    pub(super) fn close(&self) {
        if let Self::Pool(pool) = self {
            for lane in [&pool.point, &pool.long] {
                lane.permits.close();
                *lane.idle() = None;
            }
        }
    }
}

/// When a read has to end.
#[derive(Debug, Clone)]
struct Deadline {
    at: Instant,
    /// The caller has stopped waiting.
    abandoned: Arc<AtomicBool>,
}

/// Marks a read as abandoned when its caller is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Deadline {
    fn after(time: Duration) -> Self {
        Self { at: Instant::now() + time, abandoned: Arc::default() }
    }

    fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(Arc::clone(&self.abandoned))
    }

    fn is_over(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed) || Instant::now() >= self.at
    }

    /// Runs a read on a connection, which interrupts it at the deadline.
    fn run<T>(
        &self,
        connection: &mut Connection,
        job: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.is_over() {
            return Err(StoreError::Timeout);
        }
        let deadline = self.clone();
        connection.progress_handler(PROGRESS_STEPS, Some(move || deadline.is_over())).map_err(database)?;
        let result = job(connection);
        connection.progress_handler(PROGRESS_STEPS, None::<fn() -> bool>).map_err(database)?;
        result
    }
}

/// Reading connections to one file, opened when first needed.
pub(super) struct Pool {
    path: PathBuf,
    point: Lane,
    long: Lane,
}

/// The connections for one class of reads.
struct Lane {
    permits: FairSemaphore,
    idle: Arc<Idle>,
}

/// Unused connections; `None` once the pool is closed.
type Idle = Mutex<Option<Vec<Connection>>>;

impl Lane {
    pub(crate) fn new(readers: u64, requesters: &[Requester]) -> Self {
        let permits = FairSemaphore::new(Shares::new(readers, requesters));
        Self { permits, idle: Arc::new(Mutex::new(Some(Vec::new()))) }
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        self.idle.lock()
    }

    async fn acquire(&self, owner: &Owner, deadline: &Deadline) -> Result<Permit, StoreError> {
        let requester = Requester::new(&owner.tenant, &owner.principal);
        let granted = match self.permits.acquire(&requester, 1) {
            Ok(AcquireOutcome::Granted(permit)) => Ok(permit),
            Ok(AcquireOutcome::Queued(waiting)) => {
                tokio::time::timeout_at(deadline.at.into(), waiting).await.map_err(|_| StoreError::Timeout)?
            }
            Err(refused) => Err(refused),
        };
        granted.map_err(|refused| match refused {
            AcquireError::QueueFull => StoreError::Timeout,
            AcquireError::Closed => closed(),
        })
    }
}

impl Pool {
    /// A pool without connections yet.
    pub(super) fn new(path: PathBuf, requesters: &[Requester]) -> Self {
        // Reads of single rows are so short that fair queueing is enough, without shares.
        Self { path, point: Lane::new(POINT_READERS, &[]), long: Lane::new(LONG_READERS, requesters) }
    }

    /// Replaces the requesters that share the connections.
    pub(super) fn set_requesters(&self, requesters: &[Requester]) {
        self.long.permits.resize(Shares::new(LONG_READERS, requesters));
    }

    async fn read<T: Send + 'static>(
        &self,
        length: ReadKind,
        owner: &Owner,
        deadline: Deadline,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let lane = if length == ReadKind::Point { &self.point } else { &self.long };
        let permit = lane.acquire(owner, &deadline).await?;
        let (idle, path) = (Arc::clone(&lane.idle), self.path.clone());
        let read = move || {
            let taken = idle.lock().as_mut().and_then(Vec::pop);
            let mut connection = match taken {
                Some(connection) => connection,
                None => connection::reader(&path)?,
            };
            let result = deadline.run(&mut connection, job);
            // A connection that failed may fail again: the next read opens a new one.
            if !matches!(result, Err(StoreError::Database(_)))
                && let Some(idle) = idle.lock().as_mut()
            {
                idle.push(connection);
            }
            drop(permit);
            result
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| StoreError::Database(format!("a read was aborted: {error}")))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDLESS: &str =
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n";

    fn endless(connection: &Connection) -> Result<i64, StoreError> {
        connection.query_row(ENDLESS, [], |row| row.get(0)).map_err(database)
    }

    fn short(connection: &Connection) -> Result<i64, StoreError> {
        connection.query_row("SELECT 1", [], |row| row.get(0)).map_err(database)
    }

    fn owner(tenant: &str) -> Owner {
        Owner { tenant: tenant.into(), principal: "p".into() }
    }

    /// A pool that two tenants share.
    fn pool() -> (tempfile::TempDir, Pool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        Connection::open(&path).unwrap().pragma_update(None, "journal_mode", "wal").unwrap();
        let requesters = ["a", "b"].map(|tenant| Requester::new(&tenant.into(), &"p".into()));
        (folder, Pool::new(path, &requesters))
    }

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(1))
    }

    #[tokio::test]
    async fn a_read_that_takes_too_long_is_interrupted_and_its_connection_goes_on() {
        let (_folder, pool) = pool();
        let owner = owner("a");
        for _ in 0..2 {
            let read = pool.read(ReadKind::Long, &owner, Deadline::after(Duration::from_millis(50)), endless);
            assert!(matches!(read.await, Err(StoreError::Timeout)));
        }
        assert_eq!(pool.read(ReadKind::Long, &owner, soon(), short).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn long_reads_of_one_tenant_leave_room_for_those_of_another_and_for_single_rows() {
        let (_folder, pool) = pool();
        let (first, second) = (owner("a"), owner("b"));
        let greedy = (0..8).map(|_| pool.read(ReadKind::Long, &first, soon(), endless));
        let others = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            for length in [ReadKind::Long, ReadKind::Point] {
                for _ in 0..20 {
                    assert_eq!(pool.read(length, &second, soon(), short).await.unwrap(), 1);
                }
            }
            assert_eq!(pool.read(ReadKind::Point, &first, soon(), short).await.unwrap(), 1);
        };
        let (ended, ()) = tokio::join!(futures_util::future::join_all(greedy), others);
        assert!(ended.iter().all(|read| matches!(read, Err(StoreError::Timeout))), "{ended:?}");
    }

    #[tokio::test]
    async fn a_read_that_nobody_waits_for_any_more_is_interrupted() {
        let (_folder, pool) = pool();
        let first = owner("a");
        for _ in 0..10 {
            let deadline = Deadline::after(Duration::from_secs(600));
            let caller = deadline.cancel_on_drop();
            let read = pool.read(ReadKind::Long, &first, deadline, endless);
            assert!(tokio::time::timeout(Duration::from_millis(20), read).await.is_err());
            drop(caller);
        }
        let deadline = Deadline::after(Duration::from_secs(60));
        assert_eq!(pool.read(ReadKind::Long, &first, deadline, short).await.unwrap(), 1);
    }
}
