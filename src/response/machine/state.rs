//! Places what a provider wants returned with its answer: in reasoning items that clients carry, or beside stored
//! items.
//!
//! Clients carry it in the open reasoning item, or in one of its own: before the call or the text that it came
//! with, or after the answer if that was already written. State that is stored stands beside the call that it belongs
//! to; state of the whole answer stands beside its first call, or else its text, where a replay finds it even if the
//! client dropped the reasoning items.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Events, OpenItem, ReasoningDisplay, ResponseMachine, ShowSealed, Violation};
use crate::protocol::item::hosted::McpCall;
use crate::protocol::item::{Item, ItemStatus};
use crate::response::turn::{ProviderFields, ProviderState, StatePosition};

/// Bytes of a hosted call's result that clients carry; the model is told that the rest was cut off.
const MAX_CARRIED_RESULT: usize = 64 * 1024;

/// The state of one answer of the model.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct AnswerState {
    /// State that has come and has no place yet.
    pending: ProviderState,
    /// State by the place of the item that holds it, or that it is stored beside.
    states: BTreeMap<u32, ProviderState>,
    calls: Vec<PlacedCall>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PlacedCall {
    slot: u32,
    /// The id under which the call is sent back to the provider.
    key: String,
    place: Option<u32>,
}

impl AnswerState {
    /// State by places of items, and state without an item.
    pub(super) fn into_parts(self) -> (BTreeMap<u32, ProviderState>, Option<ProviderState>) {
        (self.states, Some(self.pending).filter(|state| !state.is_empty()))
    }
}

impl ResponseMachine {
    /// Whether clients carry state, so that it needs items.
    fn carries_state(&self) -> bool {
        self.options.seal.is_some() && self.options.show_sealed != ShowSealed::Never
    }

    /// Whether a later response needs this state beyond what its item shows: plain reasoning may be shown in full.
    fn is_needed(&self, state: &ProviderState) -> bool {
        let shown = self.options.reasoning == ReasoningDisplay::Text;
        !(state.is_empty() || shown && state.fields.is_empty() && state.calls.is_empty())
    }

    /// The blob that clients are shown for this state.
    pub(super) fn client_blob(&self, state: &ProviderState) -> Option<String> {
        let shown = match self.options.show_sealed {
            ShowSealed::Never => false,
            ShowSealed::Needed => self.is_needed(state),
            ShowSealed::Always => !state.is_empty(),
        };
        self.options.seal.as_ref().filter(|_| shown).map(|seal| seal.seal(state))
    }

    /// Adds fields that the provider wants returned with its message.
    pub(super) fn keep_fields(&mut self, fields: ProviderFields) {
        match &mut self.open {
            OpenItem::Reasoning(open) => open.state.merge_fields(fields),
            _ => self.turn.state.pending.merge_fields(fields),
        }
    }

    /// Adds fields that the provider wants returned with a call, whose item may be written already.
    pub(super) fn keep_call_fields(&mut self, slot: u32, fields: ProviderFields) {
        if let Some(before) = self.turn.pending.call_fields(slot) {
            *before = Some(Box::new(fields));
            return;
        }
        if let OpenItem::Buffered(open) = &mut self.open
            && open.slot == slot
        {
            open.fields = Some(Box::new(fields));
            return;
        }
        let carried = self.carries_state();
        let state = &mut self.turn.state;
        let Some(PlacedCall { key, place, .. }) = state.calls.iter().rfind(|call| call.slot == slot) else {
            return;
        };
        match (place, carried) {
            (Some(place), false) => {
                state.states.entry(*place).or_default().calls.insert(key.clone(), fields);
            }
            _ => {
                state.pending.calls.insert(key.clone(), fields);
            }
        }
    }

    /// Writes pending state before a call: what came before it and with it.
    pub(super) fn flush_state_before_call(
        &mut self,
        slot: u32,
        key: &str,
        fields: Option<Box<ProviderFields>>,
        out: &mut Events,
    ) -> Result<(), Violation> {
        let state = &mut self.turn.state;
        if let Some(fields) = fields {
            state.pending.calls.insert(key.to_owned(), *fields);
        }
        state.calls.push(PlacedCall { slot, key: key.to_owned(), place: None });
        self.flush_state_before_item(out)?;
        self.close(ItemStatus::Completed, out)
    }

    /// Notes the place of the call's item.
    pub(super) fn place_call(&mut self, slot: u32, output_index: u32) {
        let state = &mut self.turn.state;
        let first = state.calls.iter().all(|call| call.place.is_none());
        let Some(call) = state.calls.iter_mut().rfind(|call| call.slot == slot) else { return };
        call.place = Some(output_index);
        // If clients carry state, it is in an item already.
        if let Some(fields) = state.pending.calls.remove(&call.key) {
            let beside = state.states.entry(output_index).or_default();
            beside.calls.insert(call.key.clone(), fields);
            beside.place = if first { StatePosition::Before } else { StatePosition::Within };
        }
    }

    /// Writes pending state before an item, so that clients see it first.
    pub(super) fn flush_state_before_item(&mut self, out: &mut Events) -> Result<(), Violation> {
        if self.turn.state.pending.is_empty() || !self.carries_state() {
            return Ok(());
        }
        if matches!(self.open, OpenItem::Reasoning(_)) {
            self.join_waiting();
            return Ok(());
        }
        self.close(ItemStatus::Completed, out)?;
        let place = if self.is_first_of_turn() { StatePosition::Before } else { StatePosition::Within };
        self.write_state(place, out)
    }

    /// Moves pending state into the open reasoning item.
    pub(super) fn join_waiting(&mut self) {
        if let OpenItem::Reasoning(open) = &mut self.open {
            open.state.merge(std::mem::take(&mut self.turn.state.pending));
        }
    }

    fn is_first_of_turn(&self) -> bool {
        self.response().output.len() == self.turn.first
    }

    fn write_state(&mut self, place: StatePosition, out: &mut Events) -> Result<(), Violation> {
        let state = ProviderState { place, ..std::mem::take(&mut self.turn.state.pending) };
        let mut open = self.add_reasoning(out)?;
        open.state = state;
        self.close_reasoning(open, out)
    }

    /// Stores the state of a closed reasoning item.
    pub(super) fn keep_state(&mut self, output_index: u32, state: ProviderState) {
        if !state.is_empty() {
            self.turn.state.states.insert(output_index, state);
        }
    }

    /// Places all remaining state, as far as items were written. Called at the end of the answer.
    pub(super) fn finalize_state(&mut self, out: &mut Events) -> Result<(), Violation> {
        if self.carries_state() {
            let over = matches!(self.open, OpenItem::Nothing) && self.turn.pending.is_empty();
            // An answer that was cut off ends here, and no provider accepts half of one.
            if over && !self.turn.truncated && !self.turn.state.pending.is_empty() {
                let place =
                    if self.is_first_of_turn() { StatePosition::Before } else { StatePosition::After };
                self.write_state(place, out)?;
            }
            return Ok(());
        }
        self.gather_state();
        let Some(seal) = &self.options.seal else { return Ok(()) };
        for (place, state) in &self.turn.state.states {
            if !self.sealed.contains_key(place) && self.is_needed(state) {
                self.sealed.insert(*place, seal.seal(state));
            }
        }
        Ok(())
    }

    /// Collects state of the whole answer beside one of its items.
    fn gather_state(&mut self) {
        let shown = self.options.reasoning == ReasoningDisplay::Text;
        let output = &self.accumulator.response().output;
        let item = |place: u32| output.get(place as usize);
        let is_whole = |place: &u32| match item(*place) {
            // A call that was cut off is not part of the history.
            Some(Item::FunctionCall(call)) => call.status != ItemStatus::Incomplete,
            Some(Item::CustomToolCall(call)) => call.status != ItemStatus::Incomplete,
            _ => true,
        };
        let is_reasoning = |place: u32| matches!(item(place), Some(Item::Reasoning(_)));
        let AnswerState { pending: waiting, states, calls } = &mut self.turn.state;
        let call = calls.iter().filter_map(|call| call.place).find(is_whole);
        let mut messages = (0_u32..)
            .zip(output.iter())
            .skip(self.turn.first)
            .filter(|(_, item)| matches!(item, Item::Message(_)));
        if let Some(place) = call.or_else(|| messages.next().map(|(place, _)| place)) {
            let mut gathered = ProviderState::default();
            for (_, state) in states.iter_mut().filter(|(place, _)| is_reasoning(**place)) {
                let fields = std::mem::take(&mut state.fields);
                let text = if shown { String::new() } else { std::mem::take(&mut state.text) };
                gathered.merge(ProviderState { text, fields, ..ProviderState::default() });
            }
            gathered.merge(std::mem::take(waiting));
            if !gathered.is_empty() {
                states.entry(place).or_default().merge(gathered);
            }
            states.retain(|_, state| !state.is_empty());
            return;
        }
        if waiting.is_empty() {
            return;
        }
        let reasoning = states.keys().rev().copied().find(|place| is_reasoning(*place));
        if let Some(place) = reasoning {
            states.entry(place).or_default().merge(std::mem::take(waiting));
        }
    }

    /// The blob in which clients carry the results of a hosted call, as the model saw them.
    pub(super) fn seal_results(&self, call: &Item) -> Option<String> {
        let seal = self.options.seal.as_ref().filter(|_| self.carries_state())?;
        let Item::McpCall(call) = call else { return None };
        Some(match &call.output {
            Some(output) if output.len() > MAX_CARRIED_RESULT => {
                let output =
                    format!("{}\n[…]", output.get(..output.floor_char_boundary(MAX_CARRIED_RESULT))?);
                seal.seal_results(&McpCall { output: Some(output), ..call.clone() })
            }
            _ => seal.seal_results(call),
        })
    }

    /// Writes a reasoning item with nothing but this blob.
    pub(super) fn write_sealed_reasoning(
        &mut self,
        blob: Option<String>,
        out: &mut Events,
    ) -> Result<(), Violation> {
        let Some(blob) = blob else { return Ok(()) };
        let output_index = self.add_reasoning(out)?.output_index;
        self.finish_item(output_index, out, |item| {
            if let Item::Reasoning(reasoning) = item {
                reasoning.encrypted_content = Some(blob);
            }
        })
    }
}
