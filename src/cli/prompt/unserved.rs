//! Calls of tools that nobody runs here: the model is told so, and goes on with what it has.
//!
//! At the command line the client of the gateway is this command. It has no functions of its own, so it answers calls
//! of them with errors: a tool that is absent, forbidden or without its key is no reason to lose what the others gave.

use serde_json::{Value, json};

use super::{Gateway, PromptArgs};
use crate::cli::complain;
use crate::protocol::item::Item;
use crate::protocol::response::Response;
use crate::response::told::told;
use crate::tools::{Code, Mock, ToolError, builtin};

/// The outputs of the calls that wait for a client, as items of the next request.
pub(super) fn answers(args: &PromptArgs, response: &Response, gateway: Gateway<'_>) -> Vec<Value> {
    let answer = |item: &Item| {
        let (kind, call_id, name) = match item {
            Item::FunctionCall(call) => ("function_call_output", &call.call_id, &call.name),
            Item::CustomToolCall(call) => ("custom_tool_call_output", &call.call_id, &call.name),
            _ => return None,
        };
        let error = problem(args, name, gateway);
        complain(&format!("note: the model is told of its call of `{name}`: {}", error.message));
        let output = told(gateway.settings.tools.result_format, call_id, Err(&error.message));
        Some(json!({"type": kind, "call_id": call_id, "output": output}))
    };
    response.output.iter().filter_map(answer).collect()
}

/// Why nobody runs it.
fn problem(args: &PromptArgs, name: &str, gateway: Gateway<'_>) -> ToolError {
    let toolbox = &gateway.assembly.toolbox;
    let subject = gateway.subject();
    if let Err(denied) = toolbox.admits_name(subject, name) {
        return denied;
    }
    let catalog = toolbox.catalog();
    if let Some(Err(denied)) = catalog.get(name).map(|tool| toolbox.admits(subject, tool.definition())) {
        return denied;
    }
    if args.mock_tools.is_some() {
        return Mock::missing(name);
    }
    match builtin::absence(name, &gateway.settings.tools) {
        Some(why) => ToolError::refused(Code::ToolUnavailable, why),
        None => ToolError::refused(Code::ToolNotFound, format!("tool {name} not found")),
    }
}
