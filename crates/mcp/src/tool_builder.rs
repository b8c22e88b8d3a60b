//! Builds callable tools from a server's list: validated, with rewritten schemas and the layers around each.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use serde_json::Value;
use tracing::Span;

use super::connection::{CallMeta, RemoteCall, RemoteTool, RemoteTools, ServerAddress};
use super::context::CallerContext;
use super::error::McpError;
use super::list_budget::{ListBudget, SchemaMeter};
use super::list_cache::ToolListing;
use super::session::Session;
use super::task::TaskSupport;
use super::tool_config::ServerToolConfig;
use super::tool_sets::{MemoryGuard, PreparedSet, PreparedTool, ServedTool, ServerToolSet};
use super::{content, schema};
use antwort_config::{AsyncMode, RouteStrategy};
use antwort_protocol::item::hosted::McpListedTool;
use antwort_protocol::json;
use antwort_telemetry::traces::{self, TraceParent};
use antwort_tools::catalog::RegisteredTool;
use antwort_tools::catalog_builder::add_tags;
use antwort_tools::executor_state::ExecutorStates;
use antwort_tools::plan::{CallPlan, ToolSchemas};
use antwort_tools::router::{Route, RouteExecutor};
use antwort_tools::verbatim::exact_text;
use antwort_tools::{
    Annotations, Callback, Progress, StartedTask, ToolCall, ToolContext, ToolDefinition, ToolError,
    ToolErrorCode, ToolExecutor, ToolKind, ToolOutcome, ToolOutput, canonical_json,
};
use antwort_util::digest::FieldHasher;

/// What the model is told of a call that goes on, if its server says nothing.
const TASK_STARTED: &str = "The call was started and goes on. Its result is reported later.";
/// Estimated bytes of a tool that is bound to a session.
const BOUND_TOOL_BYTES: usize = 2048;
/// Maximum number of tools with breaker state per session, if lists differ by context.
const MAX_EXECUTOR_STATES: usize = 4096;

/// Builds the tools of a list.
pub(super) struct ServerToolBuilder<'a> {
    pub session: &'a Arc<Session>,
    /// Caller context of the list and of calls.
    pub context: Option<&'a Arc<CallerContext>>,
    pub label: &'a Arc<str>,
    pub(crate) tool_config: &'a Arc<ServerToolConfig>,
}

impl ServerToolBuilder<'_> {
    /// The set of tools that an earlier response listed. Annotations are ignored.
    pub(super) fn build_from_item(&self, listed: &[McpListedTool]) -> ServerToolSet {
        let remote = listed.iter().map(|tool| RemoteTool {
            listed: Arc::new(tool.clone()),
            title: None,
            output_schema: None,
            hints: super::RemoteHints::default(),
            task_support: TaskSupport::Forbidden,
        });
        let set = self.prepare(&remote.collect::<Vec<_>>(), Vec::new(), &|| ToolSchemas::lazy(None));
        self.bind(&set, 0, None)
    }

    /// The tools of a list.
    pub(super) fn build(&self, listing: &ToolListing) -> Result<ServerToolSet, McpError> {
        let list = &listing.kept;
        let prepared =
            list.prepared.get_or_build(self.label, self.tool_config, || self.prepare_charged(&list.tools))?;
        let bytes = prepared.tools.iter().map(|tool| BOUND_TOOL_BYTES + tool.listed.name.len()).sum();
        let charge = self.session.budget.charge(bytes)?;
        let set = self.bind(&prepared, listing.number, Some(Box::new(charge)));
        let names: HashSet<_> =
            set.tools.iter().map(|tool| tool.registered.definition().qualified_name()).collect();
        // If lists differ by context, a tool missing in one may be in another.
        let max = if self.context.is_some() { MAX_EXECUTOR_STATES } else { 0 };
        self.session.states(self.tool_config).retain_beyond(max, |name| names.contains(name));
        Ok(set)
    }

    /// The session-independent part, with its reservation of memory.
    fn prepare_charged(&self, list: &RemoteTools) -> Result<PreparedSet, McpError> {
        let budget = &self.session.budget;
        let mut set = self.prepare(&list.tools, list.unreadable.clone(), &|| metered(budget));
        set._charge = Some(Box::new(budget.charge(set.bytes())?));
        Ok(set)
    }

    /// Builds the session-independent part.
    fn prepare(
        &self,
        tools: &[RemoteTool],
        mut left_out: Vec<(String, String)>,
        schemas: &dyn Fn() -> ToolSchemas,
    ) -> PreparedSet {
        let mut prepared: Vec<PreparedTool> = Vec::new();
        let mut names: HashSet<&str> = HashSet::new();
        for tool in tools {
            let name = &*tool.listed.name;
            let problem = match self.define(tool) {
                Err(problem) => problem,
                Ok(_) if !names.insert(name) => "listed twice".into(),
                Ok(definition) => {
                    prepared.push(PreparedTool {
                        definition: Arc::new(definition),
                        schemas: Arc::new(schemas()),
                        shown: Arc::default(),
                        listed: Arc::clone(&tool.listed),
                        read_only: tool.hints.read_only == Some(true),
                        task_support: tool.task_support,
                    });
                    continue;
                }
            };
            let name = antwort_protocol::parse::truncate_for_display(name).into_owned();
            tracing::warn!(
                server = &*self.session.endpoint.name,
                tool = %name,
                problem,
                "invalid MCP tool left out of the tool list"
            );
            left_out.push((name, problem));
        }
        PreparedSet {
            tool_config: Arc::downgrade(self.tool_config),
            tools: prepared,
            left_out,
            _charge: None,
        }
    }

    fn define(&self, tool: &RemoteTool) -> Result<ToolDefinition, String> {
        let listed = &tool.listed;
        if listed.name.is_empty() || listed.name.len() > 1024 {
            return Err("the name must have 1 to 1024 bytes".into());
        }
        let schema_sent: Value =
            serde_json::from_str(listed.input_schema.get()).map_err(|error| error.to_string())?;
        let parameters = schema::normalize(&schema_sent)?;
        Ok(ToolDefinition {
            name: listed.name.clone(),
            description: listed.description.clone().or_else(|| tool.title.clone()).unwrap_or_default(),
            parameters: (&parameters).into(),
            returns: tool.output_schema.clone().filter(|schema| schema.get().starts_with('{')),
            kind: ToolKind::Mcp,
            executor: Arc::clone(&self.tool_config.executor),
            version: None,
            tags: self.tags(&listed.name),
            annotations: match self.tool_config.trusts_hints {
                true => annotations(tool),
                false => Annotations::UNKNOWN,
            },
            server: Some(Arc::clone(self.label)),
            requires_auth: false,
            asynchronous: AsyncMode::Deny,
        })
    }

    /// Binds prepared tools to the session.
    fn bind(&self, prepared: &PreparedSet, number: u64, charge: MemoryGuard) -> ServerToolSet {
        let states = self.session.states(self.tool_config);
        let executor: Arc<dyn ToolExecutor> = Arc::new(RemoteExecutor {
            id: Arc::clone(&self.tool_config.executor),
            session: Arc::downgrade(self.session),
            context: self.context.cloned(),
            idle: self.tool_config.timeout,
            user_output: self.tool_config.user_output,
            task_support: prepared.tools.iter().filter_map(task_support).collect(),
        });
        let tools = prepared.tools.iter().map(|tool| {
            let (plan, route) = self.plan(tool, &executor, &states);
            let shown = Arc::clone(&tool.shown);
            ServedTool {
                registered: Arc::new(RegisteredTool::with_model_tools(
                    plan,
                    route,
                    &self.tool_config.stack,
                    Arc::clone(self.label),
                    shown,
                )),
                listed: Arc::clone(&tool.listed),
                read_only: tool.read_only,
                fingerprint: self.fingerprint(&tool.listed),
            }
        });
        let names = prepared.tools.iter().map(|tool| tool.listed.name.clone());
        ServerToolSet {
            tools: tools.collect(),
            places: names.zip(0..).collect(),
            left_out: prepared.left_out.clone(),
            number,
            _charge: charge,
        }
    }

    /// Tags come from the operator's settings only: a server must not choose the policies that apply to its tools.
    fn tags(&self, name: &str) -> Vec<String> {
        let mut tags = match self.session.endpoint.address {
            ServerAddress::Http { .. } => vec!["net".into()],
            ServerAddress::Stdio(_) => Vec::new(),
        };
        let settings = &self.tool_config.tools;
        let of_server = settings.executors.get(&*self.tool_config.executor).map_or(&[][..], |of| &of.tags);
        add_tags(&mut tags, of_server);
        let own = settings.overrides.get(&format!("{}__{name}", self.label));
        add_tags(&mut tags, own.map_or(&[][..], |own| &own.tags));
        tags
    }

    fn plan(
        &self,
        tool: &PreparedTool,
        executor: &Arc<dyn ToolExecutor>,
        states: &ExecutorStates,
    ) -> (CallPlan, Route) {
        let (settings, definition) = (&self.tool_config.tools, &tool.definition);
        let state = states.state(&definition.qualified_name(), &self.tool_config.executor, settings);
        let id = &self.tool_config.executor;
        let executor = RouteExecutor::new(Arc::clone(executor), id, None, 1, state);
        let route = Route::new(RouteStrategy::default(), vec![executor]);
        let context_hash = self.context.map(|context| *context.fingerprint());
        let plan = CallPlan::with_schemas(Arc::clone(definition), Arc::clone(&tool.schemas), settings);
        (plan.for_context(context_hash), route)
    }

    /// See [`ServedTool::fingerprint`].
    fn fingerprint(&self, tool: &McpListedTool) -> [u8; 32] {
        let hasher = FieldHasher::new().field(&**self.label);
        let hasher = match &self.session.endpoint.address {
            ServerAddress::Http { url, .. } => hasher.field(url.as_str()),
            ServerAddress::Stdio(command) => hasher.field(&command.program).fields(&command.args),
        };
        hasher
            .field(&tool.name)
            .field(tool.description.as_deref().unwrap_or_default())
            .field(canonical_json(tool.input_schema.get()))
            .field(tool.annotations.as_ref().map(|hints| canonical_json(hints.get())).unwrap_or_default())
            .finish()
    }
}

/// Schemas that are compiled on first use and then accounted for in the budget.
pub(crate) fn metered(budget: &Arc<ListBudget>) -> ToolSchemas {
    ToolSchemas::lazy(Some(Arc::new(SchemaMeter(Arc::clone(budget)))))
}

/// Absent annotations take the unsafe value, as the protocol defines.
fn annotations(tool: &RemoteTool) -> Annotations {
    let hints = tool.hints;
    let read_only = hints.read_only.unwrap_or(false);
    Annotations {
        read_only,
        idempotent: read_only || hints.idempotent.unwrap_or(false),
        destructive: !read_only && hints.destructive.unwrap_or(true),
        open_world: hints.open_world.unwrap_or(true),
    }
}

/// Runs calls over a session. Holds it weakly, because the session owns its tools.
struct RemoteExecutor {
    id: Arc<str>,
    session: Weak<Session>,
    context: Option<Arc<CallerContext>>,
    idle: std::time::Duration,
    user_output: bool,
    /// Of the tools that have any.
    task_support: HashMap<String, TaskSupport>,
}

fn task_support(tool: &PreparedTool) -> Option<(String, TaskSupport)> {
    let support = tool.task_support;
    (support != TaskSupport::Forbidden).then(|| (tool.listed.name.clone(), support))
}

#[async_trait]
impl ToolExecutor for RemoteExecutor {
    fn id(&self) -> &str {
        &self.id
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Mcp
    }

    async fn list(&self) -> Result<Vec<ToolDefinition>, ToolError> {
        Ok(Vec::new())
    }

    async fn execute(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        progress: &Progress,
    ) -> Result<ToolOutcome, ToolError> {
        let Some(session) = self.session.upgrade() else {
            return Err(ToolError::refused(
                ToolErrorCode::ToolUnavailable,
                "the session with the MCP server was closed",
            ));
        };
        let key = call.key.as_ref().map(ToString::to_string);
        let traceparent = trace(&session.endpoint.address, context);
        let exact_arguments = exact_text(&call.raw);
        let callback = call.callback.as_ref().and_then(Callback::address);
        // The tasks of a program are in one process, and go with it.
        let is_remote = matches!(session.endpoint.address, ServerAddress::Http { .. });
        let detach = call.callback.as_ref().filter(|_| is_remote).map(Callback::timeout);
        let support = self.task_support.get(&call.name).copied().unwrap_or_default();
        let remote = RemoteCall {
            name: &call.name,
            arguments: &call.arguments,
            exact_arguments: exact_arguments.as_deref(),
            meta: CallMeta {
                idempotency_key: key.as_deref(),
                traceparent: traceparent.as_deref(),
                context: self.context.as_deref(),
                callback: callback.as_ref(),
            },
            idle: self.idle,
            asker: call.asker.as_ref(),
            // Answers are for the server that has asked.
            input: call.input.as_ref().filter(|input| *input.executor == *self.id),
            detach,
            asks_for_task: match support {
                TaskSupport::Forbidden => false,
                TaskSupport::Optional => detach.is_some(),
                TaskSupport::Required => true,
            },
        };
        let mut result = session.call(remote, progress).await?;
        if let Some(required) = result.requires_input.take() {
            return Ok(ToolOutcome::RequiresInput(*required));
        }
        if let Some(task) = result.task.take() {
            let say = task.say.clone().unwrap_or_else(|| TASK_STARTED.to_owned());
            let state = json::to_text(&*task).to_string();
            let started = StartedTask { executor: Arc::default(), state, poll: task.poll };
            let say = ToolOutput { task: Some(Box::new(started)), ..ToolOutput::started(say) };
            return Ok(ToolOutcome::Async { handle: task.id, say });
        }
        Ok(ToolOutcome::Done(content::to_output(result, self.user_output)))
    }
}

/// Records the server's address in the span of the call and returns the `traceparent` for the server.
fn trace(address: &ServerAddress, context: &ToolContext) -> Option<String> {
    let span = Span::current();
    if let ServerAddress::Http { url, .. } = address {
        span.record("server.address", url.host_str());
        span.record("server.port", url.port_or_known_default());
    }
    let caller = context.traceparent.as_deref().and_then(TraceParent::parse);
    traces::upstream_parent(&span, caller).map(|parent| parent.to_string())
}

/// Whether two lists are equal, ignoring whitespace and key order in schemas.
pub fn is_same_listing<'a>(
    mut shown: impl Iterator<Item = &'a McpListedTool>,
    earlier: &'a [McpListedTool],
) -> bool {
    let canonical_of = |tool: &McpListedTool| -> (Vec<u8>, Vec<u8>) {
        let hints = tool.annotations.as_ref().map(|hints| canonical_json(hints.get())).unwrap_or_default();
        (canonical_json(tool.input_schema.get()), hints)
    };
    let same = |a: &McpListedTool, b: &McpListedTool| {
        a == b || a.name == b.name && a.description == b.description && canonical_of(a) == canonical_of(b)
    };
    earlier.iter().all(|tool| shown.next().is_some_and(|shown| same(shown, tool))) && shown.next().is_none()
}
