//! Forwards log messages of servers to the gateway's log, rate-limited. Messages of servers that requests brought are
//! logged at `debug` only.

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::Level;

use super::notices::{sanitize_for_log, sanitize_up_to};
use super::rate::TokenBucket;

/// Burst and lines per second of a session's log messages.
const MESSAGE_RATE: (u32, u32) = (20, 1);
/// Burst and lines per second of a program's stderr, logged at `debug`: a stack trace has dozens of lines.
const REPORT_RATE: (u32, u32) = (200, 20);
/// Maximum bytes of a logger's name.
const MAX_LOGGER_BYTES: usize = 256;

/// The log of one server.
#[derive(Debug)]
pub(super) struct ServerLog {
    server: Arc<str>,
    /// Whether the server's log levels are honoured.
    chooses_level: bool,
    lines: Mutex<Rate>,
}

#[derive(Debug)]
struct Rate {
    bucket: TokenBucket,
    dropped: u64,
}

#[derive(Deserialize)]
struct RawLog<'a> {
    #[serde(default, borrow)]
    level: Cow<'a, str>,
    #[serde(default, borrow)]
    logger: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    data: Option<&'a RawValue>,
}

impl ServerLog {
    /// For `notifications/message` of a session.
    pub(super) fn for_session(server: Arc<str>, chooses_level: bool) -> Self {
        Self::new(server, chooses_level, MESSAGE_RATE)
    }

    /// For the stderr of a program.
    pub(super) fn for_program(server: Arc<str>) -> Self {
        Self::new(server, false, REPORT_RATE)
    }

    fn new(server: Arc<str>, chooses_level: bool, (burst, per_second): (u32, u32)) -> Self {
        let bucket = TokenBucket::new(burst, per_second);
        Self { server, chooses_level, lines: Mutex::new(Rate { bucket, dropped: 0 }) }
    }

    /// Logs a `notifications/message`.
    pub(super) fn message(&self, raw: &RawValue) {
        // Avoids parsing messages that would be dropped.
        if !is_enabled(if self.chooses_level { Level::ERROR } else { Level::DEBUG }) {
            return;
        }
        let Ok(log) = serde_json::from_str::<RawLog<'_>>(raw.get()) else { return };
        let level = match &*log.level {
            _ if !self.chooses_level => Level::DEBUG,
            "emergency" | "alert" | "critical" | "error" => Level::ERROR,
            "warning" => Level::WARN,
            "notice" | "info" => Level::INFO,
            _ => Level::DEBUG,
        };
        self.line(level, log.logger.as_deref(), || {
            let data = log.data.map_or("null", RawValue::get);
            match serde_json::from_str::<Cow<'_, str>>(data) {
                Ok(text) => sanitize_for_log(text.as_bytes()),
                Err(_) => sanitize_for_log(data.as_bytes()),
            }
        });
    }

    /// Logs a line of stderr.
    pub(super) fn report(&self, text: impl FnOnce() -> String) {
        self.line(Level::DEBUG, None, text);
    }

    fn line(&self, level: Level, logger: Option<&str>, text: impl FnOnce() -> String) {
        if !is_enabled(level) {
            return;
        }
        let mut rate = self.lines.lock();
        if !rate.bucket.try_take(1) {
            rate.dropped += 1;
            return;
        }
        let dropped = std::mem::take(&mut rate.dropped);
        drop(rate);
        self.log_dropped(dropped);
        let (server, text) = (&*self.server, text());
        let logger = logger.map(|logger| sanitize_up_to(logger.as_bytes(), MAX_LOGGER_BYTES));
        match level {
            Level::ERROR => tracing::error!(target: "antwort::mcp", server, logger, "{text}"),
            Level::WARN => tracing::warn!(target: "antwort::mcp", server, logger, "{text}"),
            Level::INFO => tracing::info!(target: "antwort::mcp", server, logger, "{text}"),
            _ => tracing::debug!(target: "antwort::mcp", server, logger, "{text}"),
        }
    }

    fn log_dropped(&self, dropped: u64) {
        if dropped == 0 {
            return;
        }
        let server = &*self.server;
        match self.chooses_level {
            true => tracing::warn!(target: "antwort::mcp", server, "{dropped} more log lines were dropped"),
            false => tracing::debug!(target: "antwort::mcp", server, "{dropped} more log lines were dropped"),
        }
    }
}

impl Drop for ServerLog {
    fn drop(&mut self) {
        let rate = self.lines.get_mut();
        let dropped = std::mem::take(&mut rate.dropped);
        self.log_dropped(dropped);
    }
}

fn is_enabled(level: Level) -> bool {
    match level {
        Level::ERROR => tracing::enabled!(target: "antwort::mcp", Level::ERROR),
        Level::WARN => tracing::enabled!(target: "antwort::mcp", Level::WARN),
        Level::INFO => tracing::enabled!(target: "antwort::mcp", Level::INFO),
        _ => tracing::enabled!(target: "antwort::mcp", Level::DEBUG),
    }
}
