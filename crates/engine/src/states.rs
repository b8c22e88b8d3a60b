//! Returns state to providers, and search results to the model: opens sealed state that clients carry, finds what is
//! stored beside items that clients replay, and attaches each to its item of the conversation.
//!
//! State names the calls that it belongs to by their ids, so that it is found wherever a client puts it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::async_results::Reading;
use super::context::EngineParts;
use super::conversation::ConversationBudget;
use super::history::HistoryEntry;
use super::tools::hosted;
use super::{async_results, call_items, compaction, history, itemless_turns, refused_calls};
use antwort_identity::Owner;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_protocol::item::hosted::McpCall;
use antwort_protocol::item::{Item, Role};
use antwort_response::seal::{BoundSeal, OpenedBlob, SummarySeal};
use antwort_response::turn::{HistoryItem, ProviderState, StatePosition};
use antwort_store::{ItemWithState, StateKey};
use antwort_tools::canonical_json;

/// Items with the state that is stored beside them, by place.
pub(super) fn with_stored_state(
    items: Vec<Item>,
    kept: &HashMap<usize, Arc<str>>,
) -> impl Iterator<Item = HistoryEntry> + '_ {
    items.into_iter().enumerate().map(|(place, item)| (Arc::new(item), kept.get(&place).cloned()))
}

/// What the store knows of items that a client replays, by their places in the input.
#[derive(Default)]
pub(super) struct StoredInput {
    /// Sealed provider state.
    pub states: HashMap<usize, Arc<str>>,
    /// Calls with what the model reads of their results: of hosted tools, of work that has gone on, and files.
    pub results: HashMap<usize, McpCall>,
}

impl StoredInput {
    /// The input as the model sees it.
    pub(super) fn model_input<'a>(
        &'a self,
        input: &'a [Arc<Item>],
    ) -> impl Iterator<Item = HistoryEntry> + 'a {
        input.iter().enumerate().map(|(place, item)| {
            let found = self.results.get(&place).map(|call| Arc::new(Item::McpCall(call.clone())));
            (found.unwrap_or_else(|| Arc::clone(item)), self.states.get(&place).cloned())
        })
    }
}

/// Finds what is stored of replayed items, of this owner's only.
pub(super) async fn find(
    parts: &EngineParts,
    owner: &Owner,
    input: &mut [Item],
    budget: &mut ConversationBudget<'_>,
) -> Result<StoredInput, ApiError> {
    let mut found = StoredInput::default();
    find_late_results(parts, owner, input, (&mut found, &mut *budget)).await?;
    take_files(input, &mut found);
    let input = &*input;
    let (places, ids): (Vec<usize>, Vec<Id>) = input
        .iter()
        .enumerate()
        .filter(|(_, item)| hosted::lacks_result(item))
        .map(|(place, item)| (place, item.id().clone()))
        .unzip();
    if !ids.is_empty() {
        let items = budget.read(|limit| parts.store.items(owner, &ids, limit)).await?;
        let searches = places.into_iter().zip(items);
        found.results.extend(searches.filter_map(|(place, item)| match item {
            Some(Item::McpCall(call)) => Some((place, call)),
            _ => None,
        }));
    }
    let carried = client_carried_positions(input);
    let replayed = input.iter().enumerate().filter(|(place, _)| !carried.contains(place));
    let (places, keys): (Vec<usize>, Vec<StateKey>) =
        replayed.filter_map(|(place, item)| Some((place, replayed_key(owner, item)?))).unzip();
    if keys.is_empty() {
        return Ok(found);
    }
    let states = budget.read(|limit| parts.store.provider_states(owner, &keys, limit)).await?;
    for (place, kept) in places.into_iter().zip(states) {
        let Some(item) = input.get(place) else { continue };
        let same: Vec<ItemWithState> = kept.into_iter().filter(|kept| is_same(&kept.item, item)).collect();
        let itself = same.iter().find(|kept| kept.item.id() == item.id());
        let latest = same.first().filter(|_| !item.id().is_response_scoped());
        found.states.extend(itself.or(latest).map(|kept| (place, Arc::clone(&kept.blob))));
    }
    Ok(found)
}

/// Adds results of calls whose work has gone on since the client was given the items.
async fn find_late_results(
    parts: &EngineParts,
    owner: &Owner,
    input: &[Item],
    (found, budget): (&mut StoredInput, &mut ConversationBudget<'_>),
) -> Result<(), ApiError> {
    let alone = Reading { input: &[], is_conversation: false, unfollowed: None };
    for (place, result) in async_results::reported(parts, owner, input, alone).await? {
        budget.add(result.len())?;
        let Some(mut item) = input.get(place).cloned() else { continue };
        result.show(&mut item);
        let call = match item {
            Item::McpCall(call) => call,
            Item::ServerToolCall(call) => history::as_mcp_call(call),
            _ => continue,
        };
        found.results.insert(place, call);
    }
    Ok(())
}

/// Moves files of stored calls that the input refers to: clients, who can list the input, are not shown them.
fn take_files(input: &mut [Item], found: &mut StoredInput) {
    for (place, item) in input.iter_mut().enumerate() {
        if let Item::McpCall(call) = item
            && !call.files.is_empty()
        {
            found.results.entry(place).or_insert_with(|| call.clone());
            call.files = Vec::new();
        }
    }
}

/// Places of the items of those answers whose state the client carries itself, which takes precedence over the
/// store's.
fn client_carried_positions(input: &[Item]) -> HashSet<usize> {
    let begins = |item: &Item| match item {
        Item::Message(message) => message.role != Role::Assistant,
        Item::FunctionCallOutput(_) | Item::CustomToolCallOutput(_) | Item::McpApprovalResponse(_) => true,
        _ => false,
    };
    let carries = |item: &Item| matches!(item, Item::Reasoning(item) if item.encrypted_content.is_some());
    let mut places = HashSet::new();
    let mut first = 0;
    for answer in input.split_inclusive(begins) {
        if answer.iter().any(carries) {
            places.extend(first..first + answer.len());
        }
        first += answer.len();
    }
    places
}

/// The key under which state of an item is stored.
pub(super) fn key(owner: &Owner, item: &Item) -> StateKey {
    StateKey::new(owner, call_items::call_id(item).unwrap_or_else(|| item.id().as_str()))
}

fn replayed_key(owner: &Owner, item: &Item) -> Option<StateKey> {
    let made = match item {
        Item::Message(message) => message.role == Role::Assistant,
        Item::FunctionCall(_)
        | Item::CustomToolCall(_)
        | Item::McpCall(_)
        | Item::ServerToolCall(_)
        | Item::McpApprovalRequest(_) => true,
        item => hosted::is_call(item),
    };
    made.then(|| key(owner, item))
}

/// Whether a replayed item is the stored one. Servers number their calls, so that an id alone is ambiguous; ids of
/// the gateway are unique.
fn is_same(stored: &Item, replayed: &Item) -> bool {
    match (stored, replayed) {
        (Item::FunctionCall(a), Item::FunctionCall(b)) => {
            a.name == b.name && canonical_json(&a.arguments) == canonical_json(&b.arguments)
        }
        (Item::CustomToolCall(a), Item::CustomToolCall(b)) => a.name == b.name && a.input == b.input,
        (Item::FunctionCall(_) | Item::CustomToolCall(_), _) => false,
        _ => true,
    }
}

/// The items as the model sees them, each with its state; what cannot be shown is left out.
pub(super) fn conversation(
    items: Vec<HistoryEntry>,
    seal: &BoundSeal,
    summaries: &SummarySeal,
) -> Result<Vec<HistoryItem>, ApiError> {
    let mut contexts: Vec<HistoryItem> = Vec::with_capacity(items.len());
    let mut hosted = Hosted::default();
    for (item, blob) in items {
        match &*item {
            Item::Reasoning(_) => add_reasoning(&mut contexts, &mut hosted, item, seal),
            Item::Compaction(item) => contexts.push(compaction::to_history_item(item, summaries)?),
            _ => {
                let state = blob.and_then(|blob| seal.open_state(&blob));
                contexts
                    .extend(history::into_history_item(item).map(|context| HistoryItem { state, ..context }));
            }
        }
    }
    attach_states(&mut contexts);
    Ok(contexts)
}

fn add_reasoning(contexts: &mut Vec<HistoryItem>, hosted: &mut Hosted, shared: Arc<Item>, seal: &BoundSeal) {
    let Item::Reasoning(item) = &*shared else { return };
    if item.is_abandoned {
        return;
    }
    let blob = item.encrypted_content.as_deref();
    let opened = blob.and_then(|blob| seal.open(blob));
    if blob.is_some() && opened.is_none() {
        tracing::info!(item = %item.id, "dropped encrypted reasoning that was sealed by another gateway or for another tenant or provider");
    }
    let state = match opened {
        Some(OpenedBlob::Results(call)) => return hosted.add_results(contexts, call),
        Some(OpenedBlob::State(state)) => Some(state),
        None => None,
    };
    if state.is_some() || !(item.content.is_empty() && item.summary.is_empty()) {
        contexts.push(HistoryItem { state, ..HistoryItem::from(shared) });
    }
}

/// The hosted calls of a conversation that is being built; each item is looked at once.
#[derive(Default)]
struct Hosted {
    /// How many items were looked at.
    seen: usize,
    /// Calls with their results.
    known: HashSet<Id>,
    /// Places of those that are shown without results.
    shown: Vec<usize>,
}

impl Hosted {
    /// Puts a hosted call with its results in the place of the item that clients have of it.
    fn add_results(&mut self, contexts: &mut Vec<HistoryItem>, call: McpCall) {
        for (place, context) in contexts.iter().enumerate().skip(self.seen) {
            match &*context.item {
                Item::McpCall(call) => _ = self.known.insert(call.id.clone()),
                item if hosted::lacks_result(item) => self.shown.push(place),
                _ => {}
            }
        }
        self.seen = contexts.len();
        if !self.known.insert(call.id.clone()) {
            return;
        }
        match self.shown.pop().and_then(|place| contexts.get_mut(place)) {
            Some(context) => context.item = Arc::new(Item::McpCall(call)),
            // The client kept only the results.
            None => contexts.push(Item::McpCall(call).into()),
        }
    }
}

/// Attaches state to its calls and to answers before it. State of a call that is missing or comes later stays where
/// it is.
pub(super) fn attach_states(contexts: &mut Vec<HistoryItem>) {
    itemless_turns::insert(contexts);
    attach_trailing_state(contexts);
    attach_call_states(contexts);
    refused_calls::insert(contexts);
}

fn attach_call_states(contexts: &mut [HistoryItem]) {
    let holds = |context: &HistoryItem| context.state.as_ref().is_some_and(|state| !state.calls.is_empty());
    if !contexts.iter().any(holds) {
        return;
    }
    let mut calls: HashMap<String, Vec<usize>> = HashMap::new();
    for (place, context) in contexts.iter().enumerate() {
        for key in call_items::call_keys(&context.item) {
            calls.entry(key.to_owned()).or_default().push(place);
        }
    }
    for place in 0..contexts.len() {
        let Some(state) = contexts.get_mut(place).and_then(|context| context.state.as_mut()) else {
            continue;
        };
        for (key, of_call) in std::mem::take(&mut state.calls) {
            // Servers number their calls anew in each answer: the nearest is the right one.
            let nearest = calls.get(&key).and_then(|found| nearest(found, place));
            let call = nearest.and_then(|at| contexts.get_mut(at));
            match call {
                Some(call) => call.call_state.get_or_insert_default().merge(of_call),
                None => {
                    let state = contexts.get_mut(place).and_then(|context| context.state.as_mut());
                    state.map(|state| state.calls.insert(key, of_call));
                }
            }
        }
    }
}

/// The nearest of some sorted places; of two the earlier.
fn nearest(places: &[usize], to: usize) -> Option<usize> {
    let (before, after) = places.split_at_checked(places.partition_point(|at| *at < to))?;
    let near = before.last().into_iter().chain(after.first());
    near.copied().min_by_key(|at| at.abs_diff(to))
}

/// Moves state that trails an answer to the item of the answer before it.
fn attach_trailing_state(contexts: &mut [HistoryItem]) {
    let mut answer = None;
    for place in 0..contexts.len() {
        let Some(context) = contexts.get_mut(place) else { return };
        let trails = context.state.as_mut().filter(|state| state.place == StatePosition::After);
        if let (Some(state), Some(answer)) = (trails, answer) {
            let more = ProviderState { text: std::mem::take(&mut state.text), ..ProviderState::default() };
            let more = ProviderState { fields: std::mem::take(&mut state.fields), ..more };
            if let Some(answer) = contexts.get_mut(answer).filter(|_: &&mut HistoryItem| !more.is_empty()) {
                let amid = || ProviderState { place: StatePosition::Within, ..ProviderState::default() };
                answer.state.get_or_insert_with(amid).merge(more);
            }
        }
        let Some(HistoryItem { item, .. }) = contexts.get(place) else { return };
        answer = match &**item {
            Item::Message(message) if message.role != Role::Assistant => None,
            Item::Message(_) => Some(place),
            item => call_items::call_keys(item).next().map(|_| place).or(answer),
        };
    }
}
