//! The bus to the other replicas, as the settings want it.

use std::sync::Arc;

use anyhow::Context;

use super::{nats, postgres};
use antwort_bus::Bus;
use antwort_config::{BusUrl, Settings, StoreUrl};
use antwort_telemetry::metrics::Metrics;

/// Opens the bus; connects in the background.
pub(super) fn open(settings: &Settings, metrics: &Arc<Metrics>) -> anyhow::Result<Bus> {
    let bus = &settings.bus;
    let opened = match (&bus.url, &settings.store.url) {
        // One process has the store.
        (_, StoreUrl::Sqlite(_) | StoreUrl::Memory) | (BusUrl::Local, _) => return Ok(Bus::local()),
        (BusUrl::Poll, _) => return Ok(Bus::poll(bus.poll_interval)),
        (BusUrl::Nats(urls), _) => nats::bus(urls, bus, metrics),
        (BusUrl::Postgres(url), _) | (BusUrl::Auto | BusUrl::Store, StoreUrl::Postgres(url)) => {
            postgres::bus(url, bus.poll_interval, metrics)
        }
    };
    opened.context("bus.url")
}
