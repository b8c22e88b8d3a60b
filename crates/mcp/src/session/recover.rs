//! Detects sessions that a server has lost, and replaces them.
//!
//! By the protocol a lost session is answered with 404, but restarted servers also answer 400, 401, 405, 410, 422, 5xx or
//! a JSON-RPC error. So after any such error the session is probed with `tools/list`, which has no side effects. If the
//! probe succeeds, the session is alive and the error was the call's own. If it fails, the session is re-initialized,
//! once for all affected calls. A call is repeated only if it was refused in the same way as the probe: then the session
//! was the reason, and the call was not executed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{LiveConnection, Session};
use crate::context::CallerContext;
use crate::error::{McpError, TimeoutKind};
use crate::recovery::{Refusal, SessionDiagnosis};

impl LiveConnection {
    /// Whether this request was refused like all others of the lost session.
    fn was_refused_as(&self, failed: &McpError) -> bool {
        let refusal = self.refusal.get().or_else(|| self.connection.is_lost().then_some(&Refusal::Status));
        refusal.is_some_and(|refusal| refusal.matches(failed))
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
