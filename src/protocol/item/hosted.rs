//! Items of tools other than functions: hosted tools, MCP, shells, patches, tool search, programs.
//!
//! All types of the API are parsed, whether or not they are supported, because clients replay what another server
//! gave them. Optional fields are omitted if absent; required nullable ones are sent as null.

mod code;
mod computer;
mod mcp;
mod search;
mod shell;
mod tools;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::Item;
use crate::protocol::id::Id;
use crate::protocol::parse::{self, FromJson, ParseError};

pub(crate) use code::{CodeInterpreterCall, ImageGenerationCall, Program, ProgramOutput};
pub(crate) use computer::{ComputerCall, ComputerCallOutput};
pub use mcp::McpCall;
pub(crate) use mcp::{
    McpApprovalRequest, McpApprovalResponse, McpAuthChallenge, McpCallError, McpListTools, McpListedTool,
};
pub(crate) use search::{FileSearchCall, WebSearchAction, WebSearchCall, WebSource};
pub(crate) use shell::{
    ApplyPatchCall, ApplyPatchCallOutput, LocalShellCall, LocalShellCallOutput, ShellCall, ShellCallOutput,
};
pub(crate) use tools::{AdditionalTools, ToolSearchCall, ToolSearchOutput};

/// The item types that a client may send, listed in the error for an unknown one.
const KINDS: &str = "message, reasoning, function_call, function_call_output, custom_tool_call, \
    custom_tool_call_output, item_reference, compaction, compaction_trigger, mcp_call, mcp_list_tools, mcp_approval_request, \
    mcp_approval_response, or the call or output item of a hosted tool";

/// Parses the item of the given `type` in its plain spelling, and generates an id if it has none.
pub(crate) fn read(kind: &str, raw: &RawValue) -> Result<Item, ParseError> {
    let (mut item, prefix) = match kind {
        "file_search_call" => (parse::read(raw).map(Item::FileSearchCall)?, "fs"),
        "web_search_call" => (parse::read(raw).map(Item::WebSearchCall)?, "ws"),
        "computer_call" => (parse::read(raw).map(Item::ComputerCall)?, "cu"),
        "computer_call_output" => (parse::read(raw).map(Item::ComputerCallOutput)?, "cuo"),
        "code_interpreter_call" => (parse::read(raw).map(Item::CodeInterpreterCall)?, "ci"),
        "image_generation_call" => (parse::read(raw).map(Item::ImageGenerationCall)?, "ig"),
        "local_shell_call" => (parse::read(raw).map(Item::LocalShellCall)?, "lsh"),
        "local_shell_call_output" => (parse::read(raw).map(Item::LocalShellCallOutput)?, "lsho"),
        "shell_call" => (parse::read(raw).map(Item::ShellCall)?, "sh"),
        "shell_call_output" => (parse::read(raw).map(Item::ShellCallOutput)?, "sho"),
        "apply_patch_call" => (parse::read(raw).map(Item::ApplyPatchCall)?, "apc"),
        "apply_patch_call_output" => (parse::read(raw).map(Item::ApplyPatchCallOutput)?, "apco"),
        "tool_search_call" => (parse::read(raw).map(Item::ToolSearchCall)?, "tsc"),
        "tool_search_output" => (ToolSearchOutput::from_json(raw).map(Item::ToolSearchOutput)?, "tso"),
        "additional_tools" => (AdditionalTools::from_json(raw).map(Item::AdditionalTools)?, "adt"),
        "mcp_list_tools" => (parse::read(raw).map(Item::McpListTools)?, "mcpl"),
        "mcp_call" => (parse::read(raw).map(Item::McpCall)?, "mcp"),
        "mcp_approval_request" => (parse::read(raw).map(Item::McpApprovalRequest)?, "mcpr"),
        "mcp_approval_response" => (parse::read(raw).map(Item::McpApprovalResponse)?, "mcpa"),
        "program" => (parse::read(raw).map(Item::Program)?, "prog"),
        "program_output" => (parse::read(raw).map(Item::ProgramOutput)?, "prgo"),
        "antwort:tool_call" => (parse::read(raw).map(Item::ServerToolCall)?, "tc"),
        "antwort:user_message" => (parse::read(raw).map(Item::UserMessage)?, "um"),
        other => return Err(ParseError::unknown_type(other, KINDS)),
    };
    if item.id().as_str().is_empty() {
        item.set_id(Id::generate(prefix));
    }
    Ok(item)
}

/// The id of an item without one, until [`read`] generates it: only there is the prefix known.
pub(super) fn unset() -> Id {
    Id::from("")
}

/// Reads an id that may be null.
pub(super) fn id_or_unset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(unset))
}
