//! Items of this gateway alone, marked by their prefix: see Open Responses, "Extending items".

use serde::{Deserialize, Serialize};

use super::ItemStatus;
use super::hosted::{id_or_unset, unset};
use crate::protocol::content::null_is_default;
use crate::protocol::id::Id;

/// A call of a tool that the gateway ran, in the dialect that has no `mcp_call`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerToolCall {
    /// `tc_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// Where it stands.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// Its server; absent: the tool is the gateway's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_label: Option<String>,
    /// The tool.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
    /// What it gave.
    #[serde(default)]
    pub output: Option<String>,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<ServerToolError>,
    /// The request by which it was allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_request_id: Option<String>,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerToolError {
    /// Stable.
    pub code: String,
    /// In words.
    pub message: String,
}

/// What a tool says to the user and not to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// `um_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// Always `completed`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// The tool.
    pub name: String,
    /// What it says.
    pub text: String,
}
