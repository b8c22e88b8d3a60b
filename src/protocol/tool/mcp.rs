//! MCP servers as tools. Their credentials are used and never repeated.

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::AllowedCaller;
use crate::protocol::parse::{self, FromJson, ParseError};

/// An MCP server whose tools the model may call.
///
/// Unlike other tools it refuses fields that it does not know: a misspelt `allowed_tools` or
/// `require_approval` would otherwise quietly allow more than was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpTool {
    /// Names the server in items.
    pub server_label: String,
    /// Where it is. At most one of this and the next two is given; without any, the label names a server of
    /// the configuration.
    pub server_url: Option<String>,
    /// One of OpenAI's own connectors.
    pub connector_id: Option<String>,
    /// One of OpenAI's tunnels.
    pub tunnel_id: Option<String>,
    /// Sent as a bearer token; never echoed or stored.
    pub authorization: Option<Secret>,
    /// What the server is for, for the model.
    pub server_description: Option<String>,
    /// Sent with each request; never echoed or stored.
    pub headers: BTreeMap<String, Secret>,
    /// Which of its tools may be called; all when absent.
    pub allowed_tools: Option<McpAllowedTools>,
    /// Who may call them; everyone when absent.
    pub allowed_callers: Option<Vec<AllowedCaller>>,
    /// Which calls a person has to allow; what absence means depends on the server.
    pub require_approval: Option<ApprovalPolicy>,
    /// Not shown to the model until tool search finds them.
    pub defer_loading: Option<bool>,
}

/// A text that appears in no log, echo or store.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Which tools of a server may be called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum McpAllowedTools {
    /// Those with these names.
    Names(Vec<String>),
    /// Those that a filter lets through.
    Filter(McpToolFilter),
}

/// Picks tools of a server; what is absent does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpToolFilter {
    /// Those with these names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_names: Option<Vec<String>>,
    /// Those that the server says only read, or only the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
}

/// Which calls a person has to allow.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPolicy {
    /// All.
    #[default]
    Always,
    /// None.
    Never,
    /// Some.
    #[serde(untagged)]
    Rules(ApprovalRules),
}

/// Which calls need approval and which do not. What neither filter picks needs it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRules {
    /// These need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<McpToolFilter>,
    /// These do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub never: Option<McpToolFilter>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    #[serde(rename = "type")]
    _kind: serde::de::IgnoredAny,
    server_label: String,
    #[serde(default)]
    server_url: Option<String>,
    #[serde(default)]
    connector_id: Option<String>,
    #[serde(default)]
    tunnel_id: Option<String>,
    #[serde(default)]
    authorization: Option<Secret>,
    #[serde(default)]
    server_description: Option<String>,
    #[serde(default)]
    headers: Option<BTreeMap<String, Secret>>,
    #[serde(borrow, default)]
    allowed_tools: Option<&'a RawValue>,
    #[serde(default)]
    allowed_callers: Option<Vec<AllowedCaller>>,
    #[serde(borrow, default)]
    require_approval: Option<&'a RawValue>,
    #[serde(default)]
    defer_loading: Option<bool>,
}

impl FromJson for McpTool {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let fields: Fields<'_> = parse::read(raw)?;
        let tool = Self {
            allowed_tools: fields
                .allowed_tools
                .map(McpAllowedTools::from_json)
                .transpose()
                .map_err(|e| e.within("allowed_tools"))?,
            require_approval: fields
                .require_approval
                .map(ApprovalPolicy::from_json)
                .transpose()
                .map_err(|e| e.within("require_approval"))?,
            server_label: fields.server_label,
            server_url: non_empty(fields.server_url),
            connector_id: non_empty(fields.connector_id),
            tunnel_id: non_empty(fields.tunnel_id),
            authorization: fields.authorization,
            server_description: fields.server_description,
            headers: fields.headers.unwrap_or_default(),
            allowed_callers: fields.allowed_callers,
            defer_loading: fields.defer_loading,
        };
        tool.check()?;
        Ok(tool)
    }
}

/// Where a server is; an empty text names no place. `@ai-sdk/openai` cannot leave all three out.
fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

impl McpTool {
    /// Which calls a person has to allow: of a server that the client names, all, if nothing is said; of one
    /// that the operator configured, none.
    pub fn approval(&self) -> ApprovalPolicy {
        match &self.require_approval {
            Some(approval) => approval.clone(),
            None if self.is_configured() => ApprovalPolicy::Never,
            None => ApprovalPolicy::Always,
        }
    }

    /// Whether its label names a server of the configuration.
    pub fn is_configured(&self) -> bool {
        self.server_url.is_none() && self.connector_id.is_none() && self.tunnel_id.is_none()
    }

    fn check(&self) -> Result<(), ParseError> {
        if self.server_label.is_empty() {
            return Err(ParseError::invalid("server_label", "must not be empty."));
        }
        let places = [&self.server_url, &self.connector_id, &self.tunnel_id];
        match places.iter().filter(|place| place.is_some()).count() {
            0 | 1 => Ok(()),
            _ => Err(ParseError::invalid(
                "server_url",
                "give only one of 'server_url', 'connector_id' and 'tunnel_id'.",
            )
            .with_code("mutually_exclusive_parameters")),
        }
    }
}

impl FromJson for McpAllowedTools {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        match raw.get().as_bytes().first() {
            Some(b'[') => parse::read(raw).map(Self::Names),
            Some(b'{') => parse::read(raw).map(Self::Filter),
            _ => Err(ParseError::wrong_type(
                "",
                format!("expected an array of names or an object, got {}.", parse::json_type(raw)),
            )),
        }
    }
}

impl FromJson for ApprovalPolicy {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        match raw.get() {
            r#""always""# => Ok(Self::Always),
            r#""never""# => Ok(Self::Never),
            text if text.starts_with('{') => parse::read(raw).map(Self::Rules),
            text if text.starts_with('"') => {
                Err(ParseError::invalid("", "expected 'always', 'never' or an object."))
            }
            _ => Err(ParseError::wrong_type(
                "",
                format!("expected 'always', 'never' or an object, got {}.", parse::json_type(raw)),
            )),
        }
    }
}

/// A URL as it may be shown: some servers take their keys in the query.
fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

impl Serialize for McpTool {
    /// The echo: all that a reader may see, in the API's normal form.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The length is only a hint, and JSON needs none.
        let mut echo = serializer.serialize_struct("McpTool", 10)?;
        echo.serialize_field("server_label", &self.server_label)?;
        match (&self.connector_id, &self.tunnel_id) {
            (Some(id), _) => echo.serialize_field("connector_id", id)?,
            (_, Some(id)) => echo.serialize_field("tunnel_id", id)?,
            _ => echo.serialize_field("server_url", &self.server_url.as_deref().map(without_query))?,
        }
        echo.serialize_field("server_description", &self.server_description)?;
        echo.serialize_field("headers", &None::<()>)?;
        echo.serialize_field("allowed_tools", &self.allowed_tools)?;
        echo.serialize_field("require_approval", &self.approval())?;
        if let Some(callers) = &self.allowed_callers {
            echo.serialize_field("allowed_callers", callers)?;
        }
        if let Some(defer) = self.defer_loading {
            echo.serialize_field("defer_loading", &defer)?;
        }
        echo.end()
    }
}
