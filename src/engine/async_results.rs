//! Results of tools whose work has gone on, as the model reads them in place of what it was told first.
//!
//! Whoever continues a response reads a result from when it is reported, not from when it is settled: what a result leads
//! to is done by some process, a moment later.

use std::collections::{HashMap, HashSet};

use super::call_items::output_of;
use super::completion_text::{TIMED_OUT, announced_as};
use super::context::EngineParts;
use crate::config::OnComplete;
use crate::identity::Owner;
use crate::protocol::error::ApiError;
use crate::protocol::id::Id;
use crate::protocol::item::hosted::{McpCall, McpCallError};
use crate::protocol::item::{Item, ItemStatus, ServerToolCall, ServerToolError};
use crate::store::CompletedCall;
use crate::tools::shorten;

/// What is read beside a history.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    /// The input of the request.
    pub input: &'a [Item],
    /// Whether the history is a conversation, in which a response follows one that waited when its client has answered.
    pub is_conversation: bool,
    /// The response that is continued, if it has ended in a way that none follows.
    pub unfollowed: Option<&'a Id>,
}

/// The result of a call whose work has gone on.
pub(super) struct Reported {
    text: String,
    error: Option<String>,
}

/// The results of calls among these items that are to be read in the place of what the calls have answered, by place:
/// those of which no message of the history tells, and no response will. They may be settled since the items were read.
pub(super) async fn reported(
    parts: &EngineParts,
    owner: &Owner,
    items: &[Item],
    beside: Reading<'_>,
) -> Result<Vec<(usize, Reported)>, ApiError> {
    let mut open: HashMap<&Id, usize> = HashMap::new();
    let mut responses: Vec<Id> = Vec::new();
    for (place, item) in items.iter().enumerate().filter(|(_, item)| goes_on(item)) {
        if let Some(response) = item.id().of_response() {
            open.insert(item.id(), place);
            responses.push(response);
        }
    }
    responses.dedup();
    let mut found = Vec::new();
    for response in responses {
        let results = parts.store.async_results(owner, &response).await?;
        let is_followed = beside.is_followed(items, &response);
        for call in results {
            let Some(place) = open.remove(&call.item) else { continue };
            if (is_followed && is_coming(&call)) || beside.is_announced(items, &call.item) {
                continue;
            }
            let (text, error) = outcome(&call, parts.options.tools.results.max_bytes);
            found.push((place, Reported { text, error }));
        }
    }
    Ok(found)
}

/// Whether a response, or the run itself, tells of the result in a moment. What it takes is dropped when that is done.
fn is_coming(call: &CompletedCall) -> bool {
    match &*call.on_complete {
        kind if kind == OnComplete::Store.as_str() => false,
        kind if kind == OnComplete::FollowUp.as_str() => call.spec.is_some(),
        _ => true,
    }
}

impl Reading<'_> {
    /// Whether a response follows this one when a result comes.
    fn is_followed(&self, items: &[Item], response: &Id) -> bool {
        let is_own = |item: &&Item| item.id().of_response().as_ref() == Some(response);
        let is_answer =
            |item: &&Item| output_of(item).is_some() || matches!(item, Item::McpApprovalResponse(_));
        let answers = items.iter().chain(self.input).filter(is_answer);
        let answers = answers.filter(|_| self.is_conversation);
        self.unfollowed != Some(response) && !awaits_client(items.iter().filter(is_own).chain(answers))
    }

    /// Whether a message tells of the result of this call.
    fn is_announced(&self, items: &[Item], call: &Id) -> bool {
        let name = announced_as(call.as_str());
        let tells = |item: &Item| match item {
            Item::Message(message) => {
                message.content.iter().filter_map(|part| part.text()).any(|text| text.contains(&name))
            }
            _ => false,
        };
        items.iter().chain(self.input).any(tells)
    }
}

impl Reported {
    /// Bytes that the model reads.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Puts it into its call.
    pub(super) fn show(&self, item: &mut Item) {
        match item {
            Item::McpCall(made) => *made = with_result(made.clone(), &self.text, self.error.as_deref()),
            Item::ServerToolCall(made) => finish(made, &self.text, self.error.as_deref()),
            _ => {}
        }
    }
}

/// Whether the item is a call whose work has gone on.
fn goes_on(item: &Item) -> bool {
    match item {
        Item::McpCall(call) => call.status == ItemStatus::InProgress,
        Item::ServerToolCall(call) => call.status == ItemStatus::InProgress,
        _ => false,
    }
}

/// Whether a response of these items ended with calls that wait for its client: functions without outputs, or requests for
/// approval.
pub(super) fn awaits_client<'a>(items: impl Iterator<Item = &'a Item>) -> bool {
    let mut open = HashSet::new();
    for item in items {
        match item {
            Item::McpApprovalRequest(request) => _ = open.insert(request.id.as_str()),
            Item::McpApprovalResponse(answer) => _ = open.remove(answer.approval_request_id.as_str()),
            Item::FunctionCall(call) if call.status != ItemStatus::Incomplete => {
                _ = open.insert(call.call_id.as_str());
            }
            Item::CustomToolCall(call) if call.status != ItemStatus::Incomplete => {
                _ = open.insert(call.call_id.as_str());
            }
            Item::FunctionCallOutput(output) => _ = open.remove(output.call_id.as_str()),
            Item::CustomToolCallOutput(output) => _ = open.remove(output.call_id.as_str()),
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
