//! Server-side tools: which there are, who may use them, and how a call is made.

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
    /// `false`: single-shot. No tool is run and no response waits: one inference, then `completed`.
    pub execution_enabled: bool,
    /// What clients see of calls that the gateway runs.
    pub stream_visibility: ToolVisibility,
    /// Whether what tools say to the user becomes an item of the output.
    pub user_messages: UserMessages,
    /// How long a call may take, unless its tool says otherwise.
    #[serde(with = "units::duration")]
    pub timeout: Duration,
    /// Calls of one turn that run at the same time.
    pub max_parallel: usize,
    /// Two tools of one name from different executors.
    pub collision: ToolCollision,
    /// What becomes of a call that failed.
    pub on_error: OnError,
    /// Globs of the tools that may be used; absent: all. An empty list allows none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Globs of the tools that may not be used, whatever is allowed.
    pub blocked_tools: Vec<String>,
    /// Whether tools that touch files (tag `fs`) may be used.
    pub allow_file_access: bool,
    /// Whether tools that use the network (tag `net`) may be used.
    pub allow_network_access: bool,
    /// Further lists by tenant; they narrow the general ones.
    pub tenants: BTreeMap<String, ToolLists>,
    /// Sizes and checks of results.
    pub results: ToolResultSettings,
    /// Results that are used again.
    pub cache: ToolCacheSettings,
    /// Calls that are made again.
    pub retry: ToolRetry,
    /// When a tool is left alone.
    pub breaker: BreakerSettings,
    /// What differs by tool, by name.
    pub overrides: BTreeMap<String, ToolOverride>,
    /// What holds for all tools of one executor, by its id.
    pub executors: BTreeMap<String, ExecutorSettings>,
    /// Tools that several executors serve, by name.
    pub routes: BTreeMap<String, RouteSettings>,
    /// The tools that are part of the gateway.
    pub builtin: BuiltinSettings,
    /// Tools with fixed answers, for demonstrations and tests, by name.
    pub mock: BTreeMap<String, MockTool>,
    /// Before they answer, unless they say otherwise.
    #[serde(with = "units::duration")]
    pub mock_delay: Duration,
    /// How models are told results of tools that the gateway ran.
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

/// Whether what tools say to the user becomes an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserMessages {
    /// An `antwort:user_message` item.
    Item,
    /// It is dropped.
    #[default]
    Off,
}

/// How models are told results of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultFormat {
    /// The result's text; `Error: …` where there is none.
    #[default]
    Text,
    /// `{"id", "success": true, "data"}`, `{"id", "success": false, "error"}`.
    JsonEnvelope,
}

/// What happens to two tools of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCollision {
    /// The gateway does not start.
    Error,
    /// The first one stays.
    First,
    /// The last one stays.
    Last,
    /// Each gets its executor's name in front.
    Prefix,
}

/// What becomes of a call that failed. Written `continue`, `fail`, `skip` or `fallback:<tool>`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum OnError {
    /// The model is told why.
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

/// Lists of tools for a tenant or an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolLists {
    /// Globs; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Globs.
    pub blocked_tools: Vec<String>,
}

/// Sizes and checks of results.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolResultSettings {
    /// Bytes of one result that the model reads; of a larger one it sees head and tail.
    #[serde(with = "units::size")]
    pub max_bytes: usize,
    /// Bytes of one result that are kept for `read_tool_output`; what is beyond that is dropped.
    #[serde(with = "units::size")]
    pub max_stored_bytes: usize,
    /// Bytes of all results that are kept for `read_tool_output`.
    #[serde(with = "units::size")]
    pub store_bytes: usize,
    /// How long they are kept.
    #[serde(with = "units::duration")]
    pub store_ttl: Duration,
    /// Structured results that are not by the tool's return schema.
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

/// What happens to structured results that are not by the tool's return schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReturnSchema {
    /// It is logged.
    Warn,
    /// The call fails.
    Error,
    /// Nothing.
    Off,
}

/// Results that are used again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolCacheSettings {
    /// Whether any are.
    pub enabled: bool,
    /// How long, by tool; `default` stands for all others.
    #[serde(with = "units::duration_map")]
    pub ttl: BTreeMap<String, Duration>,
    /// Tools whose results are never used again.
    pub never: Vec<String>,
    /// Bytes of all cached results.
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

/// When a call of an idempotent tool is made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolRetry {
    /// How often after the first time.
    pub max: u32,
    /// Before the first repetition; doubled before each further one, with jitter.
    #[serde(with = "units::duration")]
    pub delay: Duration,
    /// The longest wait.
    #[serde(with = "units::duration")]
    pub max_delay: Duration,
}

impl Default for ToolRetry {
    fn default() -> Self {
        Self { max: 2, delay: Duration::from_millis(200), max_delay: Duration::from_secs(2) }
    }
}

/// When a tool is left alone for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerSettings {
    /// Failures to reach it, one after the other; 0: never.
    pub failures: u32,
    /// How long it is left alone before one call tries again.
    #[serde(with = "units::duration")]
    pub open_for: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(30) }
    }
}

/// What differs for one tool; what is absent is as in general.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolOverride {
    /// How long a call may take.
    #[serde(with = "units::some_duration", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Calls of it that run at the same time, in the whole process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<usize>,
    /// One call at a time, in the whole process.
    pub serial: bool,
    /// Calls of it in one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u64>,
    /// Whether results are used again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cacheable: Option<bool>,
    /// Results are used again only for the same user.
    pub cache_per_user: bool,
    /// What becomes of a call that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// Calls that are made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<ToolRetry>,
    /// When it is left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerSettings>,
    /// Bytes of a result that the model reads.
    #[serde(with = "units::opt_size", skip_serializing_if = "Option::is_none")]
    pub max_result_bytes: Option<usize>,
    /// Whether a call may be made twice, where its executor does not know or is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Further tags.
    pub tags: Vec<String>,
}

/// What holds for all tools of one executor.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecutorSettings {
    /// How long one attempt may take; the tool's own timeout holds in any case.
    #[serde(with = "units::some_duration", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Calls of all its tools that run at the same time, in the whole process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<usize>,
    /// Further tags of all its tools.
    pub tags: Vec<String>,
}

/// The label of the MCP server that an executor's id names.
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
    /// How one of them is chosen.
    pub strategy: RouteStrategy,
    /// By executor, for `weighted`; 1 where absent.
    pub weights: BTreeMap<String, u32>,
}

/// How an executor is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteStrategy {
    /// The first that works.
    #[default]
    Ordered,
    /// In turns.
    RoundRobin,
    /// The one with the fewest calls in flight.
    LeastInflight,
    /// By weight.
    Weighted,
    /// The less busy of two that are picked at random.
    P2c,
    /// The same for a conversation, or else a user.
    Sticky,
}

/// The tools that are part of the gateway.
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

/// A tool that needs no settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimpleTool {
    /// Whether there is one.
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
    /// Without it there is no such tool.
    #[serde(serialize_with = "units::masked_option", skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretString>,
    /// Where it is asked.
    pub base_url: String,
    /// The gateway does not start without it.
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
    /// Who searches. Without one, and without a key that tells it, there is no such tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<SearchProvider>,
    /// Where it is asked; required for SearXNG.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Required for Brave and Tavily.
    #[serde(serialize_with = "units::masked_option", skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretString>,
    /// The gateway does not start without it.
    pub required: bool,
}

/// Who searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchProvider {
    /// An instance of SearXNG with its JSON format enabled.
    Searxng,
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// Instant answers of DuckDuckGo, for which no key is needed.
    #[serde(rename = "duckduckgo")]
    DuckDuckGo,
}

impl WebSearchSettings {
    /// Who searches: as said, or else whose key it seems to be.
    pub fn search_provider(&self) -> Option<SearchProvider> {
        let of_key = |key: &SecretString| match key.expose_secret().trim() {
            "" => None,
            key if key.starts_with("tvly-") => Some(SearchProvider::Tavily),
            _ => Some(SearchProvider::Brave),
        };
        self.provider.or_else(|| self.api_key.as_ref().and_then(of_key))
    }
}

/// `file_read`; there is none unless `allow_file_access` is said.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileReadSettings {
    /// Directories below which files may be read; those that do not exist are left out with a warning.
    pub allowed_paths: Vec<PathBuf>,
    /// Bytes of one read.
    #[serde(with = "units::size")]
    pub max_bytes: usize,
    /// The gateway does not start without it.
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

/// A tool with a fixed answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockTool {
    /// For the model.
    pub description: String,
    /// JSON Schema of its arguments; absent: any object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<serde_json::Value>,
    /// What it answers: a text, or any value. Without it, and without an `error`, every call is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<serde_json::Value>,
    /// Instead of an answer: this failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Before it answers; absent: `tools.mock_delay`.
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

/// What requests of tools may reach on the network.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressSettings {
    /// Hosts and CIDRs that may be reached although they are private, loopback or link-local.
    pub allow: Vec<String>,
    /// Domains that may be reached, with what is below them; absent: all public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
    /// Redirects that are followed; each hop is checked.
    pub max_redirects: usize,
    /// Bytes of one answer.
    #[serde(with = "units::size")]
    pub max_response_bytes: usize,
    /// How long one request may take.
    #[serde(with = "units::duration")]
    pub timeout: Duration,
    /// The proxy through which everything but this machine is reached; absent: as `network.proxy` says.
    #[serde(deserialize_with = "network::proxy", skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyUrl>,
    /// A PEM file of authorities that are trusted beside the system's and those of `tls.ca_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// What the two above come to, with what holds for all clients.
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
