//! The configuration as written: the sections whose values need further checks.
//!
//! All keys are optional here; their meaning is in `settings`, and `resolve` converts them. Sections that need no
//! further check are deserialized straight into their settings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use secrecy::SecretString;
use serde::Deserialize;

use super::bus::BusSettings;
use super::jobs::{JobSettings, Role};
use super::network::{self, NetworkSettings, TlsSettings};
use super::provider::{
    ContextWindow, ForwardedField, MaxTokensField, Preset, ProviderClient, ProviderTimeouts, RawRoles,
    ReasoningField, RetrySettings, ThinkTags, TokenizerUse,
};
use super::settings::{
    AgentSettings, CompatSettings, ConfigSettings, EgressSettings, EngineSettings, LogSettings, McpSettings,
    ModelPrice, ModelsSettings, ServerSettings, SseSettings, TelemetrySettings, ToolsSettings, UiSettings,
};
use super::store::StoreSettings;
use super::units;
use super::webhooks::WebhookSettings;
use antwort_identity::{Scope, StorePolicy};
use antwort_net::client::ProxyUrl;
use antwort_protocol::dialect::Dialect;
use antwort_protocol::request::ClientActionStatus;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Raw {
    pub listen: Option<String>,
    pub role: Role,
    pub config: ConfigSettings,
    pub log: LogSettings,
    pub server: ServerSettings,
    pub sse: SseSettings,
    pub auth: RawAuth,
    pub engine: EngineSettings,
    pub jobs: JobSettings,
    pub tools: ToolsSettings,
    pub mcp: McpSettings,
    pub egress: EgressSettings,
    pub network: NetworkSettings,
    pub tls: TlsSettings,
    pub agents: BTreeMap<String, AgentSettings>,
    pub compat: CompatSettings,
    pub store: StoreSettings,
    pub bus: BusSettings,
    pub providers: BTreeMap<String, RawProvider>,
    pub ui: UiSettings,
    pub telemetry: TelemetrySettings,
    pub models: ModelsSettings,
    pub seal: RawSeal,
    pub webhooks: BTreeMap<String, WebhookSettings>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAuth {
    pub none: bool,
    pub keys: BTreeMap<String, RawKey>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawKey {
    pub hash: Option<String>,
    pub key: Option<SecretString>,
    pub tenant: Option<String>,
    pub owner: Option<String>,
    pub scopes: Option<Vec<Scope>>,
    pub dialect: Option<Dialect>,
    pub client_action_status: Option<ClientActionStatus>,
    pub store: StorePolicy,
    pub max_runs: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSeal {
    pub keys: Vec<SecretString>,
    pub file: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawProvider {
    pub preset: Option<Preset>,
    pub url: Option<String>,
    pub api_key: Option<SecretString>,
    pub models: Vec<String>,
    pub prefix: Option<String>,
    pub default: bool,
    pub aliases: BTreeMap<String, String>,
    pub headers: BTreeMap<String, SecretString>,
    pub timeouts: ProviderTimeouts,
    pub retries: RetrySettings,
    pub client: Option<ProviderClient>,
    #[serde(deserialize_with = "network::proxy")]
    pub proxy: Option<ProxyUrl>,
    pub ca_file: Option<PathBuf>,
    pub client_cert: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
    pub context_window: ContextWindow,
    pub prices: BTreeMap<String, ModelPrice>,
    pub passthrough: Option<Vec<String>>,
    pub errors: RawProviderErrors,
    pub roles: RawRoles,
    pub max_tokens_field: Option<MaxTokensField>,
    pub reasoning_field: Option<ReasoningField>,
    pub think_tags: Option<ThinkTags>,
    pub supports: RawSupports,
    pub forward: Option<Vec<ForwardedField>>,
    pub tokenizer: Option<TokenizerUse>,
    #[serde(deserialize_with = "units::OptionalSize::deserialize")]
    pub max_event_bytes: Option<usize>,
    #[serde(deserialize_with = "units::OptionalSize::deserialize")]
    pub max_answer_bytes: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawProviderErrors {
    pub context_overflow: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSupports {
    pub json: Option<bool>,
    pub stream_options: Option<bool>,
    pub strict: Option<bool>,
    pub parallel_tool_calls: Option<bool>,
    pub response_format: Option<bool>,
    pub custom_tools: Option<bool>,
    pub named_tool_choice: Option<bool>,
    pub allowed_tools: Option<bool>,
    pub images: Option<bool>,
    pub audio: Option<bool>,
    pub files: Option<bool>,
    pub video: Option<bool>,
}
