//! The table that each presentation is: which item a call becomes, and which events it has.

use crate::machine::CallResult;
use crate::turn::ToolCallRequest;
use antwort_protocol::event::HostedStage;
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_protocol::item::hosted::McpCall;

/// The item of a server-side call and its events. A `static`, which is equal to itself alone.
#[derive(Debug)]
pub struct CallPresenter {
    /// The name under which a run that is saved has it: stays as it is.
    pub name: &'static str,
    /// Prefix of the item's id.
    pub id_prefix: &'static str,
    /// Whether the item names the arguments from its beginning, so that it is written when they are complete.
    pub(crate) is_buffered: bool,
    /// The events of the arguments.
    pub arguments: ArgumentEvents,
    /// The events of the call's progress.
    pub(crate) stages: CallStages,
    /// The item as it is added.
    pub open: fn(OpenedCall<'_>) -> Item,
    /// The item with the result. `None`: clients do not see results, and the item is closed with its arguments.
    pub close: Option<fn(ClosedCall<'_>) -> Item>,
    /// Marks the item of a call without a result; receives the arguments.
    pub abort: fn(&mut Item, String),
    /// Whether the item has no place for what the model reads, which clients then carry in a sealed reasoning item.
    pub seals_result: bool,
}

/// The events in which clients see the arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentEvents {
    /// None.
    None,
    /// `response.mcp_call_arguments.…`
    Mcp,
    /// `response.function_call_arguments.…`
    Function,
}

/// The events of a call's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallStages {
    /// After the item is added.
    pub added: Option<HostedStage>,
    /// After the arguments.
    pub started: Option<HostedStage>,
    /// Before the item is done.
    pub completed: Option<HostedStage>,
    /// In place of it, if the result is an error.
    pub failed: Option<HostedStage>,
}

impl CallStages {
    /// No events.
    pub(crate) const NONE: Self = Self { added: None, started: None, completed: None, failed: None };
}

/// A call whose item is added.
#[derive(Debug)]
pub struct OpenedCall<'a> {
    /// The id of the item.
    pub id: Id,
    /// The call; its arguments are complete if the presentation buffers them, else empty.
    pub call: &'a ToolCallRequest,
    /// The id of the call, for items with [`ArgumentEvents::Function`].
    pub call_id: Option<String>,
    /// The request in which it was approved.
    pub approval_request_id: Option<String>,
}

/// A call whose result is known.
#[derive(Debug)]
pub struct ClosedCall<'a> {
    /// The call with its result as clients may see it.
    pub call: McpCall,
    /// The result.
    pub result: &'a CallResult,
}

impl PartialEq for CallPresenter {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for CallPresenter {}
