//! What is there of a run that was claimed: its committed items, and what was sent of it since.

use std::sync::Arc;

use crate::context::EngineParts;
use crate::history::HistoryEntry;
use crate::itemless_turns::carrier;
use crate::run::{RunState, SavedRun};
use crate::seen_log::{SeenLog, seen};
use antwort_protocol::item::Item;
use antwort_response::machine::Seal;
use antwort_store::{Direction, ModelView, OrphanedRun, StoreError, StoredItem};

/// What is left of a run.
pub(super) struct Left {
    pub saved: SavedRun,
    /// The output items that are finished and committed, as they are stored.
    pub committed: Vec<StoredItem>,
    /// The same items.
    pub output: Vec<Item>,
    /// Of these, what belongs to turns before the last one, as the model sees it.
    pub history: Vec<HistoryEntry>,
    pub seen: SeenLog,
}

/// Reads what is left of a run; `None` if that cannot be read.
pub(super) async fn read(parts: &EngineParts, run: &OrphanedRun) -> Result<Option<Left>, StoreError> {
    let sealed = run.state.as_deref();
    let Some(saved) = sealed.and_then(|sealed| SavedRun::open(&parts.seal, &run.owner.tenant, sealed)) else {
        return Ok(None);
    };
    let stored = run.items.iter().filter(|item| item.direction == Direction::Output);
    let committed: Vec<StoredItem> = stored.take(saved.machine.unfinished()).cloned().collect();
    let before = saved.machine.turn_begins().unwrap_or(committed.len());
    let output: Result<Vec<Item>, _> =
        committed.iter().map(|item| serde_json::from_str(&item.wire)).collect();
    let (Ok(output), Ok(mut history)) = (output, history(&committed, before, &saved.state)) else {
        return Ok(None);
    };
    // Sealed as those that are stored beside items.
    let seal = parts.seal.bound_to(&run.owner.tenant, &saved.output.provider);
    let itemless = saved.machine.itemless_turns().iter();
    history.extend(itemless.map(|state| (Arc::new(carrier(Some(seal.seal(state)))), None)));
    if output.len() < saved.machine.unfinished() {
        return Ok(None);
    }
    let seen = seen(&*parts.store, run, saved.machine.sequence()).await?;
    Ok(Some(Left { saved, committed, output, history, seen }))
}

/// The first items with the messages that the run has added between them.
fn history(
    committed: &[StoredItem],
    before: usize,
    state: &RunState,
) -> Result<Vec<HistoryEntry>, serde_json::Error> {
    let mut history = Vec::with_capacity(before);
    for place in 0..=before {
        let added = state.messages.iter().filter(|message| message.place == place);
        history.extend(added.map(|message| (Arc::new(message.item()), None)));
        if let Some(item) = committed.get(place).filter(|_| place < before) {
            history.extend(entry(item)?);
        }
    }
    Ok(history)
}

/// An item as the model sees it; `None`: it does not.
fn entry(item: &StoredItem) -> Result<Option<HistoryEntry>, serde_json::Error> {
    let text = match &item.model_view {
        ModelView::Same => &item.wire,
        ModelView::Override(text) => text,
        ModelView::Hidden => return Ok(None),
    };
    let blob = item.state.as_ref().map(|state| Arc::clone(&state.blob));
    Ok(Some((Arc::new(serde_json::from_str(text)?), blob)))
}
