//! Puts the calls that the gateway has refused where the model made them: between the calls of their answer that are items.

use std::collections::HashMap;

use super::call_items::call_keys;
use antwort_protocol::item::Item;
use antwort_response::turn::{HistoryItem, RefusedCall};

/// Where a call is to be inserted: before the item at this place.
struct Insertion {
    at: usize,
    call: RefusedCall,
    /// That item is of the same answer.
    leads: bool,
    /// The place of the item whose state held it.
    holder: usize,
}

/// Inserts the refused calls that the states of the items hold. Behind a call that waits for approval they are told of
/// in the place of its request.
pub(super) fn insert(contexts: &mut Vec<HistoryItem>) {
    let holds = |context: &HistoryItem| context.state.as_ref().is_some_and(|state| !state.refused.is_empty());
    if !contexts.iter().any(holds) {
        return;
    }
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for (place, context) in contexts.iter().enumerate() {
        for key in call_keys(&context.item).chain(request_key(&context.item)) {
            places.entry(key.to_owned()).or_default().push(place);
        }
    }
    // Servers number their calls anew in each answer: the nearest is the right one.
    let find = |key: Option<&String>, holder: usize| {
        let found = places.get(key?)?;
        found.iter().copied().min_by_key(|place| place.abs_diff(holder))
    };
    let mut insertions = Vec::new();
    for (holder, context) in contexts.iter_mut().enumerate() {
        let Some(state) = context.state.as_mut() else { continue };
        for call in std::mem::take(&mut state.refused) {
            let behind = || find(call.after.as_ref(), holder).map(|place| place + 1);
            let ahead = || find(call.before.as_ref(), holder).map(|place| (place, true));
            let at = behind().map(|place| (place, false)).or_else(ahead);
            let (at, leads) = at.unwrap_or((holder + 1, false));
            insertions.push(Insertion { at, call, leads, holder });
        }
    }
    // Stable: calls of one place keep their order.
    insertions.sort_by_key(|insertion| insertion.at);
    let old = std::mem::take(contexts);
    contexts.reserve(old.len() + insertions.len());
    let mut insertions = insertions.into_iter().peekable();
    for (place, mut context) in old.into_iter().enumerate() {
        while let Some(insertion) = insertions.next_if(|insertion| insertion.at <= place) {
            let Insertion { call, leads, holder, .. } = insertion;
            let mut refused = HistoryItem::from(call);
            // What leads the answer leads its first call.
            if leads {
                refused.begins_turn = std::mem::take(&mut context.begins_turn);
                refused.state = context.state.take_if(|_| holder == place);
            }
            contexts.push(refused);
        }
        contexts.push(context);
    }
    contexts.extend(insertions.map(|insertion| HistoryItem::from(insertion.call)));
}

/// A call that waits for approval is known by the id of its request.
fn request_key(item: &Item) -> Option<&str> {
    match item {
        Item::McpApprovalRequest(request) => Some(request.id.as_str()),
        _ => None,
    }
}
