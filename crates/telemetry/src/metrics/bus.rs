//! Metrics of the bus between replicas.

use super::registry::{Counter, Exposed, Family, Gauge};

#[derive(Debug)]
pub(super) struct BusMetrics {
    connected: Family<Gauge>,
    lost: Family<Counter>,
}

impl BusMetrics {
    pub(super) fn new() -> Self {
        Self {
            connected: Family::gauge(
                "antwort_bus_connected",
                "Whether the bus reaches the other replicas: 1 or 0. Absent without a bus.",
                &[],
            ),
            lost: Family::counter(
                "antwort_bus_signals_lost_total",
                "Signals that could not be sent to the other replicas, which find out by asking the database.",
                &[],
            ),
        }
    }

    pub(super) fn connected(&self, change: i64) {
        self.connected.with(&[]).add(change);
        self.lost.with(&[]);
    }

    pub(super) fn signal_lost(&self) {
        self.lost.with(&[]).add(1);
    }

    pub(super) fn families(&self) -> [&dyn Exposed; 2] {
        [&self.connected, &self.lost]
    }
}
