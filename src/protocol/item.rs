//! Items: what a conversation is made of, as clients send them and as we send them back.
//!
//! Reading is lenient (messages without `type`, nulls, missing ids, fields of another SDK version);
//! writing is exact. An item that arrives without an id is given one when it is read, so that every
//! item of a stored response can be referred to.

pub mod extension;
pub mod function;
pub mod hosted;
pub mod message;
pub mod reasoning;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::id::Id;
use super::parse::{self, Shape, ShapeError};

pub use extension::{ServerToolCall, ServerToolError, UserMessage};
pub use function::{CustomToolCall, CustomToolCallOutput, FunctionCall, FunctionCallOutput, ToolOutput};
pub use message::{Message, Phase, Role};
pub use reasoning::{Compaction, CompactionTrigger, Reasoning, ReasoningText, SummaryText};

/// Where an item stands. Only hosted items use the values after `Incomplete`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ItemStatus {
    InProgress,
    #[default]
    Completed,
    Incomplete,
    Searching,
    Interpreting,
    Generating,
    Calling,
    Failed,
}

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
    FileSearchCall(hosted::FileSearchCall),
    WebSearchCall(hosted::WebSearchCall),
    ComputerCall(hosted::ComputerCall),
    ComputerCallOutput(hosted::ComputerCallOutput),
    CodeInterpreterCall(hosted::CodeInterpreterCall),
    ImageGenerationCall(hosted::ImageGenerationCall),
    LocalShellCall(hosted::LocalShellCall),
    LocalShellCallOutput(hosted::LocalShellCallOutput),
    ShellCall(hosted::ShellCall),
    ShellCallOutput(hosted::ShellCallOutput),
    ApplyPatchCall(hosted::ApplyPatchCall),
    ApplyPatchCallOutput(hosted::ApplyPatchCallOutput),
    ToolSearchCall(hosted::ToolSearchCall),
    ToolSearchOutput(hosted::ToolSearchOutput),
    AdditionalTools(hosted::AdditionalTools),
    McpListTools(hosted::McpListTools),
    McpCall(hosted::McpCall),
    McpApprovalRequest(hosted::McpApprovalRequest),
    McpApprovalResponse(hosted::McpApprovalResponse),
    Program(hosted::Program),
    ProgramOutput(hosted::ProgramOutput),
    #[serde(rename = "antwort:tool_call")]
    ServerToolCall(extension::ServerToolCall),
    #[serde(rename = "antwort:user_message")]
    UserMessage(extension::UserMessage),
}

/// What may stand in `input`: an item, or the id of one that is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum InputItem {
    /// The item itself.
    Item(Item),
    /// `item_reference`: resolved from the store before anything else looks at the input.
    Reference(Id),
}

impl Shape for InputItem {
    fn read(raw: &RawValue) -> Result<Self, ShapeError> {
        let seen = parse::peek(raw)?;
        match (seen.kind.as_deref(), seen.role.as_deref(), seen.id.as_deref()) {
            (Some("item_reference"), _, Some(id)) | (None, None, Some(id)) => Ok(Self::Reference(id.into())),
            (Some("item_reference"), _, None) => Err(ShapeError::missing("id")),
            _ => Item::read(raw).map(Self::Item),
        }
    }
}

impl Shape for Item {
    fn read(raw: &RawValue) -> Result<Self, ShapeError> {
        let seen = parse::peek(raw)?;
        let Some(kind) = seen.kind.as_deref() else {
            return match seen.role {
                Some(_) => Message::read(raw).map(Self::Message),
                None => Err(ShapeError::missing("type")),
            };
        };
        match kind {
            "message" => Message::read(raw).map(Self::Message),
            "reasoning" => parse::read(raw).map(Self::Reasoning),
            "function_call" => parse::read(raw).map(Self::FunctionCall),
            "function_call_output" => FunctionCallOutput::read(raw).map(Self::FunctionCallOutput),
            "custom_tool_call" => parse::read(raw).map(Self::CustomToolCall),
            "custom_tool_call_output" => CustomToolCallOutput::read(raw).map(Self::CustomToolCallOutput),
            // `compaction_summary` is the name under which some clients send it back.
            "compaction" | "compaction_summary" => parse::read(raw).map(Self::Compaction),
            "compaction_trigger" => parse::read(raw).map(Self::CompactionTrigger),
            other => hosted::read(other, raw),
        }
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse::deserialize_shape(deserializer)
    }
}

/// Applies an expression to the inner struct of whichever variant an item is.
macro_rules! each_item {
    ($item:expr, $inner:ident => $body:expr) => {
        match $item {
            Item::Message($inner) => $body,
            Item::Reasoning($inner) => $body,
            Item::FunctionCall($inner) => $body,
            Item::FunctionCallOutput($inner) => $body,
            Item::CustomToolCall($inner) => $body,
            Item::CustomToolCallOutput($inner) => $body,
            Item::Compaction($inner) => $body,
            Item::CompactionTrigger($inner) => $body,
            Item::FileSearchCall($inner) => $body,
            Item::WebSearchCall($inner) => $body,
            Item::ComputerCall($inner) => $body,
            Item::ComputerCallOutput($inner) => $body,
            Item::CodeInterpreterCall($inner) => $body,
            Item::ImageGenerationCall($inner) => $body,
            Item::LocalShellCall($inner) => $body,
            Item::LocalShellCallOutput($inner) => $body,
            Item::ShellCall($inner) => $body,
            Item::ShellCallOutput($inner) => $body,
            Item::ApplyPatchCall($inner) => $body,
            Item::ApplyPatchCallOutput($inner) => $body,
            Item::ToolSearchCall($inner) => $body,
            Item::ToolSearchOutput($inner) => $body,
            Item::AdditionalTools($inner) => $body,
            Item::McpListTools($inner) => $body,
            Item::McpCall($inner) => $body,
            Item::McpApprovalRequest($inner) => $body,
            Item::McpApprovalResponse($inner) => $body,
            Item::Program($inner) => $body,
            Item::ProgramOutput($inner) => $body,
            Item::ServerToolCall($inner) => $body,
            Item::UserMessage($inner) => $body,
        }
    };
}

impl Item {
    /// The item's id; every item has one.
    pub fn id(&self) -> &Id {
        each_item!(self, item => &item.id)
    }

    /// Gives the item another id: used where two items of one request would share one.
    pub fn set_id(&mut self, id: Id) {
        each_item!(self, item => item.id = id);
    }
}
