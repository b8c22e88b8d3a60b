//! In place of `nats` in a binary without NATS.

use std::sync::Arc;

use secrecy::SecretString;

use antwort_bus::Bus;
use antwort_config::BusSettings;
use antwort_telemetry::metrics::Metrics;

/// Why URLs of NATS are refused.
const ABSENT: &str = "this binary was built without NATS (the cargo feature `nats`)";

pub(super) fn check(_urls: &SecretString, _bus: &BusSettings) -> Result<(), String> {
    Err(ABSENT.to_owned())
}

pub(super) fn bus(_urls: &SecretString, _bus: &BusSettings, _metrics: &Arc<Metrics>) -> anyhow::Result<Bus> {
    anyhow::bail!(ABSENT)
}

/// That it is missing.
pub(super) fn present() -> Result<(), &'static str> {
    Err(ABSENT)
}
