//! Functions of the client as tools of the model, and the errors about tools that cannot be offered.

use crate::tools::hosted;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::parse::truncate_for_display;
use antwort_protocol::tool::{
    ApprovalPolicy, CustomFormat, CustomTool, FunctionTool, GrammarSyntax, McpTool,
};
use antwort_response::turn::{CallKind, ModelTool, ToolInput};
use antwort_tools::wire_name;

/// Options that mean nothing for built-in tools are refused, not ignored.
pub(super) fn check_options(mcp: &McpTool, path: &str) -> Result<(), ApiError> {
    let refused = |field: &str, why: &str| Err(ApiError::unsupported(format!("{path}.{field}"), why));
    if matches!(mcp.require_approval, Some(ApprovalPolicy::Always | ApprovalPolicy::Rules(_))) {
        return refused(
            "require_approval",
            "Built-in tools are called without approval: omit 'require_approval' or set it to 'never'.",
        );
    }
    if mcp.authorization.is_some() {
        return refused("authorization", "Built-in tools take no credentials: omit 'authorization'.");
    }
    if !mcp.headers.is_empty() {
        return refused("headers", "Built-in tools take no headers: omit 'headers'.");
    }
    if mcp.defer_loading == Some(true) {
        return refused("defer_loading", "Tool search is not supported: omit 'defer_loading'.");
    }
    Ok(())
}

pub(super) fn from_function(tool: &FunctionTool, namespace: Option<&String>) -> ModelTool {
    ModelTool {
        wire_name: wire_name(namespace.map(String::as_str), &tool.name).into(),
        name: tool.name.as_str().into(),
        namespace: namespace.cloned(),
        description: tool.description.clone(),
        input: ToolInput::Json {
            schema: tool.parameters.as_ref().map(|schema| schema.as_raw().to_owned()),
            strict: tool.strict,
        },
        kind: CallKind::Function,
    }
}

pub(super) fn from_custom(tool: &CustomTool, namespace: Option<&String>) -> ModelTool {
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
        wire_name: wire_name(namespace.map(String::as_str), &tool.name).into(),
        name: tool.name.as_str().into(),
        namespace: namespace.cloned(),
        description: tool.description.clone(),
        input: ToolInput::Text { grammar },
        kind: CallKind::Custom,
    }
}

/// The error if all servers that run a tool are unavailable.
pub(super) fn unavailable(path: &str, name: &str, problem: &str) -> ApiError {
    ApiError::new(
        ErrorKind::ConnectorUnavailable,
        format!(
            "None of the MCP servers that run the tool '{}' can be reached: {problem}",
            truncate_for_display(name)
        ),
    )
    .with_param(path.to_owned())
}

pub(super) fn no_such_tool(path: &str, name: &str) -> ApiError {
    ApiError::invalid(
        "tool_not_found",
        path,
        format!(
            "The tool '{}' does not exist or is not available to your key; GET /v1/tools lists the available ones.",
            truncate_for_display(name)
        ),
    )
}

pub(crate) fn not_served(kind: &str, path: &str) -> ApiError {
    let served: String =
        hosted::served_types().map(|kind| format!("'{kind}'")).collect::<Vec<_>>().join(", ");
    ApiError::unsupported(
        format!("{path}.type"),
        format!(
            "Tools of type '{kind}' are not supported; 'function', 'custom', 'namespace', 'antwort:<name>', \
             {served} and 'mcp' are."
        ),
    )
}

/// The error about a tool that is not supported, with what an operator may do about it.
pub(super) fn with_setting(mut error: ApiError, why: &str) -> ApiError {
    let message = &mut error.body.message;
    message.push(' ');
    message.push_str(why);
    message.push_str("With the gateway's setting 'compat.unserved_tools: omit' such tools are left out.");
    error
}
