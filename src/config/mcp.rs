//! Servers that speak the Model Context Protocol: those of the configuration, and what requests may bring.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use url::Url;

use super::units::{self, MIB};
pub use auth::{ClientCredentials, McpAuth, TokenExchange};

mod auth;
pub(crate) mod headers;
pub(crate) mod signing;

/// MCP servers and how they are used.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpSettings {
    /// Servers that requests name by their label. None is offered to a request that did not ask for it.
    pub servers: BTreeMap<String, McpServerSettings>,
    /// Servers that requests bring with a `server_url`.
    pub requests: McpRequestSettings,
    /// Connections that are kept open.
    pub sessions: McpSessionSettings,
    /// For how long a list of tools is taken for the newest; a server may say otherwise.
    #[serde(with = "units::duration")]
    pub tool_ttl: Duration,
    /// How long a connection with its handshake, and a list of tools, may take.
    #[serde(with = "units::duration")]
    pub list_timeout: Duration,
    /// Bytes of one message of a server; a longer result is an error.
    #[serde(with = "units::size")]
    pub max_message_bytes: usize,
    /// Calls that a person has to allow.
    pub approvals: McpApprovalSettings,
    /// What servers are told that ask the user for something in the middle of a call.
    pub elicitation: Elicitation,
    /// Whether servers of the configuration may use the model that say `sampling: true`; those of requests never may.
    pub sampling: SamplingSettings,
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
            elicitation: Elicitation::default(),
            sampling: SamplingSettings::default(),
        }
    }
}

/// One server of the configuration. It has either a `url` or a `command`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerSettings {
    /// Where it listens; for `json_rpc` without the `/rpc`.
    #[serde(serialize_with = "units::masked_query", skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How it is spoken to; absent: `stdio` for a command, `auto` for a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<McpTransport>,
    /// The program to start, for `stdio`: looked for in `PATH` unless it has a slash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The program's arguments.
    pub args: Vec<String>,
    /// The program's environment. It gets nothing of the gateway's but `PATH` and `HOME`.
    #[serde(serialize_with = "units::masked_map")]
    pub env: BTreeMap<String, SecretString>,
    /// The folder that the program runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Sent with each request.
    #[serde(serialize_with = "units::masked_map")]
    pub headers: BTreeMap<String, SecretString>,
    /// How the gateway shows who it is.
    pub auth: McpAuth,
    /// What it is for; shown in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How long a call may go on without a sign of life: an answer or a progress report.
    #[serde(with = "units::some_duration", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// How long a call may take in all, whatever it reports.
    #[serde(with = "units::some_duration", skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Duration>,
    /// As `mcp.tool_ttl`, for this server.
    #[serde(with = "units::some_duration", skip_serializing_if = "Option::is_none")]
    pub tool_ttl: Option<Duration>,
    /// Whether a response that asks for the server fails where its tools cannot be listed.
    pub required: bool,
    /// Globs of its tools that may be used; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Globs of its tools that may not be used, whatever is allowed.
    pub blocked_tools: Vec<String>,
    /// How far it is trusted, where neither a rule nor the request says whether a person is to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<McpTrust>,
    /// What holds for single tools, by glob; the first that fits, in the order of the globs, counts.
    pub rules: BTreeMap<String, McpRule>,
    /// Calls that it works on at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<usize>,
    /// Whether it may use the model, if `mcp.sampling` lets any server.
    pub sampling: bool,
    /// What it is told of whom a call or a list is for, in `_meta["antwort/context"]`.
    pub context: Vec<McpContext>,
    /// Whether what its tools say to the user alone becomes an item `antwort:user_message`.
    pub user_output: bool,
    /// The tenants that may use it; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Vec<String>>,
}

impl McpServerSettings {
    /// Without a sign of life, unless the server has its own.
    const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
    /// In all, unless the server has its own.
    const DEFAULT_MAX_TIME: Duration = Duration::from_mins(10);

    /// How long a call may go on without a sign of life, and how long it may take in all. Where one of the two was
    /// said and the other was not, that one counts.
    pub fn call_timeouts(&self) -> (Duration, Duration) {
        match (self.timeout, self.max_time) {
            (None, None) => (Self::DEFAULT_TIMEOUT, Self::DEFAULT_MAX_TIME),
            (Some(timeout), None) => (timeout, timeout.max(Self::DEFAULT_MAX_TIME)),
            (None, Some(max)) => (max.min(Self::DEFAULT_TIMEOUT), max),
            (Some(timeout), Some(max)) => (timeout, max),
        }
    }
}

/// What a server may be told of whom it works for.
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

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpTransport {
    /// Streamable HTTP, or the older HTTP with SSE where the server knows only that.
    #[default]
    Auto,
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP with SSE, of the protocol of 2024-11-05.
    Sse,
    /// Single JSON-RPC requests to `{url}/rpc`, without sessions.
    JsonRpc,
    /// A program that the gateway starts.
    Stdio,
}

/// How far a server is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpTrust {
    /// Its tools may be called without asking.
    Trusted,
    /// Those that it says only read may be called without asking.
    Annotations,
    /// A person is asked for each call.
    Untrusted,
}

/// What holds for single tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpRule {
    /// A person is always asked.
    Ask,
    /// Nobody is asked.
    Allow,
    /// It may not be called.
    Deny,
}

/// Servers that requests bring.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpRequestSettings {
    /// Whether requests may bring any.
    pub enabled: bool,
    /// Whether they may be spoken to without TLS; those that `egress.allow` opens may in any case.
    pub allow_http: bool,
    /// The only domains that they may be in, each with what is below it; absent: all that `egress` allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
    /// How far they are trusted where the request does not say what needs approval; absent: not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<McpTrust>,
    /// How long a call may go on without a sign of life.
    #[serde(with = "units::duration")]
    pub timeout: Duration,
    /// How long a call may take in all.
    #[serde(with = "units::duration")]
    pub max_time: Duration,
    /// Calls that one server works on at the same time.
    pub max_in_flight: usize,
    /// Servers of one request, those of the configuration included.
    pub max_servers: usize,
    /// Tools of one server; further ones are left out.
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

/// Connections that are kept open.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpSessionSettings {
    /// How many; the one that has been idle for longest makes way.
    pub max: usize,
    /// For how long one that nobody uses is kept.
    #[serde(with = "units::duration")]
    pub idle_timeout: Duration,
    /// Bytes that the tool lists of all sessions may take, with what is made of them.
    #[serde(with = "units::size")]
    pub max_list_bytes: usize,
}

impl Default for McpSessionSettings {
    fn default() -> Self {
        Self { max: 256, idle_timeout: Duration::from_mins(5), max_list_bytes: 64 * MIB }
    }
}

/// Calls that a person has to allow.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpApprovalSettings {
    /// For how long an approval can be given.
    #[serde(with = "units::duration")]
    pub expires_after: Duration,
}

impl Default for McpApprovalSettings {
    fn default() -> Self {
        Self { expires_after: Duration::from_hours(24) }
    }
}

/// What servers are told that ask the user for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Elicitation {
    /// The user does not want to.
    #[default]
    Decline,
    /// The user went away.
    Cancel,
    /// Nothing: servers are told that nobody can be asked.
    Off,
}

/// Whether servers may use the model.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingSettings {
    /// Whether they may.
    pub enabled: bool,
    /// The model, as a request would name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Requests of one server in a minute.
    pub max_requests: u32,
    /// Tokens of one answer.
    pub max_tokens: u64,
}

impl Default for SamplingSettings {
    fn default() -> Self {
        Self { enabled: false, model: None, max_requests: 5, max_tokens: 1024 }
    }
}

/// Whether secrets may be sent to a URL: over TLS, or without leaving this machine.
pub(crate) fn is_safe_for_secrets(url: &Url) -> bool {
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
