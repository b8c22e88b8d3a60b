//! The tools that there are at one moment, and how one of them is called.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use tower::Service;

use super::call::{Arguments, ToolCall};
use super::context::ToolContext;
use super::definition::ToolDefinition;
use super::error::ToolError;
use super::executor::Progress;
use super::layers::{CallTrace, ToolFuture, ToolRequest};
use super::naming::wire_name;
use super::output::ToolOutput;
use super::plan::CallPlan;
use super::router::Backend;
use super::stack::Stack;
use crate::response::turn::{CallKind, ModelTool, Presentation, ToolInput};

/// The tools that there are. Never changes: a refresh makes a new one.
pub struct Catalog {
    version: u64,
    tools: BTreeMap<String, Arc<RegisteredTool>>,
}

impl Catalog {
    pub(super) fn new(version: u64, tools: BTreeMap<String, Arc<RegisteredTool>>) -> Self {
        Self { version, tools }
    }

    /// The same with these tools as well, or in the place of those that have their names.
    pub(super) fn with_tools(&self, more: Vec<(String, Arc<RegisteredTool>)>) -> Self {
        let mut tools = self.tools.clone();
        tools.extend(more);
        Self { version: self.version, tools }
    }

    /// Grows with every refresh.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.tools.get(name)
    }

    /// All tools, by name: the same order in every turn, as providers' prompt caches need it.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<RegisteredTool>> {
        self.tools.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

/// A tool of the catalogue. Can be called also when a newer catalogue has it no more.
pub struct RegisteredTool {
    plan: Arc<CallPlan>,
    stack: Stack,
    model_tools: Arc<ModelToolCache>,
    /// Of its server; of the gateway's own tools `antwort`.
    label: Arc<str>,
}

/// A tool as models see it, by whose it is to run and how calls look: made once, since many requests ask for many tools.
#[derive(Default)]
pub(super) struct ModelToolCache([OnceLock<Arc<ModelTool>>; 5]);

impl RegisteredTool {
    pub(super) fn new(plan: CallPlan, stack: Stack, label: Arc<str>) -> Self {
        Self::with_model_tools(plan, stack, label, Arc::default())
    }

    /// The same, shown as another of the same definition and label is.
    pub(super) fn with_model_tools(
        plan: CallPlan,
        stack: Stack,
        label: Arc<str>,
        model_tools: Arc<ModelToolCache>,
    ) -> Self {
        Self { plan: Arc::new(plan), stack, model_tools, label }
    }

    /// The label of its server.
    pub fn label(&self) -> &Arc<str> {
        &self.label
    }

    /// The way to one of its executors.
    pub(super) fn backend(&self, executor: &str) -> Option<&Backend> {
        self.plan.route.backend(executor)
    }

    /// What its server is told of the caller, as a hash.
    pub(super) fn context(&self) -> Option<[u8; 32]> {
        self.plan.context
    }

    /// The tool as a model sees it, under its own name, for calls of this kind.
    pub fn model_tool(&self, kind: CallKind) -> Arc<ModelTool> {
        let place = match kind {
            CallKind::Function => 0,
            CallKind::Server(Presentation::Mcp) => 1,
            CallKind::Server(Presentation::Extension) => 2,
            CallKind::Server(Presentation::Hidden) => 3,
            CallKind::Server(Presentation::Approval) => 4,
            // Its own schema and description are not what the model is shown of a hosted tool.
            CallKind::Custom | CallKind::Server(Presentation::WebSearch) => {
                return Arc::new(self.build_model_tool(kind));
            }
        };
        match self.model_tools.0.get(place) {
            Some(shown) => Arc::clone(shown.get_or_init(|| Arc::new(self.build_model_tool(kind)))),
            None => Arc::new(self.build_model_tool(kind)),
        }
    }

    fn build_model_tool(&self, kind: CallKind) -> ModelTool {
        let definition = self.definition();
        let schema = Some(definition.parameters.as_raw().to_owned());
        ModelTool {
            wire_name: wire_name(None, &definition.name).into(),
            name: definition.name.as_str().into(),
            // Calls that the client makes are functions like its own.
            namespace: matches!(kind, CallKind::Server(_)).then(|| self.label.to_string()),
            description: Some(definition.description.clone()),
            input: ToolInput::Json { schema, strict: None },
            kind,
        }
    }

    /// What it is, under the name that the catalogue gives it.
    pub fn definition(&self) -> &Arc<ToolDefinition> {
        &self.plan.definition
    }

    /// Runs a call through all layers.
    ///
    /// Policy, arguments and budget are checked before this returns; the rest happens when the future is polled.
    /// So calls that are made one after the other are counted in that order, in whatever order they then run.
    ///
    /// # Errors
    /// As the future's result. [`super::FailureStage::Fatal`]: the run cannot go on; all others are for the model.
    pub fn call(
        &self,
        mut call: ToolCall,
        context: Arc<ToolContext>,
        progress: Progress,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send + use<> {
        if call.name != self.plan.name() {
            self.plan.name().clone_into(&mut call.name);
        }
        self.run(ToolRequest {
            call: Arc::new(call),
            context,
            progress,
            plan: Arc::clone(&self.plan),
            trace: Arc::default(),
            is_fallback: false,
            deadline: None,
        })
    }

    /// Runs a call that another tool failed in.
    pub(super) fn call_as_fallback(&self, failed: ToolRequest) -> ToolFuture {
        let call = ToolCall {
            name: self.plan.name().to_owned(),
            raw: failed.call.raw.clone(),
            arguments: Arguments::new(),
            key: failed.call.key.clone(),
        };
        self.run(ToolRequest {
            call: Arc::new(call),
            context: failed.context,
            progress: failed.progress,
            plan: Arc::clone(&self.plan),
            trace: Arc::<CallTrace>::default(),
            is_fallback: true,
            deadline: None,
        })
    }

    fn run(&self, request: ToolRequest) -> ToolFuture {
        self.stack.clone().call(request)
    }
}
