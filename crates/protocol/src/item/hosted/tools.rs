//! Tools that are added to a conversation along the way.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::Id;
use crate::item::Role;
use crate::item::optional_id::{id_or_unset, unset};
use crate::parse::{self, FromJson, ParseError};
use crate::tool::Tool;

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

impl FromJson for AdditionalTools {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(default = "unset", deserialize_with = "id_or_unset")]
            id: Id,
            #[serde(default)]
            role: Option<Role>,
            #[serde(borrow)]
            tools: &'a RawValue,
        }
        let fields: Fields<'_> = parse::read(raw)?;
        Ok(Self {
            id: fields.id,
            role: fields.role.unwrap_or(Role::Developer),
            tools: parse::read_list(fields.tools).map_err(|e| e.within("tools"))?,
        })
    }
}
