//! Items that bring tools into a conversation: tool search, and tools added along the way.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::protocol::content::null_is_default;
use crate::protocol::id::Id;
use crate::protocol::item::optional_id::{id_or_unset, unset};
use crate::protocol::item::{ItemStatus, Role};
use crate::protocol::json::RawJson;
use crate::protocol::parse::{self, FromJson, ParseError};
use crate::protocol::tool::{Tool, ToolSearchExecution};

/// The model looks for tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSearchCall {
    /// `tsc_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// Pairs the call with its output; null when the server searches.
    #[serde(default)]
    pub call_id: Option<String>,
    /// Whether the server or the client searches.
    #[serde(default, deserialize_with = "null_is_default")]
    pub execution: ToolSearchExecution,
    /// What for; any JSON.
    pub arguments: RawJson,
    /// The status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
}

/// The tools that were found: from here on the model may call them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolSearchOutput {
    /// `tso_…`
    pub id: Id,
    /// The call that is answered; null when the server searched.
    pub call_id: Option<String>,
    /// Whether the server or the client has searched.
    pub execution: ToolSearchExecution,
    /// The tools that were found.
    pub tools: Vec<Tool>,
    /// The status.
    pub status: ItemStatus,
}

/// Tools that are added to the conversation at this place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdditionalTools {
    /// `adt_…`
    pub id: Id,
    /// `developer` when a client sends it.
    pub role: Role,
    /// The tools.
    pub tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    id: Id,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    execution: ToolSearchExecution,
    #[serde(default)]
    role: Option<Role>,
    #[serde(borrow)]
    tools: &'a RawValue,
    #[serde(default, deserialize_with = "null_is_default")]
    status: ItemStatus,
}

impl FromJson for ToolSearchOutput {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let fields: Fields<'_> = parse::read(raw)?;
        Ok(Self {
            id: fields.id,
            call_id: fields.call_id,
            execution: fields.execution,
            tools: parse::read_list(fields.tools).map_err(|e| e.within("tools"))?,
            status: fields.status,
        })
    }
}

impl FromJson for AdditionalTools {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let fields: Fields<'_> = parse::read(raw)?;
        Ok(Self {
            id: fields.id,
            role: fields.role.unwrap_or(Role::Developer),
            tools: parse::read_list(fields.tools).map_err(|e| e.within("tools"))?,
        })
    }
}
