//! One server a database: whoever comes second waits for the first to go, alive and unready, and then says why it
//! does not start.

use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::probes;
use crate::config::{Settings, StoreUrl};
use crate::store::sqlite::{LockError, ServerLock};
use crate::transport::startup::{self, WaitReason};

/// Between two tries.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// The database of these settings as this server's own; nothing for one in memory. Does not wait.
pub(super) fn acquire(settings: &Settings) -> Result<Option<ServerLock>, LockError> {
    match &settings.store.url {
        StoreUrl::Sqlite(path) => ServerLock::acquire(path).map(Some),
        StoreUrl::Memory => Ok(None),
    }
}

/// The same, but waits while another server has it, and answers probes meanwhile. `Ok(None)`: told to stop before.
pub(super) async fn wait(
    settings: &Settings,
    listener: &TcpListener,
    shutdown: &CancellationToken,
    patience: Duration,
) -> anyhow::Result<Option<Option<ServerLock>>> {
    let deadline = Instant::now() + patience;
    let first = match acquire(settings) {
        Err(taken @ LockError::Taken { .. }) => taken,
        done => return done.map(Some).context(STORE),
    };
    tracing::warn!("{first}; waiting for it to stop, for {} s at most", patience.as_secs());
    let tries = async {
        loop {
            tokio::time::sleep(RETRY_INTERVAL).await;
            match acquire(settings) {
                Err(taken @ LockError::Taken { .. }) if Instant::now() >= deadline => {
                    return Err(anyhow::anyhow!(
                        "{taken}, and was not given up within {} s. A SQLite database belongs to one server: stop \
                         the other one, or give this one a database of its own",
                        patience.as_secs()
                    ))
                    .context(STORE);
                }
                Err(LockError::Taken { .. }) => {}
                done => return done.map(Some).context(STORE),
            }
        }
    };
    tokio::select! {
        done = tries => done,
        () = shutdown.cancelled() => Ok(None),
        never = probes::serve(listener, startup::router(WaitReason::Lock)) => match never {},
    }
}

/// What was attempted, for errors.
pub(super) const STORE: &str = "opening the store (store.url)";
