//! Answers calls of tools that are not available, so that the model can continue without them.
//!
//! At the command line this command is the client. It has no functions, so it answers calls of them with errors: a
//! missing, blocked or unconfigured tool must not lose the results of the others.

use serde_json::{Value, json};

use super::arguments::{Gateway, PromptArgs};
use crate::cli::print_error;
use antwort_protocol::item::Item;
use antwort_protocol::response::Response;
use antwort_response::result_text::{ToldResult, format_result};
use antwort_tools::{MockExecutor, ToolError, ToolErrorCode, builtin};

/// The outputs of the calls that wait for the client, as items of the next request.
pub(super) fn answers(args: &PromptArgs, response: &Response, gateway: Gateway<'_>) -> Vec<Value> {
    let answer = |item: &Item| {
        let (kind, call_id, name) = match item {
            Item::FunctionCall(call) => ("function_call_output", &call.call_id, &call.name),
            Item::CustomToolCall(call) => ("custom_tool_call_output", &call.call_id, &call.name),
            _ => return None,
        };
        let error = problem(args, name, gateway);
        print_error(&format!("note: the call of `{name}` was not run: {}", error.message));
        let output =
            format_result(gateway.settings.tools.result_format, call_id, ToldResult::Failed(&error.message));
        Some(json!({"type": kind, "call_id": call_id, "output": output}))
    };
    response.output.iter().filter_map(answer).collect()
}

/// Why the tool is not run.
fn problem(args: &PromptArgs, name: &str, gateway: Gateway<'_>) -> ToolError {
    let toolbox = &gateway.assembly.toolbox;
    let subject = gateway.subject();
    if let Err(denied) = toolbox.check_name_access(subject, name) {
        return denied;
    }
    let catalog = toolbox.catalog();
    if let Some(Err(denied)) = catalog.get(name).map(|tool| toolbox.check_access(subject, tool.definition()))
    {
        return denied;
    }
    if args.mock_tools.is_some() {
        return MockExecutor::missing(name);
    }
    match builtin::unavailable_reason(name, &gateway.settings.tools) {
        Some(why) => ToolError::refused(ToolErrorCode::ToolUnavailable, why),
        None => ToolError::unknown(name),
    }
}
