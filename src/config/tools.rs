//! Server-side tools: availability, execution and results.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::network;
use super::units::{self, MIB};
use crate::net::client::{HttpClientOptions, ProxyUrl};
pub use crate::protocol::request::ToolVisibility;

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
    #[serde(with = "units::duration")]
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
    #[serde(with = "units::duration")]
    pub mock_delay: Duration,
    /// How results are sent to models.
    pub result_format: ResultFormat,
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

/// How results are sent to models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultFormat {
    /// The result's text; `Error: …` for failures.
    #[default]
    Text,
    /// `{"id", "success": true, "data"}`, `{"id", "success": false, "error"}`.
    JsonEnvelope,
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

/// How a failed call is treated. Written `continue`, `fail`, `skip` or `fallback:<tool>`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum OnError {
    /// The model gets the error.
    #[default]
    Continue,
    /// The response fails.
    Fail,
    /// The model is told to answer without it.
    Skip,
    /// Another tool is called with the same arguments.
    Fallback(String),
}

impl TryFrom<String> for OnError {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "continue" => Ok(Self::Continue),
            "fail" => Ok(Self::Fail),
            "skip" => Ok(Self::Skip),
            other => match other.strip_prefix("fallback:") {
                Some(tool) if !tool.is_empty() => Ok(Self::Fallback(tool.to_owned())),
                _ => Err(format!("expected continue, fail, skip or fallback:<tool>, got '{other}'")),
            },
        }
    }
}

impl From<OnError> for String {
    fn from(on_error: OnError) -> Self {
        match on_error {
            OnError::Continue => "continue".into(),
            OnError::Fail => "fail".into(),
            OnError::Skip => "skip".into(),
            OnError::Fallback(tool) => format!("fallback:{tool}"),
        }
    }
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
    #[serde(with = "units::size")]
    pub max_bytes: usize,
    /// Maximum bytes of one result that is stored for `read_tool_output`; the rest is dropped.
    #[serde(with = "units::size")]
    pub max_stored_bytes: usize,
    /// Maximum bytes of all results that are stored for `read_tool_output`.
    #[serde(with = "units::size")]
    pub store_bytes: usize,
    /// How long results are stored.
    #[serde(with = "units::duration")]
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
    #[serde(with = "units::duration_map")]
    pub ttl: BTreeMap<String, Duration>,
    /// Globs of tools whose results are never cached.
    pub never: Vec<String>,
    /// Maximum bytes of all cached results.
    #[serde(with = "units::size")]
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

/// Retries of calls of idempotent tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolRetry {
    /// Maximum retries.
    pub max: u32,
    /// Backoff before the first retry; doubles with each, with jitter.
    #[serde(with = "units::duration")]
    pub delay: Duration,
    /// Maximum backoff.
    #[serde(with = "units::duration")]
    pub max_delay: Duration,
}

impl Default for ToolRetry {
    fn default() -> Self {
        Self { max: 2, delay: Duration::from_millis(200), max_delay: Duration::from_secs(2) }
    }
}

/// The circuit breaker of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerSettings {
    /// Consecutive failures to reach the tool that open the circuit; 0: never.
    pub failures: u32,
    /// How long the circuit stays open before one call probes the tool.
    #[serde(with = "units::duration")]
    pub open_for: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(30) }
    }
}

/// Settings of one tool; absent ones are the general ones.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolOverride {
    /// Timeout of a call.
    #[serde(with = "units::some_duration", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Maximum concurrent calls of it in the whole process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<usize>,
    /// One call at a time, in the whole process.
    pub serial: bool,
    /// Maximum calls of it in one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u64>,
    /// Whether results are cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cacheable: Option<bool>,
    /// Cached results are used only for the same user.
    pub cache_per_user: bool,
    /// How failed calls are treated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// Retries of calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<ToolRetry>,
    /// The circuit breaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerSettings>,
    /// Maximum bytes of a result that the model reads.
    #[serde(with = "units::opt_size", skip_serializing_if = "Option::is_none")]
    pub max_result_bytes: Option<usize>,
    /// Whether calls may be repeated, if the executor does not declare it or is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Additional tags.
    pub tags: Vec<String>,
}

/// Settings of all tools of one executor.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecutorSettings {
    /// Timeout of one attempt; the tool's own timeout applies in any case.
    #[serde(with = "units::some_duration", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Maximum concurrent calls of all its tools in the whole process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<usize>,
    /// Additional tags of all its tools.
    pub tags: Vec<String>,
}

/// The label of the MCP server in the id of an executor.
pub fn mcp_label(executor: &str) -> Option<&str> {
    executor.strip_prefix("mcp:")
}

/// A tool that several executors serve.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RouteSettings {
    /// Ids of the executors, in order of preference.
    pub executors: Vec<String>,
    /// Tags that an executor's tool must have.
    pub require: Vec<String>,
    /// How the executor of a call is chosen.
    pub strategy: RouteStrategy,
    /// By executor, for `weighted`; 1 if absent.
    pub weights: BTreeMap<String, u32>,
}

/// How the executor of a call is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteStrategy {
    /// The first one that works.
    #[default]
    Ordered,
    /// Round robin.
    RoundRobin,
    /// The one with the fewest calls in flight.
    LeastInflight,
    /// At random, by weight.
    Weighted,
    /// The one with fewer calls in flight of two random ones.
    P2c,
    /// The same one for a conversation, or else for a user.
    Sticky,
}

/// Built-in tools.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuiltinSettings {
    /// `calculate`
    pub calculate: SimpleTool,
    /// `datetime`
    pub datetime: SimpleTool,
    /// `get_weather`
    pub get_weather: WeatherSettings,
    /// `web_search`
    pub web_search: WebSearchSettings,
    /// `file_read`
    pub file_read: FileReadSettings,
}

/// A tool without settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimpleTool {
    /// Whether the tool exists.
    pub enabled: bool,
}

impl Default for SimpleTool {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// `get_weather`, from OpenWeatherMap.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WeatherSettings {
    /// The tool is not available without it.
    #[serde(serialize_with = "units::masked_option", skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretString>,
    /// The base URL of the API.
    pub base_url: String,
    /// The gateway does not start without the tool.
    pub required: bool,
}

impl Default for WeatherSettings {
    fn default() -> Self {
        Self { api_key: None, base_url: "https://api.openweathermap.org".into(), required: false }
    }
}

/// `web_search`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebSearchSettings {
    /// The search provider. Without one, the key decides; without both, the tool is not available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<SearchProvider>,
    /// The base URL of the API; required for SearXNG.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Required for Brave and Tavily.
    #[serde(serialize_with = "units::masked_option", skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretString>,
    /// The gateway does not start without the tool.
    pub required: bool,
}

/// A search provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchProvider {
    /// A SearXNG instance with its JSON format enabled.
    Searxng,
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// Instant answers of DuckDuckGo; needs no key.
    #[serde(rename = "duckduckgo")]
    DuckDuckGo,
}

impl WebSearchSettings {
    /// The configured search provider, or else the one that the key belongs to.
    pub fn search_provider(&self) -> Option<SearchProvider> {
        let of_key = |key: &SecretString| match key.expose_secret().trim() {
            "" => None,
            key if key.starts_with("tvly-") => Some(SearchProvider::Tavily),
            _ => Some(SearchProvider::Brave),
        };
        self.provider.or_else(|| self.api_key.as_ref().and_then(of_key))
    }
}

/// `file_read`; not available unless `allow_file_access` is set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileReadSettings {
    /// Directories below which files may be read; missing ones are ignored with a warning.
    pub allowed_paths: Vec<PathBuf>,
    /// Maximum bytes of one read.
    #[serde(with = "units::size")]
    pub max_bytes: usize,
    /// The gateway does not start without the tool.
    pub required: bool,
}

impl Default for FileReadSettings {
    fn default() -> Self {
        Self {
            allowed_paths: ["/tmp/", "./data/", "./uploads/"].map(PathBuf::from).into(),
            max_bytes: MIB,
            required: false,
        }
    }
}

/// A tool with a fixed result.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockTool {
    /// Shown to the model.
    pub description: String,
    /// JSON Schema of its arguments; absent: any object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<serde_json::Value>,
    /// The result: a text, or any value. Without it, and without an `error`, every call fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<serde_json::Value>,
    /// Fail with this message instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Delay of the result; absent: `tools.mock_delay`.
    #[serde(with = "units::some_duration", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
}

impl Default for MockTool {
    fn default() -> Self {
        Self {
            description: "A tool with a fixed answer.".into(),
            parameters: None,
            output: None,
            error: None,
            delay: None,
        }
    }
}

/// Network access of tools.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressSettings {
    /// Hosts and CIDRs that may be reached though they are private, loopback or link-local.
    pub allow: Vec<String>,
    /// Allowed domains, with their subdomains; absent: all public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
    /// Maximum redirects; each is checked.
    pub max_redirects: usize,
    /// Maximum bytes of one response.
    #[serde(with = "units::size")]
    pub max_response_bytes: usize,
    /// Timeout of one request.
    #[serde(with = "units::duration")]
    pub timeout: Duration,
    /// The HTTP proxy for everything but this machine; absent: as `network.proxy`.
    #[serde(deserialize_with = "network::proxy", skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyUrl>,
    /// A PEM file of trusted certificate authorities, besides the system's and those of `tls.ca_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The two settings above, combined with those for all clients.
    #[serde(skip)]
    pub http: HttpClientOptions,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            allowed_domains: None,
            max_redirects: 5,
            max_response_bytes: 5 * MIB,
            timeout: Duration::from_secs(30),
            proxy: None,
            ca_file: None,
            http: HttpClientOptions::default(),
        }
    }
}
