//! The settings for the tools of one server.

use std::sync::Arc;
use std::time::Duration;

use antwort_config::{McpContext, McpTrust, ToolsSettings};
use antwort_tools::stack::StackBuilder;

/// Settings for the tools of a server.
pub(super) struct ServerToolConfig {
    /// Executor id, for metrics and settings.
    pub executor: Arc<str>,
    /// Idle timeout of a call: maximum time without response or progress.
    pub timeout: Duration,
    /// Whether tool annotations of the server are trusted for retries and caching.
    pub(crate) trusts_hints: bool,
    /// Caller context sent to the server.
    pub context: Vec<McpContext>,
    /// Whether content with the audience `user` is shown to the user.
    pub user_output: bool,
    /// The general tool settings, adapted to this server.
    pub tools: ToolsSettings,
    /// The layers around every call.
    pub stack: StackBuilder,
}

impl ServerToolConfig {
    pub(super) fn new(
        executor: Arc<str>,
        mut tools: ToolsSettings,
        (timeout, max_time): (Duration, Duration),
        trust: Option<McpTrust>,
        stack: StackBuilder,
    ) -> Self {
        // The stack enforces the total timeout, the connection the idle timeout.
        tools.timeout = max_time;
        tools.routes.clear();
        let trusts_hints = matches!(trust, Some(McpTrust::Annotations | McpTrust::Trusted));
        Self { executor, timeout, trusts_hints, context: Vec::new(), user_output: false, tools, stack }
    }
}
