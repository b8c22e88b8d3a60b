//! Makes a catalogue of what the executors list: names, collisions, routes. Calls nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aws_lc_rs::digest;

use super::catalog::{Catalog, RegisteredTool};
use super::definition::{Annotations, ToolDefinition};
use super::executor::ToolExecutor;
use super::plan::{BackendStates, CallPlan, compile};
use super::random::hex_encode;
use super::registry::ToolRegistryError;
use super::router::{Backend, Route};
use super::stack::{self, Stack};
use crate::config::{RouteSettings, ToolCollision, ToolsSettings, mcp_label};
use crate::response::machine::OWN_SERVER;

/// Providers take no longer names.
const MAX_NAME_BYTES: usize = 64;

/// An executor and what it listed last.
#[derive(Clone)]
pub(super) struct ExecutorListing {
    pub executor: Arc<dyn ToolExecutor>,
    pub id: Arc<str>,
    pub tools: Vec<ToolDefinition>,
    /// Whether it has ever answered.
    pub has_listed: bool,
}

/// A tool as one executor has it.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    listing: &'a ExecutorListing,
    tool: &'a ToolDefinition,
}

/// Makes the catalogue.
///
/// # Errors
/// If two executors have a tool of one name and that is an error. A tool that is no good is left out alone.
pub(super) fn build_catalog(
    settings: &ToolsSettings,
    listings: &[ExecutorListing],
    states: &BackendStates,
    stack: &Stack,
    version: u64,
) -> Result<Catalog, ToolRegistryError> {
    let offers = by_name(listings);
    // Names that are nobody's by prefix.
    let mut taken: BTreeSet<String> = offers.keys().cloned().collect();
    let mut tools = BTreeMap::new();
    let label: Arc<str> = OWN_SERVER.into();
    for (name, offers) in offers {
        for (name, offers) in resolve(settings, name, offers, &mut taken)? {
            match plan(settings, states, &name, &offers) {
                Ok(plan) => {
                    let tool = RegisteredTool::new(plan, stack.clone(), Arc::clone(&label));
                    tools.insert(name, Arc::new(tool));
                }
                Err(problem) => tracing::warn!(tool = name, problem, "a tool is left out"),
            }
        }
    }
    states.retain(|name| tools.contains_key(name));
    Ok(Catalog::new(version, tools))
}

/// All tools that are any good, by name, in the order of their executors.
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
            let name = crate::protocol::parse::truncate_for_display(&tool.name);
            tracing::warn!(tool = %name, executor = &*listing.id, problem, "a tool is left out");
        }
    }
    names
}

fn usable(tool: &ToolDefinition) -> Result<(), String> {
    if tool.name.is_empty() || tool.name.len() > MAX_NAME_BYTES || !tool.name.chars().all(is_plain) {
        return Err(format!("a name is 1 to {MAX_NAME_BYTES} letters, digits, '_' or '-'"));
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

/// Which tools the offers of one name become.
fn resolve<'a>(
    settings: &ToolsSettings,
    name: String,
    mut offers: Vec<Candidate<'a>>,
    taken: &mut BTreeSet<String>,
) -> Result<Vec<(String, Vec<Candidate<'a>>)>, ToolRegistryError> {
    if let Some(route) = settings.routes.get(&name) {
        let offers = routed(route, &offers);
        if offers.is_empty() {
            // What servers run is put together for each caller.
            if !route.executors.iter().any(|id| mcp_label(id).is_some()) {
                tracing::warn!(
                    tool = name,
                    "no executor that its route names has it with the tags that it requires"
                );
            }
            return Ok(Vec::new());
        }
        return Ok(vec![(name, offers)]);
    }
    let [first, second, ..] = offers.as_slice() else { return Ok(vec![(name, offers)]) };
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
                "of several tools of a name the first stays"
            );
            offers.truncate(1);
            Ok(vec![(name, offers)])
        }
        ToolCollision::Last => {
            offers.drain(..offers.len() - 1);
            let executor = offers.first().map(|offer| &*offer.listing.id);
            tracing::warn!(tool = name, executor, "of several tools of a name the last stays");
            Ok(vec![(name, offers)])
        }
        ToolCollision::Prefix => {
            Ok(offers.iter().map(|offer| (prefixed(&offer.listing.id, &name, taken), vec![*offer])).collect())
        }
    }
}

/// The offers of a route's executors that have its tags, in its order.
fn routed<'a>(route: &RouteSettings, offers: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let has_tags = |offer: &&Candidate<'_>| route.require.iter().all(|tag| offer.tool.has_tag(tag));
    let mut fit: Vec<_> = offers.iter().filter(has_tags).copied().collect();
    if !route.executors.is_empty() {
        let place = |offer: &Candidate<'_>| route.executors.iter().position(|id| **id == *offer.listing.id);
        fit.retain(|offer| place(offer).is_some());
        fit.sort_by_key(place);
    }
    fit
}

/// `<executor>_<tool>` in the letters that names have; with a hash where two could become the same.
fn prefixed(executor: &str, tool: &str, taken: &mut BTreeSet<String>) -> String {
    let full = format!("{executor}_{tool}");
    // The colon of `mcp:<label>` is the usual case, and read without loss.
    let lossy = full.len() > MAX_NAME_BYTES || !full.chars().all(|letter| is_plain(letter) || letter == ':');
    let mut name: String = full.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    if lossy || taken.contains(&name) {
        let hash = digest::digest(&digest::SHA256, full.as_bytes());
        let hash = hex_encode(hash.as_ref().get(..4).unwrap_or_default());
        name.truncate(MAX_NAME_BYTES - hash.len() - 1);
        name = format!("{name}_{hash}");
    }
    taken.insert(name.clone());
    name
}

fn plan(
    settings: &ToolsSettings,
    states: &BackendStates,
    name: &str,
    offers: &[Candidate<'_>],
) -> Result<CallPlan, String> {
    let [first, others @ ..] = offers else { return Err("nobody has it".into()) };
    let route = settings.routes.get(name);
    let ways = offers.iter().map(|offer| build_backend(settings, states, name, offer, route)).collect();
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
    CallPlan::new(definition, Route::new(strategy, ways), settings)
}

fn build_backend(
    settings: &ToolsSettings,
    states: &BackendStates,
    name: &str,
    offer: &Candidate<'_>,
    route: Option<&RouteSettings>,
) -> Backend {
    let ExecutorListing { executor, id, .. } = offer.listing;
    let state = states.backend(name, id, settings);
    let own_name = (offer.tool.name != name).then(|| offer.tool.name.as_str().into());
    let weight = route.and_then(|route| route.weights.get(&**id)).copied().unwrap_or(1);
    let leg = stack::backend_stack(Arc::clone(executor), Arc::clone(id), own_name, &state);
    Backend { executor: Arc::clone(id), weight, state, stack: leg }
}

/// A tool of several executors is as dangerous as the most dangerous of them.
pub(super) fn merge_definition(definition: &mut ToolDefinition, other: &ToolDefinition, executor: &str) {
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
        tracing::warn!(tool, executor, "its parameters differ from those of the first executor, which count");
    }
}

pub(super) fn add_tags(tags: &mut Vec<String>, more: &[String]) {
    for tag in more {
        if !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
}
