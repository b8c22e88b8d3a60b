//! A bounded pool of connections.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, Fate, Statements};
use super::error::{Cause, closed, database, is_refused_option};
use super::limits::Limits;
use super::server_limit::ServerLimit;
use super::session::Session;
use super::tls::Tls;
use super::url::Target;
use antwort_store::StoreError;

/// How long connecting may take unless statements may take less, TLS and authentication included.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long a connection is waited for.
const WAIT: Duration = Duration::from_secs(10);

/// Connections to one database, made when they are needed. Cheap to clone.
#[derive(Clone)]
pub(super) struct Pool(Arc<Shared>);

struct Shared {
    target: Target,
    tls: Tls,
    is_preparing: bool,
    server_limit: ServerLimit,
    limits: Limits,
    slots: Arc<Semaphore>,
    idle: Mutex<Vec<Arc<Connection>>>,
    /// The tasks of connections, which end with them.
    tasks: TaskTracker,
}

impl Pool {
    /// A pool of so many connections, none of which is made yet. Statements and transactions have these limits.
    pub(super) fn new(
        target: Target,
        size: usize,
        limits: Limits,
        is_preparing: bool,
        tasks: TaskTracker,
    ) -> Result<Self, StoreError> {
        let tls = Tls::new(&target.verification)?;
        let slots = Arc::new(Semaphore::new(size));
        let (server_limit, idle) = (ServerLimit::new(limits), Mutex::default());
        Ok(Self(Arc::new(Shared { target, tls, is_preparing, server_limit, limits, slots, idle, tasks })))
    }

    /// The limits of its statements and transactions.
    pub(super) fn limits(&self) -> Limits {
        self.0.limits
    }

    /// A connection that is idle, or a new one.
    pub(super) async fn lease(&self) -> Result<Lease, StoreError> {
        let slot = tokio::time::timeout(WAIT, Arc::clone(&self.0.slots).acquire_owned()).await;
        let slot = slot.map_err(|_| StoreError::Timeout)?.map_err(|_| closed())?;
        let idle = std::iter::from_fn(|| self.0.idle.lock().pop()).find(|idle| !idle.client.is_closed());
        let was_idle = idle.is_some();
        let connection = match idle {
            Some(connection) => connection,
            None => Arc::new(self.connect().await?),
        };
        Ok(Lease { pool: self.clone(), connection, was_idle, is_reusable: true, before: None, _slot: slot })
    }

    /// A connection outside the bounds of the pool, for one who keeps it.
    pub(super) async fn connect(&self) -> Result<Connection, StoreError> {
        let Shared { target, tls, is_preparing, server_limit, limits, tasks, .. } = &*self.0;
        let connecting = async {
            match server_limit.config(&target.config) {
                Some(config) => match config.connect(tls.clone()).await {
                    Err(error) if is_refused_option(&error) => {
                        server_limit.refused();
                        target.config.connect(tls.clone()).await
                    }
                    connected => connected,
                },
                None => target.config.connect(tls.clone()).await,
            }
        };
        // The client's own limit ends with the socket: TLS and authentication have none.
        let connected = tokio::time::timeout(limits.statement.min(CONNECT_LIMIT), connecting).await;
        let connected = connected.map_err(|_| StoreError::Unavailable("connecting timed out".to_owned()))?;
        let (client, connection) = connected.map_err(|error| database(&error))?;
        tasks.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "store: a connection to the database ended");
            }
        });
        let statements = is_preparing.then(Statements::default);
        let mut connection = Connection {
            client,
            statements,
            limits: *limits,
            sent: Mutex::new(Instant::now()),
            is_limited: false,
            fate: Fate::default(),
        };
        connection.is_limited = server_limit.is_set(Session::new(&connection)).await?;
        Ok(connection)
    }

    /// Gives no connection any more, and closes those that are idle.
    pub(super) fn close(&self) {
        self.0.slots.close();
        self.0.idle.lock().clear();
    }
}

/// A connection for a while.
pub(super) struct Lease {
    pool: Pool,
    connection: Arc<Connection>,
    /// Whether it was made before.
    pub(crate) was_idle: bool,
    /// Whether no transaction is open on it.
    pub(crate) is_reusable: bool,
    /// Why the transaction failed that was rolled back.
    pub before: Option<Cause>,
    _slot: OwnedSemaphorePermit,
}

impl Lease {
    pub(super) fn session(&self) -> Session<'_> {
        Session::new(&self.connection)
    }

    /// Why a statement has failed.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.connection.fate.cause()
    }

    /// What has failed was rolled back.
    pub(super) fn forgive(&self) {
        self.connection.fate.forgive();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_reusable && self.connection.fate.cause().is_none() && !self.pool.0.slots.is_closed() {
            self.pool.0.idle.lock().push(Arc::clone(&self.connection));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Writers, the start and the end of a gateway once waited for it without an end.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_accepts_and_says_nothing_is_not_waited_for_without_an_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("postgres://user@{}/db", listener.local_addr().unwrap());
        let target = Target::parse(&url).unwrap();
        let limits = Limits::new(Duration::from_secs(5), Duration::from_secs(30));
        let pool = Pool::new(target, 1, limits, true, TaskTracker::new()).unwrap();
        assert!(matches!(pool.lease().await, Err(StoreError::Unavailable(_))));
    }
}
