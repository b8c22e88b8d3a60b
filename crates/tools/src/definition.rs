//! The definition of a tool: name, schemas, executor and hints.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use antwort_config::AsyncMode;
use antwort_protocol::json::RawJson;

/// A tool as its executor describes it. Serializes to an element of `GET /v1/tools`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolDefinition {
    /// Unique within its executor; `^[a-zA-Z0-9_-]{1,64}$`.
    pub name: String,
    /// Tells the model what the tool does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: RawJson,
    /// JSON Schema of the structured result, if the tool declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returns: Option<RawJson>,
    /// Kind of the executor.
    pub kind: ToolKind,
    /// Id of the executor.
    pub executor: Arc<str>,
    /// Version of the tool, such as `1.2.0`; part of cache keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Capabilities: `fs` and `net` are subject to policy, others serve routing and filters.
    pub tags: Vec<String>,
    /// Hints about side effects.
    pub annotations: Annotations,
    /// Whether the tool uses credentials of its caller.
    pub requires_auth: bool,
    /// Whether its work may go on after its answer, unless the configuration says.
    #[serde(rename = "async", skip_serializing_if = "AsyncMode::is_deny")]
    pub asynchronous: AsyncMode,
    /// Label of the MCP server; `None` for the gateway's own tools.
    #[serde(skip)]
    pub server: Option<Arc<str>>,
}

/// How a tool is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Built into the gateway.
    Builtin,
    /// Registered by a program that embeds the gateway.
    Custom,
    /// Canned answers from the configuration, for demonstrations and tests.
    Mock,
    /// Provided by an MCP server.
    Mcp,
}

/// Hints about a tool's side effects; unknown hints take the unsafe value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Annotations {
    /// No side effects.
    pub read_only: bool,
    /// Repeating a call with the same arguments has no further effect.
    pub idempotent: bool,
    /// May delete or overwrite data.
    pub destructive: bool,
    /// Interacts with the outside world: the same call may return other results later.
    pub open_world: bool,
}

impl Annotations {
    /// A pure computation or lookup, safe to repeat.
    pub const READ_ONLY: Self =
        Self { read_only: true, idempotent: true, destructive: false, open_world: false };
    /// As [`Self::READ_ONLY`], but results change over time.
    pub const READ_ONLY_OPEN_WORLD: Self = Self { open_world: true, ..Self::READ_ONLY };
    /// No hints: assumed unsafe.
    pub const UNKNOWN: Self =
        Self { read_only: false, idempotent: false, destructive: true, open_world: true };

    /// Whether a call with an unknown outcome may be repeated.
    pub fn may_repeat(self) -> bool {
        self.idempotent || self.read_only
    }
}

impl ToolDefinition {
    /// A tool without tags, version, return schema or hints.
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
            asynchronous: AsyncMode::Deny,
            server: None,
        }
    }

    /// Sets the hints.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        self.annotations = annotations;
        self
    }

    /// Lets its work go on after its answer.
    #[must_use]
    pub fn with_async(mut self) -> Self {
        self.asynchronous = AsyncMode::Allow;
        self
    }

    /// Adds a tag.
    #[must_use]
    pub fn with_tag(mut self, tag: &str) -> Self {
        self.tags.push(tag.to_owned());
        self
    }

    /// Sets the version.
    #[must_use]
    pub fn with_version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }

    /// Sets the JSON Schema that structured results are validated against.
    #[must_use]
    pub fn with_returns(mut self, schema: &Value) -> Self {
        self.returns = Some(schema.into());
        self
    }

    /// The name in settings, metrics and audit records: `label__name` for a tool of an MCP server.
    pub fn qualified_name(&self) -> Cow<'_, str> {
        match &self.server {
            Some(label) => Cow::Owned(format!("{label}__{}", self.name)),
            None => Cow::Borrowed(&self.name),
        }
    }

    /// Whether the tool has a tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }
}
