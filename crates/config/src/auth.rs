//! API keys: their tenants, owners and scopes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::masks;
use antwort_identity::{Scope, StorePolicy};
use antwort_protocol::dialect::Dialect;
use antwort_protocol::request::ClientActionStatus;

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
