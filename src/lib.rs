//! antwort: a stateful, agentic `/v1/responses` in front of any OpenAI-compatible model server.
//!
//! What a program that embeds the gateway may use is public: [`app::App`] with its [`config`], tools of its own
//! ([`tools::ToolExecutor`]) and a store of its own ([`store::Store`], with the wire types of [`protocol`]).
//!
//! This package is the program and the HTTP server. All else is a crate in `crates/`, by floors; see `docs/architecture.md`.

mod auth;
mod transport;

pub mod app;
mod cli;
#[cfg(feature = "demo")]
mod demo;
mod logging;
pub mod program;
pub mod shutdown;

/// Settings: how they are loaded, and what they are.
pub mod config {
    pub use antwort_config::{
        AgentSettings, ApiKeySettings, AsyncMode, AuthSettings, BreakerSettings, BuiltinSettings,
        BusSettings, BusUrl, Cidr, ClientActionStatus, ClientCredentials, CompactionSettings, CompatSettings,
        ConfigChange, ConfigError, ConfigErrors, ConfigFiles, ContextWindow, CorsSettings, DEFAULT_CONFIG,
        DeveloperRole, DrainListener, EgressSettings, ElicitationPolicy, EngineSettings, ErrorPattern,
        ExecutorSettings, FileHashes, FileReadSettings, ForwardedField, JobSettings, LimitOverrides,
        LoadOptions, LoadedConfig, LogFormat, LogSettings, MaxTokensField, McpApprovalSettings, McpAuth,
        McpContext, McpRequestSettings, McpRule, McpServerSettings, McpSessionSettings, McpSettings,
        McpTransport, McpTrust, Migrate, MockTool, ModelPrice, ModelsSettings, NetworkSettings, OnComplete,
        OnDisconnect, OnError, OnMismatch, OnMissingCall, Origin, PostgresUrl, Preset, ProviderClient,
        ProviderErrors, ProviderFeatures, ProviderSettings, ProviderTimeouts, ProxySource, ReadyRequirement,
        ReasoningDefaults, ReasoningDisplay, ReasoningField, ReloadEffect, ReloadedConfig, ResultFormat,
        RetrySettings, ReturnSchema, Role, RoleChanges, RoleSettings, Roles, RouteSettings, RouteStrategy,
        RunLimits, RunningConfig, SamplingSettings, Scope, SealKey, SealSettings, SearchProvider,
        ServerSettings, Settings, SimpleTool, SseSettings, StorePolicy, StoreSettings, StoreUrl,
        StructuredSettings, Switch, Synchronous, SystemPlacement, TelemetrySettings, TenantRetention,
        TextDefaults, ThinkTags, TimeToLive, TlsSettings, TokenExchange, TokenizerApi, TokenizerUse,
        ToolCacheSettings, ToolCollision, ToolLists, ToolOverride, ToolResultSettings, ToolRetry,
        ToolVisibility, ToolsSettings, UiSettings, UiSwitch, UnknownFields, UnservedTools, UserMessages,
        WeatherSettings, WebSearchSettings, WebSocketSettings, WebhookEvent, WebhookSettings,
        changes_between, listen_address, load, mcp_label, show,
    };
}

/// Wire types: what stores and tools are given.
pub mod protocol {
    pub use antwort_protocol::{content, elicitation, id, item, response, result_format};
}

/// What a store must do, and what it is given.
pub mod store {
    pub use antwort_store::{
        AddedItems, ApprovalClaim, Approvals, AskedQuestions, AsyncCallKey, AsyncOutcome, AsyncResult,
        AsyncSettlement, CallOutcome, CancelRequest, ClaimOutcome, ClaimedJob, CompletedCall, ContextRole,
        ConversationContext, ConversationItem, ConversationLock, ConversationRecord, ConversationStore,
        ConversationTurn, Direction, DueNotice, DueTask, ErasedCounts, ErasureTarget, EventLog, GivenAnswer,
        IdempotencyKey, IdempotencyKeys, InputAnswer, InputOutcome, ItemChange, ItemWithState, JobQueue,
        JobStats, JobTurns, JournaledCall, KeyUse, KeyedResponse, Lease, Lineage, LogEnd, LogExtent, LogKept,
        LogPage, LogState, LoggedEvents, LoggedRun, MAX_PAGE_BYTES, MAX_QUESTIONS, ModelView, NewJob,
        NewPendingCall, OrphanCause, OrphanedCall, OrphanedRun, OutboxNotice, Owner, Page, PageRequest,
        PendingApproval, PendingCall, PendingCalls, PendingSource, PolledTask, QuestionKey, RETAINED_TOKENS,
        ReadLimit, Requeue, ResponseFilter, ResponseRecord, ResponseStore, RunLog, RunRegistration,
        RunRegistry, RunsInFlight, StartedCall, StateKey, Store, StoreError, StoredConversation, StoredItem,
        StoredState, TenantRetention, TenantRuns, TimeToLive, TraceChange, TurnRecord, WebhookOutbox,
    };
}

/// What a tool must do, and what it is given.
pub mod tools {
    pub use antwort_tools::{
        Annotations, Arguments, AskedQuestion, Asker, AuthChallenge, CacheMode, CallBudget, CallKey,
        Callback, CallbackAddress, Catalog, Citation, Completions, ExecutorHealth, FailureStage, GivenInput,
        InvalidPattern, Journal, LocalExecutor, MockError, MockExecutor, OutputMeta, PolicySubject, Progress,
        RegisteredTool, RemoteFailure, RequiredInput, ResultFile, StartedTask, Tool, ToolCall, ToolContext,
        ToolDefinition, ToolError, ToolErrorCode, ToolExecutor, ToolKind, ToolOutcome, ToolOutput,
        ToolRegistry, ToolRegistryError, arguments_read_again, canonical_arguments, canonical_json,
        is_same_arguments, wire_name,
    };
}
