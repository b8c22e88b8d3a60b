//! What ties calls, their outputs and their state together: ids of items.

use antwort_protocol::item::{Item, ItemStatus, ToolOutput};

/// The `call_id` by which outputs refer to a call.
pub(super) fn call_id(item: &Item) -> Option<&str> {
    #[cfg(test)]
    super::complexity_tests::look();
    match item {
        Item::FunctionCall(call) => Some(&call.call_id),
        Item::CustomToolCall(call) => Some(&call.call_id),
        _ => None,
    }
}

/// An output with the `call_id` of its call.
pub(super) fn output_of(item: &Item) -> Option<(&str, &ToolOutput)> {
    match item {
        Item::FunctionCallOutput(output) => Some((&output.call_id, &output.output)),
        Item::CustomToolCallOutput(output) => Some((&output.call_id, &output.output)),
        _ => None,
    }
}

/// Whether the call was cut off: it is not shown to the model, and has no output.
pub(super) fn is_incomplete(item: &Item) -> bool {
    match item {
        Item::FunctionCall(call) => call.status == ItemStatus::Incomplete,
        Item::CustomToolCall(call) => call.status == ItemStatus::Incomplete,
        _ => false,
    }
}

/// The ids by which state may refer to a call.
pub(super) fn call_keys(item: &Item) -> impl Iterator<Item = &str> {
    let (own, asked) = match item {
        Item::McpCall(call) => (Some(call.id.as_str()), call.approval_request_id.as_deref()),
        item => (call_id(item), None),
    };
    own.into_iter().chain(asked)
}
