//! Takes over what was sent of a turn whose process is gone. Clients have seen its events, so its items stay as they are;
//! the model does not see them, and is asked again.
//!
//! The events are those of the log, as clients read them: what no event shows, such as a provider's state, is lost.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::call::OpenCall;
use super::message::OpenMessage;
use super::reasoning::{OpenPart, OpenReasoning};
use super::server::OpenServerCall;
use super::{Events, OpenItem, ResponseMachine, TurnState, Violation, borders};
use antwort_protocol::a2a;
use antwort_protocol::content::{Annotation, LogProb};
use antwort_protocol::dialect::EXTENSION_PREFIX;
use antwort_protocol::event::{OutputContent, ResponseEvent, StreamEvent};
use antwort_protocol::id::Id;
use antwort_protocol::item::{Item, ItemStatus};

/// An event of a stream as far as it changes an item.
#[derive(Debug, Default, Deserialize)]
pub struct SeenEvent {
    /// The event's `type`.
    #[serde(rename = "type")]
    kind: String,
    /// Its number.
    pub sequence_number: u64,
    #[serde(default)]
    item_id: Option<Id>,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    output_index: Option<u32>,
    #[serde(default)]
    content_index: Option<u32>,
    #[serde(default)]
    summary_index: Option<u32>,
    #[serde(default)]
    annotation_index: Option<u32>,
    #[serde(default)]
    item: Option<Item>,
    #[serde(default)]
    part: Option<Box<RawValue>>,
    #[serde(default)]
    delta: Option<String>,
    #[serde(default)]
    logprobs: Vec<LogProb>,
    #[serde(default)]
    annotation: Option<Annotation>,
}

impl SeenEvent {
    /// The event by which an A2A client was asked for the output of a call: its data does not tell its number.
    pub fn a2a_question(sequence_number: u64, call_id: String) -> Self {
        Self {
            kind: a2a::INPUT_REQUIRED.to_owned(),
            sequence_number,
            call_id: Some(call_id),
            ..Self::default()
        }
    }

    /// Whether it reports the progress of a tool, or that nothing happens: its number is one that the calls of a turn do not
    /// have by themselves.
    pub fn is_progress(&self) -> bool {
        self.kind.ends_with("tool_progress") || self.kind == "keepalive" || self.is_input_required()
    }

    /// Whether it asks the client for the output of a call.
    fn is_input_required(&self) -> bool {
        self.kind.ends_with("input_required") || self.kind == a2a::INPUT_REQUIRED
    }

    /// Whether it asks the question of this `call_id`.
    pub fn asks(&self, call_id: &str) -> bool {
        self.is_input_required() && self.call_id.as_deref() == Some(call_id)
    }

    /// The event, in either dialect; `None` if it changes no item, or only announces what others have changed.
    fn into_event(self) -> Option<ResponseEvent> {
        let Self { kind, output_index, content_index, summary_index, item, part, delta, .. } = self;
        let name = kind.strip_prefix("response.").or_else(|| kind.strip_prefix(EXTENSION_PREFIX))?;
        let output_index = output_index?;
        match name {
            "output_item.added" => {
                return Some(ResponseEvent::OutputItemAdded { output_index, item: Box::new(item?) });
            }
            "output_item.done" => {
                return Some(ResponseEvent::OutputItemDone { output_index, item: Box::new(item?) });
            }
            _ => {}
        }
        let item_id = self.item_id?;
        Some(match name {
            "content_part.added" => {
                let (content_index, part) = (content_index?, output_content(&part?)?);
                ResponseEvent::ContentPartAdded { item_id, output_index, content_index, part }
            }
            "content_part.done" => {
                let (content_index, part) = (content_index?, output_content(&part?)?);
                ResponseEvent::ContentPartDone { item_id, output_index, content_index, part }
            }
            "reasoning_summary_part.added" => {
                let (summary_index, part) = (summary_index?, serde_json::from_str(part?.get()).ok()?);
                ResponseEvent::SummaryPartAdded { item_id, output_index, summary_index, part }
            }
            "reasoning_summary_part.done" => {
                let (summary_index, part) = (summary_index?, serde_json::from_str(part?.get()).ok()?);
                ResponseEvent::SummaryPartDone { item_id, output_index, summary_index, part }
            }
            "output_text.delta" => {
                let (content_index, delta, logprobs) = (content_index?, delta?, self.logprobs);
                ResponseEvent::OutputTextDelta { item_id, output_index, content_index, delta, logprobs }
            }
            "output_text.annotation.added" => ResponseEvent::AnnotationAdded {
                item_id,
                output_index,
                content_index: content_index?,
                annotation_index: self.annotation_index?,
                annotation: self.annotation?,
            },
            "refusal.delta" => {
                let (content_index, delta) = (content_index?, delta?);
                ResponseEvent::RefusalDelta { item_id, output_index, content_index, delta }
            }
            "reasoning_text.delta" | "reasoning.delta" => {
                let (content_index, delta) = (content_index?, delta?);
                ResponseEvent::ReasoningTextDelta { item_id, output_index, content_index, delta }
            }
            "reasoning_summary_text.delta" => {
                let (summary_index, delta) = (summary_index?, delta?);
                ResponseEvent::SummaryTextDelta { item_id, output_index, summary_index, delta }
            }
            "function_call_arguments.delta" => {
                ResponseEvent::FunctionArgumentsDelta { item_id, output_index, delta: delta? }
            }
            "custom_tool_call_input.delta" => {
                ResponseEvent::CustomInputDelta { item_id, output_index, delta: delta? }
            }
            "mcp_call_arguments.delta" => {
                ResponseEvent::McpArgumentsDelta { item_id, output_index, delta: delta? }
            }
            _ => return None,
        })
    }
}

/// The item as it stands in the response.
fn mark_abandoned(item: &mut Item) {
    match item {
        Item::Message(message) => {
            message.status = ItemStatus::Incomplete;
            message.content.clear();
        }
        Item::Reasoning(reasoning) => reasoning.is_abandoned = true,
        Item::McpApprovalRequest(request) => request.is_abandoned = true,
        Item::FunctionCall(call) => call.status = ItemStatus::Incomplete,
        Item::CustomToolCall(call) => call.status = ItemStatus::Incomplete,
        Item::McpCall(call) => call.status = ItemStatus::Incomplete,
        Item::ServerToolCall(call) => call.status = ItemStatus::Incomplete,
        Item::WebSearchCall(call) => call.status = ItemStatus::Incomplete,
        _ => {}
    }
}

fn output_content(part: &RawValue) -> Option<OutputContent> {
    let content = serde_json::from_str(part.get()).map(OutputContent::Content);
    // No type of content: raw reasoning.
    content.or_else(|_| serde_json::from_str(part.get()).map(OutputContent::Reasoning)).ok()
}

impl ResponseMachine {
    /// Leaves room for events that were sent between those of the calls to come.
    pub fn skip_events(&mut self, count: u64) {
        self.sequence += count;
    }

    /// Numbers the next events from here on, if that is behind those there were.
    pub fn continue_at(&mut self, next: u64) {
        self.sequence = self.sequence.max(next);
    }

    /// Adds the items that these events show behind those that there are, and abandons the turn that they are of: its open
    /// item ends incomplete. `next` is the number of the event behind them all. Returns whether there were any.
    ///
    /// `is_asked_again`: the model is, so that these items are marked. If the response ends instead, they are all there is.
    pub fn replay(
        &mut self,
        seen: Vec<SeenEvent>,
        next: u64,
        is_asked_again: bool,
        out: &mut Events,
    ) -> Result<bool, Violation> {
        let first = self.response().output.len();
        let mut open = false;
        let mut part = OpenPart::None;
        for event in seen {
            if event.output_index.is_some_and(|place| place as usize >= first) {
                self.apply_seen(event, &mut open, &mut part)?;
            }
        }
        let end = self.response().output.len();
        if end == first {
            self.sequence = self.sequence.max(next);
            return Ok(false);
        }
        // What was made of the calls before is among what was sent.
        out.clear();
        self.sequence = next;
        if open {
            self.open = self.reopen(part)?;
            self.close(ItemStatus::Incomplete, out)?;
        }
        self.turn = TurnState { first: end, ..TurnState::default() };
        self.abandon(first..end, is_asked_again, out)?;
        Ok(true)
    }

    /// Marks items as those of an abandoned turn. Clients are told that they are incomplete, also of those that were done; their
    /// text is that of the next answer, and must not stand in the response twice.
    fn abandon(
        &mut self,
        places: Range<usize>,
        is_asked_again: bool,
        out: &mut Events,
    ) -> Result<(), Violation> {
        // The last one may have been open, and its event is the last of those so far.
        for place in places.rev().filter_map(|place| u32::try_from(place).ok()) {
            if !borders::is_answer(self.output(place)?) {
                continue;
            }
            self.abandoned.insert(place);
            let mut item = self.output(place)?.clone();
            mark_abandoned(&mut item);
            if !is_asked_again || item == *self.output(place)? {
                continue;
            }
            // Of the item that was open, that it is done is said once.
            let is_said = |event: &StreamEvent| matches!(&event.event, ResponseEvent::OutputItemDone { output_index, .. } if *output_index == place);
            if out.last().is_some_and(is_said) {
                out.pop();
                self.sequence -= 1;
            }
            self.finish_item(place, out, |known| *known = item)?;
        }
        Ok(())
    }

    /// Whether the item at this place is one of an abandoned turn.
    pub fn is_abandoned(&self, place: u32) -> bool {
        self.abandoned.contains(&place)
    }

    /// Notes whether the last item is open, and its open part.
    fn apply_seen(
        &mut self,
        event: SeenEvent,
        open: &mut bool,
        part: &mut OpenPart,
    ) -> Result<(), Violation> {
        self.count(event.delta.as_ref().map_or(0, String::len));
        let Some(event) = event.into_event() else { return Ok(()) };
        match &event {
            ResponseEvent::OutputItemAdded { item, .. } => {
                self.note_ids(item);
                (*open, *part) = (true, OpenPart::None);
            }
            ResponseEvent::ContentPartAdded { content_index, .. } => *part = OpenPart::Raw(*content_index),
            ResponseEvent::SummaryPartAdded { summary_index, .. } => {
                *part = OpenPart::Summary(*summary_index);
            }
            ResponseEvent::ContentPartDone { .. } | ResponseEvent::SummaryPartDone { .. } => {
                *part = OpenPart::None;
                return Ok(());
            }
            _ => {}
        }
        if let ResponseEvent::OutputItemDone { output_index, item } = event {
            self.note_ids(&item);
            (*open, *part) = (false, OpenPart::None);
            self.accumulator.change_item(output_index, |known| *known = *item)?;
            return Ok(());
        }
        self.accumulator.apply(&event)?;
        Ok(())
    }

    fn note_ids(&mut self, item: &Item) {
        self.ids.note(item.id().as_str());
        match item {
            Item::FunctionCall(call) => self.ids.note(&call.call_id),
            Item::CustomToolCall(call) => self.ids.note(&call.call_id),
            _ => {}
        }
    }

    /// The last item, which was not done.
    fn reopen(&self, part: OpenPart) -> Result<OpenItem, Violation> {
        let output = &self.response().output;
        let last = output.len().checked_sub(1).ok_or(Violation::Misplaced)?;
        let place = u32::try_from(last).map_err(|_| Violation::Misplaced)?;
        let item = output.get(last).ok_or(Violation::Misplaced)?;
        Ok(match item {
            Item::Message(message) => match OpenMessage::reopen(message, place) {
                Some(open) => OpenItem::Message(open),
                None => OpenItem::Nothing,
            },
            Item::Reasoning(reasoning) => {
                OpenItem::Reasoning(OpenReasoning::reopen(reasoning.id.clone(), place, part))
            }
            Item::FunctionCall(call) => OpenItem::Call(OpenCall::reopen(call.id.clone(), place, false)),
            Item::CustomToolCall(call) => OpenItem::Call(OpenCall::reopen(call.id.clone(), place, true)),
            item => OpenServerCall::reopen(item, place).map_or(OpenItem::Nothing, OpenItem::Server),
        })
    }
}
