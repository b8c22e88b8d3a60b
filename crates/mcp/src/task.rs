//! Tasks of servers: calls whose result is fetched later, independent of the SDK.
//!
//! There are two dialects. In version 2025-11-25 the client asks for a task with `task` in `tools/call`, and fetches the result
//! with `tasks/result`. In the extension `io.modelcontextprotocol/tasks` of later versions the server decides, and
//! `tasks/get` has the result.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Whether a tool can be called as a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskSupport {
    /// It cannot.
    #[default]
    Forbidden,
    /// It can.
    Optional,
    /// It must.
    Required,
}

/// The dialect of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskDialect {
    /// Version 2025-11-25.
    Core,
    /// The extension `io.modelcontextprotocol/tasks`.
    Extension,
}

/// A task that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteTask {
    /// The server's id.
    pub id: String,
    /// Its dialect.
    pub dialect: TaskDialect,
    /// After which time to look again.
    pub poll: Duration,
    /// What the model is told meanwhile, if the server says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub say: Option<String>,
}

/// How often a task is looked at if its server says nothing.
const DEFAULT_POLL: Duration = Duration::from_secs(5);
/// The shortest and the longest interval.
const POLL_RANGE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_mins(10));

/// An interval of a server, in milliseconds, within bounds.
pub(super) fn poll_interval(milliseconds: Option<f64>) -> Duration {
    let asked = milliseconds.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok());
    asked.unwrap_or(DEFAULT_POLL).clamp(POLL_RANGE.0, POLL_RANGE.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_chooses_how_often_it_is_asked_within_bounds() {
        for (asked, milliseconds) in [
            (None, 5_000),
            (Some(0.0), 200),
            (Some(1_500.0), 1_500),
            (Some(-1.0), 5_000),
            (Some(f64::NAN), 5_000),
            (Some(1e300), 5_000),
            (Some(1e12), 600_000),
        ] {
            assert_eq!(poll_interval(asked), Duration::from_millis(milliseconds), "{asked:?}");
        }
    }
}
