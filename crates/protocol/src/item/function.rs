//! Calls of functions and custom tools, and their outputs.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ItemStatus;
use crate::content::{ContentPart, null_is_default};
use crate::id::Id;
use crate::parse::{self, FromJson, ParseError};

/// A call of a function of the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// `fc_…`; not the `call_id`.
    #[serde(default = "function_id", deserialize_with = "function_id_or_new")]
    pub id: Id,
    /// `incomplete` if the model was cut off: such a call must not be run.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// Shared by the call and its output; 1 to 64 characters.
    pub call_id: String,
    /// The function's name, without its namespace.
    pub name: String,
    /// The namespace tool that declared the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// A JSON object, as text.
    pub arguments: String,
}

/// The output of a function call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionCallOutput {
    /// `fco_…`
    pub id: Id,
    /// The status, as sent.
    pub status: ItemStatus,
    /// The `call_id` of the call; empty if the output names its function instead, until the call is found.
    pub call_id: String,
    /// The function that returned it, as sent with an output that has no `call_id`.
    #[serde(skip)]
    pub name: Option<String>,
    /// The function's namespace, likewise.
    #[serde(skip)]
    pub namespace: Option<String>,
    /// Text, or parts.
    pub output: ToolOutput,
}

/// The model calls a custom tool with free-form text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomToolCall {
    /// `ctc_…`
    #[serde(default = "custom_id", deserialize_with = "custom_id_or_new")]
    pub id: Id,
    /// `incomplete` if the model was cut off.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// Shared by the call and its output.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The namespace tool that declared it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The tool's input, raw.
    pub input: String,
}

/// The output of a custom tool call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CustomToolCallOutput {
    /// `ctco_…`
    pub id: Id,
    /// The status, as sent.
    pub status: ItemStatus,
    /// The `call_id` of the call.
    pub call_id: String,
    /// Text, or parts.
    pub output: ToolOutput,
}

/// The output of a tool, as sent by the client.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ToolOutput {
    /// Plain text.
    Text(String),
    /// Text, images and files.
    Parts(Vec<ContentPart>),
}

impl FromJson for ToolOutput {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        match raw.get().as_bytes().first() {
            Some(b'"') => parse::read(raw).map(Self::Text),
            Some(b'[') => parse::read_list(raw).map(Self::Parts),
            _ => Err(ParseError::wrong_type(
                "",
                format!("expected a string or an array of content parts, got {}.", parse::json_type(raw)),
            )),
        }
    }
}

#[derive(Deserialize)]
struct OutputFields<'a> {
    #[serde(default)]
    id: Option<Id>,
    #[serde(default)]
    status: Option<ItemStatus>,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(borrow)]
    output: &'a RawValue,
}

impl FromJson for FunctionCallOutput {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let fields: OutputFields<'_> = parse::read(raw)?;
        let (call_id, name, namespace) = match (fields.call_id, fields.name) {
            (Some(call_id), _) => (call_id, None, None),
            (None, Some(name)) => (String::new(), Some(name), fields.namespace),
            (None, None) => return Err(ParseError::missing("call_id")),
        };
        Ok(Self {
            id: fields.id.unwrap_or_else(|| Id::unnamed("fco")),
            status: fields.status.unwrap_or_default(),
            call_id,
            name,
            namespace,
            output: ToolOutput::from_json(fields.output).map_err(|e| e.within("output"))?,
        })
    }
}

impl FromJson for CustomToolCallOutput {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let fields: OutputFields<'_> = parse::read(raw)?;
        Ok(Self {
            id: fields.id.unwrap_or_else(|| Id::unnamed("ctco")),
            status: fields.status.unwrap_or_default(),
            call_id: fields.call_id.ok_or_else(|| ParseError::missing("call_id"))?,
            output: ToolOutput::from_json(fields.output).map_err(|e| e.within("output"))?,
        })
    }
}

fn function_id() -> Id {
    Id::unnamed("fc")
}

fn custom_id() -> Id {
    Id::unnamed("ctc")
}

fn function_id_or_new<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(function_id))
}

fn custom_id_or_new<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(custom_id))
}
