//! What a server says of itself at its start: what runs, by which settings, and when it is ready.

use std::time::Duration;

use reqwest::Url;
use tokio_util::sync::CancellationToken;

use crate::config::{ProviderSettings, Settings, StoreUrl};
use crate::store::sqlite::Schema;
use crate::transport;

use super::generation::CurrentGeneration;

/// Between two looks whether the gateway is ready.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Says what starts. `sources`: where the settings were said.
pub(crate) fn starting(settings: &Settings, sources: &str) {
    let store = match &settings.store.url {
        StoreUrl::Sqlite(path) => format!("sqlite:{}", path.display()),
        StoreUrl::Memory => "memory:".to_owned(),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        commit = env!("ANTWORT_COMMIT"),
        config = sources,
        address = %settings.listen,
        store,
        schema = Schema::CURRENT,
        providers = settings.providers.iter().map(place).collect::<Vec<_>>().join(", "),
        "starting"
    );
}

/// A provider and where it is; not the whole URL, whose path may be a secret.
fn place((name, provider): (&String, &ProviderSettings)) -> String {
    match Url::parse(&provider.url) {
        Ok(url) => format!("{name}={}", url.origin().ascii_serialization()),
        Err(_) => name.clone(),
    }
}

/// Says when the gateway is ready for the first time, by what the settings require of it by then.
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
