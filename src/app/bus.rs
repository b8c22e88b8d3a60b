//! The bus to the other replicas, as the settings want it.

use std::sync::Arc;

use anyhow::Context;
use secrecy::ExposeSecret;

use antwort_bus::{Bus, NatsOptions};
use antwort_config::{BusUrl, Settings, StoreUrl};
use antwort_store_postgres as postgres;
use antwort_telemetry::metrics::Metrics;

/// Opens the bus; connects in the background.
pub(super) fn open(settings: &Settings, metrics: &Arc<Metrics>) -> anyhow::Result<Bus> {
    let bus = &settings.bus;
    let by_store = |url: &str| postgres::bus(url, bus.poll_interval, metrics);
    let opened = match (&bus.url, &settings.store.url) {
        // One process has the store.
        (_, StoreUrl::Sqlite(_) | StoreUrl::Memory) | (BusUrl::Local, _) => return Ok(Bus::local()),
        (BusUrl::Poll, _) => return Ok(Bus::poll(bus.poll_interval)),
        (BusUrl::Nats(urls), _) => {
            let options = NatsOptions::new(urls.expose_secret(), &bus.subject).context("bus.url")?;
            return Ok(Bus::nats(options, bus.poll_interval, metrics));
        }
        (BusUrl::Postgres(url), _) => by_store(url.expose()),
        (BusUrl::Auto | BusUrl::Store, StoreUrl::Postgres(url)) => by_store(url.expose()),
    };
    opened.context("bus.url")
}
