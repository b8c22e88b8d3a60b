//! The permissions that a key can have.

use serde::{Deserialize, Serialize};

/// A permission of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// Create responses.
    #[serde(rename = "responses:create")]
    ResponsesCreate,
    /// Retrieve and list responses and their items.
    #[serde(rename = "responses:read")]
    ResponsesRead,
    /// Delete responses.
    #[serde(rename = "responses:delete")]
    ResponsesDelete,
    /// List models.
    #[serde(rename = "models:read")]
    ModelsRead,
    /// Create chat completions.
    #[serde(rename = "chat:create")]
    ChatCreate,
    /// Create embeddings.
    #[serde(rename = "embeddings:create")]
    EmbeddingsCreate,
    /// Requests to the other paths of `server.pass_through`.
    #[serde(rename = "pass_through:create")]
    PassThroughCreate,
    /// Read `/metrics`.
    #[serde(rename = "metrics:read")]
    MetricsRead,
    /// List server-side tools.
    #[serde(rename = "tools:read")]
    ToolsRead,
    /// Call server-side tools directly.
    #[serde(rename = "tools:execute")]
    ToolsExecute,
    /// Purge the cache of results, refresh the list of tools.
    #[serde(rename = "tools:admin")]
    ToolsAdmin,
    /// Read the status of MCP servers.
    #[serde(rename = "mcp:admin")]
    McpAdmin,
    /// List agent profiles.
    #[serde(rename = "agents:read")]
    AgentsRead,
    /// Erase the data of tenants and owners. `*` allows a key to erase its own.
    #[serde(rename = "data:admin")]
    DataAdmin,
    /// All of them, including future ones.
    #[serde(rename = "*")]
    All,
}

impl Scope {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::ResponsesCreate => "responses:create",
            Self::ResponsesRead => "responses:read",
            Self::ResponsesDelete => "responses:delete",
            Self::ModelsRead => "models:read",
            Self::ChatCreate => "chat:create",
            Self::EmbeddingsCreate => "embeddings:create",
            Self::PassThroughCreate => "pass_through:create",
            Self::MetricsRead => "metrics:read",
            Self::ToolsRead => "tools:read",
            Self::ToolsExecute => "tools:execute",
            Self::ToolsAdmin => "tools:admin",
            Self::McpAdmin => "mcp:admin",
            Self::AgentsRead => "agents:read",
            Self::DataAdmin => "data:admin",
            Self::All => "*",
        }
    }
}
