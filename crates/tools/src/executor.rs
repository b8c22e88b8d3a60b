//! The executor contract, and [`Tool`], the short form for a single tool.

use std::sync::Arc;

use async_trait::async_trait;

use super::call::{Arguments, ToolCall};
use super::callback::Callback;
use super::context::ToolContext;
use super::definition::{ToolDefinition, ToolKind};
use super::error::ToolError;
use super::output::{ToolOutcome, ToolOutput};

/// Runs tools of one kind. Timeouts, retries, caching and policy are layers around it.
#[async_trait]
pub trait ToolExecutor: Send + Sync {
    /// Unique id, used in definitions, metrics and items: `builtin`, `mcp:<label>` …
    fn id(&self) -> &str;

    /// Kind of its tools.
    fn kind(&self) -> ToolKind;

    /// Lists its tools.
    async fn list(&self) -> Result<Vec<ToolDefinition>, ToolError>;

    /// Runs one call with validated arguments. Dropping the future must stop the work.
    async fn execute(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        progress: &Progress,
    ) -> Result<ToolOutcome, ToolError>;

    /// Readiness probe.
    async fn health(&self) -> ExecutorHealth {
        ExecutorHealth::Healthy
    }

    /// Called once, before the first [`Self::list`].
    async fn initialize(&self) -> Result<(), ToolError> {
        Ok(())
    }

    /// Releases resources; called once, after the last call.
    async fn shutdown(&self) {}
}

/// Health of an executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutorHealth {
    /// Ready for calls.
    Healthy,
    /// Not ready, with the reason.
    Unhealthy(String),
}

/// Reports the progress of a call.
#[derive(Debug, Clone, Default)]
pub struct Progress(Option<Listener>);

/// A channel shared by several calls, and the number of this call.
#[derive(Debug, Clone)]
struct Listener {
    call: u32,
    reports: tokio::sync::mpsc::Sender<(u32, String)>,
}

/// Maximum bytes of a report; longer ones are truncated.
const MAX_REPORT_BYTES: usize = 1024;

impl Progress {
    /// Discards all reports.
    pub fn none() -> Self {
        Self(None)
    }

    /// Sends reports with the number of the call to this channel; drops them while it is full.
    pub fn with_sender(call: u32, reports: tokio::sync::mpsc::Sender<(u32, String)>) -> Self {
        Self(Some(Listener { call, reports }))
    }

    /// Sends a progress message, without waiting.
    pub fn report(&self, message: impl Into<String>) {
        if let Some(Listener { call, reports }) = &self.0 {
            let mut message = message.into();
            message.truncate(message.floor_char_boundary(MAX_REPORT_BYTES));
            // A slow or closed receiver must not block the tool.
            let _dropped = reports.try_send((*call, message));
        }
    }
}

/// A single tool that runs in the gateway's process: implement this to add one.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Name, description and schemas.
    fn definition(&self) -> ToolDefinition;

    /// Runs the tool with arguments that were validated against its schema.
    async fn call(&self, arguments: &Arguments, context: &ToolContext) -> Result<ToolOutput, ToolError>;

    /// In place of [`Self::call`] if its work may go on ([`ToolDefinition::with_async`]): starts the work, returns
    /// [`ToolOutput::started`], and reports the result to `callback` later. By default it is called as ever.
    async fn start(
        &self,
        arguments: &Arguments,
        context: &ToolContext,
        callback: Callback,
    ) -> Result<ToolOutput, ToolError> {
        drop(callback);
        self.call(arguments, context).await
    }

    /// Called once, before the first call.
    async fn initialize(&self) -> Result<(), ToolError> {
        Ok(())
    }

    /// Releases resources.
    async fn shutdown(&self) {}
}

/// An executor of [`Tool`]s in this process.
pub struct LocalExecutor {
    id: Arc<str>,
    kind: ToolKind,
    tools: Vec<(String, Arc<dyn Tool>)>,
}

impl LocalExecutor {
    /// An executor of these tools.
    pub fn new(id: &str, kind: ToolKind, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let tools = tools.into_iter().map(|tool| (tool.definition().name, tool)).collect();
        Self { id: id.into(), kind, tools }
    }
}

#[async_trait]
impl ToolExecutor for LocalExecutor {
    fn id(&self) -> &str {
        &self.id
    }

    fn kind(&self) -> ToolKind {
        self.kind
    }

    async fn list(&self) -> Result<Vec<ToolDefinition>, ToolError> {
        let definitions = self.tools.iter().map(|(_, tool)| ToolDefinition {
            kind: self.kind,
            executor: Arc::clone(&self.id),
            ..tool.definition()
        });
        Ok(definitions.collect())
    }

    async fn execute(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        _progress: &Progress,
    ) -> Result<ToolOutcome, ToolError> {
        let Some((_, tool)) = self.tools.iter().find(|(name, _)| *name == call.name) else {
            return Err(ToolError::unknown(&call.name));
        };
        let output = match call.callback.clone() {
            Some(callback) => tool.start(&call.arguments, context, callback).await,
            None => tool.call(&call.arguments, context).await,
        };
        output.map(ToolOutcome::Done)
    }

    async fn initialize(&self) -> Result<(), ToolError> {
        for (_, tool) in &self.tools {
            tool.initialize().await?;
        }
        Ok(())
    }

    async fn shutdown(&self) {
        for (_, tool) in &self.tools {
            tool.shutdown().await;
        }
    }
}
