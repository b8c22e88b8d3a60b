//! The machine's inputs and outputs: options, turns, calls, errors, and how a response ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::accumulator::InvalidEvent;
use super::super::turn::{FinishReason, ProviderState, ToolCallRequest};
use super::compaction::{MAX_SUMMARY_BYTES, SealSummary};
use antwort_protocol::error::ErrorBody;
use antwort_protocol::event::StreamEvent;
use antwort_protocol::item::hosted::McpCall;
use antwort_protocol::response::{IncompleteDetails, Response, ResponseStatus, Usage};

/// Events in the order in which they happened.
pub type Events = Vec<StreamEvent>;

/// What the machine has to know of the request.
#[derive(Clone, Default)]
pub struct MachineOptions {
    /// How raw reasoning is shown.
    pub reasoning: ReasoningDisplay,
    /// Whether log probabilities are shown.
    pub logprobs: bool,
    /// Seals what later responses need; without it, none of that is kept.
    pub seal: Option<Arc<dyn Seal>>,
    /// Whether clients carry sealed state.
    pub show_sealed: ShowSealed,
    /// Whether clients see progress events of server-side calls, not only their items.
    pub server_steps: bool,
    /// Seals the summary of a compaction; `None` for any other response.
    pub summary: Option<Arc<dyn SealSummary>>,
}

/// Whether clients carry sealed state. What they do not carry is stored with the items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShowSealed {
    /// Never: it is stored.
    #[default]
    Never,
    /// Only what items do not show anyway; nothing is stored.
    Needed,
    /// Always: `include: ["reasoning.encrypted_content"]`.
    Always,
}

/// How raw reasoning is shown to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningDisplay {
    /// As reasoning text.
    #[default]
    Text,
    /// As a summary: the only form that some clients show.
    Summary,
    /// Not at all: the reasoning item is empty.
    Hidden,
}

/// Encrypts what clients carry.
pub trait Seal: Send + Sync {
    /// The blob that stands for the state.
    fn seal(&self, state: &ProviderState) -> String;
    /// The blob that stands for a hosted call with its results.
    fn seal_results(&self, call: &McpCall) -> String;
}

/// The model's answer breaks the protocol in a way that cannot be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Arguments for a call that is closed.
    #[error("arguments came for a tool call that was already complete")]
    LateArguments,
    /// Arguments for a call that never began.
    #[error("arguments came for a tool call that never began")]
    UnknownCall,
    /// A summary that is too long to be sent back by clients.
    #[error("the summary is longer than {MAX_SUMMARY_BYTES} bytes")]
    LongSummary,
    /// The machine contradicted itself: a bug.
    #[error("events were produced out of order")]
    Misplaced,
}

impl From<InvalidEvent> for Violation {
    fn from(_: InvalidEvent) -> Self {
        Self::Misplaced
    }
}

/// How a response ends.
#[derive(Debug, Clone)]
pub enum Termination {
    /// The model has answered.
    Completed,
    /// Functions wait for the client.
    RequiresAction,
    /// A limit or a filter ended it.
    Incomplete(String),
    /// The response failed.
    Failed(ErrorBody),
    /// The response was cancelled.
    Cancelled,
}

impl Termination {
    /// Sets the final status of a response, and what belongs to it.
    pub(super) fn apply(self, response: &mut Response, now: i64) {
        response.status = match self {
            Self::Completed | Self::RequiresAction => {
                response.completed_at = Some(now);
                if matches!(self, Self::Completed) {
                    ResponseStatus::Completed
                } else {
                    ResponseStatus::RequiresAction
                }
            }
            Self::Incomplete(reason) => {
                response.incomplete_details = Some(IncompleteDetails { reason });
                ResponseStatus::Incomplete
            }
            Self::Failed(error) => {
                response.error = Some(error);
                ResponseStatus::Failed
            }
            Self::Cancelled => ResponseStatus::Cancelled,
        };
    }
}

/// One turn of the model; its server-side calls are still to be made.
#[derive(Debug)]
pub struct Turn {
    /// Why the model stopped; `None` if it did not say.
    pub finish: Option<FinishReason>,
    /// Calls that the client makes.
    pub client_calls: usize,
    /// Calls that the gateway makes, in order. Each is finished by `ResponseMachine::finish_call`.
    pub server_calls: Vec<ServerCall>,
    /// Calls that need approval first.
    pub approval_calls: usize,
    /// Tokens used, if the provider reported them.
    pub usage: Option<Usage>,
}

/// A call that the gateway makes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerCall {
    /// Its number in the turn.
    pub slot: u32,
    /// The call.
    pub call: ToolCallRequest,
}

/// What a turn adds to the conversation.
#[derive(Debug, Default)]
pub struct TurnOutput {
    /// The place of its first item in the output.
    pub first: usize,
    /// Provider state, by the place of the item that holds it or that it belongs to.
    pub states: BTreeMap<u32, ProviderState>,
    /// State of a turn without an item to hold it.
    pub orphan_state: Option<ProviderState>,
}
