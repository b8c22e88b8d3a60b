//! MCP servers as tools. Their credentials are used and never shown.

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::function::AllowedCaller;
use crate::parse::{self, FromJson, ParseError};

/// An MCP server whose tools the model may call.
///
/// Unlike other tools it refuses unknown fields: a misspelt `allowed_tools` or `require_approval` would otherwise
/// silently allow more than was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpTool {
    /// The label of the server in items.
    pub server_label: String,
    /// Its URL. At most one of this and the next two fields is set; without any, the label names a server of
    /// the configuration.
    pub server_url: Option<String>,
    /// One of OpenAI's own connectors.
    pub connector_id: Option<String>,
    /// One of OpenAI's tunnels.
    pub tunnel_id: Option<String>,
    /// Sent as a bearer token; never echoed or stored.
    pub authorization: Option<Secret>,
    /// The description for the model.
    pub(crate) server_description: Option<String>,
    /// Sent with each request; never echoed or stored.
    pub headers: BTreeMap<String, Secret>,
    /// The tools that may be called; all if absent.
    pub allowed_tools: Option<McpAllowedTools>,
    /// Who may call them; the model and programs if absent.
    pub allowed_callers: Option<Vec<AllowedCaller>>,
    /// Which calls need approval; the default depends on the server.
    pub require_approval: Option<ApprovalPolicy>,
    /// Not shown to the model until tool search finds them.
    pub defer_loading: Option<bool>,
}

/// A secret, which appears in no log, echo or store.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The plain text, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// The tools of a server that may be called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum McpAllowedTools {
    /// Those with these names.
    Names(Vec<String>),
    /// Those that match a filter.
    Filter(McpToolFilter),
}

/// Selects tools of a server; an absent field matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpToolFilter {
    /// Those with these names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_names: Option<Vec<String>>,
    /// Tools that are read-only by their annotations, or those that are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
}

/// Which calls need approval.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPolicy {
    /// All calls.
    #[default]
    Always,
    /// No calls.
    Never,
    /// Some calls.
    #[serde(untagged)]
    Rules(ApprovalRules),
}

/// Calls that need approval, and calls that do not. A tool that neither filter matches needs it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRules {
    /// Tools that need approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<McpToolFilter>,
    /// Tools that do not.
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

/// The URL of a server; an empty text counts as none, as `@ai-sdk/openai` cannot omit all three fields.
fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

impl McpTool {
    /// Which calls need approval, if the request does not say: all of a server that the client names, none of one
    /// that the operator configured.
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

/// The URL without its query, in which some servers take their keys.
fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

impl Serialize for McpTool {
    /// The echo: everything but secrets, in the API's normal form.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The length is only a hint, which JSON does not need.
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
