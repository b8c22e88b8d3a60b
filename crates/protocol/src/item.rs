//! Items: the elements of a conversation, as clients send them and as the gateway returns them.
//!
//! Reading is lenient (messages without `type`, nulls, missing ids, fields of other SDK versions); writing is
//! exact. An item without an id is given one when it is read, so that every item of a stored response can be referred
//! to. Only items that the gateway makes or reads have a type here; all others are `opaque`.

mod abandoned_status;
mod extension;
pub(crate) mod function;
pub mod hosted;
pub(crate) mod message;
mod opaque;
mod optional_id;
mod read;
pub(crate) mod reasoning;
mod status;

use serde::{Deserialize, Serialize, Serializer};

use super::dialect::Dialect;
use super::id::Id;
use super::parse;

pub use extension::{ServerToolCall, ServerToolError, UserMessage};
pub use function::{CustomToolCall, CustomToolCallOutput, FunctionCall, FunctionCallOutput, ToolOutput};
pub use message::{Message, Phase, Role};
pub use opaque::OpaqueItem;
pub use opaque::with_id;
pub use reasoning::{Compaction, CompactionTrigger, Reasoning, ReasoningText, SummaryText};
pub use status::ItemStatus;

/// One item of a conversation or of a response's output.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs, reason = "each variant is documented at its type")]
pub enum Item {
    Message(Message),
    Reasoning(Reasoning),
    FunctionCall(FunctionCall),
    FunctionCallOutput(FunctionCallOutput),
    CustomToolCall(CustomToolCall),
    CustomToolCallOutput(CustomToolCallOutput),
    Compaction(Compaction),
    CompactionTrigger(CompactionTrigger),
    WebSearchCall(hosted::WebSearchCall),
    AdditionalTools(hosted::AdditionalTools),
    McpListTools(hosted::McpListTools),
    McpCall(hosted::McpCall),
    McpApprovalRequest(hosted::McpApprovalRequest),
    McpApprovalResponse(hosted::McpApprovalResponse),
    #[serde(rename = "antwort:tool_call")]
    ServerToolCall(extension::ServerToolCall),
    #[serde(rename = "antwort:user_message")]
    UserMessage(extension::UserMessage),
    /// An item of any other type of the API.
    #[serde(untagged)]
    Opaque(OpaqueItem),
}

/// An element of `input`: an item, or a reference to a stored one.
#[derive(Debug, Clone, PartialEq)]
pub enum InputItem {
    /// The item itself.
    Item(Item),
    /// `item_reference`: resolved from the store before the input is used.
    Reference(Id),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse::deserialize_from_json(deserializer)
    }
}

/// Applies an expression to the type's name and the inner struct of whichever typed variant an item is, and another one to
/// an item that is only carried.
macro_rules! each_item {
    ($item:expr, $opaque:ident => $carried:expr, $inner:ident => $body:expr) => {
        each_item!($item, $opaque => $carried, _kind, $inner => $body)
    };
    ($item:expr, $opaque:ident => $carried:expr, $kind:pat, $inner:ident => $body:expr) => {
        match $item {
            Item::Message($inner) => { let $kind = "message"; $body }
            Item::Reasoning($inner) => { let $kind = "reasoning"; $body }
            Item::FunctionCall($inner) => { let $kind = "function_call"; $body }
            Item::FunctionCallOutput($inner) => { let $kind = "function_call_output"; $body }
            Item::CustomToolCall($inner) => { let $kind = "custom_tool_call"; $body }
            Item::CustomToolCallOutput($inner) => { let $kind = "custom_tool_call_output"; $body }
            Item::Compaction($inner) => { let $kind = "compaction"; $body }
            Item::CompactionTrigger($inner) => { let $kind = "compaction_trigger"; $body }
            Item::WebSearchCall($inner) => { let $kind = "web_search_call"; $body }
            Item::AdditionalTools($inner) => { let $kind = "additional_tools"; $body }
            Item::McpListTools($inner) => { let $kind = "mcp_list_tools"; $body }
            Item::McpCall($inner) => { let $kind = "mcp_call"; $body }
            Item::McpApprovalRequest($inner) => { let $kind = "mcp_approval_request"; $body }
            Item::McpApprovalResponse($inner) => { let $kind = "mcp_approval_response"; $body }
            Item::ServerToolCall($inner) => { let $kind = "antwort:tool_call"; $body }
            Item::UserMessage($inner) => { let $kind = "antwort:user_message"; $body }
            Item::Opaque($opaque) => $carried,
        }
    };
}

impl Item {
    /// The item's id; every item has one.
    pub fn id(&self) -> &Id {
        each_item!(self, item => item.id(), item => &item.id)
    }

    /// Replaces the id of an item that came without one.
    pub fn set_id(&mut self, id: Id) {
        each_item!(self, item => item.set_id(id), item => item.id = id);
    }

    /// The item as a dialect writes it. `begins`: for the event that adds it.
    pub fn in_dialect(&self, dialect: Dialect, begins: bool) -> impl Serialize + '_ {
        InDialect { item: self, dialect, begins }
    }

    /// Whether OpenAI's API has a status for such items.
    fn has_status(&self) -> bool {
        match self {
            Self::Compaction(_)
            | Self::CompactionTrigger(_)
            | Self::AdditionalTools(_)
            | Self::McpListTools(_)
            | Self::McpApprovalResponse(_) => false,
            Self::McpApprovalRequest(request) => request.is_abandoned,
            _ => true,
        }
    }
}

struct InDialect<'a> {
    item: &'a Item,
    dialect: Dialect,
    begins: bool,
}

impl Serialize for InDialect<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { item, dialect, begins } = *self;
        let needs_status = dialect.requires_item_status() && !item.has_status();
        let status =
            needs_status.then_some(if begins { ItemStatus::InProgress } else { ItemStatus::Completed });
        each_item!(item, item => item.in_dialect(dialect, begins).serialize(serializer), kind, inner => {
            let prefix = dialect.item_prefix(kind);
            if prefix.is_empty() && status.is_none() {
                return item.serialize(serializer);
            }
            PrefixedItem { kind: PrefixedType(prefix, kind), item: inner, status }.serialize(serializer)
        })
    }
}

/// An item with a prefixed type.
#[derive(Serialize)]
struct PrefixedItem<'a, T> {
    #[serde(rename = "type")]
    kind: PrefixedType,
    #[serde(flatten)]
    item: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ItemStatus>,
}

struct PrefixedType(&'static str, &'static str);

impl Serialize for PrefixedType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}{}", self.0, self.1))
    }
}
