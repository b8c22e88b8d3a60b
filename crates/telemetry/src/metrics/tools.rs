//! Tool calls: outcomes, durations, attempts, and the cache of results.

use std::time::Duration;

use super::bounded::{self, BoundedLabels};
use super::registry::{Counter, Exposed, Family, Histogram, REQUEST_BUCKETS};

/// Tools with series of their own. MCP servers can make up any number of names.
const MAX_TOOLS: usize = 500;
/// Executors with series of their own. Configured and built-in ones are far fewer.
const MAX_EXECUTORS: usize = 200;

/// What becomes of a result that a response was to follow: it was queued, the result was stored for whoever continues, or
/// the request was refused.
const FOLLOW_UPS: [&str; 3] = ["queued", "stored", "refused"];

#[derive(Debug)]
pub(super) struct ToolMetrics {
    tools: BoundedLabels,
    executors: BoundedLabels,
    calls: Family<Counter>,
    duration: Family<Histogram>,
    attempts: Family<Counter>,
    cache: Family<Counter>,
    follow_ups: Family<Counter>,
}

impl ToolMetrics {
    pub(super) fn new() -> Self {
        let metrics = Self {
            tools: BoundedLabels::new(MAX_TOOLS),
            executors: BoundedLabels::new(MAX_EXECUTORS),
            calls: Family::counter(
                "antwort_tool_calls_total",
                "Tool calls, by outcome and executor.",
                &["tool", "outcome", "executor"],
            ),
            duration: Family::histogram(
                "antwort_tool_duration_seconds",
                "Time from a tool call to its result.",
                &["tool", "executor"],
                REQUEST_BUCKETS,
            ),
            attempts: Family::counter(
                "antwort_tool_attempts_total",
                "Attempts to run tool calls, retries included.",
                &["tool", "executor"],
            ),
            cache: Family::counter(
                "antwort_tool_cache_total",
                "Lookups in the cache of tool results, by result.",
                &["result"],
            ),
            follow_ups: Family::counter(
                "antwort_follow_ups_total",
                "Results of asynchronous tools that a response was to follow, by what became of that.",
                &["outcome"],
            ),
        };
        for outcome in FOLLOW_UPS {
            metrics.follow_ups.with(&[outcome]);
        }
        for result in ["hit", "miss", "bypass"] {
            metrics.cache.with(&[result]);
        }
        metrics
    }

    pub(super) fn call(&self, tool: &str, executor: &str, outcome: &'static str, took: Duration) {
        let (tool, executor) = (self.tools.value(tool, true), self.executor(executor));
        self.calls.with(&[tool, outcome, executor]).add(1);
        self.duration.with(&[tool, executor]).observe(took.as_secs_f64());
    }

    pub(super) fn attempt(&self, tool: &str, executor: &str) {
        let (tool, executor) = (self.tools.value(tool, true), self.executor(executor));
        self.attempts.with(&[tool, executor]).add(1);
    }

    /// Clients choose the names of functions, so no label has them.
    pub(super) fn client_calls(&self, calls: usize) {
        if calls > 0 {
            self.calls.with(&[bounded::OTHER, "handed_over", "client"]).add(calls as u64);
        }
    }

    pub(super) fn cache(&self, result: &'static str) {
        self.cache.with(&[result]).add(1);
    }

    /// Models make names up, so no label has them.
    pub(super) fn refused_call(&self, code: &'static str) {
        self.calls.with(&[bounded::OTHER, code, "none"]).add(1);
    }

    pub(super) fn follow_up(&self, outcome: &'static str) {
        self.follow_ups.with(&[outcome]).add(1);
    }

    /// Built-in tools are labelled `local`, whatever their executor is called.
    fn executor<'a>(&self, id: &'a str) -> &'a str {
        if id == "builtin" { "local" } else { self.executors.value(id, true) }
    }

    pub(super) fn families(&self) -> [&dyn Exposed; 5] {
        [&self.calls, &self.duration, &self.attempts, &self.cache, &self.follow_ups]
    }
}
