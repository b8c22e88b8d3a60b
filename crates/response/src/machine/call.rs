//! Writes `function_call` and `custom_tool_call` items.

use super::{CallStart, Events, OpenItem, ResponseMachine, Violation};
use crate::json_scanner::JsonCompleteness;
use crate::turn::{CallKind, ModelEvent, ToolCallRequest, is_call_id};
use antwort_protocol::event::ResponseEvent;
use antwort_protocol::id::Id;
use antwort_protocol::item::{CustomToolCall, FunctionCall, Item, ItemStatus};

/// The call that is being written.
#[derive(Debug)]
pub(super) struct OpenCall {
    id: Id,
    output_index: u32,
    slot: u32,
    custom: bool,
    completeness: JsonCompleteness,
}

impl OpenCall {
    /// A call that another process was writing.
    pub(super) fn reopen(id: Id, output_index: u32, custom: bool) -> Self {
        Self { id, output_index, slot: 0, custom, completeness: JsonCompleteness::default() }
    }
}

impl ResponseMachine {
    /// Whether the event belongs to the call that is being written.
    pub(super) fn continues_open_call(&self, event: &ModelEvent) -> bool {
        let ModelEvent::CallDelta { slot, .. } = event else { return false };
        matches!(&self.open, OpenItem::Call(open) if *slot == open.slot) || self.continues_server_call(*slot)
    }

    pub(super) fn open_call(
        &mut self,
        begun: CallStart,
        kind: CallKind,
        out: &mut Events,
    ) -> Result<(), Violation> {
        let CallStart { slot, call_id, call: ToolCallRequest { name, namespace, .. }, fields } = begun;
        let custom = kind == CallKind::Custom;
        let id = self.ids.next(if custom { "ctc" } else { "fc" });
        let (call_id, replaced) = self.unique_call_id(call_id);
        self.flush_state_before_call(slot, &call_id, (replaced, fields), out)?;
        let status = ItemStatus::InProgress;
        let (item_id, text) = (id.clone(), String::new());
        let item = if custom {
            Item::CustomToolCall(CustomToolCall {
                id: item_id,
                status,
                call_id,
                name,
                namespace,
                input: text,
            })
        } else {
            Item::FunctionCall(FunctionCall {
                id: item_id,
                status,
                call_id,
                name,
                namespace,
                arguments: text,
            })
        };
        let output_index = self.add_item(item, out)?;
        self.place_call(slot, output_index);
        self.open = OpenItem::Call(OpenCall {
            id,
            output_index,
            slot,
            custom,
            completeness: JsonCompleteness::default(),
        });
        Ok(())
    }

    /// The id under which clients see the call: the provider's, or a new one if it gave none, gave one that is too long
    /// for clients to send back, or gave it twice: outputs refer to their calls by it. In the latter cases the provider's
    /// own is returned beside it.
    pub(super) fn unique_call_id(&mut self, given: Option<String>) -> (String, Option<String>) {
        let taken = |id: &str| {
            self.response().output.iter().any(|item| match item {
                Item::FunctionCall(call) => call.call_id == id,
                Item::CustomToolCall(call) => call.call_id == id,
                _ => false,
            })
        };
        match given {
            Some(id) if is_call_id(&id) && !taken(&id) => (id, None),
            given => (self.ids.next("call").to_string(), given),
        }
    }

    pub(super) fn write_arguments(
        &mut self,
        slot: u32,
        delta: String,
        out: &mut Events,
    ) -> Result<(), Violation> {
        let (item_id, output_index, custom) = match &self.open {
            OpenItem::Call(open) if open.slot == slot => (open.id.clone(), open.output_index, open.custom),
            _ if !self.turn.closed_slots.contains(&slot) => return Err(Violation::UnknownCall),
            _ if delta.trim().is_empty() => return Ok(()),
            _ => return Err(Violation::LateArguments),
        };
        let event = if custom {
            ResponseEvent::CustomInputDelta { item_id, output_index, delta }
        } else {
            ResponseEvent::FunctionArgumentsDelta { item_id, output_index, delta }
        };
        self.emit(event, out)
    }

    /// Whether the open call's arguments are complete JSON; also true if no call is open.
    pub(super) fn is_open_call_complete(&mut self) -> bool {
        match &mut self.open {
            OpenItem::Call(open) => {
                match self.accumulator.response().output.get(open.output_index as usize) {
                    Some(Item::FunctionCall(call)) => open.completeness.is_complete(&call.arguments),
                    // Translators send a custom tool's input in one piece.
                    Some(Item::CustomToolCall(call)) => !call.input.is_empty(),
                    _ => false,
                }
            }
            OpenItem::Server(open) => open.is_complete(),
            OpenItem::Buffered(open) => open.is_complete(),
            OpenItem::Nothing | OpenItem::Message(_) | OpenItem::Reasoning(_) => true,
        }
    }

    fn lacks_arguments(&self, index: u32) -> bool {
        matches!(self.output(index), Ok(Item::FunctionCall(call)) if call.arguments.trim().is_empty())
    }

    pub(super) fn close_call(
        &mut self,
        open: &OpenCall,
        status: ItemStatus,
        out: &mut Events,
    ) -> Result<(), Violation> {
        self.turn.closed_slots.push(open.slot);
        let (item_id, output_index) = (open.id.clone(), open.output_index);
        if status == ItemStatus::Completed && self.lacks_arguments(output_index) {
            // Clients parse arguments: a call without any has an empty object.
            let (item_id, delta) = (item_id.clone(), "{}".to_owned());
            self.emit(ResponseEvent::FunctionArgumentsDelta { item_id, output_index, delta }, out)?;
        }
        let done = match self.output(output_index)? {
            Item::FunctionCall(call) => ResponseEvent::FunctionArgumentsDone {
                item_id,
                output_index,
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            },
            Item::CustomToolCall(call) => {
                ResponseEvent::CustomInputDone { item_id, output_index, input: call.input.clone() }
            }
            _ => return Err(Violation::Misplaced),
        };
        self.emit_infallible(done, out);
        self.finish_item(output_index, out, |item| match item {
            Item::FunctionCall(call) => call.status = status,
            Item::CustomToolCall(call) => call.status = status,
            _ => {}
        })
    }
}
