//! Items that a client sends again beside stored history: with `previous_response_id` or `conversation` it may replay
//! what the history has, in part or whole. What is equal there is dropped, what differs is refused.
//!
//! A call or an output is known by its `call_id`, any other item by its id if that is one of the gateway's, as it names a
//! single item. A message without an id says something new, even if it was said before.

mod calls;
mod equal;
mod found;
mod results;

use std::collections::{HashMap, HashSet};

use self::calls::Calls;
use self::equal::difference;
pub(super) use self::equal::{Print, output_print};
use self::found::Found;
use super::call_items::{call_id, output_of};
use antwort_protocol::error::ApiError;
use antwort_protocol::item::Item;
use antwort_protocol::item::hosted::McpApprovalResponse;

/// The items of an input, with their places in the request, by which errors name them.
#[derive(Debug, Default)]
pub(super) struct PlacedInput {
    pub items: Vec<Item>,
    pub places: Places,
}

/// The places of items in the request.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<usize>);

impl Places {
    /// The error as it names the item in the request.
    pub(super) fn restore(&self, mut error: ApiError) -> ApiError {
        let placed = error.body.param.as_deref().and_then(|param| {
            let (place, rest) = param.strip_prefix("input[")?.split_once(']')?;
            let sent = self.0.get(place.parse::<usize>().ok()?)?;
            Some(format!("input[{sent}]{rest}"))
        });
        if placed.is_some() {
            error.body.param = placed;
        }
        error
    }
}

impl FromIterator<(usize, Item)> for PlacedInput {
    fn from_iter<T: IntoIterator<Item = (usize, Item)>>(placed: T) -> Self {
        let (places, items) = placed.into_iter().unzip();
        Self { items, places: Places(places) }
    }
}

impl PlacedInput {
    /// Drops items that the history has, and refuses those that differ from it.
    pub(super) fn without_replayed(self, past: &[Item]) -> Result<Self, ApiError> {
        if past.is_empty() || !self.items.iter().any(may_be_replayed) {
            return Ok(self);
        }
        let mut later = Later::of(&self.items);
        let wanted = self.items.iter().filter_map(any_call_id).map(ToOwned::to_owned).collect();
        let mut history = History::of(past, &wanted);
        let mut kept = Self::default();
        let last = self.items.len().saturating_sub(1);
        for (at, (item, place)) in self.items.into_iter().zip(self.places.0).enumerate() {
            later.pass(&item);
            // A trigger at the end asks for a compaction, whatever its id.
            let is_asked = at == last && matches!(item, Item::CompactionTrigger(_));
            match history.find(&item, &later) {
                Found::Equal if !is_asked => {}
                Found::Equal | Found::New => {
                    kept.items.push(item);
                    kept.places.0.push(place);
                }
                Found::Other(field) => return Err(differs(&item, place, field)),
            }
        }
        Ok(kept)
    }
}

fn differs(item: &Item, place: usize, field: &str) -> ApiError {
    let what = match any_call_id(item) {
        Some(id) => format!("The item with call_id '{id}'"),
        None => format!("The item '{}'", item.id()),
    };
    ApiError::invalid(
        "invalid_value",
        format!("input[{place}].{field}"),
        format!(
            "{what} is in the conversation already, with another '{field}'. Send only new items, or replay the others \
             unchanged."
        ),
    )
}

/// Whether the history has to be searched for it.
fn may_be_replayed(item: &Item) -> bool {
    any_call_id(item).is_some() || matches!(item, Item::McpApprovalResponse(_)) || names_itself(item)
}

/// The `call_id` of a call or an output.
fn any_call_id(item: &Item) -> Option<&str> {
    call_id(item).or_else(|| output_of(item).map(|(id, _)| id))
}

/// Whether the item is known by its id: one that the gateway has given, or that of a call with its result, which models
/// are shown.
fn names_itself(item: &Item) -> bool {
    item.id().is_response_scoped() || matches!(item, Item::McpCall(_) | Item::ServerToolCall(_))
}

/// How many outputs of each call are still to come in the input. Only the last of them can answer a call that is open.
struct Later(HashMap<String, usize>);

impl Later {
    fn of(input: &[Item]) -> Self {
        let mut left = HashMap::new();
        for (id, _) in input.iter().filter_map(output_of) {
            *left.entry(id.to_owned()).or_default() += 1;
        }
        Self(left)
    }

    fn pass(&mut self, item: &Item) {
        if let Some(left) = output_of(item).and_then(|(id, _)| self.0.get_mut(id)) {
            *left -= 1;
        }
    }

    fn has(&self, call_id: &str) -> bool {
        self.0.get(call_id).is_some_and(|left| *left > 0)
    }
}

/// The items of a history, by what they are known by.
struct History<'a> {
    by_id: HashMap<&'a str, &'a Item>,
    calls: HashMap<&'a str, Calls<'a>>,
    answers: HashMap<&'a str, &'a McpApprovalResponse>,
}

impl<'a> History<'a> {
    /// `wanted`: the calls that are looked for, by their `call_id`.
    fn of(past: &'a [Item], wanted: &HashSet<String>) -> Self {
        let mut history = Self { by_id: HashMap::new(), calls: HashMap::new(), answers: HashMap::new() };
        for item in past {
            if names_itself(item) {
                history.by_id.insert(item.id().as_str(), item);
            }
            if let Some(id) = call_id(item).filter(|id| wanted.contains(*id)) {
                history.calls.entry(id).or_default().add(item);
            } else if let Some((id, output)) = output_of(item) {
                history.calls.get_mut(id).into_iter().for_each(|calls| calls.answer(output));
            } else if let Item::McpApprovalResponse(answer) = item {
                history.answers.insert(&answer.approval_request_id, answer);
            }
        }
        history
    }

    fn find(&mut self, item: &Item, later: &Later) -> Found {
        if let Some(calls) = call_id(item).and_then(|id| self.calls.get_mut(id)) {
            return calls.find(item);
        }
        if let Some((id, output)) = output_of(item)
            && let Some(calls) = self.calls.get_mut(id)
        {
            let is_custom = matches!(item, Item::CustomToolCallOutput(_));
            return calls.find_output(output, is_custom, later.has(id));
        }
        if let Item::McpApprovalResponse(answer) = item
            && let Some(given) = self.answers.get(answer.approval_request_id.as_str())
        {
            return equal::answer_difference(given, answer).into();
        }
        match self.by_id.get(item.id().as_str()).filter(|_| names_itself(item)) {
            Some(stored) => difference(stored, item).into(),
            None => Found::New,
        }
    }
}

#[cfg(test)]
mod tests;
