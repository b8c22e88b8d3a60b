//! Items of tools other than functions that the gateway makes or reads: web search, MCP, tools added along the way.
//!
//! Optional fields are omitted if absent; required nullable ones are sent as null.

mod mcp;
mod search;
mod tools;

pub use mcp::{
    McpApprovalRequest, McpApprovalResponse, McpAuthChallenge, McpCallError, McpListTools, McpListedTool,
};
pub use mcp::{McpCall, ResultFile};
pub use search::{WebSearchAction, WebSearchCall, WebSource};
pub(crate) use tools::AdditionalTools;
