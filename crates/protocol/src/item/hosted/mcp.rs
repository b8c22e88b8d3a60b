//! Items of MCP servers: what they offer, what was called, and who allowed it.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::content::null_is_default;
use crate::id::Id;
use crate::item::optional_id::{id_or_unset, unset};
use crate::item::{ItemStatus, abandoned_status};
use crate::json::RawJson;
use crate::parse::{self, FromJson, ParseError};

/// The tools of a server, as listed when the conversation first used it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpListTools {
    /// `mcpl_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The label of the server.
    pub server_label: String,
    /// Its tools.
    #[serde(default, deserialize_with = "null_is_default")]
    pub tools: Vec<McpListedTool>,
    /// The error, if the tools could not be listed. One that is an object is read as its message.
    #[serde(default, deserialize_with = "error_text", skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn error_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let error = Option::<McpCallError>::deserialize(deserializer)?;
    Ok(error.map(|error| error.message().into_owned()))
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpListedTool {
    /// The tool's name at the server.
    pub name: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON schema of its arguments.
    pub input_schema: RawJson,
    /// The annotations of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<RawJson>,
}

/// A call of a server's tool, with its outcome. Absent values are `null`, as in the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpCall {
    /// `mcp_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The label of the server.
    pub server_label: String,
    /// The name of the tool.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
    /// The output; `null` until there is one.
    #[serde(default)]
    pub output: Option<String>,
    /// The error, if it failed.
    #[serde(default)]
    pub error: Option<McpCallError>,
    /// The status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// The approval request that led to the call.
    #[serde(default)]
    pub approval_request_id: Option<String>,
    /// Pictures and files of the output. Only of the call as the model sees it: clients are not shown them.
    #[serde(default, rename = "antwort:files", skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ResultFile>,
}

/// A picture or another file of a tool's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultFile {
    /// Its name, of a file that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The content, as a `data:` URL.
    pub url: String,
}

impl ResultFile {
    /// The media type, without parameters.
    pub fn media_type(&self) -> &str {
        let kind = self.url.strip_prefix("data:").unwrap_or_default();
        kind.split([';', ',']).next().unwrap_or_default()
    }

    /// The content in base64.
    pub fn base64(&self) -> &str {
        self.url.split_once(',').map_or("", |(_, data)| data)
    }

    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        self.url.len() + self.name.as_ref().map_or(0, String::len)
    }
}

/// The authentication challenge of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpAuthChallenge {
    /// The URL of the server's resource metadata (RFC 9728), which names its authorization servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_metadata: Option<String>,
    /// The scopes that it asks for, separated by spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// The error of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum McpCallError {
    /// The server answered with a protocol error.
    McpProtocolError {
        /// JSON-RPC code.
        code: i64,
        /// A message for people.
        message: String,
    },
    /// The tool itself failed.
    McpToolExecutionError {
        /// The tool's output; any JSON, from this gateway a list with one `text` part.
        content: RawJson,
        /// Which kind of failure it was, where this gateway says so; stable.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// The server could not be reached or refused.
    HttpError {
        /// HTTP status.
        code: i64,
        /// A message for people.
        message: String,
        /// The challenge of a server that wants authentication, or more scopes.
        #[serde(flatten)]
        login: Option<Box<McpAuthChallenge>>,
    },
    /// A plain text, as in earlier versions of the API.
    #[serde(untagged)]
    Text(String),
}

/// A call that needs approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpApprovalRequest {
    /// `mcpr_…`; the response names it.
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The label of the server.
    pub server_label: String,
    /// The name of the tool.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
    /// Whether its inference was abandoned, so that it waits for no answer: the model was asked again. On the wire it is
    /// `"status": "incomplete"`.
    #[serde(
        rename = "status",
        default,
        with = "abandoned_status",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_abandoned: bool,
}

/// The answer to an [`McpApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpApprovalResponse {
    /// `mcpa_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The approval request that is answered.
    pub approval_request_id: String,
    /// Whether the call is approved.
    pub approve: bool,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl McpCallError {
    /// A tool error with this code and message.
    pub fn from_tool_error(code: &str, message: &str) -> Self {
        let content = serde_json::json!([{ "type": "text", "text": message }]);
        Self::McpToolExecutionError { content: (&content).into(), code: Some(code.to_owned()) }
    }

    /// The message for the model.
    pub fn message(&self) -> Cow<'_, str> {
        match self {
            Self::McpProtocolError { message, .. }
            | Self::HttpError { message, .. }
            | Self::Text(message) => Cow::Borrowed(message),
            Self::McpToolExecutionError { content, .. } => texts(content),
        }
    }
}

/// The texts of a list of parts; any other JSON as it is.
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
        #[derive(Deserialize)]
        struct Other {
            #[serde(default)]
            message: Option<String>,
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
            // A kind that a later version of the API may have is told by its message.
            other => {
                let Other { message } = parse::read(raw)?;
                let text = message.or_else(|| other.map(str::to_owned));
                text.map(Self::Text).ok_or_else(|| ParseError::missing("type"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for McpCallError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse::deserialize_from_json(deserializer)
    }
}
