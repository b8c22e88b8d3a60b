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
