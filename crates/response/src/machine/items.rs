//! Writes model events into items, one open item at a time, and emits their events.

use super::super::size;
use super::super::turn::{CallKind, ModelEvent, ToolCallRequest};
use super::{CallStart, Events, OpenItem, ResponseMachine, Violation};
use antwort_protocol::event::{ResponseEvent, StreamEvent};
use antwort_protocol::item::{Item, ItemStatus};

/// Whether pending events wait for the open call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlushMode {
    /// Until the call's arguments are complete JSON.
    WhenComplete,
    /// No longer: the turn is over.
    Force,
}

impl ResponseMachine {
    /// Writes pending events, as far as the open item allows.
    pub(super) fn drain_pending(&mut self, mode: FlushMode, out: &mut Events) -> Result<(), Violation> {
        while let Some(next) = self.turn.pending.front() {
            if !self.continues_open_call(next) && !self.try_close_open(mode, out)? {
                return Ok(());
            }
            let Some((event, arguments)) = self.turn.pending.pop() else { return Ok(()) };
            self.write(event, out)?;
            if let Some(arguments) = arguments {
                self.write(arguments, out)?;
            }
        }
        Ok(())
    }

    /// Closes the open call if that is possible, so that another item can be written.
    pub(super) fn try_close_open(&mut self, mode: FlushMode, out: &mut Events) -> Result<bool, Violation> {
        if mode == FlushMode::WhenComplete && !self.is_open_call_complete() {
            return Ok(false);
        }
        match &self.open {
            OpenItem::Buffered(_) => {
                let status = if self.turn.truncated { ItemStatus::Incomplete } else { ItemStatus::Completed };
                self.close(status, out)?;
            }
            // A hidden call that is not the last has complete arguments, like one of a client; others wait for their
            // results.
            OpenItem::Server(call) if self.turn.truncated && !call.is_hidden() => {
                self.close(ItemStatus::Incomplete, out)?;
            }
            OpenItem::Server(_) => self.finish_server_arguments(out)?,
            OpenItem::Call(_) => self.close(ItemStatus::Completed, out)?,
            OpenItem::Nothing | OpenItem::Message(_) | OpenItem::Reasoning(_) => {}
        }
        Ok(!matches!(self.open, OpenItem::Server(_)))
    }

    /// Declares the arguments of an open server-side or buffered call complete.
    pub(super) fn finish_open_arguments(&mut self, out: &mut Events) -> Result<(), Violation> {
        match &self.open {
            OpenItem::Server(_) => self.finish_server_arguments(out),
            OpenItem::Buffered(_) => self.close(ItemStatus::Completed, out),
            _ => Ok(()),
        }
    }

    /// Writes an event into the open item, or opens one for it.
    pub(super) fn write(&mut self, event: ModelEvent, out: &mut Events) -> Result<(), Violation> {
        let size = event.size();
        self.write_piece(event, out)?;
        self.count_in_item(size);
        Ok(())
    }

    pub(super) fn write_piece(&mut self, event: ModelEvent, out: &mut Events) -> Result<(), Violation> {
        match event {
            ModelEvent::Text { delta, logprobs } => self.write_text(delta, logprobs, out),
            ModelEvent::Refusal(delta) => self.write_refusal(delta, out),
            ModelEvent::Annotation(annotation) => self.write_annotation(annotation, out),
            ModelEvent::Reasoning(delta) => self.write_reasoning(delta, out),
            ModelEvent::ReasoningSummary(delta) => self.write_summary(delta, out),
            ModelEvent::CallStarted { slot, kind, call_id, name, namespace, fields } => {
                let call = ToolCallRequest { name, namespace, arguments: String::new() };
                let start = CallStart { slot, call_id, call, fields };
                match kind {
                    CallKind::Server(presentation) if presentation.is_buffered() => {
                        self.open_buffered_call(start, presentation, out)
                    }
                    CallKind::Server(presentation) => self.open_server_call(start, presentation, out),
                    CallKind::Function | CallKind::Custom => self.open_call(start, kind, out),
                }
            }
            ModelEvent::CallDelta { slot, delta } if self.continues_server_call(slot) => {
                self.write_server_arguments(delta, out)
            }
            ModelEvent::CallDelta { slot, delta } => self.write_arguments(slot, delta, out),
            ModelEvent::Usage(_)
            | ModelEvent::ServiceTier(_)
            | ModelEvent::Finish(_)
            | ModelEvent::ReasoningState(_)
            | ModelEvent::CallState { .. }
            | ModelEvent::CallId { .. } => Ok(()),
        }
    }

    pub(super) fn close(&mut self, status: ItemStatus, out: &mut Events) -> Result<(), Violation> {
        match std::mem::replace(&mut self.open, OpenItem::Nothing) {
            OpenItem::Nothing => Ok(()),
            OpenItem::Message(message) => self.close_message(&message, status, out),
            OpenItem::Reasoning(reasoning) => self.close_reasoning(reasoning, out),
            OpenItem::Call(call) => self.close_call(&call, status, out),
            OpenItem::Server(call) => self.abort_server_call(&call, out),
            OpenItem::Buffered(call) if status == ItemStatus::Completed => self.emit_buffered_call(call, out),
            OpenItem::Buffered(call) => self.abort_buffered_call(call, out),
        }
    }

    /// Adds an item to the output and returns its place.
    pub(super) fn add_item(&mut self, item: Item, out: &mut Events) -> Result<u32, Violation> {
        let output_index = u32::try_from(self.response().output.len()).map_err(|_| Violation::Misplaced)?;
        self.item_bytes = 0;
        self.count(size::ITEM_OVERHEAD);
        self.emit(ResponseEvent::OutputItemAdded { output_index, item: Box::new(item) }, out)?;
        Ok(output_index)
    }

    /// Changes the item at a place and emits that it is done.
    pub(super) fn finish_item(
        &mut self,
        output_index: u32,
        out: &mut Events,
        change: impl FnOnce(&mut Item),
    ) -> Result<(), Violation> {
        let item = Box::new(self.accumulator.change_item(output_index, change)?.clone());
        self.emit_infallible(ResponseEvent::OutputItemDone { output_index, item }, out);
        Ok(())
    }

    pub(super) fn output(&self, index: u32) -> Result<&Item, Violation> {
        self.response().output.get(index as usize).ok_or(Violation::Misplaced)
    }

    pub(super) fn emit(&mut self, event: ResponseEvent, out: &mut Events) -> Result<(), Violation> {
        self.accumulator.apply(&event)?;
        self.emit_infallible(event, out);
        Ok(())
    }

    /// For events that do not change the accumulated response: they announce, or repeat what was written.
    pub(super) fn emit_infallible(&mut self, event: ResponseEvent, out: &mut Events) {
        out.push(StreamEvent { sequence_number: self.sequence, event });
        self.sequence += 1;
    }
}
