//! Writes server-side calls: their items stay open until the result is known.
//!
//! Events of the model after such a call are pending until then, as a stream has one open item at a time. Calls
//! whose results clients do not see ([`Presentation::Hidden`]) are closed at once; their results go into the history
//! only.

use serde::{Deserialize, Serialize};

use super::call_result::{CallResult, set_result};
use super::{CallStart, Events, OpenItem, ResponseMachine, Violation};
use crate::json_scanner::JsonCompleteness;
use crate::presentation::mcp_call::mcp_call;
use crate::presentation::{ArgumentEvents, CallPresenter, ClosedCall, OpenedCall, Presentation};
use crate::turn::ToolCallRequest;
use antwort_protocol::event::{HostedProgress, HostedStage, ResponseEvent};
use antwort_protocol::id::Id;
use antwort_protocol::item::hosted::{McpCall, ResultFile};
use antwort_protocol::item::{Item, ItemStatus, UserMessage};

/// The call that is being written, or waits for its result.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OpenServerCall {
    id: Id,
    output_index: u32,
    slot: u32,
    #[serde(rename = "presentation")]
    presenter: &'static CallPresenter,
    call: ToolCallRequest,
    /// The arguments are complete.
    arguments_done: bool,
    #[serde(skip)]
    completeness: JsonCompleteness,
}

/// A call whose item is closed while its result is still to come.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HiddenCall {
    slot: u32,
    pub(super) output_index: u32,
    id: Id,
    call: ToolCallRequest,
}

impl OpenServerCall {
    /// A call that another process was writing, and has not made; `None` if no such call has this item.
    pub(super) fn reopen(item: &Item, output_index: u32) -> Option<Self> {
        let id = item.id().clone();
        let (prefix, _) = id.as_str().rsplit_once('_')?;
        let presenter = Presentation::by_prefix(prefix)?;
        let (name, arguments) = match item {
            Item::McpCall(call) => (call.name.clone(), call.arguments.clone()),
            Item::ServerToolCall(call) => (call.name.clone(), call.arguments.clone()),
            _ => (String::new(), String::new()),
        };
        let call = ToolCallRequest { name, namespace: None, arguments };
        let completeness = JsonCompleteness::default();
        Some(Self { id, output_index, slot: 0, presenter, call, arguments_done: false, completeness })
    }

    pub(super) fn is_hidden(&self) -> bool {
        self.presenter.close.is_none()
    }

    /// Whether the arguments are complete JSON.
    pub(super) fn is_complete(&mut self) -> bool {
        self.arguments_done || self.completeness.is_complete(&self.call.arguments)
    }
}

impl ResponseMachine {
    pub(super) fn open_server_call(
        &mut self,
        begun: CallStart,
        presentation: Presentation,
        out: &mut Events,
    ) -> Result<(), Violation> {
        let CallStart { slot, call_id, call, fields } = begun;
        // One that needs approval becomes a buffered call, and is opened after its approval.
        let Some(presenter) = presentation.presenter() else { return Err(Violation::Misplaced) };
        let id = self.ids.next(presenter.id_prefix);
        let shown = (presenter.arguments == ArgumentEvents::Function).then(|| call_id.clone());
        self.flush_state_before_call(slot, id.as_str(), (call_id, fields), out)?;
        let call_id = shown.map(|given| self.unique_call_id(given).0);
        let approval_request_id = self.approval_of(slot);
        let item = (presenter.open)(OpenedCall { id: id.clone(), call: &call, call_id, approval_request_id });
        let output_index = self.add_item(item, out)?;
        self.place_call(slot, output_index);
        let completeness = JsonCompleteness::default();
        let open =
            OpenServerCall { id, output_index, slot, presenter, call, arguments_done: false, completeness };
        self.emit_stage(&open, presenter.stages.added, out)?;
        self.open = OpenItem::Server(open);
        Ok(())
    }

    /// Whether the slot is that of the server-side call that is being written.
    pub(super) fn continues_server_call(&self, slot: u32) -> bool {
        match &self.open {
            OpenItem::Server(open) => open.slot == slot && !open.arguments_done,
            OpenItem::Buffered(open) => open.slot == slot,
            _ => false,
        }
    }

    /// Whether the slot's arguments were already declared complete.
    pub(super) fn is_arguments_done(&self, slot: u32) -> bool {
        matches!(&self.open, OpenItem::Server(open) if open.slot == slot && open.arguments_done)
    }

    pub(super) fn write_server_arguments(
        &mut self,
        delta: String,
        out: &mut Events,
    ) -> Result<(), Violation> {
        if let OpenItem::Buffered(open) = &mut self.open {
            open.call.arguments.push_str(&delta);
            return Ok(());
        }
        let OpenItem::Server(open) = &mut self.open else { return Err(Violation::Misplaced) };
        open.call.arguments.push_str(&delta);
        let (events, item_id, output_index) = (open.presenter.arguments, open.id.clone(), open.output_index);
        self.emit_arguments_delta(events, item_id, output_index, delta, out)
    }

    /// Emits a piece of the arguments, where clients see them.
    fn emit_arguments_delta(
        &mut self,
        events: ArgumentEvents,
        item_id: Id,
        output_index: u32,
        delta: String,
        out: &mut Events,
    ) -> Result<(), Violation> {
        match events {
            ArgumentEvents::Mcp if self.options.server_steps => {
                self.emit(ResponseEvent::McpArgumentsDelta { item_id, output_index, delta }, out)
            }
            ArgumentEvents::Function => {
                self.emit(ResponseEvent::FunctionArgumentsDelta { item_id, output_index, delta }, out)
            }
            ArgumentEvents::Mcp | ArgumentEvents::None => Ok(()),
        }
    }

    /// Declares the arguments of the open call complete. Its item stays open for the result, unless that is hidden.
    pub(super) fn finish_server_arguments(&mut self, out: &mut Events) -> Result<(), Violation> {
        let OpenItem::Server(mut open) = std::mem::replace(&mut self.open, OpenItem::Nothing) else {
            return Err(Violation::Misplaced);
        };
        if open.arguments_done {
            self.open = OpenItem::Server(open);
            return Ok(());
        }
        open.arguments_done = true;
        self.turn.closed_slots.push(open.slot);
        if open.call.arguments.trim().is_empty() {
            self.write_empty_object(&mut open, out)?;
        }
        self.emit_arguments_done(&open, out)?;
        if !open.is_hidden() {
            self.open = OpenItem::Server(open);
            return Ok(());
        }
        self.finish_item(open.output_index, out, |item| {
            if let Item::FunctionCall(call) = item {
                call.status = ItemStatus::Completed;
            }
        })?;
        let OpenServerCall { id, output_index, slot, call, .. } = open;
        self.turn.hidden.push(HiddenCall { slot, output_index, id, call });
        Ok(())
    }

    /// Clients parse arguments: a call without any has an empty object.
    fn write_empty_object(&mut self, open: &mut OpenServerCall, out: &mut Events) -> Result<(), Violation> {
        const EMPTY: &str = "{}";
        open.call.arguments.push_str(EMPTY);
        self.emit_arguments_delta(
            open.presenter.arguments,
            open.id.clone(),
            open.output_index,
            EMPTY.to_owned(),
            out,
        )
    }

    fn emit_arguments_done(&mut self, open: &OpenServerCall, out: &mut Events) -> Result<(), Violation> {
        let (item_id, output_index) = (open.id.clone(), open.output_index);
        let arguments = open.call.arguments.clone();
        match open.presenter.arguments {
            ArgumentEvents::Mcp if self.options.server_steps => {
                self.emit_infallible(
                    ResponseEvent::McpArgumentsDone { item_id, output_index, arguments },
                    out,
                );
            }
            ArgumentEvents::Function => {
                let name = open.call.name.clone();
                self.emit_infallible(
                    ResponseEvent::FunctionArgumentsDone { item_id, output_index, name, arguments },
                    out,
                );
            }
            ArgumentEvents::Mcp | ArgumentEvents::None => {}
        }
        self.emit_stage(open, open.presenter.stages.started, out)
    }

    /// Emits a progress message of a call, if its item is the open one.
    pub fn report_progress(&mut self, slot: u32, message: String, out: &mut Events) -> Result<(), Violation> {
        let OpenItem::Server(open) = &self.open else { return Ok(()) };
        if open.slot != slot || !open.arguments_done {
            return Ok(());
        }
        let (item_id, output_index) = (open.id.clone(), open.output_index);
        self.emit(ResponseEvent::ToolProgress { item_id, output_index, message }, out)
    }

    /// The id of the item of a call whose result is missing.
    pub fn server_call_item(&self, slot: u32) -> Option<&Id> {
        self.shown_server_call(slot).map(|(id, ..)| id)
    }

    /// The item of a call whose result is missing, and its place; `None` if the item is not there yet.
    pub(super) fn shown_server_call(&self, slot: u32) -> Option<(&Id, u32, &ToolCallRequest)> {
        let hidden = self.turn.hidden.iter().find(|hidden| hidden.slot == slot);
        match &self.open {
            OpenItem::Server(open) if open.slot == slot => Some((&open.id, open.output_index, &open.call)),
            _ => hidden.map(|hidden| (&hidden.id, hidden.output_index, &hidden.call)),
        }
    }

    /// Sets the result of a call. Calls are finished in the order in which the model made them.
    pub fn finish_call(
        &mut self,
        slot: u32,
        mut result: CallResult,
        out: &mut Events,
    ) -> Result<(), Violation> {
        if let Some(at) = self.turn.hidden.iter().position(|hidden| hidden.slot == slot) {
            let HiddenCall { output_index, id, call, .. } = self.turn.hidden.remove(at);
            // The result counts as part of the call's item, which is closed.
            self.item_bytes = call.arguments.len();
            self.count(result.size());
            let mut item = mcp_call(&id, &call, self.approval_of(slot), ItemStatus::Completed);
            set_result(&mut item, &result, &result.output);
            item.files = result.files;
            self.history.insert(output_index, Item::McpCall(item));
            return self.emit_user_message(&call.name, result.user_message, out);
        }
        self.count(result.size());
        let files = std::mem::take(&mut result.files);
        match std::mem::replace(&mut self.open, OpenItem::Nothing) {
            OpenItem::Server(open) if open.slot == slot && open.arguments_done => {
                self.close_finished(&open, &result, files, out)?;
                self.emit_user_message(&open.call.name, result.user_message, out)?;
            }
            other => {
                self.open = other;
                return Err(Violation::Misplaced);
            }
        }
        self.drain_pending(super::FlushMode::Force, out)?;
        self.finish_open_arguments(out)
    }

    fn close_finished(
        &mut self,
        open: &OpenServerCall,
        result: &CallResult,
        files: Vec<ResultFile>,
        out: &mut Events,
    ) -> Result<(), Violation> {
        let approval = self.approval_of(open.slot);
        let mut concluded = mcp_call(&open.id, &open.call, approval, ItemStatus::Completed);
        set_result(&mut concluded, result, &result.output);
        if result.shown.is_some() || !files.is_empty() {
            // The model goes on with what it has read, whatever clients see of it.
            let seen = McpCall { files, ..concluded.clone() };
            self.history.insert(open.output_index, Item::McpCall(seen));
        }
        if let Some(shown) = &result.shown {
            set_result(&mut concluded, result, shown);
        }
        let Some(close) = open.presenter.close else { return Err(Violation::Misplaced) };
        let stages = &open.presenter.stages;
        let stage = if concluded.error.is_some() { stages.failed } else { stages.completed };
        self.emit_stage(open, stage.filter(|_| !result.is_async), out)?;
        let sealed = open.presenter.seals_result.then(|| {
            let seen = self.history.entry(open.output_index);
            seen.or_insert_with(|| Item::McpCall(concluded.clone()));
            self.seal_results(self.history.get(&open.output_index)?)
        });
        let item = close(ClosedCall { call: concluded, result });
        self.finish_item(open.output_index, out, |open| *open = item)?;
        self.write_sealed_reasoning(sealed.flatten(), out)
    }

    /// Closes a call that was not made, or not to its end. The model is told that the latter may have been executed,
    /// so that it does not repeat it blindly.
    pub(super) fn abort_server_call(
        &mut self,
        open: &OpenServerCall,
        out: &mut Events,
    ) -> Result<(), Violation> {
        if !open.arguments_done {
            self.turn.closed_slots.push(open.slot);
            self.emit_arguments_done(open, out)?;
        }
        if self.turn.dispatched {
            self.aborted_calls.push(open.id.clone());
            self.record_unknown_outcome(open.output_index, &open.id, &open.call);
        }
        let arguments = open.call.arguments.clone();
        self.finish_item(open.output_index, out, |item| (open.presenter.abort)(item, arguments))
    }

    /// Gives hidden calls without a result an error for the model.
    pub(super) fn abort_hidden_calls(&mut self) {
        for HiddenCall { output_index, id, call, .. } in std::mem::take(&mut self.turn.hidden) {
            self.record_unknown_outcome(output_index, &id, &call);
        }
    }

    /// Gives a call without a result an error in the model's history: a continuation must not assume that the call
    /// was never made, and repeat it.
    fn record_unknown_outcome(&mut self, output_index: u32, id: &Id, call: &ToolCallRequest) {
        let (code, message) = if self.turn.dispatched {
            (
                "outcome_unknown",
                "the run ended before the call's result was there; the call may have been executed",
            )
        } else {
            ("cancelled", "the run ended before the call was made")
        };
        let result =
            CallResult { output: message.to_owned(), error: Some(code.into()), ..CallResult::default() };
        let mut item = mcp_call(id, call, None, ItemStatus::Completed);
        set_result(&mut item, &result, &result.output);
        self.history.insert(output_index, Item::McpCall(item));
    }

    /// Emits a tool's message to the user as an item of its own.
    fn emit_user_message(
        &mut self,
        name: &str,
        text: Option<String>,
        out: &mut Events,
    ) -> Result<(), Violation> {
        let Some(text) = text else { return Ok(()) };
        let (id, status, size) = (self.ids.next("um"), ItemStatus::InProgress, text.len());
        let message = UserMessage { id, status, name: name.to_owned(), text };
        let index = self.add_item(Item::UserMessage(message), out)?;
        self.count(size);
        self.finish_item(index, out, |item| {
            if let Item::UserMessage(message) = item {
                message.status = ItemStatus::Completed;
            }
        })
    }

    fn emit_stage(
        &mut self,
        open: &OpenServerCall,
        stage: Option<HostedStage>,
        out: &mut Events,
    ) -> Result<(), Violation> {
        let Some(stage) = stage.filter(|_| self.options.server_steps) else { return Ok(()) };
        let progress = HostedProgress { stage, item_id: open.id.clone(), output_index: open.output_index };
        self.emit(ResponseEvent::Hosted(progress), out)
    }
}
