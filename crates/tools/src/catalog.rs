//! An immutable snapshot of the registered tools, and how one of them is called.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use tower::Service;

use super::call::ToolCall;
use super::context::ToolContext;
use super::definition::ToolDefinition;
use super::error::ToolError;
use super::executor::Progress;
use super::layers::{CallTrace, ToolFuture, ToolRequest};
use super::naming::wire_name;
use super::output::ToolOutput;
use super::plan::CallPlan;
use super::router::{Route, RouteExecutor};
use super::stack::{Stack, StackBuilder};
use antwort_config::OnComplete;
use antwort_response::presentation::Presentation;
use antwort_response::turn::{CallKind, ModelTool, ToolInput};

/// A snapshot of the tools. Immutable: a refresh publishes a new one.
pub struct Catalog {
    version: u64,
    tools: BTreeMap<String, Arc<RegisteredTool>>,
}

impl Catalog {
    pub(crate) fn new(version: u64, tools: BTreeMap<String, Arc<RegisteredTool>>) -> Self {
        Self { version, tools }
    }

    /// A copy with these tools added; they replace tools of the same names.
    pub fn with_tools(&self, more: Vec<(String, Arc<RegisteredTool>)>) -> Self {
        let mut tools = self.tools.clone();
        tools.extend(more);
        Self { version: self.version, tools }
    }

    /// Incremented by every refresh.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.tools.get(name)
    }

    /// All tools sorted by name: providers' prompt caches need the same order in every turn.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<RegisteredTool>> {
        self.tools.values()
    }

    /// Number of tools.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether the catalogue is empty.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

/// A tool of the catalogue. Stays callable after a newer catalogue has dropped it.
pub struct RegisteredTool {
    plan: Arc<CallPlan>,
    route: Arc<Route>,
    stack: Stack,
    model_tools: Arc<ModelToolCache>,
    /// Label of the MCP server; `antwort` for the gateway's own tools.
    label: Arc<str>,
}

/// The tool as sent to models, one entry per cacheable [`CallKind`]. Built once: many requests offer many tools.
#[derive(Default)]
pub struct ModelToolCache([OnceLock<Arc<ModelTool>>; 5]);

impl RegisteredTool {
    /// A tool with a cache of model tools of its own, see [`Self::with_model_tools`].
    pub fn new(plan: CallPlan, route: Route, stack: &StackBuilder, label: Arc<str>) -> Self {
        Self::with_model_tools(plan, route, stack, label, Arc::default())
    }

    /// Shares the cached model tools of another tool with the same definition and label.
    pub fn with_model_tools(
        plan: CallPlan,
        route: Route,
        stack: &StackBuilder,
        label: Arc<str>,
        model_tools: Arc<ModelToolCache>,
    ) -> Self {
        let route = Arc::new(route);
        Self { plan: Arc::new(plan), stack: stack.build(Arc::clone(&route)), route, model_tools, label }
    }

    /// Label of its server.
    pub fn label(&self) -> &Arc<str> {
        &self.label
    }

    /// The executor of this id, if it is one of the tool's.
    pub fn executor(&self, executor: &str) -> Option<&RouteExecutor> {
        self.route.executor(executor)
    }

    /// Hash of the caller context that its server receives.
    pub fn context(&self) -> Option<[u8; 32]> {
        self.plan.context
    }

    /// The tool as sent to models, under its own name, for calls of this kind.
    pub fn model_tool(&self, kind: CallKind) -> Arc<ModelTool> {
        let slot = match kind {
            CallKind::Function => 0,
            CallKind::Server(Presentation::Mcp) => 1,
            CallKind::Server(Presentation::Extension) => 2,
            CallKind::Server(Presentation::Hidden) => 3,
            CallKind::Server(Presentation::Approval) => 4,
            // Hosted tools are sent with another schema and description, so they are not cached here.
            CallKind::Custom | CallKind::Server(Presentation::Hosted(_)) => {
                return Arc::new(self.build_model_tool(kind));
            }
        };
        match self.model_tools.0.get(slot) {
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
            // Calls executed by the client look like its own functions, without a namespace.
            namespace: matches!(kind, CallKind::Server(_)).then(|| self.label.to_string()),
            description: Some(definition.description.clone()),
            input: ToolInput::Json { schema, strict: None },
            kind,
        }
    }

    /// Its definition, under its name in the catalogue.
    pub fn definition(&self) -> &Arc<ToolDefinition> {
        &self.plan.definition
    }

    /// Whether a call may be made twice.
    pub fn may_repeat(&self) -> bool {
        self.plan.may_repeat
    }

    /// Whether the work of a call may go on after its answer.
    pub fn may_go_on(&self) -> bool {
        self.plan.may_go_on
    }

    /// What its result leads to then, if the tool's settings say.
    pub fn on_complete(&self) -> Option<OnComplete> {
        self.plan.on_complete
    }

    /// Runs a call through all layers.
    ///
    /// Policy, arguments and budget are checked before this returns, the rest when the future is polled: calls are
    /// counted in the order in which they are made, in whatever order they run.
    ///
    /// # Errors
    /// As the result of the future. [`super::FailureStage::Fatal`] ends the run; all other errors go to the model.
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

    /// Runs the call of a failed tool as its fallback.
    pub(super) fn call_as_fallback(&self, failed: ToolRequest) -> ToolFuture {
        let call = ToolCall {
            key: failed.call.key.clone(),
            ..ToolCall::direct(self.plan.name(), failed.call.raw.clone())
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
