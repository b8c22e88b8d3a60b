//! A call that the gateway has refused: no item shows it, and the model reads why where it would read a result.
//!
//! It is kept as state of its answer, with the calls that it was made between, so that it has its place in every conversation
//! that has the answer: later turns of the run, continuations, replays.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CallState, HistoryItem};
use antwort_protocol::item::Item;

/// A call of the model that was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefusedCall {
    /// The call. That of a server-side tool holds the error itself.
    pub item: Item,
    /// What the model reads, if the item does not hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// The provider's id of the call and what it has sent with it, to be returned with it.
    #[serde(default)]
    pub state: CallState,
    /// It did nothing wrong and may make the call again: later responses need not know of it, if the run goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_passing: bool,
    /// The id of the call that the model made right before it and that is an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The id of the call that the model made right behind it and that is an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

impl From<RefusedCall> for HistoryItem {
    fn from(RefusedCall { item, reason, state, .. }: RefusedCall) -> Self {
        Self { refused: reason, call_state: Some(state), ..Self::from(item) }
    }
}
