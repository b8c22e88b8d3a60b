//! Metrics of WebSocket connections.

use super::super::request_log::RequestOutcome;
use super::registry::{Counter, Exposed, Family, Gauge};

#[derive(Debug)]
pub(super) struct WebSocketMetrics {
    connections: Family<Gauge>,
    queued: Family<Gauge>,
    turns: Family<Counter>,
}

impl WebSocketMetrics {
    pub(super) fn new() -> Self {
        let metrics = Self {
            connections: Family::gauge("antwort_websocket_connections", "Open WebSocket connections.", &[]),
            queued: Family::gauge(
                "antwort_websocket_queued_turns",
                "Requests that wait on WebSocket connections for the one in progress.",
                &[],
            ),
            turns: Family::counter(
                "antwort_websocket_turns_total",
                "Requests over WebSocket that have ended, by how they ended.",
                &["ended"],
            ),
        };
        metrics.connections.with(&[]);
        metrics.queued.with(&[]);
        for ended in RequestOutcome::ALL {
            metrics.turns.with(&[ended.as_str()]);
        }
        metrics
    }

    /// Changes the number of open connections.
    pub(super) fn connections(&self, more: i64) {
        self.connections.with(&[]).add(more);
    }

    /// Changes the number of requests that wait.
    pub(super) fn queued(&self, more: i64) {
        self.queued.with(&[]).add(more);
    }

    /// A request has ended. `ended` has few values.
    pub(super) fn turn(&self, ended: &'static str) {
        self.turns.with(&[ended]).add(1);
    }

    pub(super) fn families(&self) -> [&dyn Exposed; 3] {
        [&self.connections, &self.queued, &self.turns]
    }
}
