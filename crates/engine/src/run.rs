//! One run: asks the model, feeds its answer to the machine, and ends the response in exactly one way.
//!
//! Its phases: `prepare` (before the run), `compact` replaces a conversation that has become long, `inference` asks the model for one turn, `tools` makes the calls of the turn,
//! `inputs` asks the client for outputs, `end` ends the response. `begin` begins a run that its client may come back for, `logged`. `mcp` follows the MCP servers, `reprompt` asks the model once more, `wait` is what
//! interrupts a run that waits, `live` is the run with its handles, `state` is what it has done so far, `trace` its account, `saved` is what is committed of it.
//!
//! Owns the order of things in time: when events are sent, what is awaited before the terminal event, and what
//! happens when the client disconnects, a deadline passes or something panics. The order of events on the wire is the
//! machine's.

mod async_calls;
mod begin;
mod compact;
mod end;
mod held_questions;
mod inference;
mod inputs;
mod job;
mod keepalive;
mod live;
mod logged;
mod mcp;
mod questions;
mod refused;
mod reprompt;
mod saved;
mod state;
mod summary;
mod timer;
mod tools;
pub(super) mod trace;
mod wait;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

pub(super) use self::job::{JobEnd, LeftTurn};
pub(super) use self::live::Run;
use self::live::{RunEnd, RunError};
pub(super) use self::logged::Logged;
pub(super) use self::saved::{SavedRun, save};
use self::state::NextInference;
pub(super) use self::state::{RunState, StartedWork};
use super::structured::OutputVerdict;
use super::tool_executor::TurnCalls;
use super::{compaction, history, states};
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::id::IdGenerator;
use antwort_protocol::item::{Item, Reasoning};
use antwort_protocol::response::Usage;
use antwort_response::machine::{Termination, Turn, TurnOutput};
use antwort_response::turn::{CallChoice, FinishReason, HistoryItem, ProviderState};

/// After this many turns in a row with only forbidden calls the run fails.
const MAX_DENIED_TURNS: u32 = 3;

impl Run {
    /// Runs to the end. Never panics, and always ends in exactly one way.
    pub(super) async fn drive(mut self: Box<Self>) {
        self.machine.start(self.sink.events());
        if self.logged.is_some() {
            let Some(begun) = Box::pin(self.begin_logged()).await else { return };
            self = begun;
        }
        self.parts.metrics.run_started();
        let outcome = match AssertUnwindSafe(self.agent_loop()).catch_unwind().await {
            Ok(Ok(ending)) => RunEnd::Ended(ending),
            // The connection was closed by the shutdown, not by the client.
            Ok(Err(RunError::Cancelled)) if self.parts.in_flight.abort_token().is_cancelled() => {
                self.run_end(RunError::shutdown())
            }
            Ok(Err(stop)) => self.run_end(stop),
            Err(_panic) => {
                tracing::error!(request_id = %self.call.request_id, "a run panicked");
                self.run_end(RunError::Failed(ApiError::internal()))
            }
        };
        // Boxed, as are the rarer phases: their futures would take space in that of a run that waits for its model.
        Box::pin(self.end(outcome)).await;
    }

    /// The agent loop: an inference, then the calls that follow from it, until the model is done or a limit is
    /// reached.
    async fn agent_loop(&mut self) -> Result<Termination, RunError> {
        if !self.generates {
            // No model was asked.
            self.machine.count_usage(&Usage::default());
            return Ok(Termination::Completed);
        }
        self.emit_list_tools()?;
        if !self.prepared.approved.is_empty()
            && let Some(ending) = Box::pin(self.run_approved()).await?
        {
            return Ok(ending);
        }
        while self.state.turns() < self.prepared.limits.run.max_turns {
            self.check_deadline()?;
            if self.prepared.auto_compaction.is_some() {
                Box::pin(self.compact_if_due()).await?;
            }
            self.state.begin_inference();
            self.prepared.structured.begin_answer();
            self.call_filter.begin_turn(self.executor.left());
            let turn = self.infer_with_retry().await?;
            if let Some(ending) = self.after_turn(turn).await? {
                return Ok(ending);
            }
        }
        Err(RunError::LimitReached("max_turns"))
    }

    /// Decides what follows a turn: the end, or another turn.
    async fn after_turn(&mut self, turn: Turn) -> Result<Option<Termination>, RunError> {
        let lacks_call = self.call_filter.lacks_required_call();
        let denied = self.call_filter.end_turn();
        if self.call_filter.limit_exceeded() {
            self.state.trace.reach_limit("max_tool_calls".into());
        }
        match turn.finish {
            Some(FinishReason::Length) => {
                return Ok(Some(Termination::Incomplete("max_output_tokens".into())));
            }
            Some(FinishReason::ContentFilter) => {
                return Ok(Some(Termination::Incomplete("content_filter".into())));
            }
            Some(FinishReason::Stop) | None => {}
        }
        if lacks_call {
            return Box::pin(self.on_missing_call(&turn, denied.any)).await;
        }
        self.call_filter.clear_required();
        let waits = turn.client_calls + turn.approval_calls > 0;
        self.parts.metrics.client_calls(turn.client_calls);
        if turn.server_calls.is_empty() && !waits && !denied.any {
            let ending = Box::pin(self.validate_output(&turn)).await?;
            return Box::pin(self.before_end(&turn, ending)).await;
        }
        let made = !turn.server_calls.is_empty();
        if made {
            self.state.denied_turns = 0;
            // A call may ask the user, and the run wait.
            self.state.has_exceeded_calls |= self.call_filter.limit_exceeded();
            let have_failed = Box::pin(self.run_calls(&turn.server_calls)).await?;
            match turn.client_calls > 0 && self.prepared.input_timeout.is_some() {
                // With those that the client makes.
                true => self.state.have_server_calls_failed = Some(have_failed),
                false => self.count_failed_turn(have_failed)?,
            }
        }
        if turn.client_calls > 0
            && let Some(timeout) = self.prepared.input_timeout
        {
            return Err(Box::pin(self.ask_client(timeout)).await);
        }
        let output = self.machine.close_turn(self.sink.events())?;
        self.check_size()?;
        if waits {
            // An approval request is visible as an item; `requires_action` is only for functions of the client.
            return Ok(Some(if turn.client_calls > 0 {
                self.prepared.awaiting_client_status.clone()
            } else {
                Termination::Completed
            }));
        }
        if !made && denied.by_mistake {
            self.count_denied_turn()?;
        }
        self.finish_turn(&turn, output)?;
        match made {
            true => self.prepare_next_turn(),
            false => Box::pin(self.begin_next_turn()).await?,
        }
        if self.prepared.servers.iter().any(|server| server.has_changed()) {
            Box::pin(self.refresh_changed_tools()).await?;
        }
        Ok(None)
    }

    /// Decides what follows a turn without calls: the end, or another turn if the answer does not match its format.
    async fn validate_output(&mut self, turn: &Turn) -> Result<Option<Termination>, RunError> {
        if self.prepared.is_compaction && self.machine.response().output.is_empty() {
            return Ok(Some(Termination::Failed(compaction::failed().body)));
        }
        match self.prepared.structured.validate(self.machine.turn_output()) {
            OutputVerdict::Accept => Ok(Some(Termination::Completed)),
            OutputVerdict::Fail(error) => Ok(Some(Termination::Failed(error.body))),
            OutputVerdict::Repair(problem) => self.ask_for_repair(turn, &problem).await.map(|()| None),
        }
    }

    /// Adds a turn to the conversation, unless a limit is reached.
    fn finish_turn(&mut self, turn: &Turn, output: TurnOutput) -> Result<(), RunError> {
        self.consume_token_budget(turn)?;
        if let Some(limit) = self.prepared.limits.reached_by(&self.machine.usage()) {
            return Err(RunError::LimitReached(limit));
        }
        let mut output = output;
        // The turns without items before this one are in the conversation already.
        output.states.values_mut().for_each(|state| state.earlier.clear());
        self.append_history(output);
        Ok(())
    }

    fn count_denied_turn(&mut self) -> Result<(), RunError> {
        self.state.denied_turns += 1;
        if self.prepared.executes_tools && self.state.denied_turns <= MAX_DENIED_TURNS {
            return Ok(());
        }
        Err(RunError::Failed(
            ApiError::new(
                ErrorKind::ModelError,
                "The model called only tools that this request does not have or does not allow.",
            )
            .with_code("tool_not_allowed"),
        ))
    }

    /// Adds the items of a turn to the conversation, in their order. Approved calls are of the answer that has asked for approval.
    fn append_history(&mut self, turn: TurnOutput) {
        let TurnOutput { first, mut states, orphan_state: loose } = turn;
        let conversation = &mut Arc::make_mut(&mut self.prepared.model_request).conversation;
        let begin = conversation.len();
        if let Some(state) = loose {
            conversation.push(state_item(state, self.machine.ids()));
        }
        let items = self.machine.response().output.len();
        for place in first..items {
            let Ok(place) = u32::try_from(place) else { break };
            let item = self.machine.visible(place);
            conversation.extend(item.and_then(|item| history::from_run_output(item, states.remove(&place))));
        }
        if let Some(first) = conversation.get_mut(begin) {
            first.begins_turn = self.state.next != NextInference::First;
        }
        states::attach_states(conversation);
    }

    /// Commits a turn without calls of the gateway, and prepares the next one. A run that ends with its process is not committed
    /// for that.
    async fn begin_next_turn(&mut self) -> Result<(), RunError> {
        if self.can_wait {
            self.flush().await?;
            self.sink.settle_log().await;
            self.state.note_active(self.started);
            self.state.has_exceeded_calls = self.call_filter.limit_exceeded();
            let none = TurnCalls::Server(&[]);
            self.executor
                .commit(&self.prepared, &self.machine, &mut self.state, none, &self.parts.seal)
                .await?;
        }
        self.prepare_next_turn();
        Ok(())
    }

    /// Asks as the turn before has left it: a state that was committed leads to the same.
    fn prepare_next_turn(&mut self) {
        let next = std::mem::take(&mut self.state.next);
        let required = self.required_choice();
        let ask = Arc::make_mut(&mut self.prepared.model_request);
        match next {
            NextInference::First => {}
            NextInference::RequiredCall => ask.tool_choice = required,
            NextInference::Repair => {
                ask.tool_choice = CallChoice::None;
                self.call_filter.deny_all();
            }
            NextInference::Later if self.call_filter.limit_exceeded() && self.executor.left() == 0 => {
                // One last inference, without tools, as no more calls would be made.
                ask.tool_choice = CallChoice::None;
                self.call_filter.deny_all();
            }
            // The required call was made; requiring it again would never end.
            NextInference::Later => ask.tool_choice = self.prepared.offer.choice.later_turn_choice(),
        }
    }

    /// `max_output_tokens` is for the whole response: a turn's tokens are subtracted from those of the next.
    fn consume_token_budget(&mut self, turn: &Turn) -> Result<(), RunError> {
        if self.prepared.model_request.max_output_tokens.is_none() {
            return Ok(());
        }
        let Some(left) = &mut self.prepared.model_request_mut().max_output_tokens else { return Ok(()) };
        *left = left.saturating_sub(turn.usage.map_or(0, |usage| usage.output_tokens));
        if *left == 0 { Err(RunError::LimitReached("max_output_tokens")) } else { Ok(()) }
    }

    fn check_size(&self) -> Result<(), RunError> {
        let limits = &self.parts.options.engine;
        let output = &self.machine.response().output;
        if self.machine.bytes() + self.call_filter.bytes() > limits.max_response_bytes
            || self.machine.largest_item() > limits.max_item_bytes
            || output.len() > limits.max_output_items
        {
            return Err(RunError::LimitReached("max_response_size"));
        }
        Ok(())
    }
}

/// Provider state without any reasoning, in an item that no client sees.
fn state_item(state: ProviderState, ids: &mut IdGenerator) -> HistoryItem {
    let item = Item::Reasoning(Reasoning {
        id: ids.next("rs"),
        summary: Vec::new(),
        content: Vec::new(),
        encrypted_content: None,
        is_abandoned: false,
    });
    HistoryItem { state: Some(state), ..HistoryItem::from(item) }
}
