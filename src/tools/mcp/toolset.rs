//! A server's tools as runs use them: named, checked, each with all the layers of a call around it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use async_trait::async_trait;
use aws_lc_rs::digest;
use tracing::Span;

use super::configured::Terms;
use super::connection::{CallMeta, Place, RemoteCall, RemoteTool};
use super::context::CallerContext;
use super::session::{Listing, Session};
use super::{content, schema};
use crate::config::Strategy;
use crate::protocol::item::hosted::McpListedTool;
use crate::telemetry::traces::{self, TraceParent};
use crate::tools::assemble::add_tags;
use crate::tools::catalog::RegisteredTool;
use crate::tools::plan::Plan;
use crate::tools::router::{Route, Way};
use crate::tools::stack::{self, Stack};
use crate::tools::verbatim::exact_text;
use crate::tools::{
    Annotations, Code, Outcome, Progress, ToolCall, ToolContext, ToolDefinition, ToolError, ToolExecutor,
    ToolKind, canonical,
};

/// Labels under which the tools of one session are kept.
const MOST_LABELS: usize = 16;
/// Tools of a session whose health is known, where lists differ by context.
const MOST_STATES: usize = 4096;

/// The tools of a server under one label.
pub struct ToolSet {
    /// Those that can be called, in the server's order.
    pub tools: Vec<ServedTool>,
    /// Those that cannot: their names, and why.
    pub left_out: Vec<(String, String)>,
    /// The list that it was made of; 0: an item of an earlier response.
    pub(super) number: u64,
}

impl ToolSet {
    /// Which list of its session it was made of; grows with every list that says something else. 0: an item of an earlier response.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// A tool of a server.
pub struct ServedTool {
    /// The tool with the layers around it.
    pub registered: Arc<RegisteredTool>,
    /// As lists show it.
    pub listed: McpListedTool,
    /// Whether its server says that it only reads.
    pub read_only: bool,
    /// Of what a person sees who allows a call: server, name, description, schema and hints.
    pub fingerprint: [u8; 32],
}

/// The tool sets of one list, by label.
#[derive(Default)]
pub(super) struct ToolSets {
    by_label: Mutex<HashMap<Arc<str>, Arc<Made>>>,
}

/// The set of one list, made by the first who wants it.
struct Made {
    number: u64,
    set: OnceLock<Arc<ToolSet>>,
}

impl ToolSets {
    /// The set of this list under this label; made once. Schemas are worked on without the lock on all sets.
    pub(super) fn of(&self, maker: &Maker<'_>, listing: &Listing) -> Arc<ToolSet> {
        let place = self.place(maker.label, listing.number);
        Arc::clone(place.set.get_or_init(|| Arc::new(maker.make(listing))))
    }

    fn place(&self, label: &Arc<str>, number: u64) -> Arc<Made> {
        let mut sets = self.by_label.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = sets.get(label).filter(|known| known.number == number) {
            return Arc::clone(known);
        }
        let place = Arc::new(Made { number, set: OnceLock::new() });
        if sets.len() >= MOST_LABELS {
            sets.clear();
        }
        sets.insert(Arc::clone(label), Arc::clone(&place));
        place
    }

    /// What this list was made into, under whichever label.
    pub(super) fn made_of(&self, listing: &Listing) -> Option<Arc<ToolSet>> {
        let sets = self.by_label.lock().unwrap_or_else(PoisonError::into_inner);
        sets.values().filter(|made| made.number == listing.number).find_map(|made| made.set.get().cloned())
    }
}

/// Makes tools of what a server listed.
pub(super) struct Maker<'a> {
    pub session: &'a Arc<Session>,
    /// For whom the list is, and so the calls.
    pub context: Option<&'a Arc<CallerContext>>,
    pub label: &'a Arc<str>,
    pub terms: &'a Terms,
    pub stack: &'a Stack,
}

impl Maker<'_> {
    /// A set of what an earlier response listed. Its hints count for nothing.
    pub(super) fn of_item(&self, listed: &[McpListedTool]) -> ToolSet {
        let remote = listed.iter().map(|tool| RemoteTool {
            name: tool.name.clone(),
            title: None,
            description: tool.description.clone(),
            input_schema: serde_json::from_str(tool.input_schema.get()).unwrap_or_default(),
            output_schema: None,
            hints: super::RemoteHints::default(),
            annotations: tool.annotations.clone(),
        });
        self.set(remote.collect::<Vec<_>>().iter(), Vec::new(), 0)
    }

    fn make(&self, listing: &Listing) -> ToolSet {
        let left_out = listing.tools.unreadable.clone();
        let set = self.set(listing.tools.tools.iter(), left_out, listing.number);
        let names: HashSet<_> =
            set.tools.iter().map(|tool| tool.registered.definition().qualified_name()).collect();
        // Where lists differ by context, what one lacks another may have.
        let most = if self.context.is_some() { MOST_STATES } else { 0 };
        self.session.states.retain_beyond(most, |name| names.contains(name));
        set
    }

    fn set<'t>(
        &self,
        tools: impl Iterator<Item = &'t RemoteTool>,
        mut left_out: Vec<(String, String)>,
        number: u64,
    ) -> ToolSet {
        let executor: Arc<dyn ToolExecutor> = Arc::new(Remote {
            id: Arc::clone(&self.terms.executor),
            session: Arc::downgrade(self.session),
            context: self.context.cloned(),
            idle: self.terms.timeout,
            user_output: self.terms.user_output,
        });
        let mut served: Vec<ServedTool> = Vec::new();
        for tool in tools {
            let problem = match self.serve(tool, &executor) {
                Err(problem) => problem,
                Ok(_) if served.iter().any(|other| other.listed.name == tool.name) => "listed twice".into(),
                Ok(tool) => {
                    served.push(tool);
                    continue;
                }
            };
            let name = crate::protocol::parse::shorten(&tool.name).into_owned();
            tracing::warn!(server = &*self.session.endpoint.name, tool = %name, problem, "a tool is left out");
            left_out.push((name, problem));
        }
        ToolSet { tools: served, left_out, number }
    }

    fn serve(&self, tool: &RemoteTool, executor: &Arc<dyn ToolExecutor>) -> Result<ServedTool, String> {
        if tool.name.is_empty() || tool.name.len() > 1024 {
            return Err("a name has 1 to 1024 bytes".into());
        }
        let parameters = schema::normalise(&tool.input_schema)?;
        let definition = ToolDefinition {
            name: tool.name.clone(),
            description: tool.description.clone().or_else(|| tool.title.clone()).unwrap_or_default(),
            parameters: (&parameters).into(),
            returns: tool.output_schema.as_ref().filter(|schema| schema.is_object()).map(Into::into),
            kind: ToolKind::Mcp,
            executor: Arc::clone(&self.terms.executor),
            version: None,
            tags: self.tags(&tool.name),
            annotations: match self.terms.trusts_hints {
                true => annotations(tool),
                false => Annotations::UNKNOWN,
            },
            server: Some(Arc::clone(self.label)),
            requires_auth: false,
        };
        let plan = self.plan(definition, executor)?;
        Ok(ServedTool {
            registered: Arc::new(RegisteredTool::new(plan, self.stack.clone(), Arc::clone(self.label))),
            listed: McpListedTool {
                name: tool.name.clone(),
                description: tool.description.clone(),
                input_schema: (&tool.input_schema).into(),
                annotations: tool.annotations.clone(),
            },
            read_only: tool.hints.read_only == Some(true),
            fingerprint: self.fingerprint(tool),
        })
    }

    /// What the operator says of server and tool; no server says which gates its tools have to pass.
    fn tags(&self, name: &str) -> Vec<String> {
        let mut tags = match self.session.endpoint.place {
            Place::Http { .. } => vec!["net".into()],
            Place::Stdio(_) => Vec::new(),
        };
        let settings = &self.terms.tools;
        let of_server = settings.executors.get(&*self.terms.executor).map_or(&[][..], |of| &of.tags);
        add_tags(&mut tags, of_server);
        let own = settings.overrides.get(&format!("{}__{name}", self.label));
        add_tags(&mut tags, own.map_or(&[][..], |own| &own.tags));
        tags
    }

    fn plan(&self, mut definition: ToolDefinition, executor: &Arc<dyn ToolExecutor>) -> Result<Plan, String> {
        let settings = &self.terms.tools;
        let state = self.session.states.leg(&definition.qualified_name(), &self.terms.executor, settings);
        let leg = stack::leg(Arc::clone(executor), Arc::clone(&self.terms.executor), None, &state);
        let told = self.context.map(|context| *context.fingerprint());
        let route = || {
            let way = Way {
                executor: Arc::clone(&self.terms.executor),
                weight: 1,
                state: Arc::clone(&state),
                leg: leg.clone(),
            };
            Route::new(Strategy::default(), vec![way])
        };
        if definition.returns.is_some() {
            match Plan::new(definition.clone(), route(), settings) {
                Ok(plan) => return Ok(plan.for_context(told)),
                // A schema of results that cannot be used is no reason to do without the tool.
                Err(_) => definition.returns = None,
            }
        }
        Ok(Plan::new(definition, route(), settings)?.for_context(told))
    }

    /// Each field with its length in front, so that none can run into the next.
    fn fingerprint(&self, tool: &RemoteTool) -> [u8; 32] {
        let mut hash = digest::Context::new(&digest::SHA256);
        let mut field = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        field(self.label.as_bytes());
        match &self.session.endpoint.place {
            Place::Http { url, .. } => field(url.as_str().as_bytes()),
            Place::Stdio(command) => {
                field(command.program.as_bytes());
                command.args.iter().for_each(|argument| field(argument.as_bytes()));
            }
        }
        field(tool.name.as_bytes());
        field(tool.description.as_deref().unwrap_or_default().as_bytes());
        field(&canonical(&tool.input_schema.to_string()));
        field(&tool.annotations.as_ref().map(|hints| canonical(hints.get())).unwrap_or_default());
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(hash.finish().as_ref());
        fingerprint
    }
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
struct Remote {
    id: Arc<str>,
    session: Weak<Session>,
    context: Option<Arc<CallerContext>>,
    idle: std::time::Duration,
    user_output: bool,
}

#[async_trait]
impl ToolExecutor for Remote {
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
    ) -> Result<Outcome, ToolError> {
        let Some(session) = self.session.upgrade() else {
            return Err(ToolError::refused(Code::ToolUnavailable, "the session with the server was closed"));
        };
        let key = call.key.as_ref().map(ToString::to_string);
        let traceparent = trace(&session.endpoint.place, context);
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
        Ok(Outcome::Done(content::to_output(result, self.user_output)))
    }
}

/// Says in the call's span where it goes. What the server is told of the trace: that span, where there is one.
fn trace(place: &Place, context: &ToolContext) -> Option<String> {
    let span = Span::current();
    if let Place::Http { url, .. } = place {
        span.record("server.address", url.host_str());
        span.record("server.port", url.port_or_known_default());
    }
    let caller = context.traceparent.as_deref().and_then(TraceParent::parse);
    traces::outgoing(&span, caller).map(|parent| parent.to_string())
}

/// Whether tools are the same as those of an earlier list, whatever spaces and orders of keys it was written with.
pub fn shows_same<'a>(
    mut shown: impl Iterator<Item = &'a McpListedTool>,
    earlier: &'a [McpListedTool],
) -> bool {
    let canonical_of = |tool: &McpListedTool| -> (Vec<u8>, Vec<u8>) {
        let hints = tool.annotations.as_ref().map(|hints| canonical(hints.get())).unwrap_or_default();
        (canonical(tool.input_schema.get()), hints)
    };
    let same = |a: &McpListedTool, b: &McpListedTool| {
        a == b || a.name == b.name && a.description == b.description && canonical_of(a) == canonical_of(b)
    };
    earlier.iter().all(|tool| shown.next().is_some_and(|shown| same(shown, tool))) && shown.next().is_none()
}
