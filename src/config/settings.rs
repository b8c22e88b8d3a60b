//! What the settings mean: every key with its type and default, one struct a section.
//!
//! Sections whose values stand for themselves are read straight into these structs; those that need a
//! second look (addresses, keys, URLs, presets) are said in `raw` and resolved from there.
//! `config/default.yaml` shows the same keys to people; a test holds the two together.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretBox;
use serde::{Deserialize, Serialize};

pub use super::agents::{
    AgentSettings, LimitOverrides, ModelPrice, ReasoningDefaults, RunLimits, TextDefaults,
};
pub use super::auth::{ApiKeySettings, AuthSettings, Scope};
use super::file_hashes::FileHashes;
pub use super::mcp::{
    ClientCredentials, Elicitation, McpApprovalSettings, McpAuth, McpContext, McpRequestSettings, McpRule,
    McpServerSettings, McpSessionSettings, McpSettings, McpTransport, McpTrust, SamplingSettings,
    TokenExchange,
};
pub use super::network::{Cidr, NetworkSettings, ProxySource, TlsSettings};
use super::provider::ProviderSettings;
use super::request_limits::RequestSizeLimitsDef;
pub use super::store::{Migrate, StoreSettings, StoreUrl, Synchronous};
pub use super::tools::{
    BreakerSettings, BuiltinSettings, EgressSettings, ExecutorSettings, FileReadSettings, MockTool, OnError,
    ResultFormat, ReturnSchema, RouteSettings, RouteStrategy, SearchProvider, SimpleTool, ToolCacheSettings,
    ToolCollision, ToolLists, ToolOverride, ToolResultSettings, ToolRetry, ToolVisibility, ToolsSettings,
    UserMessages, WeatherSettings, WebSearchSettings, mcp_label,
};
use super::units::{self, MIB};
use crate::net::client::HttpClientOptions;
use crate::protocol::dialect::Dialect;
use crate::protocol::request::RequestSizeLimits;
pub use crate::protocol::request::{ClientActionStatus, OnMismatch};

/// Everything that can be configured, checked.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// Where to serve.
    pub listen: SocketAddr,
    /// The configuration itself.
    pub config: ConfigSettings,
    /// What is logged and how.
    pub log: LogSettings,
    /// Limits of the HTTP server.
    pub server: ServerSettings,
    /// Event streams.
    pub sse: SseSettings,
    /// Who may call.
    pub auth: AuthSettings,
    /// How responses are made.
    pub engine: EngineSettings,
    /// Server-side tools.
    pub tools: ToolsSettings,
    /// Servers of the Model Context Protocol.
    pub mcp: McpSettings,
    /// What tools may reach on the network.
    pub egress: EgressSettings,
    /// How other machines are reached.
    pub network: NetworkSettings,
    /// Which servers are trusted.
    pub tls: TlsSettings,
    /// Agent profiles by name.
    pub agents: BTreeMap<String, AgentSettings>,
    /// Leniency towards clients.
    pub compat: CompatSettings,
    /// Where responses are kept.
    pub store: StoreSettings,
    /// Model servers by name.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Traces.
    pub telemetry: TelemetrySettings,
    /// The list of models.
    pub models: ModelsSettings,
    /// Keys that seal provider state in clients' hands.
    pub seal: SealSettings,
    /// What the files of certificates held that it names.
    #[serde(skip)]
    pub contents: FileHashes,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            config: ConfigSettings::default(),
            log: LogSettings::default(),
            server: ServerSettings::default(),
            sse: SseSettings::default(),
            auth: AuthSettings::default(),
            engine: EngineSettings::default(),
            tools: ToolsSettings::default(),
            mcp: McpSettings::default(),
            egress: EgressSettings::default(),
            network: NetworkSettings::default(),
            tls: TlsSettings::default(),
            agents: BTreeMap::new(),
            compat: CompatSettings::default(),
            store: StoreSettings::default(),
            providers: BTreeMap::new(),
            telemetry: TelemetrySettings::default(),
            models: ModelsSettings::default(),
            seal: SealSettings::default(),
            contents: FileHashes::default(),
        }
    }
}

/// The configuration itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigSettings {
    /// Whether it is reloaded when one of its files has changed, as on SIGHUP.
    pub watch: bool,
}

/// What is logged and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// A level, or directives of `tracing_subscriber::EnvFilter`.
    pub filter: String,
    /// Form of a line.
    pub format: LogFormat,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { filter: "info".into(), format: LogFormat::Auto }
    }
}

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text if stderr is a terminal, JSON otherwise.
    Auto,
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Limits of the HTTP server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// Bytes of a request body, both as sent and decompressed; beyond it 413.
    #[serde(with = "units::size")]
    pub request_body_limit: usize,
    /// Responses in the making at a time; beyond it requests wait, then 503 with `Retry-After`.
    pub max_runs: usize,
    /// Of one tenant; absent: half of them where two or more tenants have keys, else all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runs_per_tenant: Option<usize>,
    /// How long a request waits for a place among all that are served.
    #[serde(with = "units::duration")]
    pub queue_timeout: Duration,
    /// Bytes of request bodies, from when they are read until their runs have begun, and as many of answers until they
    /// are sent; beyond it requests wait.
    #[serde(with = "units::size")]
    pub max_buffered_body_bytes: usize,
    /// How long a request body may pause.
    #[serde(with = "units::duration")]
    pub body_idle_timeout: Duration,
    /// How long a client may take nothing of a stream before it is cut.
    #[serde(with = "units::duration")]
    pub write_timeout: Duration,
    /// For how long after SIGTERM work is still accepted, by a gateway that is not ready any more, until load balancers
    /// have noticed; `None`: 5 s where it listens beyond loopback, else not at all.
    #[serde(with = "units::duration_or_auto")]
    pub shutdown_delay: Option<Duration>,
    /// How long running responses may take to end after that.
    #[serde(with = "units::duration")]
    pub drain_timeout: Duration,
    /// What `/readyz` answers for, beside that the process was not told to stop.
    pub ready_requires: Vec<ReadyRequirement>,
    /// Connections at a time; `None`: half of the open files that are not reserved for providers, tools and the store.
    #[serde(with = "units::count_or_auto")]
    pub max_connections: Option<usize>,
    /// How long a new connection may send nothing.
    #[serde(with = "units::duration")]
    pub first_byte_timeout: Duration,
    /// How long the headers of a request may take from their first byte on.
    #[serde(with = "units::duration")]
    pub header_timeout: Duration,
    /// How long a connection is kept without a request.
    #[serde(with = "units::duration")]
    pub keep_alive_timeout: Duration,
    /// Names that a gateway without keys is served under, beside `localhost` and IP addresses; `*`: any.
    pub allowed_hosts: Vec<String>,
    /// Proxies that are believed what they say of a request's client and host (`Forwarded`, `X-Forwarded-For`,
    /// `X-Forwarded-Host`).
    pub trusted_proxies: Vec<Cidr>,
    /// Browsers.
    pub cors: CorsSettings,
    /// What a request may hold; beyond it 400.
    #[serde(with = "RequestSizeLimitsDef")]
    pub request_limits: RequestSizeLimits,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            request_body_limit: 32 * MIB,
            max_runs: 1024,
            max_runs_per_tenant: None,
            queue_timeout: Duration::from_secs(10),
            max_buffered_body_bytes: 256 * MIB,
            body_idle_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            shutdown_delay: None,
            drain_timeout: Duration::from_secs(30),
            ready_requires: vec![ReadyRequirement::Store],
            max_connections: None,
            first_byte_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(30),
            keep_alive_timeout: Duration::from_secs(75),
            allowed_hosts: Vec::new(),
            trusted_proxies: Vec::new(),
            cors: CorsSettings::default(),
            request_limits: RequestSizeLimits::default(),
        }
    }
}

/// Something without which a gateway is not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadyRequirement {
    /// The store is open and can be written to.
    Store,
    /// A model server answers.
    Provider,
}

/// Which web pages may call.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CorsSettings {
    /// Origins such as `https://app.example.com`, or the single entry `*`; empty: none but the gateway's own.
    pub allowed_origins: Vec<String>,
}

/// Event streams.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SseSettings {
    /// A comment is sent after this long without an event.
    #[serde(with = "units::duration")]
    pub keepalive: Duration,
    /// The status 200 is sent after this long without a word from the provider.
    #[serde(with = "units::duration")]
    pub commit_after: Duration,
}

impl Default for SseSettings {
    fn default() -> Self {
        Self { keepalive: Duration::from_secs(15), commit_after: Duration::from_secs(1) }
    }
}

/// How responses are made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// Status of a response that waits for the client's functions.
    pub client_action_status: ClientActionStatus,
    /// Which names are used on the wire, unless key or request say otherwise.
    pub dialect: Dialect,
    /// How raw reasoning is shown.
    pub reasoning: ReasoningDisplay,
    /// Items in one response's output.
    pub max_output_items: usize,
    /// Bytes of one output item.
    #[serde(with = "units::size")]
    pub max_item_bytes: usize,
    /// Bytes of a response's whole output.
    #[serde(with = "units::size")]
    pub max_response_bytes: usize,
    /// Bytes of a conversation: the history, what is referred to, and the input.
    #[serde(with = "units::size")]
    pub max_conversation_bytes: usize,
    /// How long a response may take from its request to its end.
    #[serde(with = "units::duration")]
    pub run_timeout: Duration,
    /// Limits of one run, unless an agent or a request says otherwise.
    pub limits: RunLimits,
    /// The most that a request may ask for; absent: what holds without asking.
    pub ceilings: LimitOverrides,
    /// Answers in a form that was asked for.
    pub structured: StructuredSettings,
    /// A call that the request demands and that the model does not make, though it was asked twice.
    pub on_missing_call: OnMissingCall,
}

/// What becomes of a response that lacks the call that its request demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMissingCall {
    /// It fails.
    Fail,
    /// What came is kept, and the response is completed.
    Keep,
}

/// Answers in a form that was asked for, unless an agent or a request says otherwise.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StructuredSettings {
    /// What becomes of one that misses it.
    pub on_mismatch: OnMismatch,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            client_action_status: ClientActionStatus::RequiresAction,
            dialect: Dialect::OpenAi,
            reasoning: ReasoningDisplay::ReasoningText,
            max_output_items: 1024,
            max_item_bytes: 16 * MIB,
            max_response_bytes: 64 * MIB,
            max_conversation_bytes: 64 * MIB,
            run_timeout: Duration::from_mins(30),
            limits: RunLimits::default(),
            ceilings: LimitOverrides::default(),
            structured: StructuredSettings::default(),
            on_missing_call: OnMissingCall::Fail,
        }
    }
}

/// How raw reasoning is shown. Summaries that a provider sends as such are always summaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningDisplay {
    /// As raw reasoning text.
    ReasoningText,
    /// As a summary, which more clients show.
    Summary,
    /// Not at all.
    Off,
}

/// Leniency towards clients.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompatSettings {
    /// Request fields that nobody knows.
    pub unknown_fields: UnknownFields,
    /// Whether clients that need something else than everybody are recognised by their headers.
    pub client_profiles: Switch,
    /// Tools of the API that are not served here.
    pub unserved_tools: UnservedTools,
}

impl Default for CompatSettings {
    fn default() -> Self {
        Self {
            unknown_fields: UnknownFields::Refuse,
            client_profiles: Switch::On,
            unserved_tools: UnservedTools::Auto,
        }
    }
}

/// Whether something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// What happens to request fields that nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownFields {
    /// 400 `unknown_parameter`.
    Refuse,
    /// Ignored, and named in a response header.
    Ignore,
}

/// What happens to tools of the API that are not served here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnservedTools {
    /// Left out for clients that send them by default, refused for all others.
    Auto,
    /// 400 `unsupported_parameter`.
    Refuse,
    /// Left out, and named in a response header.
    Omit,
}

/// Traces.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetrySettings {
    /// Base URL of an OTLP collector over HTTP, such as `http://localhost:4318`; `None`: no spans are made.
    pub otlp_endpoint: Option<String>,
    /// `service.name` of the spans.
    pub service_name: String,
    /// Share of traces that start here and are recorded, 0 to 1; traces of callers keep their decision.
    pub sample_ratio: f64,
    /// How the collector is reached.
    #[serde(skip)]
    pub http: HttpClientOptions,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self {
            otlp_endpoint: None,
            service_name: "antwort".into(),
            sample_ratio: 1.0,
            http: HttpClientOptions::default(),
        }
    }
}

/// The list of models.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsSettings {
    /// How long a provider's list is kept.
    #[serde(with = "units::duration")]
    pub cache_ttl: Duration,
}

impl Default for ModelsSettings {
    fn default() -> Self {
        Self { cache_ttl: Duration::from_mins(1) }
    }
}

/// A key of 32 bytes that is never printed and wiped when dropped.
pub type SealKey = Arc<SecretBox<[u8; 32]>>;

/// Keys that seal provider state in clients' hands.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SealSettings {
    /// The first seals, all open. Empty: the key in `file`.
    #[serde(serialize_with = "units::masked_keys")]
    pub keys: Vec<SealKey>,
    /// Where a generated key is kept; by default beside the SQLite file, `None` with a store in memory.
    pub file: Option<PathBuf>,
}
