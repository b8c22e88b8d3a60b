//! Puts turns without items where they were: before the turn beside whose first item they are kept. All their calls were refused.

use std::sync::Arc;

use antwort_protocol::id::Id;
use antwort_protocol::item::{Item, Reasoning};
use antwort_response::turn::{HistoryItem, ProviderState};

/// Inserts the turns without items that the states of the items hold, and marks where turns begin.
pub(super) fn insert(contexts: &mut Vec<HistoryItem>) {
    let begins = |context: &HistoryItem| context.state.as_ref().is_some_and(|state| state.begins_turn);
    if !contexts.iter().any(begins) {
        return;
    }
    let old = std::mem::take(contexts);
    contexts.reserve(old.len());
    for mut context in old {
        if let Some(state) = &mut context.state {
            context.begins_turn |= std::mem::take(&mut state.begins_turn);
            contexts.extend(std::mem::take(&mut state.earlier).into_iter().map(history_item));
        }
        contexts.push(context);
    }
}

/// A turn without items as the model sees it.
pub(super) fn history_item(mut state: ProviderState) -> HistoryItem {
    state.begins_turn = false;
    let item = Arc::new(carrier(None));
    HistoryItem { state: Some(state), begins_turn: true, ..HistoryItem::from(item) }
}

/// An item that no client sees, which holds this state.
pub(super) fn carrier(sealed: Option<String>) -> Item {
    Item::Reasoning(Reasoning {
        id: Id::from("rs_itemless"),
        summary: Vec::new(),
        content: Vec::new(),
        encrypted_content: sealed,
        is_abandoned: false,
    })
}
