//! For whom and within what a call is made: immutable, one per run, shared by its calls.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::journal::Journal;
use crate::protocol::id::Id;
use crate::protocol::request::Metadata;

/// What a tool may know of the run that calls it. Holds no credentials of the client.
#[derive(Clone, Default)]
pub struct ToolContext {
    /// Whose call it is: the harder wall.
    pub tenant: Arc<str>,
    /// Within the tenant.
    pub principal: Arc<str>,
    /// The response in the making; `None` for a direct call.
    pub response_id: Option<Id>,
    /// What tells conversations of the tenant apart: the first response of the chain, or what the client says where
    /// there is no chain. `None`: nothing does.
    pub conversation: Option<Arc<str>>,
    /// The agent profile by which the tool was offered.
    pub agent: Option<Arc<str>>,
    /// Where the conversation takes place; `metadata.channel` of the request.
    pub channel: Option<String>,
    /// Which conversation there; `metadata.chat_id` of the request.
    pub chat_id: Option<String>,
    /// The client's notes.
    pub metadata: Metadata,
    /// When the run as a whole must be over.
    pub deadline: Option<Instant>,
    /// To be sent with requests that the tool makes.
    pub traceparent: Option<String>,
    /// Names the request in logs.
    pub request_id: String,
    /// Cancelled when the run is; tools that hold something outside must let it go.
    pub cancel: CancellationToken,
    /// How many calls the run may still make.
    pub budget: Arc<CallBudget>,
    /// Whether cached results may be used.
    pub cache: CacheMode,
    /// Whether `read_tool_output` can be called in the same run, so that cut results may point to it.
    pub can_read_stored_results: bool,
    /// Where calls are journalled; `None` for runs that are not stored.
    pub journal: Option<Arc<dyn Journal>>,
}

/// Whether cached results may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheMode {
    /// As configured.
    #[default]
    Allowed,
    /// Neither read nor written.
    Bypass,
}

/// The calls that a run may still make, over all its turns.
#[derive(Debug)]
pub struct CallBudget {
    remaining: AtomicU64,
    /// Only of tools that have a limit of their own.
    calls_by_tool: Mutex<HashMap<String, u64>>,
}

impl Default for CallBudget {
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

impl CallBudget {
    /// This many calls.
    pub fn new(calls: u64) -> Self {
        Self { remaining: AtomicU64::new(calls), calls_by_tool: Mutex::default() }
    }

    /// Takes one call; false if none is left.
    pub fn try_take(&self) -> bool {
        self.remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Takes one call of a tool that may have this many in a run; false if it has had them.
    pub fn try_take_for_tool(&self, tool: &str, most: u64) -> bool {
        let mut calls = self.calls_by_tool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = calls.get_mut(tool) {
            let free = *made < most;
            *made += u64::from(free);
            return free;
        }
        calls.insert(tool.to_owned(), most.min(1));
        most > 0
    }

    /// How many calls may still be made.
    pub fn remaining(&self) -> u64 {
        self.remaining.load(Ordering::Relaxed)
    }
}
