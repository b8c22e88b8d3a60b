//! The prior conversation: the chain of a continued response or a stored conversation, items that the input refers to,
//! and the check that calls and outputs pair.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::async_results::Reading;
use super::call_items::{call_id, is_incomplete, output_of};
use super::context::{EngineParts, RunContext};
use super::conversation::ConversationBudget;
use super::replayed::PlacedInput;
use super::{async_results, run_conversation};
use antwort_identity::Owner;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_protocol::item::hosted::{McpCall, McpCallError};
use antwort_protocol::item::{InputItem, Item, ItemStatus, ServerToolCall};
use antwort_protocol::request::CreateResponse;
use antwort_protocol::response::ResponseStatus;
use antwort_protocol::tool::BUILTIN_SERVER_LABEL;
use antwort_response::turn::{HistoryItem, ProviderState};

/// An item with the sealed state that is stored beside it. The item is shared by the conversation and the stored row.
pub(super) type HistoryEntry = (Arc<Item>, Option<Arc<str>>);

/// The conversation that a response continues.
#[derive(Default)]
pub(super) struct PriorConversation {
    /// Items of the earlier responses of the chain.
    pub items: Vec<Item>,
    /// Sealed provider state that is stored beside these items, by place.
    pub states: HashMap<usize, Arc<str>>,
    /// The first response of the chain, or the conversation.
    pub root: Option<Id>,
    /// The positions of a conversation that were read.
    pub range: Option<(u64, u64)>,
    /// The field that names it.
    pub param: &'static str,
    /// Whether its last response has ended in a way that no other follows it by itself.
    pub(crate) is_unfollowed: bool,
}

/// Loads the chain and replaces references of the input by the stored items; references to items of the chain are dropped.
/// Also returns what is left of the conversation's size limit.
pub(super) async fn load<'a>(
    parts: &'a EngineParts,
    caller: &RunContext,
    request: &CreateResponse,
    input: Vec<InputItem>,
) -> Result<(PriorConversation, PlacedInput, ConversationBudget<'a>), ApiError> {
    let mut budget = ConversationBudget::new(parts, caller, request)?;
    let mut past = match request.conversation.as_deref() {
        Some(id) => conversation(parts, caller, id, &mut budget).await?,
        None => {
            lineage(parts, caller, request.previous_response_id.as_deref(), request.store, &mut budget)
                .await?
        }
    };
    let input = new_input(&past.items, input);
    let input = resolve(parts, &caller.owner, input, &mut budget).await?;
    let previous = request.previous_response_id.as_deref().map(Id::from);
    let beside = Reading {
        input: &input.items,
        is_conversation: request.conversation.is_some(),
        unfollowed: previous.as_ref().filter(|_| past.is_unfollowed),
    };
    for (place, result) in async_results::reported(parts, &caller.owner, &past.items, beside).await? {
        budget.add(result.len())?;
        past.items.get_mut(place).into_iter().for_each(|item| result.show(item));
    }
    input.check_results(parts, &caller.owner, &past.items, &mut budget).await?;
    Ok((past, input, budget))
}

/// What the model sees of a conversation.
async fn conversation(
    parts: &EngineParts,
    caller: &RunContext,
    id: &str,
    budget: &mut ConversationBudget<'_>,
) -> Result<PriorConversation, ApiError> {
    let read = |limit| parts.store.conversation_context(&caller.owner, id, limit);
    let Some(found) = budget.read(read).await? else {
        return Err(run_conversation::not_found(id).with_param("conversation"));
    };
    Ok(PriorConversation {
        items: found.items,
        states: found.states,
        root: Some(id.into()),
        range: Some((found.first, found.until)),
        param: "conversation",
        is_unfollowed: false,
    })
}

async fn lineage(
    parts: &EngineParts,
    caller: &RunContext,
    previous: Option<&str>,
    request_stores: bool,
    budget: &mut ConversationBudget<'_>,
) -> Result<PriorConversation, ApiError> {
    let Some(previous) = previous else { return Ok(PriorConversation::default()) };
    if request_stores && caller.connection.as_ref().is_some_and(|connection| connection.has(previous)) {
        return Err(ApiError::invalid(
            "previous_response_not_stored",
            "previous_response_id",
            "The previous response is not stored, and a stored response cannot continue it: send 'store': false.",
        ));
    }
    let (store, owner) = (&*parts.store, &caller.owner);
    let read = |limit| async move {
        match &caller.connection {
            Some(connection) => connection.lineage(store, owner, previous, limit).await,
            None => store.lineage(owner, previous, limit).await,
        }
    };
    let Some(lineage) = budget.read(read).await? else {
        return Err(ApiError::invalid(
            "previous_response_not_found",
            "previous_response_id",
            format!(
                "Previous response with id '{}' not found.",
                antwort_protocol::parse::truncate_for_display(previous)
            ),
        ));
    };
    if matches!(lineage.status, ResponseStatus::Queued | ResponseStatus::InProgress) {
        return Err(ApiError::invalid(
            "previous_response_in_progress",
            "previous_response_id",
            "The previous response has not ended yet; wait for it before continuing it.",
        ));
    }
    if lineage.status == ResponseStatus::Failed && lineage.items.is_empty() {
        return Err(ApiError::invalid(
            "previous_response_without_content",
            "previous_response_id",
            "The previous response failed before its first output, and its content is not kept: continue the one before \
             it, or send the input again.",
        ));
    }
    Ok(PriorConversation {
        items: lineage.items,
        states: lineage.states,
        root: Some(lineage.root),
        range: None,
        param: "previous_response_id",
        is_unfollowed: !matches!(lineage.status, ResponseStatus::Completed | ResponseStatus::RequiresAction),
    })
}

/// The input with its places, without references to items that the history has. Of ids that clients make, the newest item
/// is meant, which may be another.
fn new_input(past: &[Item], input: Vec<InputItem>) -> Vec<(usize, InputItem)> {
    let refers = |item: &InputItem| matches!(item, InputItem::Reference(id) if id.is_response_scoped());
    let known: HashSet<&Id> = match input.iter().any(refers) {
        true => past.iter().map(Item::id).collect(),
        false => HashSet::new(),
    };
    let is_known = |item: &InputItem| match item {
        InputItem::Reference(id) => id.is_response_scoped() && known.contains(id),
        InputItem::Item(_) => false,
    };
    input.into_iter().enumerate().filter(|(_, item)| !is_known(item)).collect()
}

async fn resolve(
    parts: &EngineParts,
    owner: &Owner,
    input: Vec<(usize, InputItem)>,
    budget: &mut ConversationBudget<'_>,
) -> Result<PlacedInput, ApiError> {
    let wanted: Vec<Id> = input
        .iter()
        .filter_map(|(_, item)| match item {
            InputItem::Reference(id) => Some(id.clone()),
            InputItem::Item(_) => None,
        })
        .collect();
    let found = match wanted.is_empty() {
        true => Vec::new(),
        false => budget.read(|limit| parts.store.items(owner, &wanted, limit)).await?,
    };
    let mut found = found.into_iter();
    input
        .into_iter()
        .map(|(i, item)| match item {
            InputItem::Item(item) => Ok((i, item)),
            InputItem::Reference(id) => found.next().flatten().map(|item| (i, item)).ok_or_else(|| {
                ApiError::invalid(
                    "item_not_found",
                    format!("input[{i}].id"),
                    format!(
                        "Item '{}' not found. Items are kept only of responses made with 'store' true.",
                        antwort_protocol::parse::truncate_for_display(id.as_str())
                    ),
                )
            }),
        })
        .collect()
}

/// Checks that every output answers an earlier call and that no call is left without one. A function call has exactly
/// one output; a custom tool call may have several, as coding agents report progress by them.
pub(super) fn check_pairs((history, field): (&[Item], &'static str), input: &[Item]) -> Result<(), ApiError> {
    let mut open: HashMap<&str, bool> = HashMap::new();
    let items = history.iter().map(|item| (None, item));
    for (i, item) in items.chain(input.iter().enumerate().map(|(i, item)| (Some(i), item))) {
        if let Some(id) = call_id(item).filter(|_| !is_incomplete(item)) {
            let is_unanswered = open.insert(id, true) == Some(true);
            if let Some(i) = i.filter(|_| is_unanswered) {
                return Err(ApiError::invalid(
                    "invalid_value",
                    format!("input[{i}].call_id"),
                    format!("There is already a tool call with call_id {id}, which has no output yet."),
                ));
            }
        } else if let Some((id, _)) = output_of(item) {
            let param = || i.map_or_else(|| field.to_owned(), |i| format!("input[{i}].call_id"));
            match open.get_mut(id) {
                Some(waiting @ true) => *waiting = false,
                Some(false) if matches!(item, Item::CustomToolCallOutput(_)) => {}
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

/// An item of this run as the next inference sees it, with the provider's state.
pub(super) fn from_run_output(item: &Item, state: Option<ProviderState>) -> Option<HistoryItem> {
    match item {
        // Such an item has only encrypted content, which is for clients.
        Item::Reasoning(item) if state.is_none() && item.content.is_empty() && item.summary.is_empty() => {
            None
        }
        Item::Reasoning(_) => Some(HistoryItem { state, ..HistoryItem::from(item.clone()) }),
        _ => into_history_item(Arc::new(item.clone())).map(|context| HistoryItem { state, ..context }),
    }
}

/// An item other than reasoning as the model sees it.
pub(super) fn into_history_item(item: Arc<Item>) -> Option<HistoryItem> {
    match &*item {
        // Declarations, triggers and messages to the user are no part of the conversation. A trigger is followed by
        // its compaction.
        Item::AdditionalTools(_)
        | Item::UserMessage(_)
        | Item::McpListTools(_)
        | Item::CompactionTrigger(_) => None,
        call if is_incomplete(call) => None,
        Item::McpApprovalRequest(request) if request.is_abandoned => None,
        // Nothing is left of a message of an inference that was abandoned.
        Item::Message(message) if message.status == ItemStatus::Incomplete && message.content.is_empty() => {
            None
        }
        Item::McpCall(call) if call.output.is_none() && call.error.is_none() => None,
        Item::ServerToolCall(call) if call.output.is_none() && call.error.is_none() => None,
        Item::ServerToolCall(call) => Some(Item::McpCall(as_mcp_call(call.clone())).into()),
        _ => Some(item.into()),
    }
}

/// The model sees both types of call in the same form.
pub(super) fn as_mcp_call(call: ServerToolCall) -> McpCall {
    McpCall {
        id: call.id,
        server_label: call.server_label.unwrap_or_else(|| BUILTIN_SERVER_LABEL.to_owned()),
        name: call.name,
        arguments: call.arguments,
        output: call.output,
        error: call.error.map(|error| McpCallError::from_tool_error(&error.code, &error.message)),
        status: call.status,
        approval_request_id: call.approval_request_id,
        files: Vec::new(),
    }
}
