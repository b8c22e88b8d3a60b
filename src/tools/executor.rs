//! What runs tools: the contract of executors, and the short form for a single tool.

use std::sync::Arc;

use async_trait::async_trait;

use super::call::{Arguments, ToolCall};
use super::context::ToolContext;
use super::definition::{ToolDefinition, ToolKind};
use super::error::{ToolError, ToolErrorCode};
use super::output::{ToolOutcome, ToolOutput};

/// Runs tools of one kind. Knows nothing of timeouts, retries, caches or policy: those are layers around it.
#[async_trait]
pub trait ToolExecutor: Send + Sync {
    /// Names it in definitions, metrics and items: `builtin`, `mcp:<label>` …
    fn id(&self) -> &str;

    /// How its tools are run.
    fn kind(&self) -> ToolKind;

    /// The tools that it runs.
    async fn list(&self) -> Result<Vec<ToolDefinition>, ToolError>;

    /// Runs one call, whose arguments have been validated. Dropping the future must end the work.
    async fn execute(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        progress: &Progress,
    ) -> Result<ToolOutcome, ToolError>;

    /// Whether it could run a call now.
    async fn health(&self) -> ExecutorHealth {
        ExecutorHealth::Healthy
    }

    /// Makes it ready; called once, before the first list.
    async fn initialize(&self) -> Result<(), ToolError> {
        Ok(())
    }

    /// Lets go of what it holds; called once, after the last call.
    async fn shutdown(&self) {}
}

/// How an executor is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutorHealth {
    /// Ready.
    Healthy,
    /// Not ready, and why.
    Unhealthy(String),
}

/// Where a tool says how far it has come.
#[derive(Debug, Clone, Default)]
pub struct Progress(Option<Listener>);

/// Who listens to several calls, and which of them this is.
#[derive(Debug, Clone)]
struct Listener {
    call: u32,
    reports: tokio::sync::mpsc::Sender<(u32, String)>,
}

/// Bytes of a report; longer ones are cut.
const MAX_REPORT_BYTES: usize = 1024;

impl Progress {
    /// Nobody listens.
    pub fn none() -> Self {
        Self(None)
    }

    /// Reports arrive here with the number of the call; those that find it full are dropped.
    pub fn with_sender(call: u32, reports: tokio::sync::mpsc::Sender<(u32, String)>) -> Self {
        Self(Some(Listener { call, reports }))
    }

    /// Says how far the tool has come.
    pub fn report(&self, message: impl Into<String>) {
        if let Some(Listener { call, reports }) = &self.0 {
            let mut message = message.into();
            message.truncate(message.floor_char_boundary(MAX_REPORT_BYTES));
            // A listener that is slow or gone must not hold the tool up.
            let _dropped = reports.try_send((*call, message));
        }
    }
}

/// A single tool that runs within the gateway: what a new one has to write.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What it is.
    fn definition(&self) -> ToolDefinition;

    /// Runs it with arguments that are by its schema.
    async fn call(&self, arguments: &Arguments, context: &ToolContext) -> Result<ToolOutput, ToolError>;

    /// Makes it ready.
    async fn initialize(&self) -> Result<(), ToolError> {
        Ok(())
    }

    /// Lets go of what it holds.
    async fn shutdown(&self) {}
}

/// Runs [`Tool`]s.
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
            return Err(ToolError::refused(
                ToolErrorCode::ToolNotFound,
                format!("tool {} not found", call.name),
            ));
        };
        tool.call(&call.arguments, context).await.map(ToolOutcome::Done)
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
