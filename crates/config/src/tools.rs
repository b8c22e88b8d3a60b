//! Server-side tools: availability and results. How calls are made is in `calls`, the built-in tools are in `builtin`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::units::{self, MIB};
pub use antwort_protocol::request::ToolVisibility;
use antwort_protocol::result_format::ResultFormat;
pub use builtin::{
    BuiltinSettings, FileReadSettings, MockTool, SearchProvider, SimpleTool, WeatherSettings,
    WebSearchSettings,
};
pub use calls::{
    AsyncMode, BreakerSettings, ExecutorSettings, OnComplete, OnError, RouteSettings, RouteStrategy,
    ToolOverride, ToolRetry, mcp_label,
};

mod builtin;
mod calls;

/// Server-side tools.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsSettings {
    /// `false`: single-shot. No tool is run: one inference, then `completed`.
    pub execution_enabled: bool,
    /// What clients see of calls that the gateway runs.
    pub stream_visibility: ToolVisibility,
    /// Whether messages of tools to the user become items of the output.
    pub user_messages: UserMessages,
    /// Timeout of a call, unless the tool has its own.
    #[serde(with = "units::HumanDuration")]
    pub timeout: Duration,
    /// Maximum concurrent calls of one turn.
    pub max_parallel: usize,
    /// How two tools with the same name, of different executors, are treated.
    pub collision: ToolCollision,
    /// How failed calls are treated.
    pub on_error: OnError,
    /// Globs of allowed tools; absent: all. An empty list allows none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Globs of blocked tools; they override the allowed ones.
    pub blocked_tools: Vec<String>,
    /// Whether tools that access files (tag `fs`) are available.
    pub allow_file_access: bool,
    /// Whether tools that use the network (tag `net`) are available.
    pub allow_network_access: bool,
    /// Further lists by tenant; they narrow the general ones.
    pub tenants: BTreeMap<String, ToolLists>,
    /// Limits and validation of results.
    pub results: ToolResultSettings,
    /// The cache of results.
    pub cache: ToolCacheSettings,
    /// Retries of calls.
    pub retry: ToolRetry,
    /// The circuit breaker of each tool.
    pub breaker: BreakerSettings,
    /// Settings of single tools, by name.
    pub overrides: BTreeMap<String, ToolOverride>,
    /// Settings of all tools of one executor, by its id.
    pub executors: BTreeMap<String, ExecutorSettings>,
    /// Tools that several executors serve, by name.
    pub routes: BTreeMap<String, RouteSettings>,
    /// Built-in tools.
    pub builtin: BuiltinSettings,
    /// Tools with fixed results, for demonstrations and tests, by name.
    pub mock: BTreeMap<String, MockTool>,
    /// Delay of mock tools without one of their own.
    #[serde(with = "units::HumanDuration")]
    pub mock_delay: Duration,
    /// How results are sent to models.
    pub result_format: ResultFormat,
    /// How long the result of work is waited for that goes on after its call.
    #[serde(with = "units::HumanDuration")]
    pub callback_timeout: Duration,
}

impl Default for ToolsSettings {
    fn default() -> Self {
        Self {
            execution_enabled: true,
            stream_visibility: ToolVisibility::Full,
            user_messages: UserMessages::Off,
            timeout: Duration::from_secs(30),
            max_parallel: 8,
            collision: ToolCollision::Error,
            on_error: OnError::Continue,
            allowed_tools: None,
            blocked_tools: Vec::new(),
            allow_file_access: false,
            allow_network_access: true,
            tenants: BTreeMap::new(),
            results: ToolResultSettings::default(),
            cache: ToolCacheSettings::default(),
            retry: ToolRetry::default(),
            breaker: BreakerSettings::default(),
            overrides: BTreeMap::new(),
            executors: BTreeMap::new(),
            routes: BTreeMap::new(),
            builtin: BuiltinSettings::default(),
            mock: BTreeMap::new(),
            mock_delay: Duration::from_millis(100),
            result_format: ResultFormat::Text,
            callback_timeout: Duration::from_hours(24),
        }
    }
}

/// Whether messages of tools to the user become items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserMessages {
    /// An `antwort:user_message` item.
    Item,
    /// They are dropped.
    #[default]
    Off,
}

/// How two tools with the same name are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCollision {
    /// The gateway does not start.
    Error,
    /// The first one is kept.
    First,
    /// The last one is kept.
    Last,
    /// Each name is prefixed with its executor.
    Prefix,
}

/// Allowed and blocked tools of a tenant or an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolLists {
    /// Globs; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Globs.
    pub blocked_tools: Vec<String>,
}

/// Limits and validation of results.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolResultSettings {
    /// Maximum bytes of one result that the model reads; a larger one is truncated to head and tail.
    #[serde(with = "units::ByteSize")]
    pub max_bytes: usize,
    /// Maximum bytes of one result that is stored for `read_tool_output`; the rest is dropped.
    #[serde(with = "units::ByteSize")]
    pub max_stored_bytes: usize,
    /// Maximum bytes of all results that are stored for `read_tool_output`.
    #[serde(with = "units::ByteSize")]
    pub store_bytes: usize,
    /// How long results are stored.
    #[serde(with = "units::HumanDuration")]
    pub store_ttl: Duration,
    /// How results that violate the tool's return schema are treated.
    pub return_schema: ReturnSchema,
}

impl Default for ToolResultSettings {
    fn default() -> Self {
        Self {
            max_bytes: 64 << 10,
            max_stored_bytes: 4 * MIB,
            store_bytes: 64 * MIB,
            store_ttl: Duration::from_hours(1),
            return_schema: ReturnSchema::Warn,
        }
    }
}

/// How structured results that violate the tool's return schema are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReturnSchema {
    /// They are logged.
    Warn,
    /// The call fails.
    Error,
    /// They are not validated.
    Off,
}

/// The cache of results.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolCacheSettings {
    /// Whether results are cached.
    pub enabled: bool,
    /// By tool; `default` for all others.
    #[serde(with = "units::DurationMap")]
    pub ttl: BTreeMap<String, Duration>,
    /// Globs of tools whose results are never cached.
    pub never: Vec<String>,
    /// Maximum bytes of all cached results.
    #[serde(with = "units::ByteSize")]
    pub max_bytes: usize,
}

impl Default for ToolCacheSettings {
    fn default() -> Self {
        let ttl =
            [("search", 300), ("web_search", 300), ("weather", 600), ("get_weather", 600), ("default", 60)];
        Self {
            enabled: true,
            ttl: ttl.map(|(name, seconds)| (name.to_owned(), Duration::from_secs(seconds))).into(),
            never: ["random", "timestamp", "getUserInput", "datetime", "read_tool_output"]
                .map(String::from)
                .into(),
            max_bytes: 64 * MIB,
        }
    }
}
