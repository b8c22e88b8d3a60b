//! Takes over what was sent of a turn whose process is gone. Clients have seen its events, so its items stay as they are;
//! the model does not see them, and is asked again.
//!
//! The events are those of the log, as clients read them: what no event shows, such as a provider's state, is lost.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::call::OpenCall;
use super::message::OpenMessage;
use super::reasoning::{OpenPart, OpenReasoning};
use super::server::OpenServerCall;
use super::{Events, OpenItem, ResponseMachine, TurnState, Violation};
use crate::protocol::content::{Annotation, ContentPart, LogProb};
use crate::protocol::item::{Item, ItemStatus, ReasoningText, SummaryText};

/// An event of a stream as far as it changes an item.
#[derive(Debug, Deserialize)]
pub struct SeenEvent {
    /// The event's `type`.
    #[serde(rename = "type")]
    kind: String,
    /// Its number.
    pub sequence_number: u64,
    #[serde(default)]
    output_index: Option<usize>,
    #[serde(default)]
    content_index: Option<u32>,
    #[serde(default)]
    summary_index: Option<u32>,
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
    /// Whether it reports the progress of a tool: its number is one that the calls of a turn do not have by themselves.
    pub fn is_progress(&self) -> bool {
        self.kind.ends_with("tool_progress")
    }
}

impl ResponseMachine {
    /// Leaves room for events that were sent between those of the calls to come.
    pub fn skip_events(&mut self, count: u64) {
        self.sequence += count;
    }

    /// Adds the items that these events show behind those that there are, and abandons the turn that they are of: its open
    /// item ends incomplete. `next` is the number of the event behind them all. Returns whether there were any.
    pub fn replay(&mut self, seen: Vec<SeenEvent>, next: u64, out: &mut Events) -> Result<bool, Violation> {
        let first = self.response().output.len();
        let mut open = false;
        let mut part = OpenPart::None;
        for event in seen {
            if event.output_index.is_none_or(|place| place < first) {
                continue;
            }
            self.apply_seen(event, &mut open, &mut part);
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
        let places = (first..end).filter_map(|place| u32::try_from(place).ok());
        self.abandoned.extend(places);
        Ok(true)
    }

    /// Whether the item at this place is one of an abandoned turn.
    pub fn is_abandoned(&self, place: u32) -> bool {
        self.abandoned.contains(&place)
    }

    fn apply_seen(&mut self, event: SeenEvent, open: &mut bool, part: &mut OpenPart) {
        let SeenEvent { kind, output_index, content_index, summary_index, .. } = event;
        let place = output_index.unwrap_or_default();
        if let Some(item) = event.item {
            self.note_ids(&item);
            (*open, *part) = (kind.ends_with(".added"), OpenPart::None);
            let output = &mut self.accumulator.response_mut().output;
            if place == output.len() {
                output.push(item);
            } else if let Some(known) = output.get_mut(place) {
                *known = item;
            }
            return;
        }
        if let Some(raw) = &event.part {
            *part = match (kind.ends_with(".added"), content_index, summary_index) {
                (true, Some(index), _) => OpenPart::Raw(index),
                (true, None, Some(index)) => OpenPart::Summary(index),
                _ => OpenPart::None,
            };
            if *part != OpenPart::None {
                self.add_seen_part(place, raw, *part);
            }
            return;
        }
        if let Some(delta) = event.delta {
            self.count(delta.len());
            let at = (content_index.unwrap_or_default(), summary_index);
            if let Some(item) = self.accumulator.response_mut().output.get_mut(place) {
                append(item, at, &delta, &event.logprobs);
            }
        } else if let Some(annotation) = event.annotation {
            let output = &mut self.accumulator.response_mut().output;
            if let Some(Item::Message(message)) = output.get_mut(place)
                && let Some(ContentPart::OutputText(text)) =
                    message.content.get_mut(content_index.unwrap_or_default() as usize)
            {
                text.annotations.push(annotation);
            }
        }
    }

    fn note_ids(&mut self, item: &Item) {
        self.ids.note(item.id().as_str());
        match item {
            Item::FunctionCall(call) => self.ids.note(&call.call_id),
            Item::CustomToolCall(call) => self.ids.note(&call.call_id),
            _ => {}
        }
    }

    fn add_seen_part(&mut self, place: usize, raw: &RawValue, part: OpenPart) {
        match (self.accumulator.response_mut().output.get_mut(place), part) {
            (Some(Item::Message(message)), _) => {
                message.content.extend(serde_json::from_str::<ContentPart>(raw.get()).ok());
            }
            (Some(Item::Reasoning(reasoning)), OpenPart::Summary(_)) => {
                reasoning.summary.push(SummaryText { text: String::new() });
            }
            (Some(Item::Reasoning(reasoning)), _) => {
                reasoning.content.push(ReasoningText { text: String::new() });
            }
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

/// Appends a delta to an item: to its text, its arguments, or a part of it.
fn append(item: &mut Item, (content, summary): (u32, Option<u32>), delta: &str, logprobs: &[LogProb]) {
    let text = match (item, summary) {
        (Item::Message(message), _) => match message.content.get_mut(content as usize) {
            Some(ContentPart::OutputText(text)) => {
                text.logprobs.extend_from_slice(logprobs);
                Some(&mut text.text)
            }
            Some(ContentPart::Refusal(refusal)) => Some(&mut refusal.refusal),
            _ => None,
        },
        (Item::Reasoning(reasoning), Some(summary)) => {
            reasoning.summary.get_mut(summary as usize).map(|part| &mut part.text)
        }
        (Item::Reasoning(reasoning), None) => {
            reasoning.content.get_mut(content as usize).map(|part| &mut part.text)
        }
        (Item::FunctionCall(call), _) => Some(&mut call.arguments),
        (Item::CustomToolCall(call), _) => Some(&mut call.input),
        (Item::McpCall(call), _) => Some(&mut call.arguments),
        _ => None,
    };
    if let Some(text) = text {
        text.push_str(delta);
    }
}
