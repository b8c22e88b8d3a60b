//! Reads items: which type of the API an object is, and its id.

use serde_json::value::RawValue;

use super::hosted::AdditionalTools;
use super::{CustomToolCallOutput, FunctionCallOutput, InputItem, Item, Message, OpaqueItem, opaque};
use crate::dialect;
use crate::id::Id;
use crate::parse::{self, FromJson, ParseError};

/// The item types that a client may send, listed in the error for an unknown one.
const KINDS: &str = "message, reasoning, function_call, function_call_output, custom_tool_call, \
    custom_tool_call_output, item_reference, compaction, compaction_trigger, mcp_call, mcp_list_tools, mcp_approval_request, \
    mcp_approval_response, or the call or output item of a hosted tool";

impl FromJson for InputItem {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let seen = parse::peek_discriminator(raw)?;
        match (seen.kind.as_deref(), seen.role.as_deref(), seen.id.as_deref()) {
            (Some("item_reference"), _, Some(id)) | (None, None, Some(id)) => Ok(Self::Reference(id.into())),
            (Some("item_reference"), _, None) => Err(ParseError::missing("id")),
            _ => Item::from_json(raw).map(Self::Item),
        }
    }
}

impl FromJson for Item {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let seen = parse::peek_discriminator(raw)?;
        let Some(kind) = seen.kind.as_deref() else {
            return match seen.role {
                Some(_) => Message::from_json(raw).map(Self::Message),
                None => Err(ParseError::missing("type")),
            };
        };
        match dialect::canonical_item_type(kind) {
            "message" => Message::from_json(raw).map(Self::Message),
            "reasoning" => parse::read(raw).map(Self::Reasoning),
            "function_call" => parse::read(raw).map(Self::FunctionCall),
            "function_call_output" => FunctionCallOutput::from_json(raw).map(Self::FunctionCallOutput),
            "custom_tool_call" => parse::read(raw).map(Self::CustomToolCall),
            "custom_tool_call_output" => CustomToolCallOutput::from_json(raw).map(Self::CustomToolCallOutput),
            // `compaction_summary` is the name under which some clients return it.
            "compaction" | "compaction_summary" => parse::read(raw).map(Self::Compaction),
            "compaction_trigger" => parse::read(raw).map(Self::CompactionTrigger),
            other => match opaque::find(other) {
                Some(carried) => OpaqueItem::read(carried, kind, raw).map(Self::Opaque),
                None => read_hosted(other, raw),
            },
        }
    }
}

/// Parses the item of the given `type` in its plain spelling, and generates an id if it has none.
fn read_hosted(kind: &str, raw: &RawValue) -> Result<Item, ParseError> {
    let (mut item, prefix) = match kind {
        "web_search_call" => (parse::read(raw).map(Item::WebSearchCall)?, "ws"),
        "additional_tools" => (AdditionalTools::from_json(raw).map(Item::AdditionalTools)?, "adt"),
        "mcp_list_tools" => (parse::read(raw).map(Item::McpListTools)?, "mcpl"),
        "mcp_call" => (parse::read(raw).map(Item::McpCall)?, "mcp"),
        "mcp_approval_request" => (parse::read(raw).map(Item::McpApprovalRequest)?, "mcpr"),
        "mcp_approval_response" => (parse::read(raw).map(Item::McpApprovalResponse)?, "mcpa"),
        "antwort:tool_call" => (parse::read(raw).map(Item::ServerToolCall)?, "tc"),
        "antwort:user_message" => (parse::read(raw).map(Item::UserMessage)?, "um"),
        "configuration_update" => {
            let problem = "settings of later turns are not changed by items; send them with each request.";
            return Err(ParseError::unsupported("type", problem));
        }
        "agent_message" | "multi_agent_call" | "multi_agent_call_output" => {
            return Err(ParseError::unsupported("type", "a response is made by one agent."));
        }
        other => return Err(ParseError::unknown_type(other, KINDS)),
    };
    if item.id().as_str().is_empty() {
        item.set_id(Id::unnamed(prefix));
    }
    Ok(item)
}
