//! Tools of the gateway that servers run: routes with `mcp:<label>` among their executors.
//!
//! Which tools a server has depends on whose session with it is asked, so that such a tool is put together for each
//! caller: of the servers that this caller may use and the tools that these list for it. Lists are kept by sessions;
//! most of the time nobody is asked anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use aws_lc_rs::digest;
use futures_util::future::join_all;

use super::server_handle::{CallDecision, ResolvedServer, ServerHandle};
use super::servers::{McpCaller, McpServers};
use super::session::Freshness;
use super::toolset::{ServedTool, ServerToolSet};
use crate::config::{RouteSettings, ToolsSettings, mcp_label};
use crate::protocol::error::ApiError;
use crate::response::machine::OWN_SERVER;
use crate::tools::catalog::{Catalog, RegisteredTool};
use crate::tools::catalog_builder::{add_tags, merge_definition};
use crate::tools::definition::ToolDefinition;
use crate::tools::plan::{CallPlan, ToolSchemas};
use crate::tools::router::{Backend, Route};
use crate::tools::{PolicySubject, ToolRegistry};

/// The routes that lead to servers, by the name of their tool.
pub(super) struct RemoteRoutes {
    settings: ToolsSettings,
    by_tool: BTreeMap<String, RemoteRoute>,
}

struct RemoteRoute {
    settings: RouteSettings,
    /// Counts calls over all callers.
    round_robin: Arc<AtomicUsize>,
}

/// The gateway's own tools as one caller has them. Keeps the sessions with the servers that run some of them.
pub struct CallerCatalog {
    /// The tools.
    pub catalog: Arc<Catalog>,
    /// Tools none of whose servers could be asked, and why.
    unavailable: BTreeMap<String, String>,
    _sessions: Vec<ServerHandle>,
}

/// A server with what it has for the caller.
struct ServerWithTools {
    binding: ServerHandle,
    tools: Result<Arc<ServerToolSet>, String>,
}

/// An executor of a routed tool.
struct Candidate<'a> {
    backend: Backend,
    tool: &'a ToolDefinition,
    /// What its server is told of the caller.
    context: Option<[u8; 32]>,
    uses_caller_credentials: bool,
}

impl CallerCatalog {
    /// The catalogue as it is, without tools that servers run.
    pub fn without_servers(catalog: Arc<Catalog>) -> Self {
        Self { catalog, unavailable: BTreeMap::new(), _sessions: Vec::new() }
    }

    /// Why there is no such tool now, though there is a route for it.
    pub fn why_unavailable(&self, name: &str) -> Option<&str> {
        self.unavailable.get(name).map(String::as_str)
    }
}

impl RemoteRoutes {
    pub(super) fn new(settings: &ToolsSettings) -> Self {
        let leads_to_servers =
            |route: &RouteSettings| route.executors.iter().any(|id| mcp_label(id).is_some());
        let by_tool = settings.routes.iter().filter(|(_, route)| leads_to_servers(route));
        let by_tool = by_tool
            .map(|(name, route)| {
                (name.clone(), RemoteRoute { settings: route.clone(), round_robin: Arc::default() })
            })
            .collect();
        Self { settings: settings.clone(), by_tool }
    }
}

impl McpServers {
    /// Whether servers run any of the gateway's own tools.
    pub fn has_routes(&self) -> bool {
        !self.routes.by_tool.is_empty()
    }

    /// The servers of the wanted tools that the caller may use. Connects to nobody.
    pub fn route_servers(
        &self,
        wanting: McpCaller<'_>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<ResolvedServer> {
        let wanted = self.routes.by_tool.iter().filter(|(name, _)| is_wanted(name));
        let executors = wanted.flat_map(|(_, route)| &route.settings.executors);
        let labels: BTreeSet<&str> = executors.filter_map(|id| mcp_label(id)).collect();
        let found = labels.into_iter().filter_map(|label| match self.find_label(label, None, wanting) {
            Ok(found) => Some(found),
            Err(error) => {
                tracing::debug!(server = label, %error, "a server of a route is not there for this caller");
                None
            }
        });
        found.collect()
    }

    /// The gateway's own tools for one caller, as far as they are wanted, with sessions of their own.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn bind_catalog(
        &self,
        toolbox: &ToolRegistry,
        wanting: McpCaller<'_>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<CallerCatalog, ApiError> {
        let servers = self.bind(self.route_servers(wanting, &is_wanted), wanting).await?;
        Ok(self.catalog(toolbox, servers, wanting, None, is_wanted).await)
    }

    /// The gateway's own tools for one caller, as far as they are wanted, of the servers that are [`Self::route_servers`].
    pub async fn catalog(
        &self,
        toolbox: &ToolRegistry,
        servers: Vec<ServerHandle>,
        wanting: McpCaller<'_>,
        agent: Option<&str>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> CallerCatalog {
        let base = toolbox.catalog();
        let wanted: Vec<(&String, &RemoteRoute)> =
            self.routes.by_tool.iter().filter(|(name, _)| is_wanted(name)).collect();
        if wanted.is_empty() {
            return CallerCatalog::without_servers(base);
        }
        let asked = ask(servers).await;
        let maker = RouteBuilder {
            settings: &self.routes.settings,
            toolbox,
            base: &base,
            asked: &asked,
            subject: PolicySubject { tenant: wanting.tenant, agent },
        };
        let (mut made, mut unavailable) = (Vec::new(), BTreeMap::new());
        for (name, route) in wanted {
            match maker.make(name, route) {
                Ok(Some(plan)) => {
                    let tool = RegisteredTool::new(plan, self.stack.clone(), OWN_SERVER.into());
                    made.push((name.clone(), Arc::new(tool)));
                }
                Ok(None) => {}
                Err(problem) => {
                    tracing::warn!(tool = %name, problem, "a routed tool is left out");
                    unavailable.insert(name.clone(), problem);
                }
            }
        }
        let sessions = asked.into_values().map(|asked| asked.binding).collect();
        CallerCatalog { catalog: Arc::new(base.with_tools(made)), unavailable, _sessions: sessions }
    }
}

/// Lists the tools of all these servers at the same time.
async fn ask(servers: Vec<ServerHandle>) -> BTreeMap<String, ServerWithTools> {
    let asked = servers.into_iter().map(|binding| async move {
        let tools = binding.tools(Freshness::Cached).await.map_err(|error| {
            error.log(binding.label(), "the tools of a server of a route cannot be listed");
            error.to_string()
        });
        (binding.label().to_string(), ServerWithTools { binding, tools })
    });
    join_all(asked).await.into_iter().collect()
}

/// Puts routed tools together for one caller.
struct RouteBuilder<'a> {
    settings: &'a ToolsSettings,
    toolbox: &'a ToolRegistry,
    base: &'a Catalog,
    asked: &'a BTreeMap<String, ServerWithTools>,
    subject: PolicySubject<'a>,
}

impl<'a> RouteBuilder<'a> {
    /// `None`: there is no such tool for the caller. An error: nobody who may have it can be asked.
    fn make(&self, name: &str, route: &RemoteRoute) -> Result<Option<CallPlan>, String> {
        let executors = &route.settings.executors;
        let mut legs: Vec<Candidate<'_>> =
            executors.iter().filter_map(|id| self.candidate(name, id, &route.settings)).collect();
        if legs.is_empty() {
            let servers = executors.iter().filter_map(|id| self.asked.get(mcp_label(id)?));
            let mut problems = servers.filter_map(|asked| asked.tools.as_ref().err());
            return problems.next().map_or(Ok(None), |problem| Err(problem.clone()));
        }
        let first = legs.remove(0);
        let mut definition = ToolDefinition {
            name: name.to_owned(),
            executor: Arc::clone(&first.backend.executor),
            server: None,
            ..first.tool.clone()
        };
        let context = contexts(std::iter::once(&first).chain(&legs));
        let takes_callers =
            first.uses_caller_credentials || legs.iter().any(|leg| leg.uses_caller_credentials);
        for leg in &legs {
            merge_definition(&mut definition, leg.tool, &leg.backend.executor);
        }
        let own = self.settings.overrides.get(name);
        add_tags(&mut definition.tags, own.map(|own| own.tags.as_slice()).unwrap_or_default());
        let ways: Vec<Backend> =
            std::iter::once(first.backend).chain(legs.into_iter().map(|leg| leg.backend)).collect();
        let ways = Route::with_counter(route.settings.strategy, ways, Arc::clone(&route.round_robin));
        // Compiled if it is called at all: this is made for one caller.
        let schemas = Arc::new(ToolSchemas::lazy(None));
        let mut plan = CallPlan::with_schemas(Arc::new(definition), schemas, ways, self.settings);
        if takes_callers {
            // A result that was got with one client's token is for nobody else.
            plan.cache = None;
        }
        Ok(Some(plan.for_context(context)))
    }

    fn candidate(&self, name: &str, executor: &str, route: &RouteSettings) -> Option<Candidate<'a>> {
        match mcp_label(executor) {
            Some(label) => self.remote(label, name, executor, route),
            None => self.local(name, executor),
        }
    }

    /// As the catalogue has it, which has heeded tags and weights.
    fn local(&self, name: &str, executor: &str) -> Option<Candidate<'a>> {
        let tool = self.base.get(name)?;
        let way = tool.backend(executor)?.clone();
        Some(Candidate {
            backend: way,
            tool: tool.definition(),
            context: None,
            uses_caller_credentials: false,
        })
    }

    fn remote(
        &self,
        label: &str,
        name: &str,
        executor: &str,
        route: &RouteSettings,
    ) -> Option<Candidate<'a>> {
        let ServerWithTools { binding, tools } = self.asked.get(label)?;
        let served = tools.as_ref().ok()?.tools.iter().find(|tool| tool.listed.name == name)?;
        let tool = served.registered.definition();
        let has_tags = route.require.iter().all(|tag| tool.has_tag(tag));
        if !has_tags || !self.is_callable(binding, served) {
            return None;
        }
        let weight = route.weights.get(executor).copied().unwrap_or(1);
        Some(Candidate {
            backend: Backend { weight, ..served.registered.backend(executor)?.clone() },
            tool,
            context: served.registered.context(),
            uses_caller_credentials: binding.uses_caller_credentials(),
        })
    }

    /// Whether the operator's word about the server and its tool lets calls pass that no person is asked about.
    fn is_callable(&self, binding: &ServerHandle, served: &ServedTool) -> bool {
        let tool = served.registered.definition();
        let is_called = binding.is_offered(served) && binding.decide(served, None) == CallDecision::Call;
        if !is_called {
            tracing::debug!(server = &**binding.label(), tool = %tool.name, "a routed tool is not called there");
        }
        is_called && !self.toolbox.is_blocked(self.subject, tool)
    }
}

/// What all servers of a tool are told, as one.
fn contexts<'a>(legs: impl Iterator<Item = &'a Candidate<'a>>) -> Option<[u8; 32]> {
    let all: Vec<[u8; 32]> = legs.filter_map(|leg| leg.context).collect();
    if all.is_empty() {
        return None;
    }
    let mut one = [0; 32];
    one.copy_from_slice(digest::digest(&digest::SHA256, &all.concat()).as_ref());
    Some(one)
}
