//! A server's tools as runs use them: named, checked, each with all the layers of a call around it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use async_trait::async_trait;
use aws_lc_rs::digest;
use serde_json::Value;
use tracing::Span;

use super::configured::ServerToolConfig;
use super::connection::{CallMeta, RemoteCall, RemoteTool, RemoteTools, ServerAddress};
use super::context::CallerContext;
use super::error::McpError;
use super::list_budget::{Charge, ListBudget, SchemaMeter};
use super::session::{Session, ToolListing};
use super::{content, schema};
use crate::config::RouteStrategy;
use crate::protocol::item::hosted::McpListedTool;
use crate::telemetry::traces::{self, TraceParent};
use crate::tools::catalog::{ModelToolCache, RegisteredTool};
use crate::tools::catalog_builder::add_tags;
use crate::tools::plan::{BackendStates, CallPlan, ToolSchemas};
use crate::tools::router::{Backend, Route};
use crate::tools::stack;
use crate::tools::verbatim::exact_text;
use crate::tools::{
    Annotations, Progress, ToolCall, ToolContext, ToolDefinition, ToolError, ToolErrorCode, ToolExecutor,
    ToolKind, ToolOutcome, canonical_json,
};

/// Labels under which the tools of one session are kept.
const MAX_LABELS: usize = 16;
/// Bytes of a tool beside its texts, for all sessions that have it; and for each of them, beside its name.
const PREPARED_TOOL_BYTES: usize = 1024;
const BOUND_TOOL_BYTES: usize = 2048;
/// Tools of a session whose health is known, where lists differ by context.
const MAX_BACKEND_STATES: usize = 4096;

/// The tools of a server under one label.
pub struct ServerToolSet {
    /// Those that can be called, in the server's order.
    pub tools: Vec<ServedTool>,
    /// Their places by the server's names for them.
    places: HashMap<String, usize>,
    /// Those that cannot: their names, and why.
    pub left_out: Vec<(String, String)>,
    /// The list that it was made of; 0: an item of an earlier response.
    pub(super) number: u64,
    /// Of what it takes beside what is shared; `None`: it belongs to one request.
    _charge: Option<Charge>,
}

impl ServerToolSet {
    /// Which list of its session it was made of; grows with every list that says something else. 0: an item of an earlier response.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where the tool is that the server calls this.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }
}

/// A tool of a server.
pub struct ServedTool {
    /// The tool with the layers around it.
    pub registered: Arc<RegisteredTool>,
    /// As lists show it.
    pub listed: Arc<McpListedTool>,
    /// Whether its server says that it only reads.
    pub read_only: bool,
    /// Of what a person sees who allows a call: server, name, description, schema and hints.
    pub fingerprint: [u8; 32],
}

/// What is made of a list for all sessions that have an equal one, by label and terms.
#[derive(Default)]
pub(super) struct PreparedSetCache(Mutex<SetsByTerms>);

/// By label and terms.
type SetsByTerms = HashMap<SetKey, Arc<PreparedSet>>;

/// A label, and the address of the terms, which is no other's as long as a set knows them.
type SetKey = (Arc<str>, usize);

fn set_key(label: &Arc<str>, terms: &Arc<ServerToolConfig>) -> SetKey {
    (Arc::clone(label), Arc::as_ptr(terms).addr())
}

/// Tools as any session has them that listed the same, under one label and by one server's terms.
struct PreparedSet {
    tool_config: Weak<ServerToolConfig>,
    tools: Vec<Prepared>,
    left_out: Vec<(String, String)>,
    _charge: Option<Charge>,
}

/// A tool, apart from whom it is called for.
struct Prepared {
    definition: Arc<ToolDefinition>,
    schemas: Arc<ToolSchemas>,
    shown: Arc<ModelToolCache>,
    listed: Arc<McpListedTool>,
    read_only: bool,
}

impl PreparedSetCache {
    /// Made once; by two at the same time, one of them is kept.
    fn get_or_build(
        &self,
        maker: &ServerToolBuilder<'_>,
        list: &RemoteTools,
    ) -> Result<Arc<PreparedSet>, McpError> {
        let key = set_key(maker.label, maker.tool_config);
        if let Some(known) = self.sets().get(&key) {
            return Ok(Arc::clone(known));
        }
        let budget = &maker.session.budget;
        let mut set = maker.prepare(&list.tools, list.unreadable.clone(), &|| metered(budget));
        set._charge = Some(budget.charge(set.bytes())?);
        let mut sets = self.sets();
        sets.retain(|_, set| set.tool_config.strong_count() > 0);
        if sets.len() >= MAX_LABELS {
            sets.clear();
        }
        Ok(Arc::clone(sets.entry(key).or_insert_with(|| Arc::new(set))))
    }

    /// Forgets what was made by terms that nobody has any more.
    pub(super) fn forget_ended_generations(&self) {
        self.sets().retain(|_, set| set.tool_config.strong_count() > 0);
    }

    fn sets(&self) -> MutexGuard<'_, SetsByTerms> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PreparedSet {
    /// What is kept of it beside the list: definitions, and the same as models are shown them, mostly in one way.
    fn bytes(&self) -> usize {
        let of_tool = |tool: &Prepared| {
            let ToolDefinition { name, description, parameters, returns, .. } = &*tool.definition;
            let shown = name.len() + description.len() + parameters.get().len();
            PREPARED_TOOL_BYTES + 2 * shown + returns.as_ref().map_or(0, |returns| returns.get().len())
        };
        self.tools.iter().map(of_tool).sum()
    }
}

/// The tool sets of one list, by label and terms.
#[derive(Default)]
pub(super) struct ToolSetCache(Mutex<HashMap<SetKey, Arc<Made>>>);

/// The set of one list, made by the first who wants it.
struct Made {
    tool_config: Weak<ServerToolConfig>,
    number: u64,
    set: OnceLock<Arc<ServerToolSet>>,
}

impl ToolSetCache {
    /// The set of this list under this label by these terms; made once. Schemas are worked on without the lock on all sets.
    pub(super) fn get_or_build(
        &self,
        maker: &ServerToolBuilder<'_>,
        listing: &ToolListing,
    ) -> Result<Arc<ServerToolSet>, McpError> {
        let place = self.place(maker, listing.number);
        if let Some(set) = place.set.get() {
            return Ok(Arc::clone(set));
        }
        let set = maker.make(listing)?;
        Ok(Arc::clone(place.set.get_or_init(|| Arc::new(set))))
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        self.sets().clear();
    }

    /// Forgets what was made by terms that nobody has any more.
    pub(super) fn forget_ended_generations(&self) {
        self.sets().retain(|_, made| made.tool_config.strong_count() > 0);
    }

    fn place(&self, maker: &ServerToolBuilder<'_>, number: u64) -> Arc<Made> {
        let key = set_key(maker.label, maker.tool_config);
        let mut sets = self.sets();
        if let Some(known) = sets.get(&key).filter(|known| known.number == number) {
            return Arc::clone(known);
        }
        let place =
            Arc::new(Made { tool_config: Arc::downgrade(maker.tool_config), number, set: OnceLock::new() });
        sets.retain(|_, made| made.tool_config.strong_count() > 0);
        if sets.len() >= MAX_LABELS {
            sets.clear();
        }
        sets.insert(key, Arc::clone(&place));
        place
    }

    /// What this list was made into, under whichever label.
    pub(super) fn cached(&self, listing: &ToolListing) -> Option<Arc<ServerToolSet>> {
        let sets = self.sets();
        sets.values().filter(|made| made.number == listing.number).find_map(|made| made.set.get().cloned())
    }

    fn sets(&self) -> MutexGuard<'_, HashMap<SetKey, Arc<Made>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes tools of what a server listed.
pub(super) struct ServerToolBuilder<'a> {
    pub session: &'a Arc<Session>,
    /// For whom the list is, and so the calls.
    pub context: Option<&'a Arc<CallerContext>>,
    pub label: &'a Arc<str>,
    pub tool_config: &'a Arc<ServerToolConfig>,
}

impl ServerToolBuilder<'_> {
    /// A set of what an earlier response listed. Its hints count for nothing.
    pub(super) fn build_from_item(&self, listed: &[McpListedTool]) -> ServerToolSet {
        let remote = listed.iter().map(|tool| RemoteTool {
            listed: Arc::new(tool.clone()),
            title: None,
            output_schema: None,
            hints: super::RemoteHints::default(),
        });
        let set = self.prepare(&remote.collect::<Vec<_>>(), Vec::new(), &|| ToolSchemas::lazy(None));
        self.bind(&set, 0, None)
    }

    fn make(&self, listing: &ToolListing) -> Result<ServerToolSet, McpError> {
        let prepared = listing.kept.prepared.get_or_build(self, &listing.kept.tools)?;
        let bytes = prepared.tools.iter().map(|tool| BOUND_TOOL_BYTES + tool.listed.name.len()).sum();
        let charge = self.session.budget.charge(bytes)?;
        let set = self.bind(&prepared, listing.number, Some(charge));
        let names: HashSet<_> =
            set.tools.iter().map(|tool| tool.registered.definition().qualified_name()).collect();
        // Where lists differ by context, what one lacks another may have.
        let most = if self.context.is_some() { MAX_BACKEND_STATES } else { 0 };
        self.session.states(self.tool_config).retain_beyond(most, |name| names.contains(name));
        Ok(set)
    }

    /// What of it is the same for all sessions.
    fn prepare(
        &self,
        tools: &[RemoteTool],
        mut left_out: Vec<(String, String)>,
        schemas: &dyn Fn() -> ToolSchemas,
    ) -> PreparedSet {
        let mut prepared: Vec<Prepared> = Vec::new();
        let mut names: HashSet<&str> = HashSet::new();
        for tool in tools {
            let name = &*tool.listed.name;
            let problem = match self.define(tool) {
                Err(problem) => problem,
                Ok(_) if !names.insert(name) => "listed twice".into(),
                Ok(definition) => {
                    prepared.push(Prepared {
                        definition: Arc::new(definition),
                        schemas: Arc::new(schemas()),
                        shown: Arc::default(),
                        listed: Arc::clone(&tool.listed),
                        read_only: tool.hints.read_only == Some(true),
                    });
                    continue;
                }
            };
            let name = crate::protocol::parse::truncate_for_display(name).into_owned();
            tracing::warn!(server = &*self.session.endpoint.name, tool = %name, problem, "a tool is left out");
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
            return Err("a name has 1 to 1024 bytes".into());
        }
        let sent: Value =
            serde_json::from_str(listed.input_schema.get()).map_err(|error| error.to_string())?;
        let parameters = schema::normalise(&sent)?;
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
        })
    }

    /// The tools as calls of this session are made.
    fn bind(&self, prepared: &PreparedSet, number: u64, charge: Option<Charge>) -> ServerToolSet {
        let states = self.session.states(self.tool_config);
        let executor: Arc<dyn ToolExecutor> = Arc::new(RemoteExecutor {
            id: Arc::clone(&self.tool_config.executor),
            session: Arc::downgrade(self.session),
            context: self.context.cloned(),
            idle: self.tool_config.timeout,
            user_output: self.tool_config.user_output,
        });
        let tools = prepared.tools.iter().map(|tool| {
            let (plan, label) = (self.plan(tool, &executor, &states), Arc::clone(self.label));
            let shown = Arc::clone(&tool.shown);
            ServedTool {
                registered: Arc::new(RegisteredTool::with_model_tools(
                    plan,
                    self.tool_config.stack.clone(),
                    label,
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

    /// What the operator says of server and tool; no server says which gates its tools have to pass.
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

    fn plan(&self, tool: &Prepared, executor: &Arc<dyn ToolExecutor>, states: &BackendStates) -> CallPlan {
        let (settings, definition) = (&self.tool_config.tools, &tool.definition);
        let state = states.backend(&definition.qualified_name(), &self.tool_config.executor, settings);
        let leg =
            stack::backend_stack(Arc::clone(executor), Arc::clone(&self.tool_config.executor), None, &state);
        let way = Backend { executor: Arc::clone(&self.tool_config.executor), weight: 1, state, stack: leg };
        let route = Route::new(RouteStrategy::default(), vec![way]);
        let told = self.context.map(|context| *context.fingerprint());
        CallPlan::with_schemas(Arc::clone(definition), Arc::clone(&tool.schemas), route, settings)
            .for_context(told)
    }

    /// Each field with its length in front, so that none can run into the next.
    fn fingerprint(&self, tool: &McpListedTool) -> [u8; 32] {
        let mut hash = digest::Context::new(&digest::SHA256);
        let mut field = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        field(self.label.as_bytes());
        match &self.session.endpoint.address {
            ServerAddress::Http { url, .. } => field(url.as_str().as_bytes()),
            ServerAddress::Stdio(command) => {
                field(command.program.as_bytes());
                command.args.iter().for_each(|argument| field(argument.as_bytes()));
            }
        }
        field(tool.name.as_bytes());
        field(tool.description.as_deref().unwrap_or_default().as_bytes());
        field(&canonical_json(tool.input_schema.get()));
        field(&tool.annotations.as_ref().map(|hints| canonical_json(hints.get())).unwrap_or_default());
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(hash.finish().as_ref());
        fingerprint
    }
}

/// Compiled when they are first used, and counted in the budget from then on.
fn metered(budget: &Arc<ListBudget>) -> ToolSchemas {
    ToolSchemas::lazy(Some(Arc::new(SchemaMeter(Arc::clone(budget)))))
}

/// What is not said counts as the worse, by the protocol's own defaults.
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

/// Runs calls over a session. The session keeps its tools, and so must not be kept by them.
struct RemoteExecutor {
    id: Arc<str>,
    session: Weak<Session>,
    context: Option<Arc<CallerContext>>,
    idle: std::time::Duration,
    user_output: bool,
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
                "the session with the server was closed",
            ));
        };
        let key = call.key.as_ref().map(ToString::to_string);
        let traceparent = trace(&session.endpoint.address, context);
        let exact_arguments = exact_text(&call.raw);
        let remote = RemoteCall {
            name: &call.name,
            arguments: &call.arguments,
            exact_arguments: exact_arguments.as_deref(),
            meta: CallMeta {
                idempotency_key: key.as_deref(),
                traceparent: traceparent.as_deref(),
                context: self.context.as_deref(),
            },
            idle: self.idle,
        };
        let result = session.call(remote, progress).await?;
        Ok(ToolOutcome::Done(content::to_output(result, self.user_output)))
    }
}

/// Says in the call's span where it goes. What the server is told of the trace: that span, where there is one.
fn trace(place: &ServerAddress, context: &ToolContext) -> Option<String> {
    let span = Span::current();
    if let ServerAddress::Http { url, .. } = place {
        span.record("server.address", url.host_str());
        span.record("server.port", url.port_or_known_default());
    }
    let caller = context.traceparent.as_deref().and_then(TraceParent::parse);
    traces::upstream_parent(&span, caller).map(|parent| parent.to_string())
}

/// Whether tools are the same as those of an earlier list, whatever spaces and orders of keys it was written with.
pub(crate) fn is_same_listing<'a>(
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
