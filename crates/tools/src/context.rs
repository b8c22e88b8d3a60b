//! The context of a tool call: caller, conversation, deadline and budget. One per run, shared by its calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::callback::Completions;
use super::journal::Journal;
use super::pause::PauseClock;
use antwort_protocol::id::Id;
use antwort_protocol::request::Metadata;

/// What a tool may know about the run that calls it. Holds no credentials of the client.
#[derive(Clone, Default)]
pub struct ToolContext {
    /// Tenant of the caller.
    pub tenant: Arc<str>,
    /// Caller within the tenant.
    pub principal: Arc<str>,
    /// Id of the current response; `None` for a direct call.
    pub response_id: Option<Id>,
    /// Conversation key within the tenant: the first response of the chain, or without a chain what the client
    /// sent. `None` if there is neither.
    pub conversation: Option<Arc<str>>,
    /// Agent profile under which the tool was offered.
    pub agent: Option<Arc<str>>,
    /// `metadata.channel` of the request: where the conversation takes place.
    pub channel: Option<String>,
    /// `metadata.chat_id` of the request: the conversation within the channel.
    pub chat_id: Option<String>,
    /// `metadata` of the request.
    pub metadata: Metadata,
    /// Deadline of the whole run.
    pub deadline: Option<Instant>,
    /// The time for which the run has waited for the user: the deadline is later by as much. `None`: it asks nobody.
    pub pauses: Option<PauseClock>,
    /// W3C `traceparent`, to be sent with outgoing requests of the tool.
    pub traceparent: Option<String>,
    /// Request id, for logs.
    pub request_id: String,
    /// Cancelled with the run; tools that hold remote resources must release them.
    pub cancel: CancellationToken,
    /// Remaining tool calls of the run.
    pub budget: Arc<CallBudget>,
    /// Whether cached results may be used.
    pub cache: CacheMode,
    /// Whether the run offers `read_tool_output`, so that truncated results may refer to it.
    pub can_read_stored_results: bool,
    /// Maximum bytes of one result with its files; `None`: no limit of its own.
    pub max_item_bytes: Option<usize>,
    /// Journal of calls; `None` for runs that are not stored.
    pub journal: Option<Arc<dyn Journal>>,
    /// Takes results of work that goes on; `None` for runs that are not stored.
    pub completions: Option<Arc<dyn Completions>>,
}

impl ToolContext {
    /// The time that the run has left now; `None`: it has no deadline.
    pub fn remaining(&self) -> Option<Duration> {
        let paused = self.pauses.as_ref().map(PauseClock::so_far).unwrap_or_default();
        let end = tokio::time::Instant::from_std(self.deadline?.checked_add(paused)?);
        Some(end.saturating_duration_since(tokio::time::Instant::now()))
    }
}

/// Whether cached results may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheMode {
    /// According to the configuration.
    #[default]
    Allowed,
    /// The cache is neither read nor written.
    Bypass,
}

/// The remaining tool calls of a run, over all its turns.
#[derive(Debug)]
pub struct CallBudget {
    remaining: AtomicU64,
    /// Calls made so far, only for tools with a limit of their own.
    calls_by_tool: Mutex<HashMap<String, u64>>,
}

impl Default for CallBudget {
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

impl CallBudget {
    /// A budget of this many calls.
    pub fn new(calls: u64) -> Self {
        Self { remaining: AtomicU64::new(calls), calls_by_tool: Mutex::default() }
    }

    /// Consumes one call; false if none is left.
    pub fn try_take(&self) -> bool {
        self.remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Consumes one call of a tool limited to `max` calls per run; false if the limit is reached.
    pub fn try_take_for_tool(&self, tool: &str, max: u64) -> bool {
        let mut calls = self.calls_by_tool.lock();
        if let Some(made) = calls.get_mut(tool) {
            let allowed = *made < max;
            *made += u64::from(allowed);
            return allowed;
        }
        calls.insert(tool.to_owned(), max.min(1));
        max > 0
    }

    /// Number of calls left.
    pub fn remaining(&self) -> u64 {
        self.remaining.load(Ordering::Relaxed)
    }
}
