//! The bus to the other replicas, as the settings want it.

use std::sync::Arc;

use anyhow::{Context, bail};
use secrecy::ExposeSecret;

use crate::bus::{Bus, NatsOptions};
use crate::config::{BusUrl, Settings, StoreUrl};
use crate::telemetry::metrics::Metrics;

/// Opens the bus; connects in the background.
pub(super) fn open(settings: &Settings, metrics: &Arc<Metrics>) -> anyhow::Result<Bus> {
    let (store, bus) = (&settings.store.url, &settings.bus);
    let is_shared = !matches!(store, StoreUrl::Sqlite(_) | StoreUrl::Memory);
    match (&bus.url, is_shared) {
        (BusUrl::Auto | BusUrl::Local, false) => Ok(Bus::local()),
        (_, false) => bail!(
            "bus.url is for replicas that share a PostgreSQL, and store.url is another store: leave it out, or write local:"
        ),
        (BusUrl::Local, true) => bail!(
            "bus.url is local:, but replicas may share the database of store.url: leave it out, or write poll:"
        ),
        (BusUrl::Poll, true) => Ok(Bus::poll(bus.poll_interval)),
        (BusUrl::Nats(urls), true) => {
            let options = NatsOptions::new(urls.expose_secret(), &bus.subject).context("bus.url")?;
            Ok(Bus::nats(options, bus.poll_interval, metrics))
        }
        (BusUrl::Postgres(url), true) => postgres(url.expose_secret(), settings, metrics),
        (BusUrl::Auto | BusUrl::Store, true) => match store {
            StoreUrl::Sqlite(_) | StoreUrl::Memory => Ok(Bus::local()),
        },
    }
}

fn postgres(url: &str, settings: &Settings, metrics: &Arc<Metrics>) -> anyhow::Result<Bus> {
    Bus::postgres(url, settings.bus.poll_interval, metrics).context("bus.url")
}
