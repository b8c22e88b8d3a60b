//! The store and the bus in PostgreSQL. `postgres_absent` takes its place in a binary without them.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::store_settings::{instance, tenant_retentions};
use antwort_bus::Bus;
use antwort_config::settings::PostgresUrl;
use antwort_config::{Migrate, Settings};
use antwort_store::Store;
use antwort_store_postgres::{self as postgres, PostgresOptions, PostgresStore};
use antwort_telemetry::metrics::Metrics;

/// The schema of this version.
pub(super) fn schema() -> i64 {
    i64::from(postgres::Migrations::of_program().latest())
}

/// Why a URL cannot be used; connects to nothing.
pub(super) fn check_url(url: &PostgresUrl) -> Result<(), String> {
    postgres::check_url(url.expose()).map_err(|error| error.to_string())
}

/// Opens the store.
pub(super) async fn open(settings: &Settings, url: &PostgresUrl) -> anyhow::Result<Arc<dyn Store>> {
    let store = &settings.store;
    // Nobody promises that the names of hosts are unique among those that share a database.
    let instance = format!("{}/{}", instance(settings), Uuid::now_v7().simple());
    let store = PostgresStore::open(PostgresOptions {
        pool_size: store.pool_size,
        statement_timeout: store.statement_timeout,
        prepared_statements: store.prepared_statements,
        migrate: store.migrate == Migrate::Auto,
        ttl: store.ttl,
        conversation_ttl: store.conversation_ttl.map(|ttl| antwort_store::TimeToLive(ttl.0)),
        idempotency_ttl: store.idempotency_ttl,
        event_ttl: store.event_ttl,
        failed_requests: store.failed_requests,
        tenants: tenant_retentions(store),
        lease: store.lease,
        ..PostgresOptions::new(url.expose(), instance)
    });
    Ok(Arc::new(store.await?))
}

/// Opens the bus; connects in the background.
pub(super) fn bus(url: &PostgresUrl, poll_interval: Duration, metrics: &Arc<Metrics>) -> anyhow::Result<Bus> {
    Ok(postgres::bus(url.expose(), poll_interval, metrics)?)
}

/// That it is part of this binary.
#[expect(clippy::unnecessary_wraps, reason = "as the other one")]
pub(super) fn present() -> Result<(), &'static str> {
    Ok(())
}
