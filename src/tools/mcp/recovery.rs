//! Detects sessions that a server has lost, and replaces them.
//!
//! By the protocol a lost session is answered with 404, but restarted servers also answer 400, 401, 405, 410, 422, 5xx or
//! a JSON-RPC error. So after any such error the session is probed with `tools/list`, which has no side effects. If the
//! probe succeeds, the session is alive and the error was the call's own. If it fails, the session is re-initialized,
//! once for all affected calls. A call is repeated only if it was refused in the same way as the probe: then the session
//! was the reason, and the call was not executed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::backoff::FailureBackoff;
use super::context::CallerContext;
use super::error::{McpError, TimeoutKind};
use super::session::{LiveConnection, Session};
use crate::net::egress::EgressError;

/// What an error suggests about the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionDiagnosis {
    /// The session is not affected.
    None,
    /// The session is lost; the request was not processed.
    Lost,
    /// The session may be lost; if so, the request was not processed.
    Refused,
    /// The session may be lost, and the request may have been processed.
    Unclear,
}

/// How a server refuses requests of a lost session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// HTTP status 400 to 499.
    Status,
    /// A JSON-RPC error.
    Protocol(i64, String),
    /// An error that leaves open whether requests were processed.
    Other,
}

/// The recovery state of a session.
#[derive(Default)]
pub(super) struct Recovery {
    /// Held while the session is probed and re-initialized.
    checking: Mutex<()>,
    /// Number of successful probes.
    alive: AtomicU64,
    /// Backoff of re-initializations: failed ones, and those without a successful response yet.
    replace_backoff: FailureBackoff,
}

impl Recovery {
    /// Records a successful response: the last re-initialization helped.
    pub(super) fn reset(&self) {
        self.replace_backoff.reset();
    }
}

impl Refusal {
    fn from_error(error: &McpError) -> Self {
        match error {
            McpError::SessionLost | McpError::Unauthorized { .. } => Self::Status,
            McpError::Http { status: 400..=499, .. } => Self::Status,
            McpError::Protocol { code, message } => Self::Protocol(*code, message.clone()),
            _ => Self::Other,
        }
    }

    /// Whether a request with this error was refused for the same reason.
    fn matches(&self, failed: &McpError) -> bool {
        *self != Self::Other && *self == Self::from_error(failed)
    }
}

impl LiveConnection {
    /// Whether this request was refused like all others of the lost session.
    fn was_refused_as(&self, failed: &McpError) -> bool {
        let refusal = self.refusal.get().or_else(|| self.connection.is_lost().then_some(&Refusal::Status));
        refusal.is_some_and(|refusal| refusal.matches(failed))
    }
}

impl SessionDiagnosis {
    fn from_error(error: &McpError) -> Self {
        /// JSON-RPC internal error, which a call that was executed may return, too.
        const INTERNAL: i64 = -32603;
        match error {
            McpError::SessionLost => Self::Lost,
            // Timeout, size or rate limit: independent of the session.
            McpError::Http { status: 408 | 413 | 425 | 429, .. } => Self::None,
            McpError::Http { status: 400..=499, .. } | McpError::Unauthorized { .. } => Self::Refused,
            McpError::Protocol { code: INTERNAL, .. } => Self::Unclear,
            McpError::Protocol { .. } => Self::Refused,
            McpError::Http { status: 500..=599, .. }
            | McpError::Broken(_)
            | McpError::Malformed(_)
            | McpError::Egress(EgressError::Broken { .. }) => Self::Unclear,
            McpError::Http { .. }
            | McpError::InsufficientScope { .. }
            | McpError::Egress(_)
            | McpError::Connect(_)
            | McpError::UnknownVersion(_)
            | McpError::Timeout { .. }
            | McpError::TooLarge { .. }
            | McpError::ListsFull { .. } => Self::None,
        }
    }
}

impl Session {
    /// After a failed call: the connection to repeat it on, if the call was certainly not processed and a repetition may
    /// succeed. `context` is the caller context of the call. An error if the connection could not be replaced.
    pub(super) async fn recover(
        &self,
        open: &Arc<LiveConnection>,
        context: Option<&CallerContext>,
        failed: &McpError,
    ) -> Result<Option<Arc<LiveConnection>>, McpError> {
        if open.was_lost_before(failed) {
            return self.reconnect(open).await.map(Some);
        }
        if open.connection.is_closed() || !open.connection.has_sessions() {
            return Ok(None);
        }
        match SessionDiagnosis::from_error(failed) {
            SessionDiagnosis::None => Ok(None),
            SessionDiagnosis::Lost => self.reconnect(open).await.map(Some),
            SessionDiagnosis::Refused => {
                let next = self.replace_if_dead(open, context, None).await;
                Ok(next.filter(|_| open.was_refused_as(failed)))
            }
            SessionDiagnosis::Unclear => {
                self.replace_if_dead(open, context, None).await;
                Ok(None)
            }
        }
    }

    /// As [`Self::recover`], after a failed `tools/list`, which can always be repeated.
    pub(super) async fn recover_list(
        &self,
        open: &Arc<LiveConnection>,
        failed: &McpError,
    ) -> Result<Option<Arc<LiveConnection>>, McpError> {
        if open.was_lost_before(failed) {
            return self.reconnect(open).await.map(Some);
        }
        if SessionDiagnosis::from_error(failed) == SessionDiagnosis::None
            || open.connection.is_closed()
            || !open.connection.has_sessions()
        {
            return Ok(None);
        }
        if !open.has_answered() {
            // The connection never worked: drop it, so that the next attempt initializes a new session.
            self.discard(open);
            return Ok(None);
        }
        Ok(self.replace_if_dead(open, None, Some(failed)).await)
    }

    /// Probes the session with `tools/list` in the context of the failed call.
    async fn probe(&self, open: &LiveConnection, context: Option<&CallerContext>) -> Result<(), McpError> {
        let after = self.limits.list_timeout;
        let listing = open.connection.list_tools(self.limits.max_tools, context);
        let answer = tokio::time::timeout(after, listing)
            .await
            .unwrap_or(Err(McpError::Timeout { after, limit: TimeoutKind::List }));
        answer.map(drop)
    }

    async fn reconnect(&self, lost: &Arc<LiveConnection>) -> Result<Arc<LiveConnection>, McpError> {
        _ = lost.refusal.set(Refusal::Status);
        self.discard(lost);
        self.connect().await
    }

    /// Re-initializes the session if it is dead; `None` if it is alive or could not be replaced. `listed`: the error of a
    /// list that has failed already, in place of a probe.
    async fn replace_if_dead(
        &self,
        open: &Arc<LiveConnection>,
        context: Option<&CallerContext>,
        listed: Option<&McpError>,
    ) -> Option<Arc<LiveConnection>> {
        let recovery = &self.recovery;
        let (tries, alive) = (recovery.replace_backoff.tries(), recovery.alive.load(Ordering::Acquire));
        let _checking = recovery.checking.lock().await;
        if !self.is_current(open) {
            return self.live_connection();
        }
        let was_found_alive = listed.is_none() && recovery.alive.load(Ordering::Acquire) != alive;
        if was_found_alive || recovery.replace_backoff.blocking_error(tries).is_some() {
            return None;
        }
        let started = Instant::now();
        let probed = match listed {
            Some(_) => None,
            None => Some(self.probe(open, context).await),
        };
        let refusal = match (&probed, listed) {
            (Some(Ok(_)), _) => {
                recovery.alive.fetch_add(1, Ordering::AcqRel);
                self.note_answer(open);
                return None;
            }
            (Some(Err(error)), _) | (None, Some(error))
                if SessionDiagnosis::from_error(error) != SessionDiagnosis::None =>
            {
                Refusal::from_error(error)
            }
            (Some(Err(error)), _) => {
                // The server is unreachable or overloaded, which says nothing about the session.
                recovery.replace_backoff.record(error, started.elapsed());
                return None;
            }
            (None, _) => return None,
        };
        _ = open.refusal.set(refusal);
        tracing::debug!(target: "antwort::mcp", server = &*self.endpoint.name, "session lost by the MCP server, re-initializing");
        match self.make_connection().await {
            Ok(next) => {
                // Counts as a failure until the new session has answered a request.
                let unanswered = McpError::Connect("the re-initialized session has not answered yet".into());
                recovery.replace_backoff.record(&unanswered, Duration::ZERO);
                Some(next)
            }
            Err(error) => {
                recovery.replace_backoff.record(&error, started.elapsed());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_refused_alike_was_refused_for_the_session() {
        let protocol = |code, message: &str| McpError::Protocol { code, message: message.into() };
        let http = |status| McpError::Http { status, retry_after: None };
        for (list, call, expected) in [
            (McpError::SessionLost, http(400), true),
            (http(401), McpError::unauthorized(""), true),
            (http(410), http(422), true),
            (http(500), http(500), false),
            (http(502), http(400), false),
            (
                protocol(-32602, "Invalid request parameters"),
                protocol(-32602, "Invalid request parameters"),
                true,
            ),
            (protocol(-32602, "Invalid request parameters"), protocol(-32602, "Unknown tool: x"), false),
            (http(404), protocol(-32602, "Invalid request parameters"), false),
            (McpError::Broken("it ended".into()), McpError::Broken("it ended".into()), false),
        ] {
            assert_eq!(Refusal::from_error(&list).matches(&call), expected, "{list:?} {call:?}");
        }
    }
}
