//! MCP servers: those of the configuration, and the rules for those of requests.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use url::Url;

use super::masks;
use super::units::{self, MIB};
pub use auth::{ClientCredentials, McpAuth, TokenExchange};

mod auth;
pub mod headers;
pub mod signing;

/// MCP servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpSettings {
    /// Servers by label. A request can use one only if it, or its agent, names the label.
    pub servers: BTreeMap<String, McpServerSettings>,
    /// Rules for servers that requests bring with a `server_url`.
    pub requests: McpRequestSettings,
    /// The pool of open connections.
    pub sessions: McpSessionSettings,
    /// How long a list of tools is cached; a server may set another time.
    #[serde(with = "units::HumanDuration")]
    pub tool_ttl: Duration,
    /// Timeout of a connection with its handshake, and of a list of tools.
    #[serde(with = "units::HumanDuration")]
    pub list_timeout: Duration,
    /// Maximum bytes of one message of a server; a longer result is an error.
    #[serde(with = "units::ByteSize")]
    pub max_message_bytes: usize,
    /// Approvals of calls.
    pub approvals: McpApprovalSettings,
    /// The reply to servers that ask for input of the user during a call.
    pub elicitation: ElicitationPolicy,
    /// Whether configured servers with `sampling: true` may call the model; those of requests never may.
    pub sampling: SamplingSettings,
    /// Calls that go on as tasks of servers.
    pub tasks: McpTaskSettings,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            servers: BTreeMap::new(),
            requests: McpRequestSettings::default(),
            sessions: McpSessionSettings::default(),
            tool_ttl: Duration::from_mins(5),
            list_timeout: Duration::from_secs(10),
            max_message_bytes: 8 * MIB,
            approvals: McpApprovalSettings::default(),
            elicitation: ElicitationPolicy::default(),
            sampling: SamplingSettings::default(),
            tasks: McpTaskSettings::default(),
        }
    }
}

/// A configured server, with either a `url` or a `command`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerSettings {
    /// The endpoint; for `json_rpc` without the `/rpc`.
    #[serde(serialize_with = "masks::masked_query", skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The transport; absent: `stdio` for a command, `auto` for a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<McpTransport>,
    /// The program to start, for `stdio`: searched in `PATH` unless it has a slash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The program's arguments.
    pub args: Vec<String>,
    /// The program's environment. Of the gateway's it gets only `PATH` and `HOME`.
    #[serde(serialize_with = "masks::masked_map")]
    pub env: BTreeMap<String, SecretString>,
    /// The program's working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Time in which the program has to be ready: started and initialized. Installers such as `npx` and `uvx` may load a
    /// package first.
    #[serde(with = "units::OptionalDuration", skip_serializing_if = "Option::is_none")]
    pub start_timeout: Option<Duration>,
    /// Sent with each request.
    #[serde(serialize_with = "masks::masked_map")]
    pub headers: BTreeMap<String, SecretString>,
    /// Credentials of the gateway.
    pub auth: McpAuth,
    /// Shown in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Maximum time of a call without a response or a progress report.
    #[serde(with = "units::OptionalDuration", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Maximum time of a call in total.
    #[serde(with = "units::OptionalDuration", skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Duration>,
    /// Overrides `mcp.tool_ttl`.
    #[serde(with = "units::OptionalDuration", skip_serializing_if = "Option::is_none")]
    pub tool_ttl: Option<Duration>,
    /// Whether a response that asks for the server fails if its tools cannot be listed.
    pub required: bool,
    /// Globs of allowed tools; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Globs of blocked tools; they override the allowed ones.
    pub blocked_tools: Vec<String>,
    /// Whether calls need approval, if neither a rule nor the request decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<McpTrust>,
    /// Rules for single tools, by glob; the first match in the order of the globs applies.
    pub rules: BTreeMap<String, McpRule>,
    /// Maximum concurrent calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<usize>,
    /// Whether it may call the model, if `mcp.sampling` is enabled.
    pub sampling: bool,
    /// What is sent about the caller in `_meta["antwort/context"]`.
    pub context: Vec<McpContext>,
    /// Whether messages of its tools to the user become `antwort:user_message` items.
    pub user_output: bool,
    /// The tenants that may use it; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Vec<String>>,
}

impl McpServerSettings {
    /// Of a call without a response or a progress report, unless the server has its own.
    const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
    /// Of a program's start, unless the server has its own.
    const DEFAULT_START_TIMEOUT: Duration = Duration::from_mins(1);
    /// Of a call in total, unless the server has its own.
    const DEFAULT_MAX_TIME: Duration = Duration::from_mins(10);

    /// The time in which a program has to be ready.
    pub fn start_timeout(&self) -> Duration {
        self.start_timeout.unwrap_or(Self::DEFAULT_START_TIMEOUT)
    }

    /// The timeouts of a call: without a response or a progress report, and in total. If only one is configured, the
    /// default of the other is adjusted to it.
    pub fn call_timeouts(&self) -> (Duration, Duration) {
        match (self.timeout, self.max_time) {
            (None, None) => (Self::DEFAULT_TIMEOUT, Self::DEFAULT_MAX_TIME),
            (Some(timeout), None) => (timeout, timeout.max(Self::DEFAULT_MAX_TIME)),
            (None, Some(max)) => (max.min(Self::DEFAULT_TIMEOUT), max),
            (Some(timeout), Some(max)) => (timeout, max),
        }
    }
}

/// What a server may be told about the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpContext {
    /// The tenant of the caller's key.
    Tenant,
    /// The user: `safety_identifier` or `user` of the request, else the name of the caller's key.
    User,
    /// `metadata.channel` of the request.
    Channel,
    /// `metadata.chat_id` of the request.
    Chat,
}

/// The transport of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpTransport {
    /// Streamable HTTP, or the older HTTP with SSE if the server supports only that.
    #[default]
    Auto,
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP with SSE, protocol version 2024-11-05.
    Sse,
    /// Single JSON-RPC requests to `{url}/rpc`, without sessions.
    JsonRpc,
    /// A program that the gateway starts.
    Stdio,
}

/// Which calls of a server need approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpTrust {
    /// None.
    Trusted,
    /// All but those of tools that the server declares read-only.
    Annotations,
    /// All.
    Untrusted,
}

/// A rule for single tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpRule {
    /// Approval is always required.
    Ask,
    /// No approval is required.
    Allow,
    /// The tool is blocked.
    Deny,
}

/// Rules for servers that requests bring.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpRequestSettings {
    /// Whether requests may bring servers.
    pub enabled: bool,
    /// Whether http is allowed; destinations in `egress.allow` may be called over http in any case.
    pub allow_http: bool,
    /// The only allowed domains, with their subdomains; absent: all that `egress` allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
    /// Which calls need approval if the request does not decide; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<McpTrust>,
    /// Maximum time of a call without a response or a progress report.
    #[serde(with = "units::HumanDuration")]
    pub timeout: Duration,
    /// Maximum time of a call in total.
    #[serde(with = "units::HumanDuration")]
    pub max_time: Duration,
    /// Maximum concurrent calls of one server.
    pub max_in_flight: usize,
    /// Maximum servers of one request, configured ones included.
    pub max_servers: usize,
    /// Maximum tools of one server; further ones are ignored.
    pub max_tools: usize,
}

impl Default for McpRequestSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            allow_http: false,
            allowed_domains: None,
            trust: None,
            timeout: Duration::from_secs(30),
            max_time: Duration::from_mins(10),
            max_in_flight: 16,
            max_servers: 16,
            max_tools: 256,
        }
    }
}

/// The pool of open connections.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpSessionSettings {
    /// Maximum connections; the one that has been idle for longest is evicted.
    pub max: usize,
    /// Idle timeout of a connection.
    #[serde(with = "units::HumanDuration")]
    pub idle_timeout: Duration,
    /// Maximum bytes of the tool lists of all sessions, with what is derived from them.
    #[serde(with = "units::ByteSize")]
    pub max_list_bytes: usize,
}

impl Default for McpSessionSettings {
    fn default() -> Self {
        Self { max: 256, idle_timeout: Duration::from_mins(5), max_list_bytes: 64 * MIB }
    }
}

/// Approvals of calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpApprovalSettings {
    /// How long an approval can be given.
    #[serde(with = "units::HumanDuration")]
    pub expires_after: Duration,
}

impl Default for McpApprovalSettings {
    fn default() -> Self {
        Self { expires_after: Duration::from_hours(24) }
    }
}

/// The reply to servers that ask for input of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElicitationPolicy {
    /// The user declines.
    #[default]
    Decline,
    /// The user cancels.
    Cancel,
    /// None: the capability is not offered.
    Off,
}

/// Calls that go on as tasks of servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpTaskSettings {
    /// Maximum looks a second at the tasks that a tenant has at one server, by each process.
    pub max_polls_per_second: u32,
}

impl Default for McpTaskSettings {
    fn default() -> Self {
        Self { max_polls_per_second: 10 }
    }
}

/// Calls of the model by servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingSettings {
    /// Whether they are allowed.
    pub enabled: bool,
    /// The model, as in requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Maximum requests of one server per minute.
    pub max_requests: u32,
    /// Maximum output tokens.
    pub max_tokens: u64,
}

impl Default for SamplingSettings {
    fn default() -> Self {
        Self { enabled: false, model: None, max_requests: 5, max_tokens: 1024 }
    }
}

/// Whether secrets may be sent to a URL: over TLS, or without leaving this machine.
pub fn is_safe_for_secrets(url: &Url) -> bool {
    let at_home = || match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
        None => false,
    };
    url.scheme() == "https" || url.scheme() == "http" && at_home()
}
