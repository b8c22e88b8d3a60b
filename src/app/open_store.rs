//! Opens the store that the settings name.

use std::sync::Arc;

use anyhow::Context;

use super::lock::STORE;
use super::postgres;
use super::store_settings::{instance, requesters, tenant_retentions};
use antwort_config::{Settings, StoreUrl, Synchronous};
use antwort_store::{self as store, Store};
use antwort_store_sqlite::{self as sqlite, Location, SqliteOptions, SqliteStore};

/// Who opens the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreUser {
    /// A server, which keeps a reserve of disk space.
    Server,
    /// A short-lived command.
    Command,
}

pub(super) async fn open_store(settings: &Settings, opener: StoreUser) -> anyhow::Result<Arc<dyn Store>> {
    match &settings.store.url {
        StoreUrl::Sqlite(path) => open_sqlite(settings, opener, Location::File(path.clone())),
        StoreUrl::Memory => open_sqlite(settings, opener, Location::Memory),
        StoreUrl::Postgres(url) => postgres::open(settings, url).await,
    }
    .context(STORE)
}

fn open_sqlite(settings: &Settings, opener: StoreUser, location: Location) -> anyhow::Result<Arc<dyn Store>> {
    let store = SqliteStore::open(SqliteOptions {
        synchronous: match settings.store.synchronous {
            Synchronous::Normal => sqlite::Synchronous::Normal,
            Synchronous::Full => sqlite::Synchronous::Full,
        },
        ttl: settings.store.ttl,
        conversation_ttl: settings.store.conversation_ttl.map(|ttl| store::TimeToLive(ttl.0)),
        idempotency_ttl: settings.store.idempotency_ttl,
        event_ttl: settings.store.event_ttl,
        failed_requests: settings.store.failed_requests,
        max_bytes: settings.store.max_size.map(|bytes| bytes as u64),
        tenants: tenant_retentions(&settings.store),
        lease: settings.store.lease,
        requesters: requesters(settings),
        reserve: opener == StoreUser::Server,
        ..SqliteOptions::new(location, instance(settings))
    })?;
    Ok(Arc::new(store))
}
