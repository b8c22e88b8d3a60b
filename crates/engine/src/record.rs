//! Builds the stored rows of a run: the response as sent, and its items as clients and models see them.

use std::ops::Range;
use std::sync::Arc;

use super::echo;
use super::run_conversation::RunConversation;
use super::run_spec::RunSpec;
use super::states::{self, StoredInput};
use antwort_protocol::dialect::Dialect;
use antwort_protocol::error::ApiError;
use antwort_protocol::item::{Item, ItemStatus};
use antwort_protocol::json;
use antwort_protocol::response::{OutputItems, Response, ResponseSnapshot, ResponseStatus, Usage};
use antwort_response::machine::{ClosedResponse, ResponseMachine};
use antwort_store::{Direction, ModelView, OrphanedRun, Owner, ResponseRecord, StoredItem, StoredState};

/// The row of a response that has ended.
pub(super) fn ended(spec: &RunSpec, closed: &ClosedResponse) -> ResponseRecord {
    let mut items = input_items(spec);
    items.extend_from_slice(&spec.input.committed);
    items.extend(closed_items(&spec.owner, closed, spec.input.committed.len()));
    let output = closed.snapshot.response.output.iter();
    let all = spec.input.items.iter().map(|item| &**item).chain(output);
    let conversation = spec.appends_to.as_ref().map(|conversation| conversation.ended(all));
    ResponseRecord {
        conversation,
        ..record(spec, &closed.snapshot.response, Arc::clone(closed.snapshot.json()), items)
    }
}

/// The row of a response that another process ends; the first `stored` items of its output are stored as they are.
pub(super) fn recovered(
    orphan: &OrphanedRun,
    closed: &ClosedResponse,
    (stored, trace): (usize, Option<Arc<str>>),
) -> ResponseRecord {
    let mut items = orphan.items.clone();
    items.extend(closed_items(&orphan.owner, closed, stored));
    ResponseRecord {
        lease: orphan.lease.clone(),
        owner: orphan.owner.clone(),
        status: closed.snapshot.response.status,
        model: orphan.model.clone(),
        created_at: orphan.created_at,
        previous: orphan.previous.clone(),
        conversation: None,
        body: Arc::clone(closed.snapshot.json()),
        items,
        outbox: Vec::new(),
        approvals: Vec::new(),
        trace,
        is_unlisted: false,
    }
}

/// The row of a response whose body or items cannot be read: at least its status is right.
pub(super) fn unreadable(orphan: &OrphanedRun) -> ResponseRecord {
    ResponseRecord {
        lease: orphan.lease.clone(),
        owner: orphan.owner.clone(),
        status: ResponseStatus::Failed,
        model: orphan.model.clone(),
        created_at: orphan.created_at,
        previous: orphan.previous.clone(),
        conversation: None,
        body: Arc::clone(&orphan.body),
        items: orphan.items.clone(),
        outbox: Vec::new(),
        approvals: Vec::new(),
        trace: None,
        is_unlisted: false,
    }
}

/// The row of a request that failed before its first output: what an operator looks for, and nothing of what was asked.
/// It continues nothing and is part of no conversation.
pub(super) fn failed_request(
    spec: &RunSpec,
    error: &ApiError,
    usage: Option<Usage>,
    trace: Option<Arc<str>>,
) -> ResponseRecord {
    let response = echo::failed_request(&spec.response, error, usage);
    ResponseRecord {
        lease: spec.lease.clone(),
        owner: spec.owner.clone(),
        status: response.status,
        model: response.echo.model.clone(),
        created_at: response.created_at,
        previous: None,
        conversation: None,
        body: Arc::clone(ResponseSnapshot::new(response).json()),
        items: Vec::new(),
        outbox: Vec::new(),
        approvals: Vec::new(),
        trace,
        is_unlisted: false,
    }
}

/// The output items of a closed response from this place on.
fn closed_items<'a>(
    owner: &'a Owner,
    closed: &'a ClosedResponse,
    from: usize,
) -> impl Iterator<Item = StoredItem> + 'a {
    let output = &closed.snapshot.response.output;
    (0_u32..).zip(output.iter()).skip(from).map(move |(index, item)| {
        let sealed = closed.sealed.get(&index);
        let stored = stored_output(owner, item, output.dialect(), sealed, closed.history.get(&index));
        hide(stored, closed.abandoned.contains(&index))
    })
}

/// An item of a turn that was abandoned is no part of the conversation.
fn hide(item: StoredItem, is_abandoned: bool) -> StoredItem {
    match is_abandoned {
        true => StoredItem { model_view: ModelView::Hidden, state: None, ..item },
        false => item,
    }
}

fn stored_output(
    owner: &Owner,
    item: &Item,
    dialect: Dialect,
    sealed: Option<&String>,
    seen: Option<&Item>,
) -> StoredItem {
    // A reasoning item holds its own state.
    let state = sealed.filter(|_| !matches!(item, Item::Reasoning(_)));
    StoredItem {
        id: item.id().clone(),
        direction: Direction::Output,
        wire: wire(item, dialect),
        model_view: history(item, sealed, seen),
        state: state.map(|blob| stored_state(owner, item, blob)),
    }
}

/// The row of a response in progress.
pub(super) fn running(spec: &RunSpec, response: &Response) -> ResponseRecord {
    let output = OutputItems::new(response.output.dialect());
    let snapshot = ResponseSnapshot::new(Response { output, ..response.clone() });
    record(spec, response, Arc::clone(snapshot.json()), input_items(spec))
}

/// Items of a response in progress, without what is known only at its end.
pub(super) fn output_items(
    spec: &RunSpec,
    machine: &ResponseMachine,
    which: Range<usize>,
) -> Vec<StoredItem> {
    let output = &machine.response().output;
    which
        .filter_map(|index| {
            let item = output.get(index)?;
            let place = u32::try_from(index).ok()?;
            let (sealed, seen) = (machine.sealed_state(place), machine.history_of(place));
            let stored = stored_output(&spec.owner, item, output.dialect(), sealed, seen);
            Some(hide(stored, machine.is_abandoned(place)))
        })
        .collect()
}

fn record(spec: &RunSpec, response: &Response, body: Arc<str>, items: Vec<StoredItem>) -> ResponseRecord {
    ResponseRecord {
        lease: spec.lease.clone(),
        owner: spec.owner.clone(),
        status: response.status,
        model: response.echo.model.clone(),
        created_at: response.created_at,
        previous: spec.previous.clone(),
        conversation: spec.appends_to.as_ref().map(RunConversation::running),
        body,
        items,
        outbox: Vec::new(),
        approvals: Vec::new(),
        trace: None,
        is_unlisted: spec.is_unlisted,
    }
}

fn input_items(spec: &RunSpec) -> Vec<StoredItem> {
    stored_input(&spec.owner, spec.output.dialect, &spec.input.items, &spec.input.found).collect()
}

/// Items of a client as they are stored, with what was found of them.
pub(super) fn stored_input<'a>(
    owner: &'a Owner,
    dialect: Dialect,
    input: &'a [Arc<Item>],
    StoredInput { states, results }: &'a StoredInput,
) -> impl Iterator<Item = StoredItem> + 'a {
    input.iter().enumerate().map(move |(place, item)| StoredItem {
        id: item.id().clone(),
        direction: Direction::Input,
        wire: wire(item, dialect),
        model_view: match results.get(&place) {
            Some(call) => ModelView::Override(json::to_text(&Item::McpCall(call.clone()))),
            None => ModelView::Same,
        },
        state: states.get(&place).map(|blob| stored_state(owner, item, blob)),
    })
}

fn stored_state(owner: &Owner, item: &Item, blob: &str) -> StoredState {
    StoredState { key: states::key(owner, item), blob: blob.into() }
}

fn history(item: &Item, sealed: Option<&String>, other: Option<&Item>) -> ModelView {
    if let Some(other) = other {
        return ModelView::Override(json::to_text(other));
    }
    match item {
        Item::UserMessage(_) => ModelView::Hidden,
        // A call that was cut off was never made: a continuation must not have to answer it.
        Item::FunctionCall(call) if call.status != ItemStatus::Completed => ModelView::Hidden,
        Item::CustomToolCall(call) if call.status != ItemStatus::Completed => ModelView::Hidden,
        Item::Reasoning(reasoning) => match sealed {
            Some(sealed) => {
                let mut with_state = reasoning.clone();
                with_state.encrypted_content = Some(sealed.clone());
                ModelView::Override(json::to_text(&Item::Reasoning(with_state)))
            }
            None => ModelView::Same,
        },
        _ => ModelView::Same,
    }
}

/// The item as clients see it.
fn wire(item: &Item, dialect: Dialect) -> Arc<str> {
    json::to_text(&item.in_dialect(dialect, false))
}
