//! The gateway's own tools for one caller: routed tools with MCP servers among their executors.
//!
//! Which tools a server has depends on the session, so such a tool is built per caller: from the servers that the caller
//! may use and the tools that they list for it. Lists are cached by the sessions, so this rarely causes requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;

use super::routes::RemoteRoute;
use super::server_handle::{CallDecision, ResolvedServer, ServerHandle};
use super::servers::{McpCaller, McpServers};
use super::session::Freshness;
use super::tool_sets::{ServedTool, ServerToolSet};
use antwort_config::{RouteSettings, ToolsSettings, mcp_label};
use antwort_protocol::error::ApiError;
use antwort_protocol::tool::BUILTIN_SERVER_LABEL;
use antwort_tools::catalog::{Catalog, RegisteredTool};
use antwort_tools::catalog_builder::{add_tags, merge_definition};
use antwort_tools::definition::ToolDefinition;
use antwort_tools::plan::{CallPlan, ToolSchemas};
use antwort_tools::router::{Route, RouteExecutor};
use antwort_tools::{PolicySubject, ToolRegistry};
use antwort_util::digest::sha256;

/// The gateway's own tools for one caller. Holds the sessions of the servers that execute some of them.
pub struct CallerCatalog {
    /// The catalogue.
    pub catalog: Arc<Catalog>,
    /// Tools whose servers could not be listed, with the reason.
    unavailable: BTreeMap<String, String>,
    _sessions: Vec<ServerHandle>,
}

/// A server and its tools for the caller.
struct ServerWithTools {
    binding: ServerHandle,
    tools: Result<Arc<ServerToolSet>, String>,
}

/// An executor of a routed tool.
struct Candidate<'a> {
    executor: RouteExecutor,
    tool: &'a ToolDefinition,
    /// Hash of the caller context that the server receives.
    context: Option<[u8; 32]>,
    uses_caller_credentials: bool,
}

impl CallerCatalog {
    /// The catalogue without tools of servers.
    pub fn without_servers(catalog: Arc<Catalog>) -> Self {
        Self { catalog, unavailable: BTreeMap::new(), _sessions: Vec::new() }
    }

    /// Why a tool with a route is currently unavailable.
    pub fn why_unavailable(&self, name: &str) -> Option<&str> {
        self.unavailable.get(name).map(String::as_str)
    }
}

impl McpServers {
    /// Whether any route has MCP servers.
    pub fn has_routes(&self) -> bool {
        !self.routes.by_tool.is_empty()
    }

    /// The servers of the wanted tools that the caller may use. Does not connect.
    pub fn route_servers(
        &self,
        caller: McpCaller<'_>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<ResolvedServer> {
        let wanted = self.routes.by_tool.iter().filter(|(name, _)| is_wanted(name));
        let executors = wanted.flat_map(|(_, route)| &route.settings.executors);
        let labels: BTreeSet<&str> = executors.filter_map(|id| mcp_label(id)).collect();
        let found = labels.into_iter().filter_map(|label| match self.find_label(label, None, caller) {
            Ok(found) => Some(found),
            Err(error) => {
                tracing::debug!(server = label, %error, "route skips an MCP server that this caller cannot use");
                None
            }
        });
        found.collect()
    }

    /// The wanted tools for one caller, with new leases of the sessions.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn bind_catalog(
        &self,
        registry: &ToolRegistry,
        caller: McpCaller<'_>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<CallerCatalog, ApiError> {
        let servers = self.bind(self.route_servers(caller, &is_wanted), caller).await?;
        Ok(self.catalog(registry, servers, caller, None, is_wanted).await)
    }

    /// The wanted tools for one caller, executed by `servers`, which are those of [`Self::route_servers`].
    pub async fn catalog(
        &self,
        registry: &ToolRegistry,
        servers: Vec<ServerHandle>,
        caller: McpCaller<'_>,
        agent: Option<&str>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> CallerCatalog {
        let base = registry.catalog();
        let wanted: Vec<(&String, &RemoteRoute)> =
            self.routes.by_tool.iter().filter(|(name, _)| is_wanted(name)).collect();
        if wanted.is_empty() {
            return CallerCatalog::without_servers(base);
        }
        let listed = list_all(servers).await;
        let builder = RouteBuilder {
            settings: &self.routes.settings,
            registry,
            base: &base,
            listed: &listed,
            subject: PolicySubject { tenant: caller.tenant, agent },
        };
        let (mut tools, mut unavailable) = (Vec::new(), BTreeMap::new());
        for (name, route) in wanted {
            match builder.make(name, route) {
                Ok(Some((plan, route))) => {
                    let tool = RegisteredTool::new(plan, route, &self.stack, BUILTIN_SERVER_LABEL.into());
                    tools.push((name.clone(), Arc::new(tool)));
                }
                Ok(None) => {}
                Err(problem) => {
                    tracing::warn!(
                        tool = %name,
                        problem,
                        "no executor of the tool's route is available; tool left out"
                    );
                    unavailable.insert(name.clone(), problem);
                }
            }
        }
        let sessions = listed.into_values().map(|listed| listed.binding).collect();
        CallerCatalog { catalog: Arc::new(base.with_tools(tools)), unavailable, _sessions: sessions }
    }
}

/// Lists the tools of all servers concurrently.
async fn list_all(servers: Vec<ServerHandle>) -> BTreeMap<String, ServerWithTools> {
    let listed = servers.into_iter().map(|binding| async move {
        let tools = binding.tools(Freshness::Cached).await.map_err(|error| {
            error.log(binding.label(), "listing the tools of a routed MCP server failed");
            error.to_string()
        });
        (binding.label().to_string(), ServerWithTools { binding, tools })
    });
    join_all(listed).await.into_iter().collect()
}

/// Builds routed tools for one caller.
struct RouteBuilder<'a> {
    settings: &'a ToolsSettings,
    registry: &'a ToolRegistry,
    base: &'a Catalog,
    listed: &'a BTreeMap<String, ServerWithTools>,
    subject: PolicySubject<'a>,
}

impl<'a> RouteBuilder<'a> {
    /// `None`: the caller has no such tool. An error: none of its servers could be listed.
    fn make(&self, name: &str, route: &RemoteRoute) -> Result<Option<(CallPlan, Route)>, String> {
        let executors = &route.settings.executors;
        let mut candidates: Vec<Candidate<'_>> =
            executors.iter().filter_map(|id| self.candidate(name, id, &route.settings)).collect();
        if candidates.is_empty() {
            let servers = executors.iter().filter_map(|id| self.listed.get(mcp_label(id)?));
            let mut problems = servers.filter_map(|listed| listed.tools.as_ref().err());
            return problems.next().map_or(Ok(None), |problem| Err(problem.clone()));
        }
        let first = candidates.remove(0);
        let mut definition = ToolDefinition {
            name: name.to_owned(),
            executor: Arc::clone(&first.executor.id),
            server: None,
            ..first.tool.clone()
        };
        let context = contexts(std::iter::once(&first).chain(&candidates));
        let uses_caller_credentials = first.uses_caller_credentials
            || candidates.iter().any(|candidate| candidate.uses_caller_credentials);
        for candidate in &candidates {
            merge_definition(&mut definition, candidate.tool, &candidate.executor.id);
        }
        let overrides = self.settings.overrides.get(name);
        add_tags(
            &mut definition.tags,
            overrides.map(|overrides| overrides.tags.as_slice()).unwrap_or_default(),
        );
        let executors: Vec<RouteExecutor> = std::iter::once(first.executor)
            .chain(candidates.into_iter().map(|candidate| candidate.executor))
            .collect();
        let route =
            Route::with_shared_counter(route.settings.strategy, executors, Arc::clone(&route.round_robin));
        // Compiled on the first call only, since the tool is built for one caller.
        let schemas = Arc::new(ToolSchemas::lazy(None));
        let mut plan = CallPlan::with_schemas(Arc::new(definition), schemas, self.settings);
        if uses_caller_credentials {
            // A result obtained with a caller's token must not be served to others.
            plan.cache = None;
        }
        Ok(Some((plan.for_context(context), route)))
    }

    fn candidate(&self, name: &str, executor: &str, route: &RouteSettings) -> Option<Candidate<'a>> {
        match mcp_label(executor) {
            Some(label) => self.remote(label, name, executor, route),
            None => self.local(name, executor),
        }
    }

    /// From the base catalogue, which has applied tags and weights already.
    fn local(&self, name: &str, executor: &str) -> Option<Candidate<'a>> {
        let tool = self.base.get(name)?;
        let executor = tool.executor(executor)?.clone();
        Some(Candidate { executor, tool: tool.definition(), context: None, uses_caller_credentials: false })
    }

    fn remote(
        &self,
        label: &str,
        name: &str,
        executor: &str,
        route: &RouteSettings,
    ) -> Option<Candidate<'a>> {
        let ServerWithTools { binding, tools } = self.listed.get(label)?;
        let served = tools.as_ref().ok()?.tools.iter().find(|tool| tool.listed.name == name)?;
        let tool = served.registered.definition();
        let has_tags = route.require.iter().all(|tag| tool.has_tag(tag));
        if !has_tags || !self.is_callable(binding, served) {
            return None;
        }
        let weight = route.weights.get(executor).copied().unwrap_or(1);
        Some(Candidate {
            executor: served.registered.executor(executor)?.clone().with_weight(weight),
            tool,
            context: served.registered.context(),
            uses_caller_credentials: binding.uses_caller_credentials(),
        })
    }

    /// Whether the operator's rules permit calls of the tool without approval.
    fn is_callable(&self, binding: &ServerHandle, served: &ServedTool) -> bool {
        let tool = served.registered.definition();
        let is_called = binding.is_offered(served) && binding.decide(served, None) == CallDecision::Call;
        if !is_called {
            tracing::debug!(server = &**binding.label(), tool = %tool.name, "route skips an MCP server whose rules do not permit calls without approval");
        }
        is_called && !self.registry.is_blocked(self.subject, tool)
    }
}

/// Combined hash of the contexts of all servers.
fn contexts<'a>(candidates: impl Iterator<Item = &'a Candidate<'a>>) -> Option<[u8; 32]> {
    let all: Vec<[u8; 32]> = candidates.filter_map(|candidate| candidate.context).collect();
    if all.is_empty() {
        return None;
    }
    Some(sha256(&all.concat()))
}
