//! The lock of one server per database: a second server waits for the first to stop, alive but not ready, and fails to
//! start if that takes too long.

use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::probes;
use crate::config::{Settings, StoreUrl};
use crate::store::StoreError;
use crate::store::sqlite::{LockError, ServerLock};
use crate::transport::startup::{self, WaitReason};

/// Interval between attempts to take the lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Takes the lock on the database of these settings without waiting; `None` for a database in
/// memory, and for one that several servers share.
pub(super) fn acquire(settings: &Settings) -> Result<Option<ServerLock>, LockError> {
    match &settings.store.url {
        StoreUrl::Sqlite(path) => ServerLock::acquire(path).map(Some),
        StoreUrl::Memory | StoreUrl::Postgres(_) => Ok(None),
    }
}

/// As [`acquire`]; a disk that hangs holds up neither probes nor a shutdown.
async fn acquire_off_thread(settings: &Settings) -> Result<Option<ServerLock>, LockError> {
    let StoreUrl::Sqlite(path) = &settings.store.url else { return Ok(None) };
    let path = path.clone();
    let acquired = tokio::task::spawn_blocking(move || ServerLock::acquire(&path)).await;
    let failed = |error: JoinError| LockError::Failed(StoreError::Database(error.to_string()));
    acquired.map_err(failed)?.map(Some)
}

/// Like [`acquire`], but waits while another server holds the lock, and answers probes meanwhile. `Ok(None)`: shutdown was
/// requested first.
pub(super) async fn wait(
    settings: &Settings,
    listener: &TcpListener,
    shutdown: &CancellationToken,
    timeout: Duration,
) -> anyhow::Result<Option<Option<ServerLock>>> {
    let deadline = Instant::now() + timeout;
    let first = match acquire_off_thread(settings).await {
        Err(taken @ LockError::Taken { .. }) => taken,
        done => return done.map(Some).context(STORE),
    };
    tracing::warn!(error = %first, timeout_s = timeout.as_secs(), "another server holds the database; waiting for it to stop");
    let retries = async {
        loop {
            tokio::time::sleep(RETRY_INTERVAL).await;
            match acquire_off_thread(settings).await {
                Err(taken @ LockError::Taken { .. }) if Instant::now() >= deadline => {
                    return Err(anyhow::anyhow!(
                        "{taken}, and it was not released within {} s. Only one server can use a SQLite database: stop the \
                         other one, or configure another database for this one",
                        timeout.as_secs()
                    ))
                    .context(STORE);
                }
                Err(LockError::Taken { .. }) => {}
                done => return done.map(Some).context(STORE),
            }
        }
    };
    tokio::select! {
        done = retries => done,
        () = shutdown.cancelled() => Ok(None),
        never = probes::serve(listener, startup::router(WaitReason::Lock)) => match never {},
    }
}

/// Context of errors.
pub(super) const STORE: &str = "opening the store (store.url)";
