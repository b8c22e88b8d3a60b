//! Messages of all four roles.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::ItemStatus;
use crate::content::ContentPart;
use crate::id::Id;
use crate::parse::{self, FromJson, ParseError};

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum Role {
    User,
    Assistant,
    System,
    Developer,
}

/// Whether an assistant's message is commentary or the final answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum Phase {
    Commentary,
    FinalAnswer,
}

/// A message. Content that arrived as a plain string is held as one text part.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Message {
    /// `msg_…`
    pub id: Id,
    /// `completed` unless the message is being, or was only partly, generated.
    pub status: ItemStatus,
    /// The author of a message.
    pub role: Role,
    /// The parts, in order.
    pub content: Vec<ContentPart>,
    /// Returned as it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
}

impl Message {
    /// The message that a string `input` stands for.
    pub fn user(text: impl Into<String>) -> Self {
        Self {
            id: Id::unnamed("msg"),
            status: ItemStatus::Completed,
            role: Role::User,
            content: vec![ContentPart::input_text(text)],
            phase: None,
        }
    }
}

impl FromJson for Message {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(default)]
            id: Option<Id>,
            #[serde(default)]
            status: Option<ItemStatus>,
            role: Role,
            #[serde(borrow)]
            content: &'a RawValue,
            #[serde(default, deserialize_with = "known_phase")]
            phase: Option<Phase>,
        }
        let fields: Fields<'_> = parse::read(raw)?;
        Ok(Self {
            id: fields.id.unwrap_or_else(|| Id::unnamed("msg")),
            status: fields.status.unwrap_or_default(),
            role: fields.role,
            content: read_content(fields.content, fields.role).map_err(|e| e.within("content"))?,
            phase: fields.phase,
        })
    }
}

/// A phase that a later version of the API may have is none that stops a message from being read: it is left out.
fn known_phase<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Phase>, D::Error> {
    #[derive(Deserialize)]
    struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
    let name = Option::<Name<'de>>::deserialize(deserializer)?;
    Ok(match name.as_ref().map(|name| &*name.0) {
        Some("commentary") => Some(Phase::Commentary),
        Some("final_answer") => Some(Phase::FinalAnswer),
        _ => None,
    })
}

fn read_content(raw: &RawValue, role: Role) -> Result<Vec<ContentPart>, ParseError> {
    if raw.get().starts_with('"') {
        let text: Cow<'_, str> = parse::read(raw)?;
        return Ok(vec![match role {
            Role::Assistant => ContentPart::output_text(text),
            Role::User | Role::System | Role::Developer => ContentPart::input_text(text),
        }]);
    }
    // An assistant message that held nothing but calls comes back with null content from some SDKs.
    if parse::is_null(raw) && role == Role::Assistant {
        return Ok(Vec::new());
    }
    parse::read_list(raw)
}
