//! Which tools the model is offered, under which names, and which of them it may call.

use std::collections::HashSet;
use std::sync::Arc;

use aws_lc_rs::digest;

use super::gate::Allowed;
use crate::protocol::error::ApiError;
use crate::protocol::item::Item;
use crate::protocol::request::CreateResponse;
use crate::protocol::tool::{CustomFormat, CustomTool, FunctionTool, GrammarSyntax, NamespaceTool, Tool};
use crate::protocol::tool_choice::{AllowedMode, ToolChoice, ToolRef};
use crate::response::turn::{ModelTool, ToolInput};

/// Chat completions allow no longer names.
const LONGEST_WIRE_NAME: usize = 64;

/// The tools of a request.
#[derive(Debug)]
pub(super) struct Offer {
    /// As the model sees them, in the request's order.
    pub tools: Arc<[ModelTool]>,
    /// Which may be called.
    pub allowed: Allowed,
    /// Names that the gate knows.
    pub known: HashSet<String>,
}

/// Collects the tools of the request and of its input, and checks what the choice names.
pub(super) fn offer(request: &CreateResponse, input: &[Item]) -> Result<Offer, ApiError> {
    let mut tools = Collected::default();
    for (i, tool) in request.tools.iter().enumerate() {
        tools.add(tool, &format!("tools[{i}]"))?;
    }
    for (i, item) in input.iter().enumerate() {
        if let Item::AdditionalTools(more) = item {
            for (j, tool) in more.tools.iter().enumerate() {
                tools.add(tool, &format!("input[{i}].tools[{j}]"))?;
            }
        }
    }
    let known: HashSet<_> = tools.0.iter().map(|tool| tool.name.clone()).collect();
    check_choice(&request.tool_choice, &tools.0)?;
    for (i, name) in request.allowed_tools.iter().enumerate() {
        if !known.contains(name) {
            return Err(not_among_tools(&format!("allowed_tools[{i}]"), name));
        }
    }
    let allowed = allowed(request);
    Ok(Offer { tools: tools.0.into(), allowed, known })
}

#[derive(Default)]
struct Collected(Vec<ModelTool>);

impl Collected {
    fn add(&mut self, tool: &Tool, path: &str) -> Result<(), ApiError> {
        match tool {
            Tool::Function(function) => self.push(from_function(function, None), path),
            Tool::Custom(custom) => self.push(from_custom(custom, None), path),
            Tool::Namespace(NamespaceTool { name, tools, .. }) => {
                for (i, tool) in tools.iter().enumerate() {
                    let inner = format!("{path}.tools[{i}]");
                    match tool {
                        Tool::Function(function) => self.push(from_function(function, Some(name)), &inner)?,
                        Tool::Custom(custom) => self.push(from_custom(custom, Some(name)), &inner)?,
                        other => return Err(not_served(other.kind(), &inner)),
                    }
                }
                Ok(())
            }
            other => Err(not_served(other.kind(), path)),
        }
    }

    fn push(&mut self, tool: ModelTool, path: &str) -> Result<(), ApiError> {
        if self.0.iter().any(|other| other.wire_name == tool.wire_name) {
            return Err(ApiError::invalid(
                "invalid_value",
                format!("{path}.name"),
                format!("There is more than one tool named '{}'; names must be unique.", tool.name),
            ));
        }
        self.0.push(tool);
        Ok(())
    }
}

fn from_function(tool: &FunctionTool, namespace: Option<&String>) -> ModelTool {
    ModelTool {
        wire_name: wire_name(namespace, &tool.name),
        name: tool.name.clone(),
        namespace: namespace.cloned(),
        description: tool.description.clone(),
        input: ToolInput::Json {
            schema: tool.parameters.as_ref().map(|schema| schema.as_raw().to_owned()),
            strict: tool.strict,
        },
    }
}

fn from_custom(tool: &CustomTool, namespace: Option<&String>) -> ModelTool {
    let grammar = match &tool.format {
        CustomFormat::Text => None,
        CustomFormat::Grammar { syntax, definition } => {
            let syntax = match syntax {
                GrammarSyntax::Lark => "Lark grammar",
                GrammarSyntax::Regex => "regular expression",
            };
            Some(format!("The input must match this {syntax}:\n{definition}"))
        }
    };
    ModelTool {
        wire_name: wire_name(namespace, &tool.name),
        name: tool.name.clone(),
        namespace: namespace.cloned(),
        description: tool.description.clone(),
        input: ToolInput::Text { grammar },
    }
}

/// The name upstream: `namespace__name`, cut and told apart by a hash where it would be too long.
fn wire_name(namespace: Option<&String>, name: &str) -> String {
    let full = match namespace {
        Some(namespace) => format!("{namespace}__{name}"),
        None => name.to_owned(),
    };
    if full.len() <= LONGEST_WIRE_NAME {
        return full;
    }
    let hash = digest::digest(&digest::SHA256, full.as_bytes());
    let hash: String = hash.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    // Names are ASCII: the request was refused otherwise.
    let kept = full.get(..LONGEST_WIRE_NAME - hash.len() - 1).unwrap_or_default();
    format!("{kept}_{hash}")
}

fn allowed(request: &CreateResponse) -> Allowed {
    let listed: HashSet<String> = request.allowed_tools.iter().cloned().collect();
    let chosen = match &request.tool_choice {
        ToolChoice::None | ToolChoice::Allowed { mode: AllowedMode::None, .. } => return Allowed::Nothing,
        ToolChoice::Allowed { tools, .. } => {
            Some(tools.iter().filter_map(ref_name).map(str::to_owned).collect())
        }
        _ => None,
    };
    match (chosen, listed.is_empty()) {
        (None, true) => Allowed::All,
        (None, false) => Allowed::Only(listed),
        (Some(chosen), true) => Allowed::Only(chosen),
        (Some(chosen), false) => Allowed::Only(HashSet::intersection(&chosen, &listed).cloned().collect()),
    }
}

fn ref_name(tool: &ToolRef) -> Option<&str> {
    match tool {
        ToolRef::Function { name } | ToolRef::Custom { name } => Some(name),
        _ => None,
    }
}

fn check_choice(choice: &ToolChoice, tools: &[ModelTool]) -> Result<(), ApiError> {
    let has = |name: &str| tools.iter().any(|tool| tool.name == name);
    match choice {
        ToolChoice::None | ToolChoice::Auto => Ok(()),
        ToolChoice::Required if tools.is_empty() => Err(ApiError::invalid(
            "invalid_value",
            "tool_choice",
            "Tool choice 'required' needs at least one tool in 'tools'.",
        )),
        ToolChoice::Required => Ok(()),
        ToolChoice::Function { name } | ToolChoice::Custom { name } if !has(name) => {
            Err(not_among_tools("tool_choice", name))
        }
        ToolChoice::Function { .. } | ToolChoice::Custom { .. } => Ok(()),
        ToolChoice::Allowed { tools: refs, .. } => refs.iter().enumerate().try_for_each(|(i, tool)| {
            let path = format!("tool_choice.tools[{i}]");
            match ref_name(tool) {
                Some(name) if has(name) => Ok(()),
                Some(name) => Err(not_among_tools(&path, name)),
                None => Err(not_served("this kind of", &path)),
            }
        }),
        ToolChoice::Mcp { .. } => Err(not_served("mcp", "tool_choice")),
        ToolChoice::Hosted { kind } => Err(not_served(kind, "tool_choice")),
    }
}

fn not_among_tools(param: &str, name: &str) -> ApiError {
    ApiError::invalid("invalid_value", param, format!("Tool choice '{name}' not found in 'tools' parameter."))
}

fn not_served(kind: &str, path: &str) -> ApiError {
    ApiError::unsupported(
        format!("{path}.type"),
        format!("Tools of type '{kind}' are not served; 'function', 'custom' and 'namespace' are."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let space = "s".repeat(40);
        let (a, b) = ("a".repeat(40), format!("{}b", "a".repeat(39)));
        let (a, b) = (wire_name(Some(&space), &a), wire_name(Some(&space), &b));
        assert_eq!((a.len(), b.len()), (64, 64));
        assert_ne!(a, b);
        assert_eq!(wire_name(Some(&"ns".to_owned()), "f"), "ns__f");
    }
}
