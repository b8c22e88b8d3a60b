//! What came before: the lineage of a continued response, referred items, and whether calls and outputs pair.

use std::collections::HashMap;

use super::Parts;
use crate::protocol::error::ApiError;
use crate::protocol::id::Id;
use crate::protocol::item::{InputItem, Item, ItemStatus};
use crate::protocol::response::Status;
use crate::response::seal::BoundSeal;
use crate::response::turn::Context;
use crate::store::Owner;

/// The items of the responses that this one continues.
pub(super) async fn lineage(
    parts: &Parts,
    owner: &Owner,
    previous: Option<&str>,
) -> Result<Vec<Item>, ApiError> {
    let Some(previous) = previous else { return Ok(Vec::new()) };
    let Some(lineage) = parts.store.lineage(owner, previous).await? else {
        return Err(ApiError::invalid(
            "previous_response_not_found",
            "previous_response_id",
            format!("Previous response with id '{}' not found.", crate::protocol::parse::shorten(previous)),
        ));
    };
    if matches!(lineage.status, Status::Queued | Status::InProgress) {
        return Err(ApiError::invalid(
            "previous_response_in_progress",
            "previous_response_id",
            "The previous response has not ended yet; wait for it before continuing it.",
        ));
    }
    Ok(lineage.items)
}

/// The input with every reference replaced by the item that it names.
pub(super) async fn resolve(
    parts: &Parts,
    owner: &Owner,
    input: Vec<InputItem>,
) -> Result<Vec<Item>, ApiError> {
    let wanted: Vec<Id> = input
        .iter()
        .filter_map(|item| match item {
            InputItem::Reference(id) => Some(id.clone()),
            InputItem::Item(_) => None,
        })
        .collect();
    let found = if wanted.is_empty() { Vec::new() } else { parts.store.items(owner, &wanted).await? };
    let mut found = found.into_iter();
    input
        .into_iter()
        .enumerate()
        .map(|(i, item)| match item {
            InputItem::Item(item) => Ok(item),
            InputItem::Reference(id) => found.next().flatten().ok_or_else(|| {
                ApiError::invalid(
                    "item_not_found",
                    format!("input[{i}].id"),
                    format!(
                        "Item '{}' not found. Items are kept only of responses made with 'store' true.",
                        crate::protocol::parse::shorten(id.as_str())
                    ),
                )
            }),
        })
        .collect()
}

/// Drops calls from the input that the history already holds: clients that continue a response and replay
/// it too mean the same call.
pub(super) fn drop_repeated_calls(history: &[Item], input: &mut Vec<Item>) {
    if history.is_empty() {
        return;
    }
    let known: std::collections::HashSet<&str> = history.iter().filter_map(call_id).collect();
    input.retain(|item| call_id(item).is_none_or(|id| !known.contains(id)));
}

/// Checks that every output answers a call before it, and that no call is left without an output.
pub(super) fn check_pairs(history: &[Item], input: &[Item]) -> Result<(), ApiError> {
    let mut open: HashMap<&str, bool> = HashMap::new();
    let items = history.iter().map(|item| (None, item));
    for (i, item) in items.chain(input.iter().enumerate().map(|(i, item)| (Some(i), item))) {
        if let Some(id) = call_id(item) {
            open.insert(id, true);
        } else if let Some(id) = output_of(item) {
            let param =
                || i.map_or_else(|| "previous_response_id".to_owned(), |i| format!("input[{i}].call_id"));
            match open.get_mut(id) {
                Some(waiting @ true) => *waiting = false,
                Some(false) => {
                    return Err(ApiError::invalid(
                        "invalid_value",
                        param(),
                        format!("There is already an output for the tool call with call_id {id}."),
                    ));
                }
                None => {
                    return Err(ApiError::invalid(
                        "tool_call_not_found",
                        param(),
                        format!("No tool call found for function call output with call_id {id}."),
                    ));
                }
            }
        }
    }
    match open.iter().filter(|(_, waiting)| **waiting).map(|(id, _)| *id).min() {
        None => Ok(()),
        Some(id) => Err(ApiError::invalid(
            "tool_output_not_found",
            "input",
            format!(
                "No tool output found for function call {id}. Every call of the conversation must be answered \
                 by an output item with its call_id."
            ),
        )),
    }
}

fn call_id(item: &Item) -> Option<&str> {
    match item {
        Item::FunctionCall(call) => Some(&call.call_id),
        Item::CustomToolCall(call) => Some(&call.call_id),
        _ => None,
    }
}

fn output_of(item: &Item) -> Option<&str> {
    match item {
        Item::FunctionCallOutput(output) => Some(&output.call_id),
        Item::CustomToolCallOutput(output) => Some(&output.call_id),
        _ => None,
    }
}

/// The items as the model sees them: sealed state opened, and what cannot be shown left out.
pub(super) fn visible(items: impl Iterator<Item = Item>, seal: &BoundSeal) -> Vec<Context> {
    items.filter_map(|item| context(item, seal)).collect()
}

fn context(item: Item, seal: &BoundSeal) -> Option<Context> {
    match &item {
        // Declarations, not conversation: they are among the tools already.
        Item::AdditionalTools(_) => None,
        Item::FunctionCall(call) if call.status == ItemStatus::Incomplete => None,
        Item::CustomToolCall(call) if call.status == ItemStatus::Incomplete => None,
        Item::Reasoning(reasoning) => {
            let blob = reasoning.encrypted_content.as_deref();
            let state = blob.and_then(|blob| seal.open(blob));
            if blob.is_some() && state.is_none() {
                tracing::info!(item = %reasoning.id, "sealed reasoning of elsewhere was left out");
            }
            let empty = state.is_none() && reasoning.content.is_empty() && reasoning.summary.is_empty();
            (!empty).then(|| Context { state, ..Context::from(item) })
        }
        _ => Some(item.into()),
    }
}
