//! Results of tools whose work has gone on, as the model reads them in place of what it was told first.
//!
//! Whoever continues a response reads a result from when it is reported, not from when it is settled: what a result leads
//! to is done by some process, a moment later.

use std::collections::HashSet;

use super::completion_text::TIMED_OUT;
use super::context::EngineParts;
use crate::config::OnComplete;
use crate::identity::Owner;
use crate::protocol::error::ApiError;
use crate::protocol::id::Id;
use crate::protocol::item::hosted::{McpCall, McpCallError};
use crate::protocol::item::{Item, ItemStatus, ServerToolCall, ServerToolError};
use crate::store::CompletedCall;
use crate::tools::shorten;

/// Puts results in the place of what their calls have answered, if no response tells of them. They may be settled since
/// the items were read.
pub(super) async fn show_reported(
    parts: &EngineParts,
    owner: &Owner,
    items: &mut [Item],
) -> Result<(), ApiError> {
    let mut responses: Vec<Id> = items.iter().filter(|item| goes_on(item)).filter_map(response_of).collect();
    responses.dedup();
    for response in responses {
        let results = parts.store.async_results(owner, &response).await?;
        let is_own = |item: &&Item| response_of(item).as_ref() == Some(&response);
        let is_paused = awaits_client(items.iter().filter(is_own));
        for call in results {
            if call.on_complete != OnComplete::Store.as_str() && !is_paused {
                continue;
            }
            let (text, error) = outcome(&call, parts.options.tools.results.max_bytes);
            let shown = items.iter_mut().find(|item| *item.id() == call.item);
            match shown {
                Some(Item::McpCall(made)) => *made = with_result(made.clone(), &text, error.as_deref()),
                Some(Item::ServerToolCall(made)) => finish(made, &text, error.as_deref()),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether the item is a call whose work has gone on.
fn goes_on(item: &Item) -> bool {
    match item {
        Item::McpCall(call) => call.status == ItemStatus::InProgress,
        Item::ServerToolCall(call) => call.status == ItemStatus::InProgress,
        _ => false,
    }
}

fn response_of(item: &Item) -> Option<Id> {
    item.id().of_response()
}

/// Whether a response of these items ended with calls that wait for its client: functions without outputs, or requests for
/// approval.
pub(super) fn awaits_client<'a>(items: impl Iterator<Item = &'a Item>) -> bool {
    let mut open = HashSet::new();
    for item in items {
        match item {
            Item::McpApprovalRequest(_) => return true,
            Item::FunctionCall(call) if call.status != ItemStatus::Incomplete => {
                _ = open.insert(&call.call_id);
            }
            Item::CustomToolCall(call) if call.status != ItemStatus::Incomplete => {
                _ = open.insert(&call.call_id);
            }
            Item::FunctionCallOutput(output) => _ = open.remove(&output.call_id),
            Item::CustomToolCallOutput(output) => _ = open.remove(&output.call_id),
            _ => {}
        }
    }
    !open.is_empty()
}

/// The result of a call, of which at most so many bytes are read, and the code of its failure.
pub(super) fn outcome(call: &CompletedCall, max_bytes: usize) -> (String, Option<String>) {
    let late = || (TIMED_OUT.0.to_owned(), Some(TIMED_OUT.1.to_owned()));
    let (mut text, error) = call.result.clone().unwrap_or_else(late);
    shorten(&mut text, max_bytes);
    (text, error)
}

/// A call with its result.
pub(super) fn with_result(mut call: McpCall, text: &str, error: Option<&str>) -> McpCall {
    call.status = if error.is_some() { ItemStatus::Failed } else { ItemStatus::Completed };
    call.output = error.is_none().then(|| text.to_owned());
    call.error = error.map(|code| McpCallError::from_tool_error(code, text));
    call
}

/// The same of the gateway's own type of call.
pub(super) fn finish(call: &mut ServerToolCall, text: &str, error: Option<&str>) {
    call.status = if error.is_some() { ItemStatus::Failed } else { ItemStatus::Completed };
    call.output = error.is_none().then(|| text.to_owned());
    call.error = error.map(|code| ServerToolError { code: code.to_owned(), message: text.to_owned() });
}
