//! Settings: their sources, types, defaults and checks.
//!
//! Defaults < file < environment < flags. `raw` is the configuration as written, [`Settings`] the checked result with
//! presets applied and units in the types. It knows nothing of what the settings are for.

mod agents;
mod auth;
mod bus;
mod changes;
mod de;
mod drain;
mod egress;
mod elsewhere;
mod error;
mod file_hashes;
mod files;
pub mod foreign_files;
mod interpolate;
mod jobs;
mod legacy_keys;
mod listen_address;
mod load;
mod load_options;
mod masks;
pub mod mcp;
mod models;
mod moved_keys;
mod network;
mod pass_through;
mod postgres_url;
pub mod provider;
mod raw;
mod reload;
mod reload_rules;
mod request_limits;
mod resolve;
mod seal;
pub mod settings;
mod show;
mod sources;
mod store;
mod tools;
mod tree;
mod ui;
pub mod units;
mod unserved;
mod webhooks;
mod websocket;

pub use antwort_identity::{Scope, StorePolicy};
pub use changes::rebuilds_for;
pub use changes::{ConfigChange, changes_between};
pub use de::suggestion as nearest_of;
pub use drain::DrainListener;
pub use error::{ConfigError, ConfigErrors};
pub use file_hashes::FileHashes;
pub use files::ConfigFiles;
pub use interpolate::named_sources;
pub use listen_address::listen_address;
pub use load::{LoadedConfig, load};
pub use load_options::LoadOptions;
pub use provider::{
    ContextWindow, DeveloperRole, ErrorPattern, ForwardedField, MaxTokensField, Preset, ProviderClient,
    ProviderErrors, ProviderFeatures, ProviderSettings, ProviderTimeouts, ReasoningField, RetrySettings,
    RoleChanges, RoleSettings, Roles, SystemPlacement, ThinkTags, TokenizerApi, TokenizerUse,
};
pub use reload::{ReloadedConfig, RunningConfig};
pub use reload_rules::ReloadEffect;
pub use settings::{
    AgentSettings, AsyncMode, BreakerSettings, BuiltinSettings, EgressSettings, ExecutorSettings,
    FileReadSettings, LimitOverrides, MockTool, ModelPrice, OnComplete, OnError, ReasoningDefaults,
    ResultFormat, ReturnSchema, RouteSettings, RouteStrategy, RunLimits, SearchProvider, SimpleTool,
    TextDefaults, ToolCacheSettings, ToolCollision, ToolLists, ToolOverride, ToolResultSettings, ToolRetry,
    ToolVisibility, UserMessages, WeatherSettings, WebSearchSettings, mcp_label,
};
pub use settings::{
    ApiKeySettings, AuthSettings, BusSettings, BusUrl, Cidr, ClientActionStatus, CompactionSettings,
    CompatSettings, CorsSettings, EngineSettings, JobSettings, LogFormat, LogSettings, Migrate,
    ModelsSettings, NetworkSettings, OnDisconnect, OnMismatch, OnMissingCall, PostgresUrl, ProxySource,
    ReadyRequirement, ReasoningDisplay, Role, SealKey, SealSettings, ServerSettings, Settings, SseSettings,
    StoreSettings, StoreUrl, StructuredSettings, Switch, Synchronous, TelemetrySettings, TenantRetention,
    TimeToLive, TlsSettings, ToolsSettings, UiSettings, UiSwitch, UnknownFields, UnservedTools,
    WebSocketSettings, WebhookEvent, WebhookSettings,
};
pub use settings::{
    ClientCredentials, ElicitationPolicy, McpApprovalSettings, McpAuth, McpContext, McpRequestSettings,
    McpRule, McpServerSettings, McpSessionSettings, McpSettings, McpTransport, McpTrust, SamplingSettings,
    TokenExchange,
};
pub use show::{DEFAULT_CONFIG, show};
pub use tree::Origin;
pub use unserved::server_of_tool;

#[cfg(test)]
mod tests;
