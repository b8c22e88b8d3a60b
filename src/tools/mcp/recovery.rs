//! Sessions that a server has lost: how one is told from a call that was refused, and how it is replaced.
//!
//! The protocol's word for it is a 404, and few servers keep to it: restarted ones answer 400, 401, 405, 410, 422, 5xx,
//! or a JSON-RPC error. So after any such failure the same session is asked for its tools, which changes nothing. If it
//! answers, it lives, and the failure was the call's own. If it does not, one new handshake replaces it for all whom it
//! failed. The call is made again only where the server refused it as it refused the list: then the refusal was the
//! session's, and the call did not run.

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

/// What a failure says of the session that it was met in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Suspicion {
    /// Nothing.
    None,
    /// It is gone, and the request was not worked on.
    Lost,
    /// It may be gone; if so, the request was not worked on.
    Refused,
    /// It may be gone, and the request may have been worked on.
    Unclear,
}

/// How a server refused what it did not work on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// With a status from 400 to 499.
    Status,
    /// With a JSON-RPC error.
    Protocol(i64, String),
    /// In a way that says nothing of what was worked on.
    Other,
}

/// What a session knows of those that it replaced.
#[derive(Default)]
pub(super) struct Recovery {
    /// Held while a session is asked whether it lives, and while it is replaced.
    checking: Mutex<()>,
    /// How often a session turned out to live.
    alive: AtomicU64,
    /// With replacements: failed ones, and those over which nothing has been answered yet.
    replace_backoff: FailureBackoff,
}

impl Recovery {
    /// Something was answered: whatever was replaced was replaced with success.
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

    /// Whether a request that failed so was refused for the same reason.
    fn matches(&self, failed: &McpError) -> bool {
        *self != Self::Other && *self == Self::from_error(failed)
    }
}

impl LiveConnection {
    /// Whether everything over it is refused as this request was.
    fn was_refused_as(&self, failed: &McpError) -> bool {
        let refusal = self.refusal.get().or_else(|| self.connection.is_lost().then_some(&Refusal::Status));
        refusal.is_some_and(|refusal| refusal.matches(failed))
    }
}

impl Suspicion {
    fn from_error(error: &McpError) -> Self {
        /// JSON-RPC: an internal error, which a call can come to that has run.
        const INTERNAL: i64 = -32603;
        match error {
            McpError::SessionLost => Self::Lost,
            // About time, size or load, whoever asks.
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
    /// After a call that failed: the connection to make it again over, if the server surely did not work on it and
    /// there is reason to hope. `context` is what the call told the server. An error if there is no connection any more.
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
        match Suspicion::from_error(failed) {
            Suspicion::None => Ok(None),
            Suspicion::Lost => self.reconnect(open).await.map(Some),
            Suspicion::Refused => {
                let next = self.replace_if_dead(open, context, None).await;
                Ok(next.filter(|_| open.was_refused_as(failed)))
            }
            Suspicion::Unclear => {
                self.replace_if_dead(open, context, None).await;
                Ok(None)
            }
        }
    }

    /// The same after a list of tools that failed, which can always be made again.
    pub(super) async fn recover_list(
        &self,
        open: &Arc<LiveConnection>,
        failed: &McpError,
    ) -> Result<Option<Arc<LiveConnection>>, McpError> {
        if open.was_lost_before(failed) {
            return self.reconnect(open).await.map(Some);
        }
        if Suspicion::from_error(failed) == Suspicion::None
            || open.connection.is_closed()
            || !open.connection.has_sessions()
        {
            return Ok(None);
        }
        if !open.has_answered() {
            // It never worked: the next attempt begins with a handshake, and this one ends here.
            self.discard(open);
            return Ok(None);
        }
        Ok(self.replace_if_dead(open, None, Some(failed)).await)
    }

    /// Asks the session for its tools as the call that failed would have it, and for nothing else.
    async fn probe(&self, open: &LiveConnection, context: Option<&CallerContext>) -> Result<(), McpError> {
        let after = self.limits.list_timeout;
        let asked = open.connection.list_tools(self.limits.max_tools, context);
        let answer = tokio::time::timeout(after, asked)
            .await
            .unwrap_or(Err(McpError::Timeout { after, limit: TimeoutKind::List }));
        answer.map(drop)
    }

    async fn reconnect(&self, lost: &Arc<LiveConnection>) -> Result<Arc<LiveConnection>, McpError> {
        _ = lost.refusal.set(Refusal::Status);
        self.discard(lost);
        self.connect().await
    }

    /// The connection in the place of one that does not work any more; `None` if it does, or no other could be had.
    /// `listed` is how its list failed, for whoever has asked already.
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
        let began = Instant::now();
        let found = match listed {
            Some(_) => None,
            None => Some(self.probe(open, context).await),
        };
        let refusal = match (&found, listed) {
            (Some(Ok(_)), _) => {
                recovery.alive.fetch_add(1, Ordering::AcqRel);
                self.note_answer(open);
                return None;
            }
            (Some(Err(error)), _) | (None, Some(error))
                if Suspicion::from_error(error) != Suspicion::None =>
            {
                Refusal::from_error(error)
            }
            (Some(Err(error)), _) => {
                // Nobody is there, or has time: nothing was learned of the session.
                recovery.replace_backoff.record(error, began.elapsed());
                return None;
            }
            (None, _) => return None,
        };
        _ = open.refusal.set(refusal);
        tracing::debug!(target: "antwort::mcp", server = &*self.endpoint.name, "the session does not answer: a new one");
        match self.make_connection().await {
            Ok(next) => {
                // Until it has answered, it has not helped.
                let unanswered = McpError::Connect("a new session has not answered yet".into());
                recovery.replace_backoff.record(&unanswered, Duration::ZERO);
                Some(next)
            }
            Err(error) => {
                recovery.replace_backoff.record(&error, began.elapsed());
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
