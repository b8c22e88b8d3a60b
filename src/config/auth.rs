//! Who may call: keys by name and what each may do.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::units;
use crate::protocol::dialect::Dialect;
use crate::protocol::request::ClientActionStatus;

/// Who may call.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AuthSettings {
    /// It was said that no key is needed, wherever the gateway listens.
    pub none: bool,
    /// Keys by name. Empty: every caller is anonymous.
    pub keys: BTreeMap<String, ApiKeySettings>,
}

/// One key and what it may do.
#[derive(Clone, Serialize)]
pub struct ApiKeySettings {
    /// SHA-256 of the key. The key itself is forgotten once it is read.
    #[serde(serialize_with = "units::digest")]
    pub hash: [u8; 32],
    /// The harder wall between rows.
    pub tenant: Arc<str>,
    /// Whose rows its responses are; the key's name if nothing is said, so that keys can share rows.
    pub owner: Arc<str>,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Which names its responses use, if not the general ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// Status of its responses that wait for the client's functions, whatever client uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_action_status: Option<ClientActionStatus>,
    /// Its responses in the making at a time; absent: its share.
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

/// Something that a key may be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// Make responses.
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
    /// Chat completions.
    #[serde(rename = "chat:create")]
    ChatCreate,
    /// Embeddings.
    #[serde(rename = "embeddings:create")]
    EmbeddingsCreate,
    /// Read `/metrics`.
    #[serde(rename = "metrics:read")]
    MetricsRead,
    /// List server-side tools.
    #[serde(rename = "tools:read")]
    ToolsRead,
    /// Call server-side tools directly.
    #[serde(rename = "tools:execute")]
    ToolsExecute,
    /// Purge the cache of results, read the tools anew.
    #[serde(rename = "tools:admin")]
    ToolsAdmin,
    /// See how MCP servers are.
    #[serde(rename = "mcp:admin")]
    McpAdmin,
    /// List agent profiles.
    #[serde(rename = "agents:read")]
    AgentsRead,
    /// All of them, and those to come.
    #[serde(rename = "*")]
    All,
}

impl Scope {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::ResponsesCreate => "responses:create",
            Self::ResponsesRead => "responses:read",
            Self::ResponsesDelete => "responses:delete",
            Self::ModelsRead => "models:read",
            Self::ChatCreate => "chat:create",
            Self::EmbeddingsCreate => "embeddings:create",
            Self::MetricsRead => "metrics:read",
            Self::ToolsRead => "tools:read",
            Self::ToolsExecute => "tools:execute",
            Self::ToolsAdmin => "tools:admin",
            Self::McpAdmin => "mcp:admin",
            Self::AgentsRead => "agents:read",
            Self::All => "*",
        }
    }
}
