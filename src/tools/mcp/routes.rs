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

use super::binding::{Binding, Decision, Found};
use super::servers::{McpServers, Wanting};
use super::session::Freshness;
use super::toolset::{ServedTool, ToolSet};
use crate::config::{RouteSettings, ToolsSettings, mcp_label};
use crate::protocol::error::ApiError;
use crate::response::machine::OWN_SERVER;
use crate::tools::assemble::{add_tags, join};
use crate::tools::catalog::{Catalog, RegisteredTool};
use crate::tools::definition::ToolDefinition;
use crate::tools::plan::{Plan, Schemas};
use crate::tools::router::{Route, Way};
use crate::tools::{Subject, Toolbox};

/// The routes that lead to servers, by the name of their tool.
pub(super) struct Routes {
    settings: ToolsSettings,
    by_tool: BTreeMap<String, RemoteRoute>,
}

struct RemoteRoute {
    settings: RouteSettings,
    /// Counts calls over all callers.
    turn: Arc<AtomicUsize>,
}

/// The gateway's own tools as one caller has them. Keeps the sessions with the servers that run some of them.
pub struct CallerCatalog {
    /// The tools.
    pub catalog: Arc<Catalog>,
    /// Tools none of whose servers could be asked, and why.
    unavailable: BTreeMap<String, String>,
    _sessions: Vec<Binding>,
}

/// A server with what it has for the caller.
struct Asked {
    binding: Binding,
    tools: Result<Arc<ToolSet>, String>,
}

/// An executor of a routed tool.
struct Leg<'a> {
    way: Way,
    tool: &'a ToolDefinition,
    /// What its server is told of the caller.
    context: Option<[u8; 32]>,
    takes_callers: bool,
}

impl CallerCatalog {
    /// The catalogue as it is, without tools that servers run.
    pub fn plain(catalog: Arc<Catalog>) -> Self {
        Self { catalog, unavailable: BTreeMap::new(), _sessions: Vec::new() }
    }

    /// Why there is no such tool now, though there is a route for it.
    pub fn why_unavailable(&self, name: &str) -> Option<&str> {
        self.unavailable.get(name).map(String::as_str)
    }
}

impl Routes {
    pub(super) fn new(settings: &ToolsSettings) -> Self {
        let leads_to_servers =
            |route: &RouteSettings| route.executors.iter().any(|id| mcp_label(id).is_some());
        let by_tool = settings.routes.iter().filter(|(_, route)| leads_to_servers(route));
        let by_tool = by_tool
            .map(|(name, route)| {
                (name.clone(), RemoteRoute { settings: route.clone(), turn: Arc::default() })
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
    pub fn routed(&self, wanting: Wanting<'_>, is_wanted: impl Fn(&str) -> bool) -> Vec<Found> {
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
    pub async fn bound_catalog(
        &self,
        toolbox: &Toolbox,
        wanting: Wanting<'_>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<CallerCatalog, ApiError> {
        let servers = self.bind(self.routed(wanting, &is_wanted), wanting).await?;
        Ok(self.catalog(toolbox, servers, wanting, None, is_wanted).await)
    }

    /// The gateway's own tools for one caller, as far as they are wanted, of the servers that are [`Self::routed`].
    pub async fn catalog(
        &self,
        toolbox: &Toolbox,
        servers: Vec<Binding>,
        wanting: Wanting<'_>,
        agent: Option<&str>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> CallerCatalog {
        let base = toolbox.catalog();
        let wanted: Vec<(&String, &RemoteRoute)> =
            self.routes.by_tool.iter().filter(|(name, _)| is_wanted(name)).collect();
        if wanted.is_empty() {
            return CallerCatalog::plain(base);
        }
        let asked = ask(servers).await;
        let maker = Maker {
            settings: &self.routes.settings,
            toolbox,
            base: &base,
            asked: &asked,
            subject: Subject { tenant: wanting.tenant, agent },
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
        CallerCatalog { catalog: Arc::new(base.with(made)), unavailable, _sessions: sessions }
    }
}

/// Lists the tools of all these servers at the same time.
async fn ask(servers: Vec<Binding>) -> BTreeMap<String, Asked> {
    let asked = servers.into_iter().map(|binding| async move {
        let tools = binding.tools(Freshness::Usual).await.map_err(|error| {
            error.log(binding.label(), "the tools of a server of a route cannot be listed");
            error.to_string()
        });
        (binding.label().to_string(), Asked { binding, tools })
    });
    join_all(asked).await.into_iter().collect()
}

/// Puts routed tools together for one caller.
struct Maker<'a> {
    settings: &'a ToolsSettings,
    toolbox: &'a Toolbox,
    base: &'a Catalog,
    asked: &'a BTreeMap<String, Asked>,
    subject: Subject<'a>,
}

impl<'a> Maker<'a> {
    /// `None`: there is no such tool for the caller. An error: nobody who may have it can be asked.
    fn make(&self, name: &str, route: &RemoteRoute) -> Result<Option<Plan>, String> {
        let executors = &route.settings.executors;
        let mut legs: Vec<Leg<'_>> =
            executors.iter().filter_map(|id| self.leg(name, id, &route.settings)).collect();
        if legs.is_empty() {
            let servers = executors.iter().filter_map(|id| self.asked.get(mcp_label(id)?));
            let mut problems = servers.filter_map(|asked| asked.tools.as_ref().err());
            return problems.next().map_or(Ok(None), |problem| Err(problem.clone()));
        }
        let first = legs.remove(0);
        let mut definition = ToolDefinition {
            name: name.to_owned(),
            executor: Arc::clone(&first.way.executor),
            server: None,
            ..first.tool.clone()
        };
        let context = contexts(std::iter::once(&first).chain(&legs));
        let takes_callers = first.takes_callers || legs.iter().any(|leg| leg.takes_callers);
        for leg in &legs {
            join(&mut definition, leg.tool, &leg.way.executor);
        }
        let own = self.settings.overrides.get(name);
        add_tags(&mut definition.tags, own.map(|own| own.tags.as_slice()).unwrap_or_default());
        let ways: Vec<Way> = std::iter::once(first.way).chain(legs.into_iter().map(|leg| leg.way)).collect();
        let ways = Route::sharing(route.settings.strategy, ways, Arc::clone(&route.turn));
        // Compiled if it is called at all: this is made for one caller.
        let schemas = Arc::new(Schemas::lazy(None));
        let mut plan = Plan::of(Arc::new(definition), schemas, ways, self.settings);
        if takes_callers {
            // A result that was got with one client's token is for nobody else.
            plan.cache = None;
        }
        Ok(Some(plan.for_context(context)))
    }

    fn leg(&self, name: &str, executor: &str, route: &RouteSettings) -> Option<Leg<'a>> {
        match mcp_label(executor) {
            Some(label) => self.remote(label, name, executor, route),
            None => self.local(name, executor),
        }
    }

    /// As the catalogue has it, which has heeded tags and weights.
    fn local(&self, name: &str, executor: &str) -> Option<Leg<'a>> {
        let tool = self.base.get(name)?;
        let way = tool.way(executor)?.clone();
        Some(Leg { way, tool: tool.definition(), context: None, takes_callers: false })
    }

    fn remote(&self, label: &str, name: &str, executor: &str, route: &RouteSettings) -> Option<Leg<'a>> {
        let Asked { binding, tools } = self.asked.get(label)?;
        let served = tools.as_ref().ok()?.tools.iter().find(|tool| tool.listed.name == name)?;
        let tool = served.registered.definition();
        let has_tags = route.require.iter().all(|tag| tool.has_tag(tag));
        if !has_tags || !self.admits(binding, served) {
            return None;
        }
        let weight = route.weights.get(executor).copied().unwrap_or(1);
        Some(Leg {
            way: Way { weight, ..served.registered.way(executor)?.clone() },
            tool,
            context: served.registered.context(),
            takes_callers: binding.takes_callers(),
        })
    }

    /// Whether the operator's word about the server and its tool lets calls pass that no person is asked about.
    fn admits(&self, binding: &Binding, served: &ServedTool) -> bool {
        let tool = served.registered.definition();
        let is_called = binding.offers(served) && binding.decide(served, None) == Decision::Call;
        if !is_called {
            tracing::debug!(server = &**binding.label(), tool = %tool.name, "a routed tool is not called there");
        }
        is_called && !self.toolbox.blocks(self.subject, tool)
    }
}

/// What all servers of a tool are told, as one.
fn contexts<'a>(legs: impl Iterator<Item = &'a Leg<'a>>) -> Option<[u8; 32]> {
    let all: Vec<[u8; 32]> = legs.filter_map(|leg| leg.context).collect();
    if all.is_empty() {
        return None;
    }
    let mut one = [0; 32];
    one.copy_from_slice(digest::digest(&digest::SHA256, &all.concat()).as_ref());
    Some(one)
}
