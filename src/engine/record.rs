//! What is kept of a run: the response as sent, and its items as clients and models see them.

use std::ops::Range;
use std::sync::Arc;

use super::prepare::Prepared;
use super::states::{self, Found};
use crate::protocol::dialect::Dialect;
use crate::protocol::item::{Item, ItemStatus};
use crate::protocol::response::{Output, Response, Snapshot, to_raw};
use crate::response::machine::{Finished, Machine};
use crate::store::{History, Record, Side, StoredItem, StoredState};

/// The row of a response that has ended.
pub(super) fn ended(prepared: &Prepared, finished: &Finished) -> Record {
    let snapshot = &finished.snapshot;
    let mut items = input_items(prepared);
    let output = &snapshot.response.output;
    items.extend((0_u32..).zip(output.iter()).map(|(index, item)| StoredItem {
        id: item.id().clone(),
        side: Side::Output,
        wire: wire(item, output.dialect()),
        history: history(item, finished.sealed.get(&index), finished.history.get(&index)),
        state: state(prepared, item, finished.sealed.get(&index)),
    }));
    record(prepared, &snapshot.response, snapshot.json(), items)
}

/// The row of a response that is still being made.
pub(super) fn running(prepared: &Prepared, response: &Response) -> Record {
    let output = Output::new(response.output.dialect());
    let snapshot = Snapshot::new(Response { output, ..response.clone() });
    record(prepared, response, snapshot.json(), input_items(prepared))
}

/// Items of a response that is still being made, without what only its end will know of them.
pub(super) fn output_items(prepared: &Prepared, machine: &Machine, which: Range<usize>) -> Vec<StoredItem> {
    let output = &machine.response().output;
    which
        .filter_map(|index| {
            let item = output.get(index)?;
            let place = u32::try_from(index).ok()?;
            Some(StoredItem {
                id: item.id().clone(),
                side: Side::Output,
                wire: wire(item, output.dialect()),
                history: history(item, machine.sealed_state(place), machine.history_of(place)),
                state: state(prepared, item, machine.sealed_state(place)),
            })
        })
        .collect()
}

fn record(prepared: &Prepared, response: &Response, body: &str, items: Vec<StoredItem>) -> Record {
    Record {
        id: response.id.clone(),
        owner: prepared.owner.clone(),
        status: response.status,
        model: response.echo.model.clone(),
        created_at: response.created_at,
        previous: prepared.previous.clone(),
        body: body.into(),
        items,
    }
}

fn input_items(prepared: &Prepared) -> Vec<StoredItem> {
    let Found { states, results } = &prepared.found;
    let input = prepared.input.iter().enumerate();
    input
        .map(|(place, item)| StoredItem {
            id: item.id().clone(),
            side: Side::Input,
            wire: wire(item, prepared.encoding.dialect),
            history: match results.get(&place) {
                Some(call) => History::Other(to_raw(&Item::McpCall(call.clone())).get().into()),
                None => History::Same,
            },
            state: states.get(&place).map(|blob| stored_state(prepared, item, blob)),
        })
        .collect()
}

/// State that is stored beside an item; a reasoning item holds its own.
fn state(prepared: &Prepared, item: &Item, sealed: Option<&String>) -> Option<StoredState> {
    let sealed = sealed.filter(|_| !matches!(item, Item::Reasoning(_)))?;
    Some(stored_state(prepared, item, sealed))
}

fn stored_state(prepared: &Prepared, item: &Item, blob: &str) -> StoredState {
    StoredState { key: states::key(&prepared.owner, item), blob: blob.into() }
}

fn history(item: &Item, sealed: Option<&String>, other: Option<&Item>) -> History {
    if let Some(other) = other {
        return History::Other(json(other));
    }
    match item {
        Item::UserMessage(_) => History::Hidden,
        // A call that was cut off was never made: a continuation must not have to answer it.
        Item::FunctionCall(call) if call.status != ItemStatus::Completed => History::Hidden,
        Item::CustomToolCall(call) if call.status != ItemStatus::Completed => History::Hidden,
        Item::Reasoning(reasoning) => match sealed {
            Some(sealed) => {
                let mut with_state = reasoning.clone();
                with_state.encrypted_content = Some(sealed.clone());
                History::Other(json(&Item::Reasoning(with_state)))
            }
            None => History::Same,
        },
        _ => History::Same,
    }
}

/// The item as clients see it.
fn wire(item: &Item, dialect: Dialect) -> Arc<str> {
    to_raw(&item.in_dialect(dialect, false)).get().into()
}

fn json(item: &Item) -> Arc<str> {
    to_raw(item).get().into()
}
