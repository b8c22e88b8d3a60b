//! Startup log lines: what is starting, with which settings, and when it is ready.

use std::time::Duration;

use reqwest::Url;
use tokio_util::sync::CancellationToken;

use crate::config::{ProviderSettings, Settings, StoreUrl};
use crate::store::postgres::DatabaseSchema;
use crate::store::sqlite::Schema;
use crate::transport;

use super::generation::CurrentGeneration;

/// Interval between readiness checks until the first success.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Logs what starts. `sources`: where the settings came from.
pub(crate) fn starting(settings: &Settings, sources: &str) {
    let schema = match &settings.store.url {
        StoreUrl::Sqlite(_) | StoreUrl::Memory => Schema::CURRENT,
        StoreUrl::Postgres(_) => i64::from(DatabaseSchema::CURRENT),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        commit = env!("ANTWORT_COMMIT"),
        config = sources,
        address = %settings.listen,
        store = %settings.store.url,
        schema,
        providers = settings.providers.iter().map(name_and_origin).collect::<Vec<_>>().join(", "),
        "starting"
    );
}

/// A provider's name and origin; not its whole URL, since the path may hold a secret.
fn name_and_origin((name, provider): (&String, &ProviderSettings)) -> String {
    match Url::parse(&provider.url) {
        Ok(url) => format!("{name}={}", url.origin().ascii_serialization()),
        Err(_) => name.clone(),
    }
}

/// Logs when the gateway is ready for the first time, by the checks of the settings in force.
pub(super) async fn ready(current: CurrentGeneration, closing: CancellationToken) {
    loop {
        let state = current.load().state.clone();
        if transport::is_ready(&state).await {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = closing.cancelled() => return,
        }
    }
    tracing::info!("ready");
}
