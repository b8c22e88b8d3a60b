//! Results of tools whose work has gone on, as the model reads them in place of what it was told first.
//!
//! Whoever continues a response reads a result from when it is reported, not from when it is settled: what a result leads
//! to is done by some process, a moment later.

use std::collections::{HashMap, HashSet};

use super::call_items::{call_id, is_incomplete, output_of};
use super::completion_text::{TIMED_OUT, calls_announced_in};
use super::context::EngineParts;
use antwort_config::OnComplete;
use antwort_identity::Owner;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_protocol::item::hosted::{McpCall, McpCallError};
use antwort_protocol::item::{Item, ItemStatus, ServerToolCall, ServerToolError};
use antwort_store::CompletedCall;
use antwort_tools::shorten;

/// What is read beside a history.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    /// The input of the request.
    pub input: &'a [Item],
    /// Whether the history is a conversation, in which a response follows one that waited when its client has answered.
    pub(crate) is_conversation: bool,
    /// The response that is continued, if it has ended in a way that none follows.
    pub(crate) unfollowed: Option<&'a Id>,
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
    let going_on = items.iter().enumerate().filter(|(_, item)| goes_on(item));
    let mut places: HashMap<&Id, usize> = going_on.map(|(place, item)| (item.id(), place)).collect();
    let responses: HashSet<Id> = places.keys().filter_map(|id| id.of_response()).collect();
    if responses.is_empty() {
        return Ok(Vec::new());
    }
    let responses: Vec<Id> = responses.into_iter().collect();
    let results = parts.store.async_results(owner, &responses).await?;
    if results.is_empty() {
        return Ok(Vec::new());
    }
    let (waiting, announced) = (beside.waiting_responses(items), beside.announced_calls(items));
    let mut found = Vec::new();
    for call in results {
        let Some(place) = places.remove(&call.item) else { continue };
        let response = &call.key.response;
        let is_followed = beside.unfollowed != Some(response) && !waiting.contains(response);
        if (is_followed && is_coming(&call)) || announced.contains(call.item.as_str()) {
            continue;
        }
        let (text, error) = outcome(&call, parts.options.tools.results.max_bytes);
        found.push((place, Reported { text, error }));
    }
    Ok(found)
}

/// Whether a response tells of the result in a moment. What it takes is dropped when that is done. A run that has waited for a result
/// has told its model; no message of the history does.
fn is_coming(call: &CompletedCall) -> bool {
    call.on_complete == OnComplete::FollowUp.as_str() && call.has_spec
}

impl<'a> Reading<'a> {
    /// The responses that have ended with calls that wait for their client, so that no other follows them. Once its client has
    /// answered, one of a conversation is followed.
    fn waiting_responses(&self, items: &'a [Item]) -> HashSet<Id> {
        // Servers number their calls anew in each answer.
        let mut waiting: HashMap<&str, Vec<Id>> = HashMap::new();
        for item in items.iter().chain(self.input) {
            if let Some(key) = client_call(item) {
                waiting.entry(key).or_default().extend(item.id().of_response());
            } else if let Some(key) = client_answer(item)
                && let Some(responses) = waiting.get_mut(key)
            {
                let own = item.id().of_response();
                responses.retain(|asked| !self.is_conversation && own.as_ref() != Some(asked));
            }
        }
        waiting.into_values().flatten().collect()
    }

    /// The calls of whose results messages tell.
    fn announced_calls(&self, items: &'a [Item]) -> HashSet<&'a str> {
        let messages = items.iter().chain(self.input).filter_map(|item| match item {
            Item::Message(message) => Some(message),
            _ => None,
        });
        let texts = messages.flat_map(|message| message.content.iter().filter_map(|part| part.text()));
        texts.flat_map(calls_announced_in).collect()
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
    let mut waiting = HashSet::new();
    for item in items {
        if let Some(key) = client_call(item) {
            waiting.insert(key);
        } else if let Some(key) = client_answer(item) {
            waiting.remove(key);
        }
    }
    !waiting.is_empty()
}

/// What an item that waits for the client is known by.
fn client_call(item: &Item) -> Option<&str> {
    match item {
        Item::McpApprovalRequest(request) => Some(request.id.as_str()),
        call => call_id(call).filter(|_| !is_incomplete(call)),
    }
}

/// What the item answers that the client has sent.
fn client_answer(item: &Item) -> Option<&str> {
    match item {
        Item::McpApprovalResponse(answer) => Some(&answer.approval_request_id),
        output => output_of(output).map(|(id, _)| id),
    }
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
