//! Resolves `tool_choice` and `allowed_tools` against the tools of the request: which calls may be made, and which
//! must.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::hosted;
use super::offered::not_served;
use antwort_protocol::error::ApiError;
use antwort_protocol::request::CreateResponse;
use antwort_protocol::tool::{BUILTIN_SERVER_LABEL, ServerTool};
use antwort_protocol::tool_choice::{AllowedMode, ToolChoice, ToolRef};
use antwort_response::presentation::Presentation;
use antwort_response::turn::{CallChoice, CallKind, ModelTool};

/// The tools that may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AllowedTools {
    All,
    /// Those at these places in the list of tools.
    Only(HashSet<usize>),
    /// `tool_choice: "none"`.
    None,
}

/// The calls that must be made in the first turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequiredTools {
    None,
    /// At least one of the allowed tools: `required`.
    Any,
    /// At least one of those at these places, and no other: a forced choice.
    OneOf(HashSet<usize>),
}

impl RequiredTools {
    /// Whether the tool at this place may be called.
    pub(crate) fn admits(&self, place: usize) -> bool {
        match self {
            Self::None | Self::Any => true,
            Self::OneOf(places) => places.contains(&place),
        }
    }
}

/// `tool_choice` and `allowed_tools` of a request, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallPolicy {
    /// Holds in every turn.
    pub allowed: AllowedTools,
    /// Holds until it is met.
    pub required: RequiredTools,
}

impl CallPolicy {
    /// Checks that the tools named by `tool_choice` and `allowed_tools` exist; what both allow is allowed.
    ///
    /// `omitted`: types of tools that were left out of the request, as they are not supported; choosing one is an
    /// error. `tolerant`: tools may be missing because their server could not be listed; a name that is not found
    /// then allows nothing and is no error.
    pub(crate) fn new(
        request: &CreateResponse,
        tools: &[Arc<ModelTool>],
        omitted: &[&str],
        tolerant: bool,
    ) -> Result<Self, ApiError> {
        let names = ToolIndex::new(request, tools);
        let listed = listed(request, &names, tolerant)?;
        let nothing = Self { allowed: AllowedTools::None, required: RequiredTools::None };
        let (by_choice, required) = match &request.tool_choice {
            ToolChoice::None => return Ok(nothing),
            ToolChoice::Required if tools.is_empty() => {
                return Err(ApiError::invalid(
                    "invalid_value",
                    "tool_choice",
                    "Tool choice 'required' needs at least one tool in 'tools'.",
                ));
            }
            ToolChoice::Auto => (None, RequiredTools::None),
            ToolChoice::Required => (None, RequiredTools::Any),
            ToolChoice::Allowed { mode, tools: refs } => {
                let required = match mode {
                    AllowedMode::None => return Ok(nothing),
                    AllowedMode::Auto => RequiredTools::None,
                    AllowedMode::Required => RequiredTools::Any,
                };
                (Some(chosen(refs, &names, omitted, tolerant)?), required)
            }
            forced => {
                // A forced choice restricts the first inference only.
                let forced = as_ref(forced);
                refuse_omitted(&forced, omitted, "tool_choice")?;
                let places = named_by(&forced, &names, "tool_choice")?;
                (None, RequiredTools::OneOf(places.into_iter().collect()))
            }
        };
        let allowed = match (by_choice, listed) {
            (None, None) => AllowedTools::All,
            (Some(places), None) | (None, Some(places)) => AllowedTools::Only(places),
            (Some(a), Some(b)) => AllowedTools::Only(a.intersection(&b).copied().collect()),
        };
        let choice = Self { allowed, required };
        if choice.required != RequiredTools::None
            && choice.required_tools(tools.len()).is_empty()
            && !tolerant
        {
            return Err(ApiError::invalid(
                "invalid_value",
                "tool_choice",
                "Tool choice requires a call of a tool that 'allowed_tools' does not allow.",
            ));
        }
        Ok(choice)
    }

    /// Places of the tools of which one must be called, among `tools` many.
    fn required_tools(&self, tools: usize) -> Vec<usize> {
        let is_allowed = |place: &usize| match &self.allowed {
            AllowedTools::All => true,
            AllowedTools::Only(places) => places.contains(place),
            AllowedTools::None => false,
        };
        (0..tools).filter(is_allowed).filter(|place| self.required.admits(*place)).collect()
    }

    /// The choice that the provider is sent until the required call was made.
    pub(crate) fn first_turn_choice(&self, tools: usize) -> CallChoice {
        match (&self.required, &self.allowed) {
            (RequiredTools::None, _) => self.later_turn_choice(),
            (RequiredTools::Any, AllowedTools::All) => CallChoice::Required,
            (RequiredTools::Any, _) => {
                CallChoice::Among { places: self.required_tools(tools), required: true }
            }
            (RequiredTools::OneOf(_), _) => match self.required_tools(tools).as_slice() {
                [place] => CallChoice::One(*place),
                several => CallChoice::Among { places: several.to_vec(), required: true },
            },
        }
    }

    /// The choice for the retry after a missing call: names the tool if only one is required.
    pub(crate) fn retry_choice(&self, tools: usize) -> CallChoice {
        match self.required_tools(tools).as_slice() {
            [place] => CallChoice::One(*place),
            _ => self.first_turn_choice(tools),
        }
    }

    /// The choice for later turns, without a required call.
    pub(crate) fn later_turn_choice(&self) -> CallChoice {
        match &self.allowed {
            AllowedTools::All => CallChoice::Auto,
            AllowedTools::None => CallChoice::None,
            AllowedTools::Only(places) => {
                let mut places: Vec<usize> = places.iter().copied().collect();
                // Sorted, so that every turn sends the same bytes (prompt caches).
                places.sort_unstable();
                CallChoice::Among { places, required: false }
            }
        }
    }
}

/// The tools by name and by server: a request may name many of many.
struct ToolIndex<'a> {
    tools: &'a [Arc<ModelTool>],
    by_name: HashMap<&'a str, Vec<usize>>,
    by_server: HashMap<&'a str, Vec<usize>>,
}

impl<'a> ToolIndex<'a> {
    /// Empty if the request names no tools.
    fn new(request: &CreateResponse, tools: &'a [Arc<ModelTool>]) -> Self {
        let names_none =
            matches!(request.tool_choice, ToolChoice::None | ToolChoice::Auto | ToolChoice::Required)
                && request.allowed_tools.is_empty();
        let mut names = Self { tools, by_name: HashMap::new(), by_server: HashMap::new() };
        for (place, tool) in tools.iter().enumerate().take(if names_none { 0 } else { tools.len() }) {
            names.by_name.entry(&tool.name).or_default().push(place);
            if let (Some(label), CallKind::Server(_)) = (&tool.namespace, tool.kind) {
                names.by_server.entry(label).or_default().push(place);
            }
        }
        names
    }

    fn called(&self, name: &str) -> &[usize] {
        self.by_name.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    fn of_server(&self, label: &str) -> &[usize] {
        self.by_server.get(label).map(Vec::as_slice).unwrap_or_default()
    }

    /// Those of `places` whose tool matches.
    fn among(&self, places: &[usize], wanted: impl Fn(&ModelTool) -> bool) -> Vec<usize> {
        let is_wanted = |place: &usize| self.tools.get(*place).is_some_and(|tool| wanted(tool));
        places.iter().copied().filter(is_wanted).collect()
    }
}

/// Places of the tools in `allowed_tools`; `None` if the request has no such list.
fn listed(
    request: &CreateResponse,
    names: &ToolIndex<'_>,
    tolerant: bool,
) -> Result<Option<HashSet<usize>>, ApiError> {
    let mut listed: Option<HashSet<usize>> = None;
    let mut seen = HashSet::new();
    for (i, name) in request.allowed_tools.iter().enumerate() {
        // Several tools in different namespaces may have one name; it is looked up once.
        if !seen.insert(name.as_str()) {
            continue;
        }
        let places = names.called(name);
        if places.is_empty() && !tolerant {
            return Err(not_among_tools(&format!("allowed_tools[{i}]"), name));
        }
        listed.get_or_insert_default().extend(places);
    }
    Ok(listed)
}

/// Places of the tools that `tool_choice` allows. To allow a tool that was left out is an error only if no other is allowed.
fn chosen(
    refs: &[ToolRef],
    names: &ToolIndex<'_>,
    omitted: &[&str],
    tolerant: bool,
) -> Result<HashSet<usize>, ApiError> {
    let (mut chosen, mut refused) = (HashSet::new(), None);
    let mut seen = HashSet::new();
    for (i, named) in refs.iter().enumerate() {
        if !seen.insert(named) {
            continue;
        }
        let path = format!("tool_choice.tools[{i}]");
        if let Err(error) = refuse_omitted(named, omitted, &path) {
            refused.get_or_insert(error);
            continue;
        }
        match named_by(named, names, &path) {
            Err(_) if tolerant => {}
            places => chosen.extend(places?),
        }
    }
    match refused {
        Some(error) if chosen.is_empty() => Err(error),
        _ => Ok(chosen),
    }
}

fn refuse_omitted(named: &ToolRef, omitted: &[&str], path: &str) -> Result<(), ApiError> {
    match named {
        ToolRef::Hosted { kind } if omitted.contains(&kind.as_str()) => {
            let mut error = not_served(kind, path);
            let message = &mut error.body.message;
            message.push_str(
                " It was left out of 'tools' (setting 'compat.unserved_tools'), so it cannot be chosen.",
            );
            Err(error)
        }
        _ => Ok(()),
    }
}

fn as_ref(choice: &ToolChoice) -> ToolRef {
    match choice {
        ToolChoice::Function { name } => ToolRef::Function { name: name.clone() },
        ToolChoice::Custom { name } => ToolRef::Custom { name: name.clone() },
        ToolChoice::Mcp { server_label, name } => {
            ToolRef::Mcp { server_label: server_label.clone(), name: name.clone() }
        }
        ToolChoice::Hosted { kind } => ToolRef::Hosted { kind: kind.clone() },
        ToolChoice::None | ToolChoice::Auto | ToolChoice::Required | ToolChoice::Allowed { .. } => {
            ToolRef::Hosted { kind: String::new() }
        }
    }
}

/// The places of the tools that a reference names; never empty.
fn named_by(named: &ToolRef, names: &ToolIndex<'_>, path: &str) -> Result<Vec<usize>, ApiError> {
    let (places, name) = match named {
        ToolRef::Function { name } | ToolRef::Custom { name } => (names.called(name).to_vec(), name.as_str()),
        ToolRef::Mcp { server_label, name: None } => {
            (names.of_server(server_label).to_vec(), server_label.as_str())
        }
        ToolRef::Mcp { server_label, name: Some(name) } => {
            let of_server =
                |tool: &ModelTool| tool.namespace.as_ref() == Some(server_label) && is_server(tool.kind);
            (names.among(names.called(name), of_server), name.as_str())
        }
        ToolRef::Hosted { kind } => match kind.strip_prefix(ServerTool::PREFIX) {
            Some(name) => {
                let own = |tool: &ModelTool| {
                    tool.namespace.as_deref().is_none_or(|label| label == BUILTIN_SERVER_LABEL)
                };
                (names.among(names.called(name), own), name)
            }
            None => {
                let Some(hosted) = hosted::find(kind) else { return Err(not_served(kind, path)) };
                let is_it = |tool: &ModelTool| {
                    tool.kind == CallKind::Server(Presentation::Hosted(hosted.presenter))
                        || tool.name == hosted.executor && tool.kind != CallKind::Custom
                };
                let all: Vec<usize> = (0..names.tools.len()).collect();
                (names.among(&all, is_it), kind.as_str())
            }
        },
    };
    if places.is_empty() { Err(not_among_tools(path, name)) } else { Ok(places) }
}

fn is_server(kind: CallKind) -> bool {
    matches!(kind, CallKind::Server(_))
}

fn not_among_tools(param: &str, name: &str) -> ApiError {
    ApiError::invalid("invalid_value", param, format!("Tool choice '{name}' not found in 'tools' parameter."))
}
