//! Borders of turns: what is stored of them beside the items, so that whoever goes on with the conversation shows the model
//! its answers as they were.
//!
//! A turn that begins with a call says so, as calls of two turns could be those of one, and so does one of reasoning alone, which could
//! be the end of the turn before. A turn without items is kept beside the
//! first item of the next turn that has one.

use super::ResponseMachine;
use crate::turn::ProviderState;
use antwort_protocol::item::Item;

impl ResponseMachine {
    /// Notes beside the first item of the turn, if it has one, where the turn begins and what was before it. Returns its place if
    /// that is new.
    pub(super) fn mark_turn(&mut self) -> Option<u32> {
        let output = &self.response().output;
        let mut items =
            (0_u32..).zip(output.iter()).skip(self.turn.first).filter(|(_, item)| is_answer(item));
        let (place, item) = items.next()?;
        let is_reasoning = |item: &Item| matches!(item, Item::Reasoning(_));
        let only_reasoning = is_reasoning(item) && items.all(|(_, item)| is_reasoning(item));
        // Approved calls are of the answer that has asked for approval, which is of another response.
        let before = (0_u32..).zip(output.iter()).take(self.turn.first);
        let has_answer = |(place, item): (u32, &Item)| is_answer(item) && !self.abandoned.contains(&place);
        let begins = (is_call(item) || only_reasoning) && before.into_iter().any(has_answer);
        let passing = self.turn.state.take_passing();
        if !begins && self.itemless_turns.is_empty() && passing.is_empty() {
            return None;
        }
        let earlier = std::mem::take(&mut self.itemless_turns);
        let state = self.turn.state.states.entry(place).or_default();
        let is_new = !state.begins_turn || !earlier.is_empty() || !passing.is_empty();
        state.begins_turn |= begins || !earlier.is_empty();
        state.earlier.extend(earlier);
        state.refused.extend(passing);
        Some(place).filter(|_| is_new)
    }

    /// Keeps what no item has of a turn that has ended.
    pub(super) fn keep_itemless(&mut self, state: Option<&ProviderState>) {
        let begins = |state: &ProviderState| ProviderState { begins_turn: true, ..state.clone() };
        self.itemless_turns.extend(state.map(begins));
    }
}

/// Whether the model sees the item as a part of its answer.
pub(super) fn is_answer(item: &Item) -> bool {
    matches!(item, Item::Message(_) | Item::Reasoning(_)) || is_call(item)
}

fn is_call(item: &Item) -> bool {
    matches!(
        item,
        Item::FunctionCall(_)
            | Item::CustomToolCall(_)
            | Item::WebSearchCall(_)
            | Item::McpCall(_)
            | Item::McpApprovalRequest(_)
            | Item::ServerToolCall(_)
    )
}
