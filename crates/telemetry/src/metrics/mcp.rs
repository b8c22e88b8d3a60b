//! Connections to MCP servers, their tool lists, and calls in flight.

use super::bounded::BoundedLabels;
use super::registry::{Counter, Exposed, Family, Gauge};

/// Servers with series of their own. Configured ones are far fewer, but a reload may add others.
const MAX_SERVERS: usize = 200;

#[derive(Debug)]
pub(super) struct McpMetrics {
    servers: BoundedLabels,
    lists: Family<Counter>,
    sessions: Family<Gauge>,
    calls: Family<Gauge>,
}

impl McpMetrics {
    pub(super) fn new() -> Self {
        let metrics = Self {
            servers: BoundedLabels::new(MAX_SERVERS),
            lists: Family::counter(
                "antwort_mcp_lists_total",
                "Tool lists of MCP servers that requests needed, by outcome.",
                &["executor", "outcome"],
            ),
            sessions: Family::gauge("antwort_mcp_sessions", "Open connections to MCP servers.", &[]),
            calls: Family::gauge("antwort_mcp_calls_in_flight", "Calls to MCP servers in flight.", &[]),
        };
        metrics.sessions.with(&[]);
        metrics.calls.with(&[]);
        metrics
    }

    /// `label` is that of a configured server.
    pub(super) fn list(&self, label: Option<&str>, outcome: &'static str) {
        let executor = label.map_or_else(|| "mcp:request".to_owned(), |label| format!("mcp:{label}"));
        self.lists.with(&[self.servers.value(&executor, true), outcome]).add(1);
    }

    pub(super) fn sessions(&self, more: i64) {
        self.sessions.with(&[]).add(more);
    }

    pub(super) fn calls_in_flight(&self, more: i64) {
        self.calls.with(&[]).add(more);
    }

    pub(super) fn families(&self) -> [&dyn Exposed; 3] {
        [&self.lists, &self.sessions, &self.calls]
    }
}
