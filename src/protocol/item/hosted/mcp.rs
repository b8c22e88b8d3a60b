//! Items of MCP servers: what they offer, what was called, and who allowed it.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::{id_or_unset, unset};
use crate::protocol::content::null_is_default;
use crate::protocol::id::Id;
use crate::protocol::item::ItemStatus;
use crate::protocol::json::RawJson;
use crate::protocol::parse::{self, FromJson, ParseError};

/// What a server offers, as it was when the conversation first asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpListTools {
    /// `mcpl_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The server.
    pub server_label: String,
    /// Its tools.
    #[serde(default, deserialize_with = "null_is_default")]
    pub tools: Vec<McpListedTool>,
    /// Why it could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpListedTool {
    /// Its name there.
    pub name: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON schema of its arguments.
    pub input_schema: RawJson,
    /// The server's hints about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<RawJson>,
}

/// A call of a server's tool, with its outcome. What is not there is `null`, as the API has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpCall {
    /// `mcp_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The server.
    pub server_label: String,
    /// The tool.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
    /// What it gave.
    #[serde(default)]
    pub output: Option<String>,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<McpCallError>,
    /// Where it stands.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// The request by which it was allowed.
    #[serde(default)]
    pub approval_request_id: Option<String>,
}

/// The login that a server wants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpAuthChallenge {
    /// The URL of what it says of itself: who can log a user in (RFC 9728).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_metadata: Option<String>,
    /// The scopes that it asks for, with spaces in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum McpCallError {
    /// The server answered with a protocol error.
    McpProtocolError {
        /// JSON-RPC code.
        code: i64,
        /// In words.
        message: String,
    },
    /// The tool itself failed.
    McpToolExecutionError {
        /// What it said; any JSON, from us a list of one `text` part.
        content: RawJson,
        /// Which kind of failure it was, where this gateway says so; stable.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// The server could not be reached or refused.
    HttpError {
        /// HTTP status.
        code: i64,
        /// In words.
        message: String,
        /// Of a server that wants a login, or one that reaches farther.
        #[serde(flatten)]
        login: Option<Box<McpAuthChallenge>>,
    },
    /// A plain text, as earlier versions of the API had it.
    #[serde(untagged)]
    Text(String),
}

/// The model's wish to call a tool, which a person has to allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpApprovalRequest {
    /// `mcpr_…`; the answer names it.
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The server.
    pub server_label: String,
    /// The tool.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
}

/// The answer to an [`McpApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpApprovalResponse {
    /// `mcpa_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The request that is answered.
    pub approval_request_id: String,
    /// Whether the call may be made.
    pub approve: bool,
    /// Why, or why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl McpCallError {
    /// The tool failed, with this code and in these words.
    pub fn from_tool_error(code: &str, message: &str) -> Self {
        let content = serde_json::json!([{ "type": "text", "text": message }]);
        Self::McpToolExecutionError { content: (&content).into(), code: Some(code.to_owned()) }
    }

    /// In words, for the model.
    pub fn message(&self) -> Cow<'_, str> {
        match self {
            Self::McpProtocolError { message, .. }
            | Self::HttpError { message, .. }
            | Self::Text(message) => Cow::Borrowed(message),
            Self::McpToolExecutionError { content, .. } => texts(content),
        }
    }
}

/// The texts of a list of parts; anything else as it stands.
fn texts(content: &RawJson) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow)]
        text: Cow<'a, str>,
    }
    if let Ok(parts) = serde_json::from_str::<Vec<Part<'_>>>(content.get()) {
        let texts: Vec<&str> = parts.iter().map(|part| part.text.as_ref()).collect();
        return Cow::Owned(texts.join("\n"));
    }
    match serde_json::from_str::<String>(content.get()) {
        Ok(text) => Cow::Owned(text),
        Err(_) => Cow::Borrowed(content.get()),
    }
}

impl FromJson for McpCallError {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        #[derive(Deserialize)]
        struct Coded {
            code: i64,
            message: String,
        }
        #[derive(Deserialize)]
        struct Status {
            code: i64,
            message: String,
            #[serde(default)]
            resource_metadata: Option<String>,
            #[serde(default)]
            scope: Option<String>,
        }
        #[derive(Deserialize)]
        struct Content {
            content: RawJson,
            #[serde(default)]
            code: Option<String>,
        }
        if raw.get().starts_with('"') {
            return parse::read(raw).map(Self::Text);
        }
        match parse::peek_discriminator(raw)?.kind.as_deref() {
            Some("mcp_protocol_error") => {
                let Coded { code, message } = parse::read(raw)?;
                Ok(Self::McpProtocolError { code, message })
            }
            Some("mcp_tool_execution_error") => {
                let Content { content, code } = parse::read(raw)?;
                Ok(Self::McpToolExecutionError { content, code })
            }
            Some("http_error") => {
                let Status { code, message, resource_metadata, scope } = parse::read(raw)?;
                let login = McpAuthChallenge { resource_metadata, scope };
                let login = (login != McpAuthChallenge::default()).then(|| Box::new(login));
                Ok(Self::HttpError { code, message, login })
            }
            Some(other) => Err(ParseError::unknown_type(
                other,
                "mcp_protocol_error, mcp_tool_execution_error or http_error",
            )),
            None => Err(ParseError::missing("type")),
        }
    }
}

impl<'de> Deserialize<'de> for McpCallError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse::deserialize_from_json(deserializer)
    }
}
