//! What is known of a tool before it is called.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::protocol::json::RawJson;

/// A tool as its executor describes it. Serialises to an element of `GET /v1/tools`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolDefinition {
    /// Unique within its executor; `^[a-zA-Z0-9_-]{1,64}$`.
    pub name: String,
    /// For the model: what it does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: RawJson,
    /// JSON Schema of the structured result, if the tool promises one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returns: Option<RawJson>,
    /// How it is run.
    pub kind: ToolKind,
    /// Who runs it.
    pub executor: Arc<str>,
    /// Of the tool itself, such as `1.2.0`; part of cache keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it needs or offers: `fs` and `net` are gated by policy, others are for routing and lists.
    pub tags: Vec<String>,
    /// Hints about its effects.
    pub annotations: Annotations,
    /// Whether it needs credentials of its caller.
    pub requires_auth: bool,
    /// The label of the server that it is a tool of; `None`: it is the gateway's own.
    #[serde(skip)]
    pub server: Option<Arc<str>>,
}

/// How a tool is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Part of the gateway.
    Builtin,
    /// Linked in by a program that embeds the gateway.
    Custom,
    /// Answers from the configuration, for demonstrations and tests.
    Mock,
    /// On a server that speaks the Model Context Protocol.
    Mcp,
}

/// Hints about a tool's effects; what is not known counts as the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Annotations {
    /// Changes nothing.
    pub read_only: bool,
    /// Calling it twice with the same arguments has the effect of calling it once.
    pub idempotent: bool,
    /// May destroy something.
    pub destructive: bool,
    /// Reaches beyond a closed world: its answers change without its doing.
    pub open_world: bool,
}

impl Annotations {
    /// Computes and looks up; may be called again at will.
    pub const READ_ONLY: Self =
        Self { read_only: true, idempotent: true, destructive: false, open_world: false };
    /// As [`Self::READ_ONLY`], of a world that changes.
    pub const LOOKS_OUTSIDE: Self = Self { open_world: true, ..Self::READ_ONLY };
    /// Nothing is known.
    pub const UNKNOWN: Self =
        Self { read_only: false, idempotent: false, destructive: true, open_world: true };

    /// Whether a call may be made again that perhaps was made.
    pub fn may_repeat(self) -> bool {
        self.idempotent || self.read_only
    }
}

impl ToolDefinition {
    /// A tool without tags, version or return schema, of which no effects are known.
    ///
    /// `parameters` is the JSON Schema of its arguments.
    pub fn new(name: &str, description: &str, parameters: &Value) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: parameters.into(),
            returns: None,
            kind: ToolKind::Custom,
            executor: "local".into(),
            version: None,
            tags: Vec::new(),
            annotations: Annotations::UNKNOWN,
            requires_auth: false,
            server: None,
        }
    }

    /// With these hints.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        self.annotations = annotations;
        self
    }

    /// With this tag.
    #[must_use]
    pub fn with_tag(mut self, tag: &str) -> Self {
        self.tags.push(tag.to_owned());
        self
    }

    /// With this version.
    #[must_use]
    pub fn with_version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }

    /// With a JSON Schema that its structured results are held to.
    #[must_use]
    pub fn with_returns(mut self, schema: &Value) -> Self {
        self.returns = Some(schema.into());
        self
    }

    /// The name by which settings, metrics and records know it: `label__name` of a tool of an MCP server.
    pub fn qualified_name(&self) -> Cow<'_, str> {
        match &self.server {
            Some(label) => Cow::Owned(format!("{label}__{}", self.name)),
            None => Cow::Borrowed(&self.name),
        }
    }

    /// Whether it has this tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }
}
