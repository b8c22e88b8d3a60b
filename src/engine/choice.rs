//! `tool_choice` and the lists of allowed tools: what they name must be there; together they say what may be
//! called.

use std::collections::HashSet;
use std::sync::Arc;

use super::offer::not_served;
use crate::protocol::error::ApiError;
use crate::protocol::request::CreateResponse;
use crate::protocol::tool::ServerTool;
use crate::protocol::tool_choice::{AllowedMode, ToolChoice, ToolRef};
use crate::response::machine::OWN_SERVER;
use crate::response::turn::{CallKind, ModelTool, Surface};

/// Which calls may pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Allowed {
    /// Any of the request's tools.
    All,
    /// Those in these places among the tools.
    Only(HashSet<usize>),
    /// None: `tool_choice: "none"`.
    Nothing,
}

/// Checks what the choice and the lists name. Returns what they allow, their intersection; and of a forced choice
/// the tools of which one must be called in the first turn.
///
/// `omitted`: types of tools that the request has and that were left out: what is not served cannot be chosen.
/// `tolerant`: what is allowed may be gone, or not be known as its server could not be asked: then it allows nothing,
/// and is no mistake of the request.
pub(super) fn check(
    request: &CreateResponse,
    tools: &[Arc<ModelTool>],
    omitted: &[&str],
    tolerant: bool,
) -> Result<(Allowed, HashSet<usize>), ApiError> {
    let mut listed: Option<HashSet<usize>> = None;
    for (i, name) in request.allowed_tools.iter().enumerate() {
        let places = places(tools, |tool| tool.name == *name);
        if places.is_empty() && !tolerant {
            return Err(not_among_tools(&format!("allowed_tools[{i}]"), name));
        }
        listed.get_or_insert_default().extend(places);
    }
    let mut first = HashSet::new();
    let chosen = match &request.tool_choice {
        ToolChoice::None | ToolChoice::Allowed { mode: AllowedMode::None, .. } => {
            return Ok((Allowed::Nothing, HashSet::new()));
        }
        ToolChoice::Required if tools.is_empty() => {
            return Err(ApiError::invalid(
                "invalid_value",
                "tool_choice",
                "Tool choice 'required' needs at least one tool in 'tools'.",
            ));
        }
        ToolChoice::Auto | ToolChoice::Required => None,
        ToolChoice::Allowed { tools: refs, .. } => {
            let mut chosen = HashSet::new();
            for (i, named) in refs.iter().enumerate() {
                refuse_omitted(named, omitted, &format!("tool_choice.tools[{i}]"))?;
                match named_by(named, tools, &format!("tool_choice.tools[{i}]")) {
                    Err(_) if tolerant => {}
                    places => chosen.extend(places?),
                }
            }
            Some(chosen)
        }
        forced => {
            let forced = as_ref(forced);
            refuse_omitted(&forced, omitted, "tool_choice")?;
            // A forced choice binds the first inference only; it narrows nothing.
            first.extend(named_by(&forced, tools, "tool_choice")?);
            None
        }
    };
    let allowed = match (chosen, listed) {
        (None, None) => Allowed::All,
        (Some(places), None) | (None, Some(places)) => Allowed::Only(places),
        (Some(a), Some(b)) => Allowed::Only(a.intersection(&b).copied().collect()),
    };
    Ok((allowed, first))
}

/// The choice as the provider is told: a forced tool by its name among the tools.
pub(super) fn for_provider(choice: ToolChoice, tools: &[Arc<ModelTool>]) -> ToolChoice {
    if tools.is_empty() {
        return ToolChoice::Auto;
    }
    let (ToolChoice::Hosted { .. } | ToolChoice::Mcp { .. }) = &choice else { return choice };
    let one = match named_by(&as_ref(&choice), tools, "tool_choice").as_deref() {
        Ok([place]) => tools.get(*place).map(Arc::as_ref),
        // One of several: some call is demanded, and the gate sees to which.
        _ => return ToolChoice::Required,
    };
    match one {
        Some(ModelTool { name, namespace: Some(label), .. }) => {
            ToolChoice::Mcp { server_label: label.clone(), name: Some(name.clone()) }
        }
        Some(tool) => ToolChoice::Function { name: tool.name.clone() },
        None => choice,
    }
}

fn refuse_omitted(named: &ToolRef, omitted: &[&str], path: &str) -> Result<(), ApiError> {
    match named {
        ToolRef::Hosted { kind } if omitted.contains(&kind.as_str()) => Err(not_served(kind, path)),
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

/// The places of the tools that a reference means; never none.
fn named_by(named: &ToolRef, tools: &[Arc<ModelTool>], path: &str) -> Result<Vec<usize>, ApiError> {
    let (places, name) = match named {
        ToolRef::Function { name } | ToolRef::Custom { name } => {
            (places(tools, |tool| tool.name == *name), name.as_str())
        }
        ToolRef::Mcp { server_label, name } => {
            let of_server =
                |tool: &ModelTool| tool.namespace.as_ref() == Some(server_label) && is_server(tool.kind);
            let wanted = |tool: &ModelTool| name.as_ref().is_none_or(|name| tool.name == *name);
            let places = places(tools, |tool| of_server(tool) && wanted(tool));
            (places, name.as_deref().unwrap_or(server_label))
        }
        ToolRef::Hosted { kind } => match kind.strip_prefix(ServerTool::PREFIX) {
            Some(name) => {
                let own = |tool: &ModelTool| {
                    tool.namespace.as_deref().is_none_or(|label| label == OWN_SERVER) && tool.name == name
                };
                (places(tools, own), name)
            }
            None if kind.starts_with("web_search") => {
                let hosted = |tool: &ModelTool| {
                    tool.kind == CallKind::Server(Surface::WebSearch)
                        || tool.name == super::search::TOOL && tool.kind != CallKind::Custom
                };
                (places(tools, hosted), kind.as_str())
            }
            None => return Err(not_served(kind, path)),
        },
    };
    if places.is_empty() { Err(not_among_tools(path, name)) } else { Ok(places) }
}

fn places(tools: &[Arc<ModelTool>], wanted: impl Fn(&ModelTool) -> bool) -> Vec<usize> {
    tools.iter().enumerate().filter(|(_, tool)| wanted(tool)).map(|(place, _)| place).collect()
}

fn is_server(kind: CallKind) -> bool {
    matches!(kind, CallKind::Server(_))
}

fn not_among_tools(param: &str, name: &str) -> ApiError {
    ApiError::invalid("invalid_value", param, format!("Tool choice '{name}' not found in 'tools' parameter."))
}
