//! Settings: what can be said, where it may be said, and what it means.
//!
//! Defaults < file < environment < flags. `raw` is what was said, [`Settings`] what it means: checked,
//! with presets applied and units in the types. Floor 1: knows nothing of what the settings are for.

mod agents;
mod auth;
mod changes;
mod contents;
mod de;
mod error;
mod files;
pub mod import;
mod interpolate;
mod listen_address;
mod load;
pub(crate) mod mcp;
mod network;
pub mod provider;
mod raw;
mod reload;
mod request_limits;
mod resolve;
pub mod settings;
mod show;
mod spellings;
mod store;
mod tools;
mod tree;
mod units;

pub use changes::{Change, between};
pub use contents::Contents;
pub use error::{ConfigError, ConfigErrors};
pub use files::Files;
pub use listen_address::listen_address;
pub use load::{LoadOptions, Loaded, load};
pub use provider::{
    ContextWindow, DeveloperRole, Hint, MaxTokensField, Preset, ProviderSettings, ProviderTimeouts,
    ReasoningField, RetrySettings, Roles, Supports, SystemPlacement, ThinkTags,
};
pub use reload::{Effect, Reloaded, Running};
pub use settings::{
    AgentSettings, BreakerSettings, BuiltinSettings, CacheSettings, Collision, EgressSettings,
    ExecutorSettings, FileReadSettings, LimitOverrides, MockTool, OnError, Price, ReasoningDefaults,
    ResultFormat, ResultSettings, ReturnSchema, RouteSettings, RunLimits, SearchProvider, SimpleTool,
    Strategy, TextDefaults, ToolLists, ToolOverride, ToolRetry, UserMessages, Visibility, WeatherSettings,
    WebSearchSettings, mcp_label,
};
pub use settings::{
    AuthSettings, Cidr, ClientActionStatus, CompatSettings, CorsSettings, EngineSettings, KeySettings,
    LogFormat, LogSettings, Migrate, ModelsSettings, NetworkSettings, OnMismatch, OnMissingCall, ProxySource,
    ReadyRequirement, ReasoningDisplay, Scope, SealKey, SealSettings, ServerSettings, Settings, SseSettings,
    StoreSettings, StoreUrl, StructuredSettings, Switch, Synchronous, TelemetrySettings, TlsSettings,
    ToolsSettings, UnknownFields, UnservedTools,
};
pub use settings::{
    ClientCredentials, Elicitation, McpApprovalSettings, McpAuth, McpContext, McpRequestSettings, McpRule,
    McpServerSettings, McpSessionSettings, McpSettings, McpTransport, McpTrust, SamplingSettings,
    TokenExchange,
};
pub use show::{DEFAULTS, show};
pub use tree::Origin;

#[cfg(test)]
mod tests;
