//! Requests over HTTP and the connections of clients.

use std::time::Duration;

use super::bounded;
use super::registry::{Counter, Exposed, Family, Gauge, Histogram, REQUEST_BUCKETS};

/// Why the gateway closes connections.
const REASONS: [&str; 6] = [
    "first_byte_timeout",
    "header_timeout",
    "keep_alive_timeout",
    "max_connections",
    "write_timeout",
    "shutdown",
];

#[derive(Debug)]
pub(super) struct HttpMetrics {
    requests: Family<Counter>,
    duration: Family<Histogram>,
    connections: Family<Gauge>,
    closed: Family<Counter>,
}

impl HttpMetrics {
    pub(super) fn new() -> Self {
        let metrics = Self {
            requests: Family::counter(
                "antwort_http_requests_total",
                "HTTP requests served.",
                &["route", "method", "status"],
            ),
            duration: Family::histogram(
                "antwort_http_request_duration_seconds",
                "Time from request headers to response headers.",
                &["route"],
                REQUEST_BUCKETS,
            ),
            connections: Family::gauge("antwort_connections", "Open client connections.", &[]),
            closed: Family::counter(
                "antwort_connections_closed_total",
                "Client connections closed by the gateway, by reason.",
                &["reason"],
            ),
        };
        metrics.connections.with(&[]);
        REASONS.iter().for_each(|reason| _ = metrics.closed.with(&[reason]));
        metrics
    }

    pub(super) fn request(&self, route: &str, method: &str, status: u16, took: Duration) {
        const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or(bounded::OTHER);
        let mut digits = [0; 3];
        self.requests.with(&[route, method, decimal(status, &mut digits)]).add(1);
        self.duration.with(&[route]).observe(took.as_secs_f64());
    }

    pub(super) fn connections(&self, more: i64) {
        self.connections.with(&[]).add(more);
    }

    pub(super) fn connection_closed(&self, reason: &'static str) {
        self.closed.with(&[reason]).add(1);
    }

    pub(super) fn families(&self) -> [&dyn Exposed; 4] {
        [&self.connections, &self.closed, &self.requests, &self.duration]
    }
}

/// The three digits of an HTTP status, without an allocation.
fn decimal(status: u16, digits: &mut [u8; 3]) -> &str {
    let status = status.min(999);
    for (digit, factor) in digits.iter_mut().zip([100, 10, 1]) {
        *digit = b'0' + u8::try_from(status / factor % 10).unwrap_or_default();
    }
    std::str::from_utf8(digits).unwrap_or_default()
}
