//! One run: asks the model, hands its answer to the machine, and ends the response in exactly one way.
//!
//! Owns the order of things in time: when events leave, what is awaited before the terminal event, what
//! happens when the client goes, a deadline passes or something panics. The order of events on the wire is
//! the machine's.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::time::Sleep;
use tracing::Span;
use tracing::field::Empty;

use super::approvals;
use super::call_filter::{CallFilter, RejectedCall};
use super::choice::CallPolicy;
use super::event_sink::{Disconnected, EventSink};
use super::in_flight::shutting_down;
use super::prepare::PreparedRun;
use super::run_summary::RunSummary;
use super::structured::OutputVerdict;
use super::tool_executor::ToolCallExecutor;
use super::{Engine, RunContext, compaction, history, record, search, states, unix_now};
use crate::admission::Requester;
use crate::protocol::error::ApiError;
use crate::protocol::item::{Item, Reasoning};
use crate::protocol::response::{ResponseStatus, RunOutcome};
use crate::provider::{CallContext, ModelStream, ProviderError, ProviderErrorKind};
use crate::response::machine::{ResponseMachine, Termination, Turn, TurnOutput, Violation};
use crate::response::turn::{CallChoice, FinishReason, HistoryItem, ModelEvent, ProviderState};
use crate::store::RunRegistration;
use crate::telemetry::fields::{CAUSE, CODE, KIND, MODEL, PARAM, PROVIDER, REQUEST_ID, RESPONSE_ID};
use crate::telemetry::request_log::RequestLog;

/// Turns in a row in which the model only called what it must not.
const MAX_DENIED_TURNS: usize = 3;
/// A stream that runs for longer is recorded as in progress. Most end before, and are written once.
const RECORD_AFTER: Duration = Duration::from_millis(500);

/// Of a response that a shutdown ends.
const SHUTDOWN_MESSAGE: &str =
    "The gateway was stopped before the response was whole. What was received is kept; try again.";

/// What the provider is sent is written where the run is, up to a request and a conversation of so many bytes.
const MAX_INLINE_ENCODE_BYTES: u64 = 1 << 20;

/// Why a run stops before the model is done.
pub(super) enum RunError {
    /// With this error: an HTTP error while nothing has left, a failed response after that.
    Failed(ApiError),
    /// The provider's answer cannot be: it is malformed.
    InvalidOutput(Violation),
    /// At this limit.
    LimitReached(&'static str),
    /// The client is gone or takes nothing.
    Cancelled,
}

impl RunError {
    /// Names it in traces.
    fn error_type(&self) -> &str {
        match self {
            Self::Failed(error) => error.code(),
            Self::InvalidOutput(_) => "upstream_malformed",
            Self::LimitReached(limit) => limit,
            Self::Cancelled => "cancelled",
        }
    }
}

/// How a run ends.
enum RunEnd {
    Ended(Termination),
    Rejected(ApiError),
}

/// What the next thing is that happens by the clock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunTimer {
    /// Status 200 is sent, though nothing has been heard from the provider.
    Commit,
    /// The response is recorded as in progress.
    Record,
    /// The run has taken too long.
    Deadline,
}

/// A run in progress.
pub(super) struct Run {
    pub(super) engine: Arc<Engine>,
    pub(super) prepared: PreparedRun,
    pub(super) machine: ResponseMachine,
    pub(super) call_filter: CallFilter,
    pub(super) executor: ToolCallExecutor,
    pub(super) sink: EventSink,
    call: CallContext,
    requester: Requester,
    started: Instant,
    deadline: Instant,
    timer: RunTimer,
    sleep: Pin<Box<Sleep>>,
    first_event: Option<Duration>,
    log: Option<Arc<RequestLog>>,
    /// Whether the provider has said anything in this turn.
    received: bool,
    /// A row says that the run is in progress.
    pub(super) recorded: bool,
    /// Inferences that were begun.
    turns: u32,
    /// Calls of tools that were made.
    pub(super) tool_calls: u32,
    /// Turns so far that made calls: the journal's number of the next.
    pub(super) journaled_turns: u32,
    denied_turns: usize,
    /// The model was asked once more for the call that is demanded.
    pub(super) asked_for_call: bool,
    /// Turns in a row all of whose calls failed.
    pub(super) failed_turns: u32,
    /// The name of the limit that the deadline is.
    deadline_name: &'static str,
    /// Of a stream that is stored: its client knows its id, and may delete it before it has a row.
    registration: Option<RunRegistration>,
}

impl Run {
    pub(super) fn new(
        engine: Arc<Engine>,
        mut prepared: PreparedRun,
        caller: RunContext,
        sink: EventSink,
        started: Instant,
    ) -> Self {
        let (time, deadline_name) = prepared.limits.timeout(engine.parts.options.engine.run_timeout);
        let deadline = started + time;
        let ids = std::mem::take(&mut prepared.ids);
        let machine = ResponseMachine::new(prepared.response.clone(), ids, prepared.options.clone());
        let offer = &prepared.offer;
        let tools = Arc::clone(&offer.tools);
        let CallPolicy { allowed, required: demand } = offer.choice.clone();
        let call_filter = CallFilter::new(allowed, demand, tools, prepared.model_request.parallel_tool_calls);
        let executor = ToolCallExecutor::new(&engine, &prepared, &caller, deadline);
        let requester = caller.requester();
        let call = CallContext {
            deadline: Some(deadline),
            traceparent: caller.traceparent,
            request_id: caller.request_id,
            response_id: Some(prepared.response.id.clone()),
        };
        let commit_at = (started + engine.parts.options.commit_after).min(deadline);
        let is_stored_stream = prepared.store && prepared.model_request.stream;
        let registration =
            is_stored_stream.then(|| engine.parts.store.register_run(&prepared.response.id, &prepared.owner));
        Self {
            registration,
            machine,
            call_filter,
            executor,
            sink,
            call,
            requester,
            started,
            deadline,
            // Without a stream the status can wait for the whole answer.
            timer: if prepared.model_request.stream { RunTimer::Commit } else { RunTimer::Deadline },
            sleep: Box::pin(tokio::time::sleep_until(
                if prepared.model_request.stream { commit_at } else { deadline }.into(),
            )),
            first_event: None,
            log: caller.log,
            received: false,
            recorded: false,
            turns: 0,
            tool_calls: 0,
            journaled_turns: 0,
            denied_turns: 0,
            asked_for_call: false,
            failed_turns: 0,
            deadline_name,
            engine,
            prepared,
        }
    }

    /// Runs to the end; never panics, and always ends in exactly one way.
    pub(super) async fn drive(mut self: Box<Self>) {
        self.engine.parts.metrics.run_started();
        let outcome = match AssertUnwindSafe(self.agent_loop()).catch_unwind().await {
            Ok(Ok(ending)) => RunEnd::Ended(ending),
            Ok(Err(stop)) => self.run_end(stop),
            Err(_panic) => {
                tracing::error!(request_id = %self.call.request_id, "a run panicked");
                self.run_end(RunError::Failed(ApiError::internal()))
            }
        };
        self.end(outcome).await;
    }

    /// The loop: ask, hear, and ask again if the model must be told something first.
    async fn agent_loop(&mut self) -> Result<Termination, RunError> {
        self.machine.start(self.sink.events());
        self.emit_list_tools()?;
        if let Some(ending) = self.run_approved().await? {
            return Ok(ending);
        }
        while self.turns < self.prepared.limits.run.max_turns {
            self.check_deadline()?;
            self.turns += 1;
            self.prepared.structured.begin_answer();
            self.call_filter.begin_turn(self.executor.left());
            let turn = self.infer_with_retry().await?;
            if let Some(ending) = self.after_turn(turn).await? {
                return Ok(ending);
            }
        }
        Err(RunError::LimitReached("max_turns"))
    }

    /// One turn of the model; a conversation that is too long is cut once if the client allows it.
    async fn infer_with_retry(&mut self) -> Result<Turn, RunError> {
        self.received = false;
        match self.infer_once().await {
            Err(RunError::Failed(error)) if error.code() == "context_length_exceeded" && !self.received => {
                if !self.prepared.truncate_half() {
                    return Err(RunError::Failed(error));
                }
                tracing::debug!(
                    "the provider said that the conversation is too long; trying with half of it"
                );
                self.infer_once().await
            }
            done => done,
        }
    }

    #[tracing::instrument(
        name = "chat",
        skip_all,
        fields(
            otel.kind = "client",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = self.prepared.provider.name(),
            gen_ai.request.model = self.prepared.model_request.model,
            server.address = Empty,
            server.port = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            error.type = Empty,
            otel.status_code = Empty,
        )
    )]
    async fn infer_once(&mut self) -> Result<Turn, RunError> {
        let span = Span::current();
        if let Some((host, port)) = &self.prepared.provider.info().address {
            span.record("server.address", host.as_str());
            span.record("server.port", *port);
        }
        let turn = self.stream_turn().await;
        match &turn {
            Ok(Turn { usage: Some(usage), .. }) => {
                span.record("gen_ai.usage.input_tokens", usage.input_tokens);
                span.record("gen_ai.usage.output_tokens", usage.output_tokens);
            }
            Ok(_) => {}
            Err(stop) => {
                span.record("error.type", stop.error_type());
                span.record("otel.status_code", "ERROR");
            }
        }
        turn
    }

    async fn stream_turn(&mut self) -> Result<Turn, RunError> {
        let mut stream = self.open_stream().await?;
        if self.turns > 1 {
            // What the turn before brought is seen before the model has thought about it.
            self.flush().await?;
        }
        let mut heard = Vec::new();
        loop {
            let more = self.until_cancelled(stream.next(&mut heard)).await?;
            let happened = !heard.is_empty();
            // Most events of a model make one of ours: no growing, and no copying for it.
            self.sink.events().reserve(heard.len() + 2);
            for event in heard.drain(..) {
                self.on_model_event(event)?;
            }
            self.check_size()?;
            if happened {
                self.received = true;
                self.first_event.get_or_insert_with(|| self.started.elapsed());
                self.flush().await?;
            }
            if !more.map_err(|error| self.provider_failed(error))? {
                break;
            }
        }
        drop(stream);
        self.add_citations()?;
        if self.will_retry_turn() {
            self.machine.mark_commentary();
        }
        let nothing_is_shown = if self.call_filter.lacks_required_call() {
            self.retries_missing_call()
        } else {
            self.call_filter.has_rejected()
        };
        Ok(self.machine.end_turn(nothing_is_shown, self.sink.events())?)
    }

    /// An answer that is yet to come: what the provider is sent for it is written now, off the workers if that is much.
    async fn open_stream(&mut self) -> Result<Box<dyn ModelStream>, RunError> {
        let provider = Arc::clone(&self.prepared.provider);
        let call = self.call.clone();
        let asked = if self.prepared.request_bytes + self.machine.bytes() as u64 <= MAX_INLINE_ENCODE_BYTES {
            provider.infer(&self.prepared.model_request, &call)
        } else {
            let (admission, requester) = (Arc::clone(self.engine.admission()), self.requester.clone());
            let ask = self.prepared.model_request.clone();
            let work =
                async move { admission.blocking.run(&requester, move || provider.infer(&ask, &call)).await };
            // Few runs need it, and all would have the room for it.
            self.until_cancelled(Box::pin(work)).await??
        };
        asked.map_err(|error| self.provider_failed(error))
    }

    /// The provider's words are the client's to read, but for what of them is the operator's, and not the log's.
    fn provider_failed(&self, error: ProviderError) -> RunError {
        let error = match &self.prepared.redaction {
            Some(redaction) => redaction.apply(error),
            None => error,
        };
        RunError::Failed(error.into())
    }

    /// What the provider said cannot be: its answer is malformed, though each piece of it could be read.
    fn violated(&self, violation: &Violation) -> RunError {
        let provider = self.prepared.provider.name();
        self.engine.parts.metrics.provider_failure(provider, "malformed");
        tracing::warn!(
            {
                { REQUEST_ID } = self.call.request_id,
                { RESPONSE_ID } = self.prepared.response.id.as_str(),
                { PROVIDER } = provider,
                { MODEL } = self.prepared.model_request.model,
                { KIND } = "malformed",
                { CAUSE } = %violation,
            },
            "the provider failed"
        );
        RunError::Failed(ProviderError::new(ProviderErrorKind::Malformed, violation.to_string()).into())
    }

    /// Names the sources in the text with which the turn ends.
    fn add_citations(&mut self) -> Result<(), RunError> {
        if self.executor.sources.is_empty() {
            return Ok(());
        }
        let text = self.machine.open_text_so_far().unwrap_or_default();
        for annotation in search::annotations(text, &self.executor.sources) {
            self.machine.push(ModelEvent::Annotation(annotation), self.sink.events())?;
        }
        Ok(())
    }

    fn on_model_event(&mut self, event: ModelEvent) -> Result<(), RunError> {
        match self.call_filter.filter(event) {
            Some(event) => Ok(self.machine.push(event, self.sink.events())?),
            None => Ok(()),
        }
    }

    /// What follows from a turn: the end, or another turn.
    async fn after_turn(&mut self, turn: Turn) -> Result<Option<Termination>, RunError> {
        let lacks_call = self.call_filter.lacks_required_call();
        let denied = self.call_filter.end_turn();
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
            return self.on_missing_call(&turn, denied);
        }
        self.call_filter.clear_required();
        let waits = turn.client_calls + turn.approval_calls > 0;
        self.engine.parts.metrics.client_calls(turn.client_calls);
        if turn.server_calls.is_empty() && !waits && denied.is_empty() {
            return self.validate_output(&turn);
        }
        let made = !turn.server_calls.is_empty();
        if made {
            self.run_calls(&turn.server_calls).await?;
        }
        let output = self.machine.close_turn(self.sink.events())?;
        self.check_size()?;
        if waits {
            // Clients know that a person is asked by the items; only functions are theirs to run.
            return Ok(Some(if turn.client_calls > 0 {
                self.prepared.awaiting_client_status.clone()
            } else {
                Termination::Completed
            }));
        }
        if made {
            self.denied_turns = 0;
        } else if denied.iter().any(RejectedCall::is_mistake) {
            self.count_denied_turn()?;
        }
        self.finish_turn(&turn, output, denied)?;
        self.prepare_next_turn();
        self.refresh_changed_tools().await?;
        Ok(None)
    }

    /// What follows from a turn in which nothing was called any more: the end, if the answer has its form.
    pub(super) fn validate_output(&mut self, turn: &Turn) -> Result<Option<Termination>, RunError> {
        if self.prepared.is_compaction && self.machine.response().output.is_empty() {
            return Ok(Some(Termination::Failed(compaction::failed().body)));
        }
        match self.prepared.structured.validate(self.machine.turn_output()) {
            OutputVerdict::Accept => Ok(Some(Termination::Completed)),
            OutputVerdict::Fail(error) => Ok(Some(Termination::Failed(error.body))),
            OutputVerdict::Repair(problem) => self.ask_for_repair(turn, &problem).map(|()| None),
        }
    }

    /// Adds a turn to the conversation, if its limits allow for another.
    pub(super) fn finish_turn(
        &mut self,
        turn: &Turn,
        output: TurnOutput,
        denied: Vec<RejectedCall>,
    ) -> Result<(), RunError> {
        self.consume_token_budget(turn)?;
        if let Some(limit) = self.prepared.limits.reached_by(&self.machine.usage()) {
            return Err(RunError::LimitReached(limit));
        }
        self.append_history(output, denied);
        Ok(())
    }

    fn count_denied_turn(&mut self) -> Result<(), RunError> {
        self.denied_turns += 1;
        if self.prepared.executes_tools && self.denied_turns <= MAX_DENIED_TURNS {
            return Ok(());
        }
        Err(RunError::Failed(ApiError::new(
            500,
            "model_error",
            "tool_not_allowed",
            "The model called only tools that this request does not have or does not allow.",
        )))
    }

    /// Adds to the conversation what the turn brought, in its order.
    pub(super) fn append_history(&mut self, turn: TurnOutput, denied: Vec<RejectedCall>) {
        let TurnOutput { first, mut states, orphan_state: loose } = turn;
        let conversation = &mut self.prepared.model_request.conversation;
        let begin = conversation.len();
        if let Some(state) = loose {
            conversation.push(state_item(state, &mut self.prepared.ids));
        }
        let items = self.machine.response().output.len();
        for place in first..items {
            let Ok(place) = u32::try_from(place) else { break };
            let item = self.machine.visible(place);
            conversation.extend(item.and_then(|item| history::of_this_run(item, states.remove(&place))));
        }
        for call in denied {
            conversation.extend(call.into_history(&mut self.prepared.ids));
        }
        if let Some(first) = conversation.get_mut(begin) {
            first.begins_turn = true;
        }
        states::attach_states(conversation);
    }

    fn prepare_next_turn(&mut self) {
        let ask = &mut self.prepared.model_request;
        if self.call_filter.limit_exceeded() && self.executor.left() == 0 {
            // One last inference, which must not ask for what it will not get.
            ask.tool_choice = CallChoice::None;
            self.call_filter.deny_all();
            return;
        }
        // A demand that was met is over, or the loop would never end.
        ask.tool_choice = self.prepared.offer.choice.later();
    }

    /// `max_output_tokens` is for the whole response: what a turn spent is missing in the next.
    fn consume_token_budget(&mut self, turn: &Turn) -> Result<(), RunError> {
        let Some(left) = &mut self.prepared.model_request.max_output_tokens else { return Ok(()) };
        *left = left.saturating_sub(turn.usage.map_or(0, |usage| usage.output_tokens));
        if *left == 0 { Err(RunError::LimitReached("max_output_tokens")) } else { Ok(()) }
    }

    pub(super) fn check_deadline(&self) -> Result<(), RunError> {
        if Instant::now() < self.deadline { Ok(()) } else { Err(RunError::LimitReached(self.deadline_name)) }
    }

    pub(super) fn check_size(&self) -> Result<(), RunError> {
        let limits = &self.engine.parts.options.engine;
        let output = &self.machine.response().output;
        if self.machine.bytes() + self.call_filter.bytes() > limits.max_response_bytes
            || self.machine.largest_item() > limits.max_item_bytes
            || output.len() > limits.max_output_items
        {
            return Err(RunError::LimitReached("max_response_size"));
        }
        Ok(())
    }

    /// Lets out what has happened. Without a stream nobody waits for less than the end.
    pub(super) async fn flush(&mut self) -> Result<(), RunError> {
        if !self.prepared.model_request.stream {
            self.sink.commit();
            return Ok(());
        }
        self.sink.flush().await?;
        if self.timer == RunTimer::Commit {
            self.set_timer_after_commit();
        }
        Ok(())
    }

    /// Waits for something, while the client may go and the clock goes on.
    pub(super) async fn until_cancelled<T>(&mut self, work: impl Future<Output = T>) -> Result<T, RunError> {
        let mut work = pin!(work);
        let cut = self.engine.parts.in_flight.abort_token().clone();
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = self.sink.closed() => return Err(RunError::Cancelled),
                () = cut.cancelled() => return Err(RunError::Failed(shutting_down(SHUTDOWN_MESSAGE))),
                () = &mut self.sleep => {}
            }
            match self.timer {
                RunTimer::Deadline => return Err(RunError::LimitReached(self.deadline_name)),
                RunTimer::Commit => {
                    self.sink.flush().await?;
                    self.set_timer_after_commit();
                }
                RunTimer::Record => self.record_running().await,
            }
        }
    }

    /// A stream whose id the client knows is recorded if it goes on for some time.
    fn set_timer_after_commit(&mut self) {
        let record_at = (self.started + RECORD_AFTER).max(Instant::now());
        if self.prepared.store && record_at < self.deadline {
            self.timer = RunTimer::Record;
            self.sleep.as_mut().reset(record_at.into());
        } else {
            self.set_deadline_timer();
        }
    }

    fn set_deadline_timer(&mut self) {
        self.timer = RunTimer::Deadline;
        self.sleep.as_mut().reset(self.deadline.into());
    }

    /// Nobody waits for this row, so a failure is only logged: the row that counts is the last one.
    async fn record_running(&mut self) {
        self.set_deadline_timer();
        if self.recorded {
            return;
        }
        let record = record::running(&self.prepared, self.machine.response());
        match self.engine.parts.store.begin(record).await {
            Ok(()) => self.recorded = true,
            Err(error) => tracing::warn!(%error, "a running response could not be recorded"),
        }
    }

    fn run_end(&self, stop: RunError) -> RunEnd {
        match stop {
            RunError::InvalidOutput(violation) => self.run_end(self.violated(&violation)),
            RunError::Failed(error) if !self.sink.is_committed() => RunEnd::Rejected(error),
            RunError::Failed(error) => RunEnd::Ended(Termination::Failed(error.body)),
            RunError::LimitReached(reason) => RunEnd::Ended(Termination::Incomplete(reason.into())),
            RunError::Cancelled => RunEnd::Ended(Termination::Cancelled),
        }
    }

    /// Ends the response: commits its row, then lets the terminal event leave.
    async fn end(self: Box<Self>, outcome: RunEnd) {
        let Self {
            engine,
            prepared,
            machine,
            executor: calls,
            call,
            sink: mut outlet,
            started,
            first_event,
            turns,
            ..
        } = *self;
        // Until the row is committed.
        let _registration = self.registration;
        let first = first_event.map(|after| started + after);
        let noted = RunSummary { log: self.log, turns, tool_calls: self.tool_calls, first_event: first };
        calls.cancel();
        let metrics = &engine.parts.metrics;
        let took = started.elapsed();
        let ending = match outcome {
            RunEnd::Ended(ending) => ending,
            RunEnd::Rejected(error) => {
                log_failure(&prepared, &call, error.code(), error.body.param.as_deref());
                metrics.run_refused(
                    prepared.provider.name(),
                    &prepared.model_request.model,
                    error.code(),
                    took,
                );
                noted.refusal(&prepared, error.body.code.clone());
                return outlet.reject(error).await;
            }
        };
        let param = match &ending {
            Termination::Failed(error) => error.param.clone(),
            _ => None,
        };
        let outcome = RunOutcome { turns, structured: prepared.structured.verdict() };
        let mut finished = machine.end(ending, outcome, unix_now(), outlet.events());
        // However it ended: a request that a client sees can be answered.
        if let Err(error) =
            approvals::persist_requests(&engine.parts, &prepared, &finished.approval_requests).await
        {
            finished = finished.into_failed(error.body, outlet.events());
        }
        if prepared.store {
            let record = record::ended(&prepared, &finished);
            let committing = Instant::now();
            let committed = engine.parts.store.finish(record).await;
            metrics.store_commit(committing.elapsed());
            if let Err(error) = committed {
                let error = ApiError::from(error);
                finished = finished.into_failed(error.body, outlet.events());
            }
        }
        let response = &finished.snapshot.response;
        metrics.run_ended(&crate::telemetry::metrics::RunReport {
            provider: prepared.provider.name(),
            model: &prepared.model_request.model,
            status: response.status,
            stream: prepared.model_request.stream,
            error_code: response.error.as_ref().and_then(|error| error.code.as_deref()),
            usage: response.usage,
            duration: took,
            first_event,
        });
        if response.status == ResponseStatus::Failed {
            let code = response.error.as_ref().and_then(|error| error.code.as_deref()).unwrap_or_default();
            log_failure(&prepared, &call, code, param.as_deref());
        }
        noted.response(&prepared, response);
        // A client that has gone finds the response in the store.
        let _gone = outlet.flush().await;
    }
}

/// All that an operator needs to find what failed; its message may quote what was said, and stays with the client.
fn log_failure(prepared: &PreparedRun, call: &CallContext, code: &str, param: Option<&str>) {
    tracing::warn!(
        {
            { REQUEST_ID } = call.request_id,
            { RESPONSE_ID } = prepared.response.id.as_str(),
            { PROVIDER } = prepared.provider.name(),
            { MODEL } = prepared.model_request.model,
            { CODE } = code,
            { PARAM } = param,
        },
        "a response failed"
    );
}

/// State that came without any reasoning, in an item that no client sees.
fn state_item(state: ProviderState, ids: &mut crate::protocol::id::IdGenerator) -> HistoryItem {
    let item = Item::Reasoning(Reasoning {
        id: ids.next("rs"),
        summary: Vec::new(),
        content: Vec::new(),
        encrypted_content: None,
    });
    HistoryItem { state: Some(state), ..HistoryItem::from(item) }
}

impl From<Disconnected> for RunError {
    fn from(_: Disconnected) -> Self {
        Self::Cancelled
    }
}

impl From<ApiError> for RunError {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

impl From<Violation> for RunError {
    fn from(violation: Violation) -> Self {
        Self::InvalidOutput(violation)
    }
}
