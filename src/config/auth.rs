//! API keys: their tenants, owners and scopes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::masks;
use crate::protocol::dialect::Dialect;
use crate::protocol::request::ClientActionStatus;

/// API keys.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AuthSettings {
    /// No key is required, wherever the gateway listens.
    pub none: bool,
    /// Keys by name. Empty: every caller is anonymous.
    pub keys: BTreeMap<String, ApiKeySettings>,
}

/// One API key.
#[derive(Clone, Serialize)]
pub struct ApiKeySettings {
    /// SHA-256 of the key. The key itself is not kept.
    #[serde(serialize_with = "masks::digest")]
    pub hash: [u8; 32],
    /// Isolates rows: rows of other tenants do not exist for it.
    pub tenant: Arc<str>,
    /// The owner of its responses, by default the key's name. Keys with the same owner share rows.
    pub owner: Arc<str>,
    /// Permissions.
    pub scopes: Vec<Scope>,
    /// Names on the wire; absent: `engine.dialect`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// Status of its responses that wait for the client's functions, for all clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_action_status: Option<ClientActionStatus>,
    /// Whether its responses may be stored.
    pub store: StorePolicy,
    /// Maximum concurrent runs; absent: its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runs: Option<usize>,
}

impl std::fmt::Debug for ApiKeySettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeySettings")
            .field("owner", &self.owner)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// Whether the responses of a key may be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorePolicy {
    /// As each request says.
    #[default]
    Allow,
    /// A request that does not say `store: false` is refused.
    Refuse,
    /// Nothing is stored, whatever a request says.
    Never,
}

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
