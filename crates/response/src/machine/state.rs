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
use crate::turn::{CallState, ProviderFields, ProviderState, RefusedCall, StatePosition};
use antwort_protocol::item::hosted::McpCall;
use antwort_protocol::item::{Item, ItemStatus};

/// Bytes of a hosted call's result that clients carry; the model is told that the rest was cut off.
const MAX_CARRIED_RESULT: usize = 64 * 1024;

/// The state of one answer of the model.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct AnswerState {
    /// State that has come and has no place yet.
    pending: ProviderState,
    /// State by the place of the item that holds it, or that it is stored beside.
    pub(super) states: BTreeMap<u32, ProviderState>,
    calls: Vec<PlacedCall>,
    /// Refused calls, by slot, until all calls of the answer are items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refused: Vec<(u32, RefusedCall)>,
    /// Those before the first call, of which clients carry no state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    passing: Vec<RefusedCall>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PlacedCall {
    slot: u32,
    /// The id that the gateway has for the call.
    key: String,
    place: Option<u32>,
}

impl AnswerState {
    /// Puts refused calls between those that are items: those before the first call that is none yet. Clients carry those that are not
    /// `beside` their items.
    ///
    /// They are kept beside the call before them: the items of earlier calls may be stored already.
    fn place_refused(&mut self, first_pending: Option<u32>, beside: impl Fn(&RefusedCall) -> bool) -> bool {
        let is_behind = |slot: u32| first_pending.is_some_and(|first| slot > first);
        let refused = self.refused.extract_if(.., |(slot, _)| !is_behind(*slot)).collect::<Vec<_>>();
        let is_any = !refused.is_empty();
        for (slot, call) in refused {
            let after = self.calls.iter().filter(|call| call.slot < slot).max_by_key(|call| call.slot);
            let before = self.calls.iter().filter(|call| call.slot > slot).min_by_key(|call| call.slot);
            let key = |call: Option<&PlacedCall>| call.map(|call| call.key.clone());
            let place = after.and_then(|call| call.place);
            let is_beside = beside(&call);
            let call = RefusedCall { after: key(after), before: key(before), ..call };
            match place.filter(|_| is_beside) {
                Some(place) => {
                    let position = self.position_of_call(place);
                    let state = self.states.entry(place);
                    let state =
                        state.or_insert_with(|| ProviderState { place: position, ..Default::default() });
                    state.refused.push(call);
                }
                None if is_beside => self.passing.push(call),
                None => self.pending.refused.push(call),
            }
        }
        is_any
    }

    /// Where state beside the item of a call belongs: only the first call of an answer begins it.
    fn position_of_call(&self, place: u32) -> StatePosition {
        match self.calls.iter().filter_map(|call| call.place).min() < Some(place) {
            true => StatePosition::Within,
            false => StatePosition::Before,
        }
    }

    /// Refused calls that are kept beside the first item of the answer.
    pub(super) fn take_passing(&mut self) -> Vec<RefusedCall> {
        std::mem::take(&mut self.passing)
    }

    /// State by places of items, and state without an item.
    pub(super) fn into_parts(mut self) -> (BTreeMap<u32, ProviderState>, Option<ProviderState>) {
        self.pending.refused.append(&mut self.passing);
        (self.states, Some(self.pending).filter(|state| !state.is_empty()))
    }

    /// Moves ids of calls that no client carries beside their calls.
    fn place_late_ids(&mut self) {
        for PlacedCall { key, place, .. } in &self.calls {
            if let Some(place) = place
                && let Some(id) = self.pending.calls.remove(key)
            {
                let beside = self.states.entry(*place).or_default();
                beside.calls.entry(key.clone()).or_default().merge(id);
            }
        }
    }
}

impl ResponseMachine {
    /// Whether clients carry state, so that it needs items.
    pub(super) fn carries_state(&self) -> bool {
        self.options.seal.is_some() && self.options.show_sealed != ShowSealed::Never
    }

    /// Whether a later response needs this state beyond what its item shows: plain reasoning may be shown in full.
    fn is_needed(&self, state: &ProviderState) -> bool {
        let shown = self.options.reasoning == ReasoningDisplay::Text;
        state.has_more_than_text() || !(shown || state.is_empty())
    }

    /// Whether clients carry this state. Ids of calls alone are no reason for an item that clients would not have otherwise,
    /// unless they asked for all of it.
    fn needs_item(&self, state: &ProviderState) -> bool {
        self.carries_state()
            && match self.options.show_sealed {
                ShowSealed::Never => false,
                ShowSealed::Needed => {
                    let is_signed = state.calls.values().any(CallState::is_signed);
                    is_signed || !(state.text.is_empty() && state.fields.is_empty())
                }
                ShowSealed::Always => {
                    !(state.text.is_empty() && state.fields.is_empty() && state.calls.is_empty())
                }
            }
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
        if let Some((_, before)) = self.turn.pending.call_state(slot) {
            *before = Some(Box::new(fields));
            return;
        }
        if let OpenItem::Buffered(open) = &mut self.open
            && open.slot == slot
        {
            open.fields = Some(Box::new(fields));
            return;
        }
        if let Some(state) = self.state_of_call(slot) {
            state.fields = fields;
        }
    }

    /// Keeps the provider's id of a call, which came later than its name.
    pub(super) fn keep_call_id(&mut self, slot: u32, call_id: String) {
        if let Some((before, _)) = self.turn.pending.call_state(slot) {
            *before = Some(call_id);
            return;
        }
        if let OpenItem::Buffered(open) = &mut self.open
            && open.slot == slot
        {
            open.call_id = Some(call_id);
            return;
        }
        if let Some(state) = self.state_of_call(slot) {
            state.id = Some(call_id);
        }
    }

    /// Where the state of a call is collected whose item is written.
    fn state_of_call(&mut self, slot: u32) -> Option<&mut CallState> {
        let carried = self.carries_state();
        let state = &mut self.turn.state;
        let PlacedCall { key, place, .. } = state.calls.iter().rfind(|call| call.slot == slot)?;
        let holder = match (place, carried) {
            (Some(place), false) => state.states.entry(*place).or_default(),
            _ => &mut state.pending,
        };
        Some(holder.calls.entry(key.clone()).or_default())
    }

    /// Keeps calls of the answer that were refused, by slot and in order.
    pub fn keep_refused(&mut self, calls: Vec<(u32, RefusedCall)>) {
        self.turn.state.refused.extend(calls);
    }

    /// Writes pending state before a call: what came before it and with it.
    pub(super) fn flush_state_before_call(
        &mut self,
        slot: u32,
        key: &str,
        (id, fields): (Option<String>, Option<Box<ProviderFields>>),
        out: &mut Events,
    ) -> Result<(), Violation> {
        let state = &mut self.turn.state;
        let fields = fields.map(|fields| *fields).unwrap_or_default();
        let call = CallState { id: id.filter(|id| !id.is_empty()), fields };
        if !call.is_empty() {
            state.pending.calls.insert(key.to_owned(), call);
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
        // What clients carry is in an item already.
        if let Some(of_call) = state.pending.calls.remove(&call.key) {
            let beside = state.states.entry(output_index).or_default();
            beside.calls.insert(call.key.clone(), of_call);
            beside.place = if first { StatePosition::Before } else { StatePosition::Within };
        }
    }

    /// Writes pending state before an item, so that clients see it first.
    pub(super) fn flush_state_before_item(&mut self, out: &mut Events) -> Result<(), Violation> {
        if !self.needs_item(&self.turn.state.pending) {
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
        // Clients carry those that did nothing wrong only if the run waits for them.
        let (is_stored, waits) = (!self.carries_state(), self.turn_waits());
        let beside = |call: &RefusedCall| is_stored || call.is_passing && !waits;
        let has_refused = self.turn.state.place_refused(self.turn.pending.first_call(), beside);
        if self.carries_state() {
            let over = matches!(self.open, OpenItem::Nothing) && self.turn.pending.is_empty();
            // An answer that was cut off ends here, and no provider accepts half of one.
            if over && !self.turn.truncated && self.needs_item_at_end() {
                let place =
                    if self.is_first_of_turn() { StatePosition::Before } else { StatePosition::After };
                self.write_state(place, out)?;
            }
            if !self.needs_item_at_end() {
                self.turn.state.place_late_ids();
            }
        } else {
            self.gather_state();
        }
        let marked = self.mark_turn();
        let Some(seal) = &self.options.seal else { return Ok(()) };
        for (place, state) in &self.turn.state.states {
            let is_marked = marked == Some(*place);
            // What is marked is more than clients carry.
            let is_item = self.carries_state() && self.is_reasoning(*place) && !is_marked;
            let is_new =
                is_marked || !self.sealed.contains_key(place) || has_refused && !state.refused.is_empty();
            if !is_item && is_new && self.is_needed(state) {
                self.sealed.insert(*place, seal.seal(state));
            }
        }
        Ok(())
    }

    fn is_reasoning(&self, place: u32) -> bool {
        matches!(self.output(place), Ok(Item::Reasoning(_)))
    }

    /// Whether what is pending needs an item at the end of the answer. Refused calls alone do: they are no items themselves.
    fn needs_item_at_end(&self) -> bool {
        let state = &self.turn.state.pending;
        self.needs_item(state) || !state.refused.is_empty()
    }

    /// Whether calls of the turn wait for the client.
    fn turn_waits(&self) -> bool {
        self.turn.client_calls + self.turn.approval_calls > 0
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
        let AnswerState { pending: waiting, states, calls, .. } = &mut self.turn.state;
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
