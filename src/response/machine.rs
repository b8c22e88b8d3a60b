//! Turns a model's answers into the stream of events of one response.
//!
//! The only place that mints item ids, counts indexes and sequence numbers, and decides the order of
//! events. Items are written one after the other: each is added, filled and done before the next is
//! added, even where a provider interleaves parallel calls. What belongs to another item meanwhile waits.
//!
//! Knows no provider, no clock and no client: time, ids and sealing are handed in.

mod call;
mod message;
mod reasoning;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::fold::{Fold, Misplaced};
use super::turn::{CallKind, FinishReason, ModelEvent, ProviderState};
use crate::protocol::error::ErrorBody;
use crate::protocol::event::{Event, StreamEvent};
use crate::protocol::id::IdMint;
use crate::protocol::item::{Item, ItemStatus};
use crate::protocol::response::{IncompleteDetails, Response, Snapshot, Status, Usage};
use call::OpenCall;
use message::OpenMessage;
use reasoning::OpenReasoning;

/// Events in the order in which they happened.
pub type Events = Vec<StreamEvent>;

/// What the machine must know of the request.
#[derive(Clone, Default)]
pub struct Options {
    /// How raw reasoning is shown.
    pub reasoning: ReasoningDisplay,
    /// Whether log probabilities are shown.
    pub logprobs: bool,
    /// Seals provider state; without it none is kept.
    pub seal: Option<Arc<dyn Seal>>,
    /// Whether sealed state is shown to the client (`include: ["reasoning.encrypted_content"]`).
    pub show_sealed: bool,
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

/// Makes provider state opaque.
pub trait Seal: Send + Sync {
    /// The blob that stands for the state.
    fn seal(&self, state: &ProviderState) -> String;
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
    /// The machine contradicted itself. A bug of ours.
    #[error("events were produced out of order")]
    Misplaced,
}

impl From<Misplaced> for Violation {
    fn from(_: Misplaced) -> Self {
        Self::Misplaced
    }
}

/// How a response ends.
#[derive(Debug, Clone)]
pub enum Ending {
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

/// One turn of the model, closed.
#[derive(Debug)]
pub struct Turn {
    /// Why the model stopped; `None`: it never said so.
    pub finish: Option<FinishReason>,
    /// Where its output begins in the response's.
    pub first: usize,
    /// Places in the output of the calls that it made, in order.
    pub calls: Vec<u32>,
    /// Tokens spent, if the provider said.
    pub usage: Option<Usage>,
}

/// A response that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The response with its JSON.
    pub snapshot: Arc<Snapshot>,
    /// By place in the output: sealed state of reasoning items, for the history.
    pub sealed: BTreeMap<u32, String>,
}

/// The item that is being written.
#[derive(Debug)]
enum Open {
    Nothing,
    Message(OpenMessage),
    Reasoning(OpenReasoning),
    Call(OpenCall),
}

/// What is known of the turn so far.
#[derive(Debug, Default)]
struct TurnSoFar {
    /// Where the turn's output begins.
    first: usize,
    waiting: VecDeque<ModelEvent>,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
    calls: Vec<u32>,
    closed_slots: Vec<u32>,
    /// The turn's last reasoning item, whose state may still come.
    reasoning: Option<(u32, ProviderState)>,
}

/// Writes one response.
pub struct Machine {
    fold: Fold,
    ids: IdMint,
    options: Options,
    sequence: u64,
    open: Open,
    turn: TurnSoFar,
    usage: Option<Usage>,
    sealed: BTreeMap<u32, String>,
    bytes: usize,
    item_bytes: usize,
    largest_item: usize,
}

impl Finished {
    /// Turns an ending that could not be kept into a failure: `out` still holds the terminal event.
    pub fn into_failed(self, error: ErrorBody, out: &mut Events) -> Self {
        let Some(terminal) = out.pop() else { return self };
        if matches!(terminal.event, Event::Failed { .. }) {
            out.push(terminal);
            return self;
        }
        let mut response = self.snapshot.response.clone();
        response.status = Status::Failed;
        response.completed_at = None;
        response.incomplete_details = None;
        response.error = Some(error.clone());
        let snapshot = Arc::new(Snapshot::new(response));
        let sequence_number = terminal.sequence_number;
        out.push(StreamEvent { sequence_number, event: Event::Error { error } });
        let event = Event::Failed { response: Arc::clone(&snapshot) };
        out.push(StreamEvent { sequence_number: sequence_number + 1, event });
        Self { snapshot, sealed: self.sealed }
    }
}

impl Machine {
    /// A machine for a response that is about to be created.
    pub fn new(response: Response, ids: IdMint, options: Options) -> Self {
        Self {
            fold: Fold::new(response),
            ids,
            options,
            sequence: 0,
            open: Open::Nothing,
            turn: TurnSoFar::default(),
            usage: None,
            sealed: BTreeMap::new(),
            bytes: 0,
            item_bytes: 0,
            largest_item: 0,
        }
    }

    /// The response so far.
    pub fn response(&self) -> &Response {
        self.fold.response()
    }

    /// Bytes of text and arguments received so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the item that has most of them.
    pub fn largest_item(&self) -> usize {
        self.largest_item
    }

    fn count(&mut self, delta: &str) {
        self.bytes += delta.len();
        self.item_bytes += delta.len();
        self.largest_item = self.largest_item.max(self.item_bytes);
    }

    /// Opens the stream.
    pub fn start(&mut self, out: &mut Events) {
        let snapshot = Arc::new(Snapshot::new(self.fold.response().clone()));
        self.emit_sound(Event::Created { response: Arc::clone(&snapshot) }, out);
        self.emit_sound(Event::InProgress { response: snapshot }, out);
    }

    /// Takes in a piece of the model's answer.
    pub fn push(&mut self, event: ModelEvent, out: &mut Events) -> Result<(), Violation> {
        match event {
            ModelEvent::Usage(usage) => self.turn.usage = Some(usage),
            ModelEvent::ServiceTier(tier) => self.fold.set_service_tier(tier),
            ModelEvent::Finish(reason) => {
                self.turn.finish.get_or_insert(reason);
            }
            ModelEvent::ReasoningState(fields) => self.keep_state(fields),
            event if self.continues_open_call(&event) => self.write(event, out)?,
            event => {
                self.turn.waiting.push_back(event);
                self.write_waiting(Patience::UntilWhole, out)?;
            }
        }
        Ok(())
    }

    /// Ends the model's turn: closes what is open and says what the model asked for.
    pub fn end_turn(&mut self, out: &mut Events) -> Result<Turn, Violation> {
        self.write_waiting(Patience::Over, out)?;
        let cut = matches!(self.turn.finish, Some(FinishReason::Length | FinishReason::ContentFilter));
        self.close(if cut { ItemStatus::Incomplete } else { ItemStatus::Completed }, out)?;
        let silent = self.response().output.len() == self.turn.first;
        if silent && self.turn.finish == Some(FinishReason::Stop) {
            // A model may have nothing to say; clients expect a message all the same.
            self.open_text(out)?;
            self.close(ItemStatus::Completed, out)?;
        }
        self.keep_sealed();
        let ended = std::mem::take(&mut self.turn);
        self.turn.first = self.response().output.len();
        if let Some(usage) = ended.usage {
            self.usage.get_or_insert_default().add(&usage);
        }
        Ok(Turn { finish: ended.finish, first: ended.first, calls: ended.calls, usage: ended.usage })
    }

    /// Ends the response; what is still open is closed as incomplete.
    pub fn end(mut self, ending: Ending, now: i64, out: &mut Events) -> Finished {
        // A violation here cannot change the ending any more; what can be written is.
        let _closed = self.write_waiting(Patience::Over, out);
        let _closed = self.close(ItemStatus::Incomplete, out);
        self.keep_sealed();
        if let Some(usage) = self.turn.usage.take() {
            self.usage.get_or_insert_default().add(&usage);
        }
        let mut response = self.fold.response().clone();
        response.usage = self.usage;
        let event = match ending {
            Ending::Completed | Ending::RequiresAction => {
                let done = matches!(ending, Ending::Completed);
                response.status = if done { Status::Completed } else { Status::RequiresAction };
                response.completed_at = Some(now);
                response.usage.get_or_insert_default();
                |response| Event::Completed { response }
            }
            Ending::Incomplete(reason) => {
                response.status = Status::Incomplete;
                response.incomplete_details = Some(IncompleteDetails { reason });
                response.usage.get_or_insert_default();
                |response| Event::Incomplete { response }
            }
            Ending::Failed(error) => {
                self.emit_sound(Event::Error { error: error.clone() }, out);
                response.status = Status::Failed;
                response.error = Some(error);
                |response| Event::Failed { response }
            }
            Ending::Cancelled => {
                response.status = Status::Cancelled;
                |response| Event::Incomplete { response }
            }
        };
        let snapshot = Arc::new(Snapshot::new(response));
        self.number(event(Arc::clone(&snapshot)), out);
        Finished { snapshot, sealed: self.sealed }
    }

    /// Writes what waits, as far as the open item allows.
    fn write_waiting(&mut self, patience: Patience, out: &mut Events) -> Result<(), Violation> {
        while let Some(event) = self.turn.waiting.pop_front() {
            if let Open::Call(call) = &self.open
                && !self.continues_open_call(&event)
            {
                if patience == Patience::UntilWhole && !self.is_whole(call) {
                    self.turn.waiting.push_front(event);
                    return Ok(());
                }
                self.close(ItemStatus::Completed, out)?;
            }
            self.write(event, out)?;
        }
        Ok(())
    }

    /// Writes a piece of the answer whose turn it is.
    fn write(&mut self, event: ModelEvent, out: &mut Events) -> Result<(), Violation> {
        match event {
            ModelEvent::Text { delta, logprobs } => self.write_text(delta, logprobs, out),
            ModelEvent::Refusal(delta) => self.write_refusal(delta, out),
            ModelEvent::Annotation(annotation) => self.write_annotation(annotation, out),
            ModelEvent::Reasoning(delta) => self.write_reasoning(delta, out),
            ModelEvent::ReasoningSummary(delta) => self.write_summary(delta, out),
            ModelEvent::CallStarted { slot, kind, call_id, name, namespace } => {
                self.open_call(slot, kind, call_id, name, namespace, out)
            }
            ModelEvent::CallDelta { slot, delta } => self.write_arguments(slot, delta, out),
            ModelEvent::Usage(_)
            | ModelEvent::ServiceTier(_)
            | ModelEvent::Finish(_)
            | ModelEvent::ReasoningState(_) => Ok(()),
        }
    }

    /// Closes the open item, if there is one.
    fn close(&mut self, status: ItemStatus, out: &mut Events) -> Result<(), Violation> {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => Ok(()),
            Open::Message(message) => self.close_message(&message, status, out),
            Open::Reasoning(reasoning) => self.close_reasoning(reasoning, status, out),
            Open::Call(call) => self.close_call(&call, status, out),
        }
    }

    /// Adds an item to the output and returns its place.
    fn add_item(&mut self, item: Item, out: &mut Events) -> Result<u32, Violation> {
        let output_index = u32::try_from(self.response().output.len()).map_err(|_| Violation::Misplaced)?;
        self.item_bytes = 0;
        self.emit(Event::OutputItemAdded { output_index, item: Box::new(item) }, out)?;
        Ok(output_index)
    }

    /// Ends the item at a place of the output.
    fn finish_item(
        &mut self,
        output_index: u32,
        out: &mut Events,
        change: impl FnOnce(&mut Item),
    ) -> Result<(), Violation> {
        let mut item = self.output(output_index)?.clone();
        change(&mut item);
        self.emit(Event::OutputItemDone { output_index, item: Box::new(item) }, out)
    }

    fn output(&self, index: u32) -> Result<&Item, Violation> {
        self.response().output.get(index as usize).ok_or(Violation::Misplaced)
    }

    fn emit(&mut self, event: Event, out: &mut Events) -> Result<(), Violation> {
        self.fold.apply(&event)?;
        self.number(event, out);
        Ok(())
    }

    /// For events that have no place among the items, and so cannot be misplaced.
    fn emit_sound(&mut self, event: Event, out: &mut Events) {
        if self.fold.apply(&event).is_ok() {
            self.number(event, out);
        }
    }

    fn number(&mut self, event: Event, out: &mut Events) {
        out.push(StreamEvent { sequence_number: self.sequence, event });
        self.sequence += 1;
    }
}

/// How long what waits for an open call goes on waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// Until the call's arguments are a whole JSON value.
    UntilWhole,
    /// No longer: the turn is over.
    Over,
}

/// The prefix of item ids by kind of call.
fn call_prefix(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Function => "fc",
        CallKind::Custom => "ctc",
    }
}
