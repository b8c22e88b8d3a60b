//! The lock of one server per database: a second server waits for the first to stop, alive but not ready, and fails to
//! start if that takes too long.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::probes;
use crate::transport::startup::{self, WaitReason};
use antwort_config::{Settings, StoreUrl};
use antwort_store::StoreError;
use antwort_store_sqlite::{LockError, ServerLock};

/// Interval between attempts to take the lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// What to do about a database that another server holds.
const REMEDY: &str = "Only one server can use a SQLite database: stop the other one, or give this one another file \
                      (store.url in the configuration, or ANTWORT_STORE_URL=sqlite:PATH)";

/// Takes the lock on the database of these settings without waiting; `None` for a database that needs none.
pub(super) fn acquire(settings: &Settings) -> Result<Option<ServerLock>, LockError> {
    lockable(settings).map(ServerLock::acquire).transpose()
}

/// Like [`acquire`], for a server that does not wait for the lock: the error says what to do.
pub(super) fn acquire_at_once(settings: &Settings) -> anyhow::Result<Option<ServerLock>> {
    let acquired = acquire(settings).map_err(|error| match error {
        taken @ LockError::Taken { .. } => anyhow::anyhow!("{taken}. {REMEDY}"),
        failed @ LockError::Failed(_) => failed.into(),
    });
    acquired.context(STORE)
}

/// The database that only one server may use: neither one in memory, nor one that several servers share.
fn lockable(settings: &Settings) -> Option<&Path> {
    match &settings.store.url {
        StoreUrl::Sqlite(path) => Some(path),
        StoreUrl::Memory | StoreUrl::Postgres(_) => None,
    }
}

async fn acquire_off_thread(database: &Path) -> Result<ServerLock, LockError> {
    let database = database.to_owned();
    let acquired = tokio::task::spawn_blocking(move || ServerLock::acquire(&database)).await;
    acquired.unwrap_or_else(|error| Err(LockError::Failed(StoreError::Database(error.to_string()))))
}

/// Like [`acquire`], but waits while another server holds the lock. Answers probes and heeds a shutdown meanwhile, also if the disk
/// hangs. `Ok(None)`: shutdown was requested first.
pub(super) async fn wait(
    settings: &Settings,
    listener: &TcpListener,
    shutdown: &CancellationToken,
    timeout: Duration,
) -> anyhow::Result<Option<Option<ServerLock>>> {
    let Some(database) = lockable(settings) else { return Ok(Some(None)) };
    let deadline = Instant::now() + timeout;
    let timeout_s = timeout.as_secs();
    let attempts = async {
        let mut is_first = true;
        loop {
            match acquire_off_thread(database).await {
                Err(taken @ LockError::Taken { .. }) if is_first => {
                    is_first = false;
                    tracing::warn!(error = %taken, timeout_s, "another server holds the database; waiting for it to stop");
                }
                Err(taken @ LockError::Taken { .. }) if Instant::now() >= deadline => {
                    return Err(anyhow::anyhow!(
                        "{taken}, and it was not released within {timeout_s} s. {REMEDY}"
                    ))
                    .context(STORE);
                }
                Err(LockError::Taken { .. }) => {}
                done => return done.map(|lock| Some(Some(lock))).context(STORE),
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    };
    tokio::select! {
        done = attempts => done,
        () = shutdown.cancelled() => Ok(None),
        never = probes::serve(listener, startup::router(WaitReason::Lock)) => match never {},
    }
}

/// Context of errors.
pub(super) const STORE: &str = "opening the store (store.url)";
