//! In place of `postgres` in a binary without PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use antwort_bus::Bus;
use antwort_config::Settings;
use antwort_config::settings::PostgresUrl;
use antwort_store::Store;
use antwort_telemetry::metrics::Metrics;

/// Why a URL of PostgreSQL is refused.
pub(crate) const ABSENT: &str = "this binary was built without PostgreSQL (the cargo feature `postgres`)";

pub(super) fn schema() -> i64 {
    0
}

pub(super) fn check_url(_url: &PostgresUrl) -> Result<(), String> {
    Err(ABSENT.to_owned())
}

#[expect(clippy::unused_async, reason = "as the other one")]
pub(super) async fn open(_settings: &Settings, _url: &PostgresUrl) -> anyhow::Result<Arc<dyn Store>> {
    anyhow::bail!(ABSENT)
}

pub(super) fn bus(_url: &PostgresUrl, _interval: Duration, _metrics: &Arc<Metrics>) -> anyhow::Result<Bus> {
    anyhow::bail!(ABSENT)
}

/// That it is missing.
pub(super) fn present() -> Result<(), &'static str> {
    Err(ABSENT)
}
