//! Toolboxes with executors that do as a test says, and the tests of everything that needs one.

mod arguments;
mod audit;
mod cache;
mod failures;
mod gates;
mod journal;
mod pace;
mod registry;
mod results;
mod routing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use antwort_config::{AgentSettings, ToolsSettings};
use antwort_telemetry::metrics::Metrics;

type Run = dyn Fn(ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync;

/// Runs its tools by a function, and counts.
struct Script {
    id: String,
    tools: Mutex<Vec<ToolDefinition>>,
    run: Box<Run>,
    calls: AtomicUsize,
    lists: AtomicBool,
    shutdowns: AtomicUsize,
    initializes: bool,
}

impl Script {
    fn new(id: &str, tools: Vec<ToolDefinition>) -> Self {
        Self {
            id: id.to_owned(),
            tools: Mutex::new(tools),
            run: Box::new(|_| Box::pin(async { Ok(ToolOutput::text("done")) })),
            calls: AtomicUsize::new(0),
            lists: AtomicBool::new(true),
            shutdowns: AtomicUsize::new(0),
            initializes: true,
        }
    }

    /// Answers at once with what the function says.
    fn answering(
        self,
        answer: impl Fn(&ToolCall) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.running(move |call| {
            let result = answer(&call);
            Box::pin(async { result })
        })
    }

    fn running(
        mut self,
        run: impl Fn(ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync + 'static,
    ) -> Self {
        self.run = Box::new(run);
        self
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl ToolExecutor for Script {
    fn id(&self) -> &str {
        &self.id
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Custom
    }

    async fn list(&self) -> Result<Vec<ToolDefinition>, ToolError> {
        if self.lists.load(Ordering::Relaxed) {
            return Ok(self.tools.lock().clone());
        }
        Err(ToolError::transport("gone"))
    }

    async fn execute(
        &self,
        call: &ToolCall,
        _: &ToolContext,
        _: &Progress,
    ) -> Result<ToolOutcome, ToolError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        (self.run)(call.clone()).await.map(ToolOutcome::Done)
    }

    async fn health(&self) -> ExecutorHealth {
        if self.lists.load(Ordering::Relaxed) {
            ExecutorHealth::Healthy
        } else {
            ExecutorHealth::Unhealthy("gone".into())
        }
    }

    async fn initialize(&self) -> Result<(), ToolError> {
        if self.initializes { Ok(()) } else { Err(ToolError::failed("no key")) }
    }

    async fn shutdown(&self) {
        self.shutdowns.fetch_add(1, Ordering::Relaxed);
    }
}

fn settings(changes: Value) -> ToolsSettings {
    serde_json::from_value(changes).unwrap()
}

async fn try_open(
    changes: Value,
    executors: &[&Arc<Script>],
) -> Result<Arc<ToolRegistry>, ToolRegistryError> {
    let executors =
        executors.iter().map(|script| Arc::clone(script) as Arc<dyn ToolExecutor>).collect::<Vec<_>>();
    ToolRegistry::open(&settings(changes), &BTreeMap::new(), executors, Metrics::new()).await
}

async fn open(changes: Value, executors: &[&Arc<Script>]) -> Arc<ToolRegistry> {
    try_open(changes, executors).await.unwrap()
}

/// A tool that takes anything and of which nothing is known.
fn tool(name: &str) -> ToolDefinition {
    ToolDefinition::new(name, "A tool.", &json!({"type": "object"}))
}

/// A tool that looks something up.
fn lookup(name: &str) -> ToolDefinition {
    tool(name).with_annotations(Annotations::READ_ONLY)
}

/// Names of the catalogue, without the one that is always there.
fn names(toolbox: &ToolRegistry) -> Vec<String> {
    let catalog = toolbox.catalog();
    let names = catalog.iter().map(|tool| tool.definition().name.clone());
    names.filter(|name| name != "read_tool_output").collect()
}

fn someone() -> Arc<ToolContext> {
    Arc::new(of("acme", "ann"))
}

fn of(tenant: &str, principal: &str) -> ToolContext {
    ToolContext {
        tenant: tenant.into(),
        principal: principal.into(),
        can_read_stored_results: true,
        ..ToolContext::default()
    }
}

async fn call_with(
    toolbox: &ToolRegistry,
    name: &str,
    arguments: &str,
    context: &Arc<ToolContext>,
) -> Result<ToolOutput, ToolError> {
    let catalog = toolbox.catalog();
    let tool = catalog.get(name).unwrap_or_else(|| panic!("no tool {name}"));
    tool.call(ToolCall::direct(name, arguments.to_owned()), Arc::clone(context), Progress::none()).await
}

async fn call(toolbox: &ToolRegistry, name: &str) -> Result<ToolOutput, ToolError> {
    call_with(toolbox, name, "{}", &someone()).await
}

fn with_agents(agents: Value) -> BTreeMap<String, AgentSettings> {
    serde_json::from_value(agents).unwrap()
}
