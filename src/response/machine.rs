//! Turns a model's answers into the stream of events of one response.
//!
//! The only place that mints item ids, counts indexes and sequence numbers, and decides the order of
//! events. Items are written one after the other: each is added, filled and done before the next is
//! added, even where a provider interleaves parallel calls. What belongs to another item meanwhile waits.
//!
//! Knows no provider, no clock and no client: time, ids and sealing are handed in.

mod call;
mod compaction;
mod finished;
mod mcp;
mod message;
mod pending;
mod reasoning;
mod server;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::accumulator::{InvalidEvent, ResponseAccumulator};
use super::size;
use super::turn::{
    CallKind, FinishReason, ModelEvent, Presentation, ProviderFields, ProviderState, ToolCallRequest,
};
use crate::protocol::error::ErrorBody;
use crate::protocol::event::{ResponseEvent, StreamEvent};
use crate::protocol::id::IdGenerator;
use crate::protocol::item::hosted::McpCall;
use crate::protocol::item::{Item, ItemStatus};
use crate::protocol::request::ServiceTier;
use crate::protocol::response::{
    IncompleteDetails, Response, ResponseSnapshot, ResponseStatus, RunOutcome, RunReport, Usage,
};
use call::OpenCall;
use compaction::Summary;
use mcp::BufferedCall;
use message::OpenMessage;
use pending::PendingQueue;
use reasoning::OpenReasoning;
use server::{HiddenCall, OpenServerCall};
use state::AnswerState;

pub use compaction::{MAX_SUMMARY_BYTES, SealSummary};
pub use finished::FinishedResponse;
pub use mcp::ApprovalRequest;
pub use message::MAX_ANNOTATIONS;
pub use server::{CallResult, OWN_SERVER, RemoteError, Search};

/// Events in the order in which they happened.
pub type Events = Vec<StreamEvent>;

/// What the machine must know of the request.
#[derive(Clone, Default)]
pub struct MachineOptions {
    /// How raw reasoning is shown.
    pub reasoning: ReasoningDisplay,
    /// Whether log probabilities are shown.
    pub logprobs: bool,
    /// Seals what later responses need; without it none of it is kept.
    pub seal: Option<Arc<dyn Seal>>,
    /// Whether clients carry it.
    pub show_sealed: ShowSealed,
    /// Whether clients see the steps of calls that the gateway runs, and not only their items.
    pub server_steps: bool,
    /// The response is a compaction: what the model writes is a summary, sealed by this.
    pub summary: Option<Arc<dyn SealSummary>>,
}

/// Whether clients carry what is sealed. What they do not is kept with the stored items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShowSealed {
    /// Never: it is stored.
    #[default]
    Never,
    /// Where items do not show it anyway: nothing is stored.
    Needed,
    /// Wherever there is any: `include: ["reasoning.encrypted_content"]`.
    Always,
}

/// How raw reasoning is shown to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReasoningDisplay {
    /// As what it is.
    #[default]
    Text,
    /// As a summary: the only form that some clients show.
    Summary,
    /// Not at all: the reasoning item is empty.
    Hidden,
}

/// Makes opaque what clients carry.
pub trait Seal: Send + Sync {
    /// The blob that stands for the state.
    fn seal(&self, state: &ProviderState) -> String;
    /// The blob that stands for a hosted call with what it gave.
    fn seal_results(&self, call: &McpCall) -> String;
}

/// The model's answer broke the rules in a way that cannot be mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Arguments for a call that was complete and closed.
    #[error("arguments came for a tool call that was already complete")]
    LateArguments,
    /// Arguments for a call that never began.
    #[error("arguments came for a tool call that never began")]
    UnknownCall,
    /// A summary that could not be sent back to the gateway.
    #[error("the summary is longer than {MAX_SUMMARY_BYTES} bytes")]
    LongSummary,
    /// The machine contradicted itself. A bug of ours.
    #[error("events were produced out of order")]
    Misplaced,
}

impl From<InvalidEvent> for Violation {
    fn from(_: InvalidEvent) -> Self {
        Self::Misplaced
    }
}

/// How a response ends.
#[derive(Debug, Clone)]
pub enum Termination {
    /// The model gave its answer.
    Completed,
    /// Functions wait for the client.
    RequiresAction,
    /// A limit or filter ended it.
    Incomplete(String),
    /// It failed.
    Failed(ErrorBody),
    /// It was cancelled.
    Cancelled,
}

/// One turn of the model, as far as the model made it: what the gateway was asked to run is still to be run.
#[derive(Debug)]
pub struct Turn {
    /// Why the model stopped; `None`: it never said so.
    pub finish: Option<FinishReason>,
    /// Calls that are for the client to run.
    pub client_calls: usize,
    /// Calls that are for the gateway to run, in order. Each is to be finished by [`ResponseMachine::finish_call`].
    pub server_calls: Vec<ServerCall>,
    /// Calls that a person has to allow first.
    pub approval_calls: usize,
    /// Tokens spent, if the provider said.
    pub usage: Option<Usage>,
}

/// A call that is for the gateway to run.
#[derive(Debug, Clone)]
pub struct ServerCall {
    /// Its number in the turn.
    pub slot: u32,
    /// What is called, with what.
    pub call: ToolCallRequest,
}

/// What a turn left behind, for the next one.
#[derive(Debug, Default)]
pub struct TurnOutput {
    /// Where its output begins in the response's.
    pub first: usize,
    /// State of the provider, by the place in the output of the item that holds it or belongs to it.
    pub states: BTreeMap<u32, ProviderState>,
    /// State of a turn that has no item to hold it.
    pub orphan_state: Option<ProviderState>,
}

/// A call whose turn it is to be written.
#[derive(Debug)]
struct CallStart {
    slot: u32,
    call_id: Option<String>,
    call: ToolCallRequest,
    /// What the provider sent with it and wants back.
    fields: Option<Box<ProviderFields>>,
}

/// The item that is being written.
#[derive(Debug)]
enum OpenItem {
    Nothing,
    Message(OpenMessage),
    Reasoning(OpenReasoning),
    Call(OpenCall),
    Server(OpenServerCall),
    Buffered(BufferedCall),
}

/// What is known of the turn so far.
#[derive(Debug, Default)]
struct TurnState {
    /// Where the turn's output begins.
    first: usize,
    pending: PendingQueue,
    finish: Option<FinishReason>,
    /// What the model says is not its answer: it will be asked again.
    is_commentary: bool,
    usage: Option<Usage>,
    client_calls: usize,
    server_calls: Vec<ServerCall>,
    approval_calls: usize,
    /// By which requests calls of this turn were allowed, by slot.
    approved: Vec<(u32, String)>,
    /// Server calls whose items are closed and whose results are still to come.
    hidden: Vec<HiddenCall>,
    closed_slots: Vec<u32>,
    /// Nothing more is run: open calls end incomplete.
    truncated: bool,
    /// The turn's calls are being made: one without a result may have had its effect.
    dispatched: bool,
    state: AnswerState,
}

/// Writes one response.
pub struct ResponseMachine {
    accumulator: ResponseAccumulator,
    ids: IdGenerator,
    options: MachineOptions,
    sequence: u64,
    open: OpenItem,
    turn: TurnState,
    usage: Option<Usage>,
    /// What the provider said; the last word counts.
    service_tier: Option<ServiceTier>,
    sealed: BTreeMap<u32, String>,
    history: BTreeMap<u32, Item>,
    approval_requests: Vec<ApprovalRequest>,
    summary: Summary,
    /// Of all that has come.
    bytes: usize,
    /// Of the item that was begun last.
    item_bytes: usize,
    largest_item: usize,
}

impl ResponseMachine {
    /// A machine for a response that is about to be created.
    pub fn new(response: Response, ids: IdGenerator, options: MachineOptions) -> Self {
        Self {
            accumulator: ResponseAccumulator::new(response),
            ids,
            options,
            sequence: 0,
            open: OpenItem::Nothing,
            turn: TurnState::default(),
            usage: None,
            service_tier: None,
            sealed: BTreeMap::new(),
            history: BTreeMap::new(),
            approval_requests: Vec::new(),
            summary: Summary::default(),
            bytes: 0,
            item_bytes: 0,
            largest_item: 0,
        }
    }

    /// The response so far.
    pub fn response(&self) -> &Response {
        self.accumulator.response()
    }

    /// Bytes received so far, of everything that is held: text, arguments, results, and what comes with them. What
    /// the machine holds, and what its snapshots say, is no more than this times a constant (see `size`).
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the item that has most of them.
    pub fn largest_item(&self) -> usize {
        self.largest_item
    }

    /// Counts what has come, and goes into the item that was begun last.
    fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.count_in_item(bytes);
    }

    /// Counts what goes into the item that was begun last, and was counted when it came.
    fn count_in_item(&mut self, bytes: usize) {
        self.item_bytes += bytes;
        self.largest_item = self.largest_item.max(self.item_bytes);
    }

    /// Opens the stream.
    pub fn start(&mut self, out: &mut Events) {
        let snapshot = Arc::new(ResponseSnapshot::new(self.accumulator.response().clone()));
        self.emit_infallible(ResponseEvent::Created { response: Arc::clone(&snapshot) }, out);
        self.emit_infallible(ResponseEvent::InProgress { response: snapshot }, out);
    }

    /// Takes in a piece of the model's answer.
    pub fn push(&mut self, event: ModelEvent, out: &mut Events) -> Result<(), Violation> {
        let size = event.size();
        self.bytes += size;
        match event {
            ModelEvent::Usage(usage) => self.turn.usage = Some(usage),
            ModelEvent::ServiceTier(tier) => self.service_tier = Some(ServiceTier::from_provider(&tier)),
            ModelEvent::Finish(reason) => {
                self.turn.finish.get_or_insert(reason);
            }
            event if self.options.summary.is_some() => self.append_summary(event)?,
            ModelEvent::ReasoningState(fields) => {
                self.keep_fields(fields);
                self.count_in_item(size);
            }
            ModelEvent::CallState { slot, fields } => {
                self.keep_call_fields(slot, *fields);
                self.count_in_item(size);
            }
            event if self.continues_open_call(&event) => {
                self.note_call(&event)?;
                self.write(event, out)?;
            }
            event => {
                self.note_call(&event)?;
                let waited = self.turn.pending.len();
                self.turn.pending.push(event);
                self.drain_pending(FlushMode::WhenComplete, out)?;
                let wait_now = self.turn.pending.len();
                self.bytes += wait_now.saturating_sub(waited) * size::PART_OVERHEAD;
            }
        }
        Ok(())
    }

    /// Keeps what the model asks the gateway to run: some of it may have to wait to be written.
    fn note_call(&mut self, event: &ModelEvent) -> Result<(), Violation> {
        match event {
            ModelEvent::CallStarted { kind: CallKind::Server(Presentation::Approval), .. } => {
                self.turn.approval_calls += 1;
            }
            ModelEvent::CallStarted { slot, kind: CallKind::Server(_), name, namespace, .. } => {
                let call = ToolCallRequest {
                    name: name.clone(),
                    namespace: namespace.clone(),
                    arguments: String::new(),
                };
                self.turn.server_calls.push(ServerCall { slot: *slot, call });
            }
            ModelEvent::CallStarted { .. } => self.turn.client_calls += 1,
            ModelEvent::CallDelta { slot, delta } => {
                if self.is_arguments_done(*slot) && !delta.trim().is_empty() {
                    return Err(Violation::LateArguments);
                }
                if let Some(made) = self.turn.server_calls.iter_mut().rfind(|made| made.slot == *slot) {
                    made.call.arguments.push_str(delta);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the model's part of a turn: closes what is open and says what the model asked for.
    ///
    /// `kept_back`: it said something that is not shown, so that nothing to show is no silence.
    pub fn end_turn(&mut self, kept_back: bool, out: &mut Events) -> Result<Turn, Violation> {
        let cut = self.is_cut_off();
        self.turn.truncated = cut;
        self.drain_pending(FlushMode::Force, out)?;
        match &self.open {
            OpenItem::Server(_) | OpenItem::Buffered(_) if !cut => self.finish_open_arguments(out)?,
            _ => self.close(if cut { ItemStatus::Incomplete } else { ItemStatus::Completed }, out)?,
        }
        if !cut {
            self.write_compaction(out)?;
        }
        let silent = self.response().output.len() == self.turn.first && !kept_back;
        if silent && self.options.summary.is_none() && self.turn.finish == Some(FinishReason::Stop) {
            // A model may have nothing to say; clients expect a message all the same.
            self.open_text(out)?;
            self.close(ItemStatus::Completed, out)?;
        }
        self.finalize_state(out)?;
        let usage = self.turn.usage.take();
        if let Some(usage) = usage {
            self.usage.get_or_insert_default().add(&usage);
        }
        Ok(Turn {
            finish: self.turn.finish,
            client_calls: self.turn.client_calls,
            server_calls: std::mem::take(&mut self.turn.server_calls),
            approval_calls: self.turn.approval_calls,
            usage,
        })
    }

    /// From now on the turn's calls are being made.
    pub fn dispatch_calls(&mut self) {
        self.turn.dispatched = true;
    }

    /// Ends a turn, all of whose calls that the gateway runs have been finished.
    pub fn close_turn(&mut self, out: &mut Events) -> Result<TurnOutput, Violation> {
        self.drain_pending(FlushMode::Force, out)?;
        self.close(ItemStatus::Completed, out)?;
        self.finalize_state(out)?;
        let TurnState { first, state, .. } = std::mem::take(&mut self.turn);
        self.turn.first = self.response().output.len();
        let (states, loose) = state.into_parts();
        Ok(TurnOutput { first, states, orphan_state: loose })
    }

    /// What the model sees in the place of an item.
    pub fn visible(&self, index: u32) -> Option<&Item> {
        self.history_of(index).or_else(|| self.response().output.get(index as usize))
    }

    /// What the model sees in the place of an item, if that is another one.
    pub fn history_of(&self, index: u32) -> Option<&Item> {
        self.history.get(&index)
    }

    /// Sealed state of the provider that is stored with the item in this place, and that clients do not carry.
    pub fn sealed_state(&self, index: u32) -> Option<&String> {
        self.sealed.get(&index)
    }

    /// The place of the first item that is not whole: it is being written, or its call is still to be finished.
    pub fn first_unfinished(&self) -> usize {
        let open = match &self.open {
            OpenItem::Nothing | OpenItem::Buffered(_) => None,
            // One item at a time: what is open is the last.
            _ => self.response().output.len().checked_sub(1),
        };
        let hidden = self.turn.hidden.iter().map(|call| call.output_index as usize).min();
        open.into_iter().chain(hidden).min().unwrap_or(self.response().output.len())
    }

    /// Tokens spent in the turns so far.
    pub fn usage(&self) -> Usage {
        self.usage.unwrap_or_default()
    }

    /// The text that is being written.
    pub fn open_text_so_far(&self) -> Option<&str> {
        let OpenItem::Message(open) = &self.open else { return None };
        self.text_of(open)
    }

    /// Whether the model was cut off, so that what it said is no whole answer.
    pub fn is_cut_off(&self) -> bool {
        matches!(self.turn.finish, Some(FinishReason::Length | FinishReason::ContentFilter))
    }

    /// What the model is saying is not its answer, as it will be asked again: the message that is open says so.
    pub fn mark_commentary(&mut self) {
        self.turn.is_commentary = true;
    }

    /// What has been written of the turn.
    pub fn turn_output(&self) -> &[Item] {
        self.response().output.get(self.turn.first..).unwrap_or_default()
    }

    /// Ends the response; what is still open is closed as incomplete.
    pub fn end(
        mut self,
        ending: Termination,
        outcome: RunOutcome,
        now: i64,
        out: &mut Events,
    ) -> FinishedResponse {
        self.turn.truncated = true;
        // A violation here cannot change the ending any more; what can be written is.
        let _closed = self.drain_pending(FlushMode::Force, out);
        let _closed = self.close(ItemStatus::Incomplete, out);
        self.abort_hidden_calls();
        let _settled = self.finalize_state(out);
        if let Some(usage) = self.turn.usage.take() {
            self.usage.get_or_insert_default().add(&usage);
        }
        let Self {
            accumulator: fold,
            sealed,
            history,
            approval_requests: asked,
            usage,
            service_tier,
            mut sequence,
            ..
        } = self;
        let mut number = |event, out: &mut Events| {
            out.push(StreamEvent { sequence_number: sequence, event });
            sequence += 1;
        };
        let mut response = fold.into_response();
        response.usage = usage;
        service_tier.unwrap_or(ServiceTier::Default).as_str().clone_into(&mut response.service_tier);
        response.antwort = Some(RunReport::with_outcome(response.antwort, outcome));
        let event = match ending {
            Termination::Completed | Termination::RequiresAction => {
                let done = matches!(ending, Termination::Completed);
                response.status =
                    if done { ResponseStatus::Completed } else { ResponseStatus::RequiresAction };
                response.completed_at = Some(now);
                response.usage.get_or_insert_default();
                |response| ResponseEvent::Completed { response }
            }
            Termination::Incomplete(reason) => {
                response.status = ResponseStatus::Incomplete;
                response.incomplete_details = Some(IncompleteDetails { reason });
                response.usage.get_or_insert_default();
                |response| ResponseEvent::Incomplete { response }
            }
            Termination::Failed(error) => {
                number(ResponseEvent::Error { error: error.clone() }, out);
                response.status = ResponseStatus::Failed;
                response.error = Some(error);
                |response| ResponseEvent::Failed { response }
            }
            Termination::Cancelled => {
                response.status = ResponseStatus::Cancelled;
                |response| ResponseEvent::Incomplete { response }
            }
        };
        let snapshot = Arc::new(ResponseSnapshot::new(response));
        number(event(Arc::clone(&snapshot)), out);
        FinishedResponse { snapshot, sealed, history, approval_requests: asked }
    }

    /// Writes what waits, as far as the open item allows.
    fn drain_pending(&mut self, patience: FlushMode, out: &mut Events) -> Result<(), Violation> {
        while let Some(next) = self.turn.pending.front() {
            if !self.continues_open_call(next) && !self.try_close_open(patience, out)? {
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

    /// Closes the open call, if that can be done, so that something else may be written.
    fn try_close_open(&mut self, patience: FlushMode, out: &mut Events) -> Result<bool, Violation> {
        if patience == FlushMode::WhenComplete && !self.is_open_call_complete() {
            return Ok(false);
        }
        match &self.open {
            OpenItem::Buffered(_) => {
                let status = if self.turn.truncated { ItemStatus::Incomplete } else { ItemStatus::Completed };
                self.close(status, out)?;
            }
            // Like a client's, a hidden call that is not the last is whole; what waits for a result is not.
            OpenItem::Server(call) if self.turn.truncated && !call.is_hidden() => {
                self.close(ItemStatus::Incomplete, out)?;
            }
            OpenItem::Server(_) => self.finish_server_arguments(out)?,
            OpenItem::Call(_) => self.close(ItemStatus::Completed, out)?,
            OpenItem::Nothing | OpenItem::Message(_) | OpenItem::Reasoning(_) => {}
        }
        Ok(!matches!(self.open, OpenItem::Server(_)))
    }

    /// Declares the open call's arguments whole, if it is one that the gateway runs or asks for.
    fn finish_open_arguments(&mut self, out: &mut Events) -> Result<(), Violation> {
        match &self.open {
            OpenItem::Server(_) => self.finish_server_arguments(out),
            OpenItem::Buffered(_) => self.close(ItemStatus::Completed, out),
            _ => Ok(()),
        }
    }

    /// Writes a piece of the answer whose turn it is, into the item that is open then.
    fn write(&mut self, event: ModelEvent, out: &mut Events) -> Result<(), Violation> {
        let size = event.size();
        self.write_piece(event, out)?;
        self.count_in_item(size);
        Ok(())
    }

    fn write_piece(&mut self, event: ModelEvent, out: &mut Events) -> Result<(), Violation> {
        match event {
            ModelEvent::Text { delta, logprobs } => self.write_text(delta, logprobs, out),
            ModelEvent::Refusal(delta) => self.write_refusal(delta, out),
            ModelEvent::Annotation(annotation) => self.write_annotation(annotation, out),
            ModelEvent::Reasoning(delta) => self.write_reasoning(delta, out),
            ModelEvent::ReasoningSummary(delta) => self.write_summary(delta, out),
            ModelEvent::CallStarted { slot, kind, call_id, name, namespace, fields } => {
                let call = ToolCallRequest { name, namespace, arguments: String::new() };
                let begun = CallStart { slot, call_id, call, fields };
                match kind {
                    CallKind::Server(surface) if BufferedCall::is_one(surface) => {
                        self.open_buffered_call(begun, surface, out)
                    }
                    CallKind::Server(surface) => self.open_server_call(begun, surface, out),
                    CallKind::Function | CallKind::Custom => self.open_call(begun, kind, out),
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
            | ModelEvent::CallState { .. } => Ok(()),
        }
    }

    /// Closes the open item, if there is one.
    fn close(&mut self, status: ItemStatus, out: &mut Events) -> Result<(), Violation> {
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
    fn add_item(&mut self, item: Item, out: &mut Events) -> Result<u32, Violation> {
        let output_index = u32::try_from(self.response().output.len()).map_err(|_| Violation::Misplaced)?;
        self.item_bytes = 0;
        self.count(size::ITEM_OVERHEAD);
        self.emit(ResponseEvent::OutputItemAdded { output_index, item: Box::new(item) }, out)?;
        Ok(output_index)
    }

    /// Ends the item at a place of the output.
    fn finish_item(
        &mut self,
        output_index: u32,
        out: &mut Events,
        change: impl FnOnce(&mut Item),
    ) -> Result<(), Violation> {
        let item = Box::new(self.accumulator.change_item(output_index, change)?.clone());
        self.emit_infallible(ResponseEvent::OutputItemDone { output_index, item }, out);
        Ok(())
    }

    fn output(&self, index: u32) -> Result<&Item, Violation> {
        self.response().output.get(index as usize).ok_or(Violation::Misplaced)
    }

    fn emit(&mut self, event: ResponseEvent, out: &mut Events) -> Result<(), Violation> {
        self.accumulator.apply(&event)?;
        self.emit_infallible(event, out);
        Ok(())
    }

    /// For events that add nothing: they say that something begins, or repeat what was written.
    fn emit_infallible(&mut self, event: ResponseEvent, out: &mut Events) {
        out.push(StreamEvent { sequence_number: self.sequence, event });
        self.sequence += 1;
    }
}

/// How long what waits for an open call goes on waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlushMode {
    /// Until the call's arguments are a whole JSON value.
    WhenComplete,
    /// No longer: the turn is over.
    Force,
}
