//! What a run was asked for: what, by whom, within which limits and in which encoding.
//!
//! Nothing of it changes while a process executes the run; the lease and what was committed are set anew by whoever claims it. What changes
//! is in `RunState`, and what it takes to execute the run (provider, sessions of MCP servers, sink) is made again by any process.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limits::EffectiveLimits;
use super::run_conversation::RunConversation;
use super::states::StoredInput;
use antwort_identity::Owner;
use antwort_protocol::dialect::Dialect;
use antwort_protocol::elicitation::ElicitationModes;
use antwort_protocol::event::EventEncoder;
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_protocol::request::SentFields;
use antwort_protocol::response::Response;
use antwort_response::machine::{InputEvent, MachineOptions, ReasoningDisplay, ShowSealed, Termination};
use antwort_response::presentation::Presentation;
use antwort_response::seal::BoundSeal;
use antwort_store::{Lease, StoredItem};

/// What a run was asked for.
pub(super) struct RunSpec {
    /// The response as it is created.
    pub response: Response,
    pub owner: Owner,
    /// The right to write the response.
    pub lease: Lease,
    /// The id of the response that this one continues.
    pub previous: Option<Id>,
    /// The conversation that it appends to.
    pub(crate) appends_to: Option<RunConversation>,
    /// Identifies the conversation over its responses.
    pub conversation: Option<Arc<str>>,
    pub input: RunInput,
    /// The name of the agent profile.
    pub agent: Option<Arc<str>>,
    pub limits: EffectiveLimits,
    /// Whether the response is stored.
    pub store: bool,
    /// Whether it is polled, but not stored: made in the background with `store: false`.
    pub is_unlisted: bool,
    /// Whether the client wants a stream. How the provider is asked is apart from it.
    pub stream: bool,
    pub output: OutputSpec,
    /// How tools and their calls are shown.
    pub display: ToolDisplay,
    /// What the client is asked while the run goes on.
    pub client: ClientTurns,
    /// Whether the gateway runs tools; if not, the run is a single inference.
    pub(crate) executes_tools: bool,
    /// Whether cached tool results are not used.
    pub(crate) bypass_cache: bool,
    /// Whether the response is a compaction.
    pub is_compaction: bool,
    /// Bytes of the request with its conversation, as the run begins.
    pub(crate) request_bytes: u64,
    /// The request as it was sent, if tools may be called whose work goes on.
    pub sent: Option<SentFields>,
}

/// The items that a run is given, and those that it has committed.
pub(super) struct RunInput {
    /// Its own input, which is stored with it.
    pub items: Vec<Arc<Item>>,
    /// What the store knows of replayed input beyond what the client has.
    pub found: StoredInput,
    /// Output items that were committed before this process took the run over.
    pub committed: Vec<StoredItem>,
}

/// How tools and their calls are shown to clients.
#[derive(Clone, Copy)]
pub(super) struct ToolDisplay {
    pub calls: Presentation,
    /// Whether the progress of running tools is streamed.
    pub progress: bool,
    /// Whether `mcp_list_tools` items are shown.
    pub lists: bool,
}

/// What the client of a run is asked while it goes on.
pub(super) struct ClientTurns {
    /// How long it is asked for the outputs of its functions; `None`: the response ends at their calls.
    pub(crate) input_timeout: Option<Duration>,
    /// The event by which it is asked.
    pub(crate) input_event: InputEvent,
    /// The questions of tools that it is asked.
    pub elicitation: ElicitationModes,
    /// How the response ends when it waits for the client's functions.
    pub(crate) awaiting_status: Termination,
}

/// How the output of a run is encoded and sealed. Committed with its state, so that another process goes on alike.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OutputSpec {
    pub dialect: Dialect,
    /// Whether deltas are padded.
    pub obfuscate: bool,
    /// The provider that was chosen, whose state is sealed for it alone.
    pub provider: Arc<str>,
    pub reasoning: ReasoningDisplay,
    pub logprobs: bool,
    pub show_sealed: ShowSealed,
    pub server_steps: bool,
}

impl OutputSpec {
    pub(super) fn encoder(&self) -> EventEncoder {
        EventEncoder { dialect: self.dialect, obfuscate: self.obfuscate }
    }

    /// The options of its machine.
    pub(super) fn machine_options(&self, seal: Arc<BoundSeal>) -> MachineOptions {
        MachineOptions {
            reasoning: self.reasoning,
            logprobs: self.logprobs,
            seal: Some(seal),
            show_sealed: self.show_sealed,
            server_steps: self.server_steps,
            summary: None,
        }
    }
}
