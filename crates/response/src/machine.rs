//! Turns model events into the events of one response.
//!
//! The only place that generates item ids, counts indexes and sequence numbers, and decides the order of events.
//! Items are written one after the other: each is added, filled and done before the next is added, even if a provider
//! interleaves parallel calls. Events of another item are pending meanwhile.
//!
//! Knows no provider, clock or client: time, ids and sealing are passed in.

mod borders;
mod call;
mod call_result;
mod closed;
mod compaction;
mod input;
mod items;
mod mcp;
mod message;
mod pending;
mod reasoning;
mod replay;
mod saved;
mod server;
mod state;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::accumulator::ResponseAccumulator;
use super::presentation::Presentation;
use super::size;
use super::turn::{CallKind, FinishReason, ModelEvent, ProviderFields, ProviderState, ToolCallRequest};
use antwort_protocol::event::ResponseEvent;
use antwort_protocol::id::{Id, IdGenerator};
use antwort_protocol::item::{Item, ItemStatus};
use antwort_protocol::request::ServiceTier;
use antwort_protocol::response::{Response, ResponseSnapshot, RunOutcome, RunReport, Usage};
use call::OpenCall;
use compaction::Summary;
use items::FlushMode;
use mcp::BufferedCall;
use message::OpenMessage;
use pending::PendingQueue;
use reasoning::OpenReasoning;
use server::{HiddenCall, OpenServerCall};
use state::AnswerState;

pub use call_result::{CallResult, RemoteError};
pub use closed::ClosedResponse;
pub use compaction::{MAX_SUMMARY_BYTES, SealSummary};
pub use input::{ClientCall, InputDeadline, InputEvent};
pub use mcp::ApprovalRequest;
pub use message::MAX_ANNOTATIONS;
pub use replay::SeenEvent;
pub use saved::MachineState;
pub use types::{
    Events, MachineOptions, ReasoningDisplay, Seal, ServerCall, ShowSealed, Termination, Turn, TurnOutput,
    Violation,
};

/// A call that is about to be written.
#[derive(Debug)]
struct CallStart {
    slot: u32,
    call_id: Option<String>,
    call: ToolCallRequest,
    /// Fields that the provider sent with it and wants returned.
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

/// The current turn.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct TurnState {
    /// The place of its first item in the output.
    first: usize,
    pending: PendingQueue,
    finish: Option<FinishReason>,
    /// The text is commentary, not the answer: the model will be asked again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_commentary: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    client_calls: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    server_calls: Vec<ServerCall>,
    approval_calls: usize,
    /// The client was asked for the outputs of its calls, and the response goes on when they are there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    asks_client: bool,
    /// Approval requests of the calls of this turn, by slot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approved: Vec<(u32, String)>,
    /// Server-side calls whose items are closed and whose results are still to come.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hidden: Vec<HiddenCall>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    closed_slots: Vec<u32>,
    /// The turn was cut off: open calls end incomplete.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    /// The calls are being made: one without a result may have been executed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dispatched: bool,
    state: AnswerState,
}

/// The state machine of one response.
pub struct ResponseMachine {
    accumulator: ResponseAccumulator,
    ids: IdGenerator,
    options: MachineOptions,
    sequence: u64,
    open: OpenItem,
    turn: TurnState,
    usage: Option<Usage>,
    /// As the provider reported it; the last report counts.
    service_tier: Option<ServiceTier>,
    sealed: BTreeMap<u32, String>,
    history: BTreeMap<u32, Item>,
    /// Places of items that clients see and the model does not: those of turns that were abandoned.
    abandoned: BTreeSet<u32>,
    /// The last turns, as far as they have no items.
    itemless_turns: Vec<ProviderState>,
    approval_requests: Vec<ApprovalRequest>,
    /// Items of calls that were closed without a result.
    aborted_calls: Vec<Id>,
    summary: Summary,
    /// Size of everything so far.
    bytes: usize,
    /// Size of the item that was added last.
    item_bytes: usize,
    largest_item: usize,
}

impl ResponseMachine {
    /// A machine for a new response.
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
            abandoned: BTreeSet::new(),
            itemless_turns: Vec::new(),
            approval_requests: Vec::new(),
            aborted_calls: Vec::new(),
            summary: Summary::default(),
            bytes: 0,
            item_bytes: 0,
            largest_item: 0,
        }
    }

    /// Makes the ids of the response's items, and of what only the model sees.
    pub fn ids(&mut self) -> &mut IdGenerator {
        &mut self.ids
    }

    /// The response so far.
    pub fn response(&self) -> &Response {
        self.accumulator.response()
    }

    /// Bytes so far of everything that is held: text, arguments, results and their overhead. The memory of the
    /// machine and the size of its snapshots are bounded by a constant factor of this (see `size`).
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the largest item.
    pub fn largest_item(&self) -> usize {
        self.largest_item
    }

    /// Counts bytes that have come and belong to the last item.
    fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.count_in_item(bytes);
    }

    /// Counts bytes that belong to the last item and were counted when they came.
    fn count_in_item(&mut self, bytes: usize) {
        self.item_bytes += bytes;
        self.largest_item = self.largest_item.max(self.item_bytes);
    }

    /// Emits the first events of the stream.
    pub fn start(&mut self, out: &mut Events) {
        let snapshot = Arc::new(ResponseSnapshot::new(self.accumulator.response().clone()));
        self.emit_infallible(ResponseEvent::Created { response: Arc::clone(&snapshot) }, out);
        self.emit_infallible(ResponseEvent::InProgress { response: snapshot }, out);
    }

    /// Emits the first events of the stream of a response that waits for its run.
    pub fn start_queued(&mut self, out: &mut Events) {
        let snapshot = Arc::new(ResponseSnapshot::new(self.accumulator.response().clone()));
        self.emit_infallible(ResponseEvent::Created { response: Arc::clone(&snapshot) }, out);
        self.emit_infallible(ResponseEvent::Queued { response: snapshot }, out);
    }

    /// Emits that the run of a response that has waited begins.
    pub fn begin(&mut self, out: &mut Events) {
        let snapshot = Arc::new(ResponseSnapshot::new(self.accumulator.response().clone()));
        self.emit_infallible(ResponseEvent::InProgress { response: snapshot }, out);
    }

    /// Processes a model event.
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
            ModelEvent::CallId { slot, call_id } => {
                self.keep_call_id(slot, call_id);
                self.count_in_item(size);
            }
            event if self.continues_open_call(&event) || self.is_ready() => {
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

    /// Whether the next event can be written at once: nothing waits, and no open call has to be complete first.
    fn is_ready(&self) -> bool {
        self.turn.pending.is_empty()
            && matches!(self.open, OpenItem::Nothing | OpenItem::Message(_) | OpenItem::Reasoning(_))
    }

    /// Counts a call and collects its arguments, as writing it may have to wait.
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

    /// Ends the model's part of a turn: closes the open item and returns the calls of the model.
    ///
    /// `has_rejected`: calls of the model were rejected and not shown, so that an empty turn is no empty answer.
    pub fn end_turn(&mut self, has_rejected: bool, out: &mut Events) -> Result<Turn, Violation> {
        let truncated = self.is_cut_off();
        self.turn.truncated = truncated;
        self.drain_pending(FlushMode::Force, out)?;
        match &self.open {
            OpenItem::Server(_) | OpenItem::Buffered(_) if !truncated => self.finish_open_arguments(out)?,
            _ => self.close(if truncated { ItemStatus::Incomplete } else { ItemStatus::Completed }, out)?,
        }
        if !truncated {
            self.write_compaction(out)?;
        }
        let silent = self.response().output.len() == self.turn.first && !has_rejected;
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

    /// The calls of the turn are being made from now on.
    pub fn dispatch_calls(&mut self) {
        self.turn.dispatched = true;
    }

    /// Says that nothing has happened for a while.
    pub fn keep_alive(&mut self, out: &mut Events) {
        self.emit_infallible(ResponseEvent::Keepalive {}, out);
    }

    /// Ends a turn after all its server-side calls were finished.
    pub fn close_turn(&mut self, out: &mut Events) -> Result<TurnOutput, Violation> {
        self.drain_pending(FlushMode::Force, out)?;
        self.close(ItemStatus::Completed, out)?;
        self.finalize_state(out)?;
        let TurnState { first, state, .. } = std::mem::take(&mut self.turn);
        self.turn.first = self.response().output.len();
        let (states, orphan_state) = state.into_parts();
        self.keep_itemless(orphan_state.as_ref());
        Ok(TurnOutput { first, states, orphan_state })
    }

    /// The item at this place as the model sees it.
    pub fn visible(&self, index: u32) -> Option<&Item> {
        self.history_of(index).or_else(|| self.response().output.get(index as usize))
    }

    /// The item that the model sees at this place, if it is not that of clients.
    pub fn history_of(&self, index: u32) -> Option<&Item> {
        self.history.get(&index)
    }

    /// Sealed provider state that is stored with the item at this place, and that clients do not carry.
    pub fn sealed_state(&self, index: u32) -> Option<&String> {
        self.sealed.get(&index)
    }

    /// The place of the first item that is not finished: it is being written, or its call has no result yet.
    pub fn first_unfinished(&self) -> usize {
        let open = match &self.open {
            OpenItem::Nothing | OpenItem::Buffered(_) => None,
            // Only the last item can be open.
            _ => self.response().output.len().checked_sub(1),
        };
        let hidden = self.turn.hidden.iter().map(|call| call.output_index as usize).min();
        open.into_iter().chain(hidden).min().unwrap_or(self.response().output.len())
    }

    /// Tokens used in the turns so far.
    pub fn usage(&self) -> Usage {
        self.usage.unwrap_or_default()
    }

    /// Tokens used in the turn that has not ended.
    pub fn turn_usage(&self) -> Option<Usage> {
        self.turn.usage
    }

    /// All tokens used so far, also in a turn that has not ended.
    pub fn total_usage(&self) -> Option<Usage> {
        let mut total = self.usage;
        self.turn.usage.iter().for_each(|usage| total.get_or_insert_default().add(usage));
        total
    }

    /// The text of the open message.
    pub fn open_text_so_far(&self) -> Option<&str> {
        let OpenItem::Message(open) = &self.open else { return None };
        self.text_of(open)
    }

    /// Whether the model was cut off, so that its answer is not complete.
    pub fn is_cut_off(&self) -> bool {
        matches!(self.turn.finish, Some(FinishReason::Length | FinishReason::ContentFilter))
    }

    /// Marks the open message as commentary: the model will be asked again.
    pub fn mark_commentary(&mut self) {
        self.turn.is_commentary = true;
    }

    /// The items of the turn so far.
    pub fn turn_output(&self) -> &[Item] {
        self.response().output.get(self.turn.first..).unwrap_or_default()
    }

    /// Closes the response: open items end incomplete, and its state is final. The terminal event is emitted by the
    /// result, once the response is committed.
    pub fn close_response(
        mut self,
        ending: Termination,
        outcome: RunOutcome,
        now: i64,
        out: &mut Events,
    ) -> ClosedResponse {
        self.turn.truncated = true;
        // A violation here cannot change the ending any more; as much as possible is written.
        let _closed = self.drain_pending(FlushMode::Force, out);
        let _closed = self.close(ItemStatus::Incomplete, out);
        self.abort_hidden_calls();
        let _answered = self.abandon_client_calls(out);
        let _settled = self.finalize_state(out);
        self.usage = self.total_usage();
        let Self {
            accumulator,
            sealed,
            history,
            abandoned,
            approval_requests,
            aborted_calls,
            usage,
            service_tier,
            sequence,
            ..
        } = self;
        let mut response = accumulator.into_response();
        response.usage = usage;
        service_tier.unwrap_or(ServiceTier::Default).as_str().clone_into(&mut response.service_tier);
        response.antwort = Some(RunReport::with_outcome(response.antwort, outcome));
        ending.apply(&mut response, now);
        let snapshot = Arc::new(ResponseSnapshot::new(response));
        // Encoded here: the caller takes a large response off the worker thread.
        snapshot.json();
        ClosedResponse { snapshot, sealed, history, abandoned, approval_requests, aborted_calls, sequence }
    }
}
