//! The bus over NATS. `nats_absent` takes its place in a binary without it.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use antwort_bus::{Bus, NatsOptions};
use antwort_config::BusSettings;
use antwort_telemetry::metrics::Metrics;

/// Why the servers cannot be used; connects to nothing.
pub(super) fn check(urls: &SecretString, bus: &BusSettings) -> Result<(), String> {
    options(urls, bus).map(drop).map_err(|error| error.to_string())
}

/// Opens the bus; connects in the background.
pub(super) fn bus(urls: &SecretString, bus: &BusSettings, metrics: &Arc<Metrics>) -> anyhow::Result<Bus> {
    Ok(Bus::nats(options(urls, bus)?, bus.poll_interval, metrics))
}

fn options(urls: &SecretString, bus: &BusSettings) -> anyhow::Result<NatsOptions> {
    Ok(NatsOptions::new(urls.expose_secret(), &bus.subject)?)
}

/// That it is part of this binary.
#[expect(clippy::unnecessary_wraps, reason = "as the other one")]
pub(super) fn present() -> Result<(), &'static str> {
    Ok(())
}
