//! Checks of the URLs that only their clients understand: those of PostgreSQL and NATS. Connects to nothing.

use secrecy::ExposeSecret;

use antwort_bus::NatsOptions;
use antwort_config::settings::PostgresUrl;
use antwort_config::{BusUrl, Settings, StoreUrl};
use antwort_store_postgres as postgres;

/// What is wrong with the URLs, each with its key.
pub(crate) fn errors(settings: &Settings) -> Vec<String> {
    let postgres = |key: &str, url: &PostgresUrl| {
        postgres::check_url(url.expose()).err().map(|error| format!("{key}: {error}"))
    };
    let store = match &settings.store.url {
        StoreUrl::Postgres(url) => postgres("store.url", url),
        StoreUrl::Sqlite(_) | StoreUrl::Memory => None,
    };
    let bus = match &settings.bus.url {
        BusUrl::Postgres(url) => postgres("bus.url", url),
        BusUrl::Nats(urls) => NatsOptions::new(urls.expose_secret(), &settings.bus.subject)
            .err()
            .map(|error| format!("bus.url: {error}")),
        BusUrl::Auto | BusUrl::Store | BusUrl::Local | BusUrl::Poll => None,
    };
    [store, bus].into_iter().flatten().collect()
}
