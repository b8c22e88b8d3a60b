//! Migrates the database of an earlier version before it is opened, and answers probes meanwhile.

use anyhow::Context;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::lock::{self, STORE};
use super::probes;
use crate::transport::startup::{self, WaitReason};
use antwort_config::{Migrate, Settings, StoreUrl};
use antwort_store::StoreError;
use antwort_store_sqlite::{self as sqlite, LockError, MigrateOptions, Migrations, Schema, ServerLock};

/// Migrates the database of this server if the settings allow it. `Ok(None)`: shutdown was requested first; the database is
/// unchanged.
pub(super) async fn run(
    settings: &Settings,
    lock: Option<ServerLock>,
    listener: &TcpListener,
    shutdown: &CancellationToken,
) -> anyhow::Result<Option<Option<ServerLock>>> {
    let Some(lock) = lock else { return Ok(Some(None)) };
    let (settings, stop) = (settings.clone(), shutdown.clone());
    let work = tokio::task::spawn_blocking(move || {
        let migrated = migrate(&settings, &lock, stop);
        (lock, migrated)
    });
    let (lock, migrated) = tokio::select! {
        done = work => done.context(STORE)?,
        never = probes::serve(listener, startup::router(WaitReason::Migration)) => match never {},
    };
    match migrated {
        Err(_) if shutdown.is_cancelled() => Ok(None),
        done => done.map(|()| Some(Some(lock))).context(STORE),
    }
}

/// Like [`run`], without probes. With `store.migrate: off`, [`sqlite::SqliteStore::open`] refuses a file of an earlier
/// version.
pub(super) fn migrate(
    settings: &Settings,
    lock: &ServerLock,
    stop: CancellationToken,
) -> Result<(), StoreError> {
    match settings.store.migrate {
        Migrate::Auto => {
            sqlite::migrate(lock, &MigrateOptions { stop, ..MigrateOptions::default() }).map(drop)
        }
        Migrate::Off => Ok(()),
    }
}

/// For commands that use a database while servers may, too: migrates it if no server holds it.
pub(super) fn migrate_unused(settings: &Settings) -> anyhow::Result<()> {
    let StoreUrl::Sqlite(path) = &settings.store.url else { return Ok(()) };
    if !matches!(Migrations::of_program().schema_of_file(path).context(STORE)?, Schema::Older(_)) {
        return Ok(());
    }
    match lock::acquire(settings) {
        Ok(Some(lock)) => migrate(settings, &lock, CancellationToken::new()).context(STORE),
        // The server that holds it migrates it; until then opening it fails.
        Ok(None) | Err(LockError::Taken { .. }) => Ok(()),
        Err(error) => Err(error).context(STORE),
    }
}
