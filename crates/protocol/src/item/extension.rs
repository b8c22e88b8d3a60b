//! Items of this gateway, marked by their prefix: see Open Responses, "Extending items".

use serde::{Deserialize, Serialize};

use super::ItemStatus;
use super::optional_id::{id_or_unset, unset};
use crate::content::null_is_default;
use crate::id::Id;

/// A server-side call, in the dialect without `mcp_call`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerToolCall {
    /// `tc_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// The label of its server; absent for the gateway's own tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_label: Option<String>,
    /// The name of the tool.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
    /// The output; `null` until there is one.
    #[serde(default)]
    pub output: Option<String>,
    /// The error, if it failed.
    #[serde(default)]
    pub error: Option<ServerToolError>,
    /// The approval request that led to the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_request_id: Option<String>,
}

/// The error of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerToolError {
    /// The stable code.
    pub code: String,
    /// A message for people.
    pub message: String,
}

/// A message of a tool to the user, which the model does not see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// `um_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// Always `completed`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// The name of the tool.
    pub name: String,
    /// The text of the message.
    pub text: String,
}
