//! Builds a catalogue from the executors' listings: names, collisions, routes. Pure, without I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::catalog::{Catalog, RegisteredTool};
use super::definition::{Annotations, ToolDefinition};
use super::executor::ToolExecutor;
use super::executor_state::ExecutorStates;
use super::plan::{CallPlan, compile};
use super::registry_error::ToolRegistryError;
use super::router::{Route, RouteExecutor};
use super::stack::StackBuilder;
use antwort_config::{RouteSettings, ToolCollision, ToolsSettings, mcp_label};
use antwort_protocol::tool::BUILTIN_SERVER_LABEL;
use antwort_util::digest::short_sha256;

/// Limit of model providers.
const MAX_NAME_BYTES: usize = 64;

/// An executor and its last listing.
#[derive(Clone)]
pub(crate) struct ExecutorListing {
    pub executor: Arc<dyn ToolExecutor>,
    pub id: Arc<str>,
    pub tools: Vec<ToolDefinition>,
    /// Whether it was ever listed successfully.
    pub(crate) has_listed: bool,
}

/// A tool of one executor.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    listing: &'a ExecutorListing,
    tool: &'a ToolDefinition,
}

/// Builds the catalogue. Invalid tools are left out one by one.
///
/// # Errors
/// If two executors have a tool of the same name and `tools.collision` is `error`.
pub(crate) fn build_catalog(
    settings: &ToolsSettings,
    listings: &[ExecutorListing],
    states: &ExecutorStates,
    stack: &StackBuilder,
    version: u64,
) -> Result<Catalog, ToolRegistryError> {
    let candidates = by_name(listings);
    // Names that prefixed tools must not take.
    let mut taken: BTreeSet<String> = candidates.keys().cloned().collect();
    let mut tools = BTreeMap::new();
    let label: Arc<str> = BUILTIN_SERVER_LABEL.into();
    for (name, candidates) in candidates {
        for (name, candidates) in resolve(settings, name, candidates, &mut taken)? {
            match plan(settings, states, &name, &candidates) {
                Ok((plan, route)) => {
                    let tool = RegisteredTool::new(plan, route, stack, Arc::clone(&label));
                    tools.insert(name, Arc::new(tool));
                }
                Err(problem) => {
                    tracing::warn!(tool = name, problem, "invalid tool left out of the catalogue");
                }
            }
        }
    }
    states.retain(|name| tools.contains_key(name));
    Ok(Catalog::new(version, tools))
}

/// All valid tools by name, in the order of their executors.
fn by_name(listings: &[ExecutorListing]) -> BTreeMap<String, Vec<Candidate<'_>>> {
    let mut names: BTreeMap<String, Vec<Candidate<'_>>> = BTreeMap::new();
    for listing in listings {
        let mut seen = BTreeSet::new();
        for tool in &listing.tools {
            let problem = match usable(tool) {
                Err(problem) => problem,
                Ok(()) if !seen.insert(&tool.name) => "listed twice".to_owned(),
                Ok(()) => {
                    names.entry(tool.name.clone()).or_default().push(Candidate { listing, tool });
                    continue;
                }
            };
            let name = antwort_protocol::parse::truncate_for_display(&tool.name);
            tracing::warn!(tool = %name, executor = &*listing.id, problem, "invalid tool left out of the catalogue");
        }
    }
    names
}

fn usable(tool: &ToolDefinition) -> Result<(), String> {
    if tool.name.is_empty() || tool.name.len() > MAX_NAME_BYTES || !tool.name.chars().all(is_plain) {
        return Err(format!("the name must be 1 to {MAX_NAME_BYTES} letters, digits, '_' or '-'"));
    }
    compile(&tool.parameters).map_err(|problem| format!("parameters: {problem}"))?;
    match &tool.returns {
        Some(schema) => compile(schema).map(drop).map_err(|problem| format!("returns: {problem}")),
        None => Ok(()),
    }
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

/// Resolves the candidates of one name to tools, by route or by `tools.collision`.
fn resolve<'a>(
    settings: &ToolsSettings,
    name: String,
    mut candidates: Vec<Candidate<'a>>,
    taken: &mut BTreeSet<String>,
) -> Result<Vec<(String, Vec<Candidate<'a>>)>, ToolRegistryError> {
    if let Some(route) = settings.routes.get(&name) {
        let candidates = routed(route, &candidates);
        if candidates.is_empty() {
            // Routes to MCP servers are resolved per caller.
            if !route.executors.iter().any(|id| mcp_label(id).is_some()) {
                tracing::warn!(
                    tool = name,
                    "route has no executor that lists the tool with the required tags"
                );
            }
            return Ok(Vec::new());
        }
        return Ok(vec![(name, candidates)]);
    }
    let [first, second, ..] = candidates.as_slice() else { return Ok(vec![(name, candidates)]) };
    match settings.collision {
        ToolCollision::Error => Err(ToolRegistryError::Collision {
            tool: name,
            first: first.listing.id.to_string(),
            second: second.listing.id.to_string(),
        }),
        ToolCollision::First => {
            tracing::warn!(
                tool = name,
                executor = &*first.listing.id,
                "several executors have a tool of this name; using the first"
            );
            candidates.truncate(1);
            Ok(vec![(name, candidates)])
        }
        ToolCollision::Last => {
            candidates.drain(..candidates.len() - 1);
            let executor = candidates.first().map(|candidate| &*candidate.listing.id);
            tracing::warn!(
                tool = name,
                executor,
                "several executors have a tool of this name; using the last"
            );
            Ok(vec![(name, candidates)])
        }
        ToolCollision::Prefix => Ok(candidates
            .iter()
            .map(|candidate| (prefixed(&candidate.listing.id, &name, taken), vec![*candidate]))
            .collect()),
    }
}

/// The candidates of a route's executors that have the required tags, in the order of the route.
fn routed<'a>(route: &RouteSettings, candidates: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let has_tags = |candidate: &&Candidate<'_>| route.require.iter().all(|tag| candidate.tool.has_tag(tag));
    let mut candidates_left: Vec<_> = candidates.iter().filter(has_tags).copied().collect();
    if !route.executors.is_empty() {
        let index =
            |candidate: &Candidate<'_>| route.executors.iter().position(|id| **id == *candidate.listing.id);
        candidates_left.retain(|candidate| index(candidate).is_some());
        candidates_left.sort_by_key(index);
    }
    candidates_left
}

/// `<executor>_<tool>`, sanitized; with a hash where two names could become equal.
fn prefixed(executor: &str, tool: &str, taken: &mut BTreeSet<String>) -> String {
    let full = format!("{executor}_{tool}");
    // The colon of `mcp:<label>` is the usual case and cannot cause a clash.
    let lossy = full.len() > MAX_NAME_BYTES || !full.chars().all(|letter| is_plain(letter) || letter == ':');
    let mut name: String = full.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    if lossy || taken.contains(&name) {
        let hash = short_sha256(&full, 4);
        name.truncate(MAX_NAME_BYTES - hash.len() - 1);
        name = format!("{name}_{hash}");
    }
    taken.insert(name.clone());
    name
}

fn plan(
    settings: &ToolsSettings,
    states: &ExecutorStates,
    name: &str,
    candidates: &[Candidate<'_>],
) -> Result<(CallPlan, Route), String> {
    let [first, others @ ..] = candidates else { return Err("no executor has it".into()) };
    let route = settings.routes.get(name);
    let executors =
        candidates.iter().map(|candidate| build_executor(settings, states, name, candidate, route)).collect();
    let mut definition = ToolDefinition {
        name: name.to_owned(),
        executor: Arc::clone(&first.listing.id),
        kind: first.listing.executor.kind(),
        ..first.tool.clone()
    };
    for other in others {
        merge_definition(&mut definition, other.tool, &other.listing.id);
    }
    let own = settings.overrides.get(name);
    add_tags(&mut definition.tags, own.map(|own| own.tags.as_slice()).unwrap_or_default());
    let strategy = route.map(|route| route.strategy).unwrap_or_default();
    Ok((CallPlan::new(definition, settings)?, Route::new(strategy, executors)))
}

fn build_executor(
    settings: &ToolsSettings,
    states: &ExecutorStates,
    name: &str,
    candidate: &Candidate<'_>,
    route: Option<&RouteSettings>,
) -> RouteExecutor {
    let ExecutorListing { executor, id, .. } = candidate.listing;
    let state = states.state(name, id, settings);
    let own_name = (candidate.tool.name != name).then(|| candidate.tool.name.as_str().into());
    let weight = route.and_then(|route| route.weights.get(&**id)).copied().unwrap_or(1);
    RouteExecutor::new(Arc::clone(executor), id, own_name, weight, state)
}

/// Merges another executor's definition of the same tool; of the hints the unsafe values win.
pub fn merge_definition(definition: &mut ToolDefinition, other: &ToolDefinition, executor: &str) {
    let (ours, theirs) = (definition.annotations, other.annotations);
    definition.annotations = Annotations {
        read_only: ours.read_only && theirs.read_only,
        idempotent: ours.idempotent && theirs.idempotent,
        destructive: ours.destructive || theirs.destructive,
        open_world: ours.open_world || theirs.open_world,
    };
    definition.requires_auth |= other.requires_auth;
    add_tags(&mut definition.tags, &other.tags);
    if definition.parameters != other.parameters {
        let tool = &definition.name;
        let first = &*definition.executor;
        tracing::warn!(
            tool,
            first,
            other = executor,
            "executors list this tool with different parameter schemas; using the first executor's"
        );
    }
}

/// Appends the tags that are not there yet.
pub fn add_tags(tags: &mut Vec<String>, more: &[String]) {
    for tag in more {
        if !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
}
