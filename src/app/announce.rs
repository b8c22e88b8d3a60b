//! Startup log lines: what is starting, with which settings, and when it is ready.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::transport;
use antwort_config::{ProviderSettings, Settings, StoreUrl};
use antwort_provider::redact_url;
use antwort_store_sqlite as sqlite;

use super::generation::CurrentGeneration;
use super::postgres;

/// Interval between readiness checks until the first success.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Logs what starts. `sources`: where the settings came from.
pub(crate) fn starting(settings: &Settings, sources: &str) {
    let schema = match &settings.store.url {
        StoreUrl::Sqlite(_) | StoreUrl::Memory => sqlite::Migrations::of_program().latest(),
        StoreUrl::Postgres(_) => postgres::schema(),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        commit = env!("ANTWORT_COMMIT"),
        config = sources,
        address = %settings.listen,
        store = %settings.store.url,
        schema,
        providers = settings.providers.iter().map(name_and_url).collect::<Vec<_>>().join(", "),
        "starting"
    );
}

/// A provider's name and URL, with its path: one without `/v1` is a common mistake.
fn name_and_url((name, provider): (&String, &ProviderSettings)) -> String {
    format!("{name}={}", redact_url(&provider.url))
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

#[cfg(test)]
mod tests {
    use super::*;
    use antwort_config::Preset;

    /// A URL without `/v1` looked like one with it.
    #[test]
    fn the_url_of_a_provider_is_announced_with_its_path_and_without_secrets() {
        let announced =
            |url: &str| name_and_url((&"a".to_owned(), &ProviderSettings::new(Preset::Generic, url)));
        assert_eq!(announced("http://127.0.0.1:11434"), "a=http://127.0.0.1:11434");
        assert_eq!(announced("http://127.0.0.1:11434/v1"), "a=http://127.0.0.1:11434/v1");
        assert_eq!(announced("https://u:secret@h/v1/?key=secret"), "a=https://h/v1");
    }
}
