//! Checked settings: every key with its type and default, one struct per section.
//!
//! Sections that need no further check are deserialized straight into these structs; those that do (addresses, keys,
//! URLs, presets) have a twin in `raw`, which `resolve` converts. `config/default.yaml` documents the same keys; a test
//! compares the two.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use super::agents::{
    AgentSettings, LimitOverrides, ModelPrice, ReasoningDefaults, RunLimits, TextDefaults,
};
pub use super::auth::{ApiKeySettings, AuthSettings};
pub use super::bus::{BusSettings, BusUrl};
use super::drain::DrainListener;
pub use super::egress::EgressSettings;
use super::file_hashes::FileHashes;
pub use super::jobs::{JobSettings, Role};
pub use super::mcp::{
    ClientCredentials, ElicitationPolicy, McpApprovalSettings, McpAuth, McpContext, McpRequestSettings,
    McpRule, McpServerSettings, McpSessionSettings, McpSettings, McpTransport, McpTrust, SamplingSettings,
    TokenExchange,
};
pub use super::models::ModelsSettings;
pub use super::network::{Cidr, NetworkSettings, ProxySource, TlsSettings};
pub use super::pass_through::{PASSED_BY_DEFAULT, RESERVED_SEGMENTS, is_path_segment};
pub use super::postgres_url::PostgresUrl;
use super::provider::ProviderSettings;
use super::request_limits::RequestSizeLimitsDef;
pub use super::seal::{SealKey, SealSettings};
pub use super::store::{Migrate, StoreSettings, StoreUrl, Synchronous, TenantRetention, TimeToLive};
pub use super::tools::{
    AsyncMode, BreakerSettings, BuiltinSettings, ExecutorSettings, FileReadSettings, MockTool, OnComplete,
    OnError, ReturnSchema, RouteSettings, RouteStrategy, SearchProvider, SimpleTool, ToolCacheSettings,
    ToolCollision, ToolLists, ToolOverride, ToolResultSettings, ToolRetry, ToolVisibility, ToolsSettings,
    UserMessages, WeatherSettings, WebSearchSettings, mcp_label,
};
pub use super::ui::{UiSettings, UiSwitch};
use super::units::{self, MIB};
pub use super::webhooks::{WebhookEvent, WebhookSettings};
pub use super::websocket::WebSocketSettings;
use antwort_net::client::HttpClientOptions;
use antwort_protocol::dialect::Dialect;
use antwort_protocol::request::RequestSizeLimits;
pub use antwort_protocol::request::{ClientActionStatus, OnDisconnect, OnMismatch};
pub use antwort_protocol::result_format::ResultFormat;

/// All settings, checked.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// What this process does.
    pub role: Role,
    /// Reloading of the configuration.
    pub config: ConfigSettings,
    /// Log filter, format and queue.
    pub log: LogSettings,
    /// Limits and timeouts of the HTTP server.
    pub server: ServerSettings,
    /// Server-sent events.
    pub sse: SseSettings,
    /// API keys.
    pub auth: AuthSettings,
    /// Runs of the engine.
    pub engine: EngineSettings,
    /// Background runs.
    pub jobs: JobSettings,
    /// Server-side tools.
    pub tools: ToolsSettings,
    /// Servers of the Model Context Protocol.
    pub mcp: McpSettings,
    /// Network access of tools.
    pub egress: EgressSettings,
    /// Proxies.
    pub network: NetworkSettings,
    /// Trusted certificate authorities.
    pub tls: TlsSettings,
    /// Agent profiles by name.
    pub agents: BTreeMap<String, AgentSettings>,
    /// Compatibility with clients.
    pub compat: CompatSettings,
    /// The database of responses.
    pub store: StoreSettings,
    /// The bus between replicas.
    pub bus: BusSettings,
    /// Model servers by name.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// The web page.
    pub ui: UiSettings,
    /// OpenTelemetry traces.
    pub telemetry: TelemetrySettings,
    /// The cache of model lists.
    pub models: ModelsSettings,
    /// Keys that encrypt provider state that clients hold.
    pub seal: SealSettings,
    /// Who is told of the end of background responses, by name.
    pub webhooks: BTreeMap<String, WebhookSettings>,
    /// Hashes of the certificate files that the settings name.
    #[serde(skip)]
    pub contents: FileHashes,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            role: Role::default(),
            config: ConfigSettings::default(),
            log: LogSettings::default(),
            server: ServerSettings::default(),
            sse: SseSettings::default(),
            auth: AuthSettings::default(),
            engine: EngineSettings::default(),
            jobs: JobSettings::default(),
            tools: ToolsSettings::default(),
            mcp: McpSettings::default(),
            egress: EgressSettings::default(),
            network: NetworkSettings::default(),
            tls: TlsSettings::default(),
            agents: BTreeMap::new(),
            compat: CompatSettings::default(),
            store: StoreSettings::default(),
            bus: BusSettings::default(),
            providers: BTreeMap::new(),
            ui: UiSettings::default(),
            telemetry: TelemetrySettings::default(),
            models: ModelsSettings::default(),
            seal: SealSettings::default(),
            webhooks: BTreeMap::new(),
            contents: FileHashes::default(),
        }
    }
}

/// Reloading of the configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigSettings {
    /// Whether a changed file triggers a reload, as SIGHUP does.
    pub watch: bool,
}

/// Log filter and format.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// A level, or directives of `tracing_subscriber::EnvFilter`.
    pub filter: String,
    /// Format of a line.
    pub format: LogFormat,
    /// Maximum lines that wait to be written to standard error; further ones are dropped and counted.
    pub queue: usize,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { filter: "info".into(), format: LogFormat::Auto, queue: 8192 }
    }
}

/// Format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text if stderr is a terminal, JSON otherwise.
    Auto,
    /// One JSON object per line.
    Json,
    /// Human-readable.
    Text,
}

/// Limits and timeouts of the HTTP server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// Maximum bytes of a request body, both as sent and decompressed; 413 beyond it.
    #[serde(with = "units::ByteSize")]
    pub request_body_limit: usize,
    /// Maximum concurrent runs; further requests wait for `queue_timeout`, then 503 with `Retry-After`.
    pub max_runs: usize,
    /// Maximum concurrent runs of one tenant; absent: half of `max_runs` if two or more tenants have keys, else all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runs_per_tenant: Option<usize>,
    /// Maximum time that a request waits in the queue for a run.
    #[serde(with = "units::HumanDuration")]
    pub queue_timeout: Duration,
    /// Maximum bytes of request bodies, from when they are read until their runs have started, and separately of
    /// buffered responses until they are sent; further requests wait.
    #[serde(with = "units::ByteSize")]
    pub max_buffered_body_bytes: usize,
    /// Maximum pause while a request body is received.
    #[serde(with = "units::HumanDuration")]
    pub body_idle_timeout: Duration,
    /// How long a client may read nothing of its response before it is disconnected.
    #[serde(with = "units::HumanDuration")]
    pub write_timeout: Duration,
    /// How long after SIGTERM requests are still accepted while `/readyz` fails, until load balancers have noticed;
    /// `None`: 5 s if the gateway listens beyond loopback, else 0.
    #[serde(with = "units::DurationOrAuto")]
    pub shutdown_delay: Option<Duration>,
    /// What becomes of new connections after that.
    pub drain_listener: DrainListener,
    /// How long running responses may take to finish after that.
    #[serde(with = "units::HumanDuration")]
    pub drain_timeout: Duration,
    /// Checks of `/readyz`.
    pub ready_requires: Vec<ReadyRequirement>,
    /// Maximum open connections; `None`: half of the open files that are not reserved for providers, tools and the
    /// store.
    #[serde(with = "units::CountOrAuto")]
    pub max_connections: Option<usize>,
    /// How long a new connection may send nothing.
    #[serde(with = "units::HumanDuration")]
    pub first_byte_timeout: Duration,
    /// How long the headers of a request may take from their first byte.
    #[serde(with = "units::HumanDuration")]
    pub header_timeout: Duration,
    /// Idle timeout of a connection without a request.
    #[serde(with = "units::HumanDuration")]
    pub keep_alive_timeout: Duration,
    /// Host names under which a gateway without keys may be called, besides `localhost` and IP addresses; `*`: any.
    pub allowed_hosts: Vec<String>,
    /// The URL under which other programs reach the gateway, for callbacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
    /// Proxies whose `Forwarded`, `X-Forwarded-For` and `X-Forwarded-Host` headers are trusted.
    pub trusted_proxies: Vec<Cidr>,
    /// Paths whose requests are passed through to the provider of their model; `*` as the last segment: all below it.
    pub pass_through: Vec<String>,
    /// Web pages that may call.
    pub cors: CorsSettings,
    /// Limits of one request; 400 beyond them.
    #[serde(with = "RequestSizeLimitsDef")]
    pub request_limits: RequestSizeLimits,
    /// Responses over WebSocket.
    pub websocket: WebSocketSettings,
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
            drain_listener: DrainListener::Close,
            drain_timeout: Duration::from_secs(30),
            ready_requires: vec![ReadyRequirement::Store],
            max_connections: None,
            first_byte_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(30),
            keep_alive_timeout: Duration::from_secs(75),
            allowed_hosts: Vec::new(),
            public_url: None,
            trusted_proxies: Vec::new(),
            pass_through: PASSED_BY_DEFAULT.map(str::to_owned).to_vec(),
            cors: CorsSettings::default(),
            request_limits: RequestSizeLimits::default(),
            websocket: WebSocketSettings::default(),
        }
    }
}

/// A check of `/readyz`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadyRequirement {
    /// The store accepts writes.
    Store,
    /// At least one model server answers.
    Provider,
}

/// Web pages that may call.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CorsSettings {
    /// Origins such as `https://app.example.com`, or the single entry `*`; empty: only the gateway's own.
    pub allowed_origins: Vec<String>,
}

/// Server-sent events.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SseSettings {
    /// Interval of keepalive comments while no event is sent.
    #[serde(with = "units::HumanDuration")]
    pub keepalive: Duration,
    /// How long status 200 is delayed while the provider has sent no output.
    #[serde(with = "units::HumanDuration")]
    pub commit_after: Duration,
}

impl Default for SseSettings {
    fn default() -> Self {
        Self { keepalive: Duration::from_secs(15), commit_after: Duration::from_secs(1) }
    }
}

/// Runs of the engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// Status of a response that waits for the client's functions.
    pub client_action_status: ClientActionStatus,
    /// Names on the wire, unless the key or the request overrides it.
    pub dialect: Dialect,
    /// How raw reasoning is returned.
    pub reasoning: ReasoningDisplay,
    /// Maximum items of a response's output.
    pub max_output_items: usize,
    /// Maximum bytes of one output item.
    #[serde(with = "units::ByteSize")]
    pub max_item_bytes: usize,
    /// Maximum bytes of a response's output.
    #[serde(with = "units::ByteSize")]
    pub max_response_bytes: usize,
    /// Maximum bytes of a conversation: history, referenced items and input.
    #[serde(with = "units::ByteSize")]
    pub max_conversation_bytes: usize,
    /// Maximum time of a run.
    #[serde(with = "units::HumanDuration")]
    pub run_timeout: Duration,
    /// Limits of one run, unless an agent or a request overrides them.
    pub limits: RunLimits,
    /// The highest limits that a request may ask for; an absent one cannot be raised.
    pub ceilings: LimitOverrides,
    /// Structured output.
    pub structured: StructuredSettings,
    /// Summaries of conversations.
    pub compaction: CompactionSettings,
    /// The model omits a call that the request requires, after one retry.
    pub on_missing_call: OnMissingCall,
    /// What happens to a stored response when its client disconnects.
    pub on_disconnect: OnDisconnect,
    /// How long a response waits for the output of a client's function, where these run inline.
    #[serde(with = "units::HumanDuration")]
    pub client_tool_timeout: Duration,
    /// How long a call waits for the user's answer to a question of its tool, where the client shows questions.
    #[serde(with = "units::HumanDuration")]
    pub elicitation_timeout: Duration,
}

/// How a response ends that lacks a required call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMissingCall {
    /// It fails.
    Fail,
    /// It is completed with what the model returned.
    Keep,
}

/// Structured output, unless an agent or a request overrides it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StructuredSettings {
    /// How a response ends whose output violates the schema.
    pub on_mismatch: OnMismatch,
}

/// Summaries that take the place of a conversation.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionSettings {
    /// The model that writes those of `context_management`, as in requests; absent: the model of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Maximum tokens of a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Added to the question that asks for the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
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
            compaction: CompactionSettings::default(),
            on_missing_call: OnMissingCall::Fail,
            on_disconnect: OnDisconnect::Cancel,
            client_tool_timeout: Duration::from_secs(30),
            elicitation_timeout: Duration::from_mins(5),
        }
    }
}

/// How raw reasoning is returned. Summaries of a provider are always summaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningDisplay {
    /// As raw reasoning text.
    ReasoningText,
    /// As a summary, which more clients display.
    Summary,
    /// Not returned.
    Off,
}

/// Compatibility with clients.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompatSettings {
    /// How unknown request fields are treated.
    pub unknown_fields: UnknownFields,
    /// Whether clients that need another behaviour are detected by their headers.
    pub client_profiles: Switch,
    /// How tools of the API that the gateway does not support are treated.
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

/// A feature is on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// How unknown request fields are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownFields {
    /// 400 `unknown_parameter`.
    Refuse,
    /// Ignored, and listed in a response header.
    Ignore,
}

/// How tools of the API that the gateway does not support are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnservedTools {
    /// Left out beside others, unless `tool_choice` names them; refused if nothing would be left. For clients that send
    /// them with every request, left out in any case.
    Auto,
    /// 400 `unsupported_parameter`.
    Refuse,
    /// Left out, and listed in a response header.
    Omit,
}

/// OpenTelemetry traces.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetrySettings {
    /// Base URL of an OTLP collector over HTTP, such as `http://localhost:4318`; `None`: no traces.
    pub otlp_endpoint: Option<String>,
    /// `service.name` of the spans.
    pub service_name: String,
    /// Ratio of traces starting here that are sampled, 0 to 1; the sampling decision of callers is respected.
    pub sample_ratio: f64,
    /// Proxy and certificates of the exporter.
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
