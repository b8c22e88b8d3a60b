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
use super::calls::Calls;
use super::choice::Choice;
use super::gate::{Denied, Gate};
use super::in_flight::shutting_down;
use super::noted::Noted;
use super::outlet::{Gone, Outlet};
use super::prepare::Prepared;
use super::structured::Judgement;
use super::{Caller, Engine, compaction, history, record, search, states, unix_now};
use crate::admission::Requester;
use crate::protocol::error::ApiError;
use crate::protocol::item::{Item, Reasoning};
use crate::protocol::response::{RunOutcome, Status};
use crate::provider::{CallContext, Failure, ModelStream, ProviderError};
use crate::response::machine::{Ending, Machine, Turn, TurnOutput, Violation};
use crate::response::turn::{CallChoice, Context, FinishReason, ModelEvent, ProviderState};
use crate::store::RunRegistration;
use crate::telemetry::fields::{CAUSE, CODE, KIND, MODEL, PARAM, PROVIDER, REQUEST_ID, RESPONSE_ID};
use crate::telemetry::request_log::RequestLog;

/// Turns in a row in which the model only called what it must not.
const MAX_DENIED_TURNS: usize = 3;
/// A stream that runs for longer is recorded as in progress. Most end before, and are written once.
const RECORD_AFTER: Duration = Duration::from_millis(500);

/// Of a response that a shutdown ends.
const STOPPED: &str =
    "The gateway was stopped before the response was whole. What was received is kept; try again.";

/// What the provider is sent is written where the run is, up to a request and a conversation of so many bytes.
const WRITTEN_AT_ONCE: u64 = 1 << 20;

/// Why a run stops before the model is done.
pub(super) enum Stop {
    /// With this error: an HTTP error while nothing has left, a failed response after that.
    Error(ApiError),
    /// The provider's answer cannot be: it is malformed.
    Violated(Violation),
    /// At this limit.
    Limit(&'static str),
    /// The client is gone or takes nothing.
    Cancelled,
}

impl Stop {
    /// Names it in traces.
    fn name(&self) -> &str {
        match self {
            Self::Error(error) => error.code(),
            Self::Violated(_) => "upstream_malformed",
            Self::Limit(limit) => limit,
            Self::Cancelled => "cancelled",
        }
    }
}

/// How a run ends.
enum Outcome {
    Ended(Ending),
    Refused(ApiError),
}

/// What the next thing is that happens by the clock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alarm {
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
    pub(super) prepared: Prepared,
    pub(super) machine: Machine,
    pub(super) gate: Gate,
    pub(super) calls: Calls,
    pub(super) outlet: Outlet,
    call: CallContext,
    requester: Requester,
    started: Instant,
    deadline: Instant,
    alarm: Alarm,
    clock: Pin<Box<Sleep>>,
    first_event: Option<Duration>,
    log: Option<Arc<RequestLog>>,
    /// Whether the provider has said anything in this turn.
    heard: bool,
    /// A row says that the run is in progress.
    pub(super) recorded: bool,
    /// Inferences that were begun.
    turns: u32,
    /// Calls of tools that were made.
    pub(super) tool_calls: u32,
    /// Turns so far that made calls: the journal's number of the next.
    pub(super) journalled: u32,
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
        mut prepared: Prepared,
        caller: Caller,
        outlet: Outlet,
        started: Instant,
    ) -> Self {
        let (time, deadline_name) = prepared.limits.clock(engine.parts.limits.engine.run_timeout);
        let deadline = started + time;
        let ids = std::mem::take(&mut prepared.ids);
        let machine = Machine::new(prepared.response.clone(), ids, prepared.options.clone());
        let offer = &prepared.offer;
        let tools = Arc::clone(&offer.tools);
        let Choice { allowed, demand } = offer.choice.clone();
        let gate = Gate::new(allowed, demand, tools, prepared.ask.parallel_tool_calls);
        let calls = Calls::new(&engine, &prepared, &caller, deadline);
        let requester = caller.requester();
        let call = CallContext {
            deadline: Some(deadline),
            traceparent: caller.traceparent,
            request_id: caller.request_id,
            response_id: Some(prepared.response.id.clone()),
        };
        let commit_at = (started + engine.parts.limits.commit_after).min(deadline);
        let is_stored_stream = prepared.store && prepared.ask.stream;
        let registration =
            is_stored_stream.then(|| engine.parts.store.register_run(&prepared.response.id, &prepared.owner));
        Self {
            registration,
            machine,
            gate,
            calls,
            outlet,
            call,
            requester,
            started,
            deadline,
            // Without a stream the status can wait for the whole answer.
            alarm: if prepared.ask.stream { Alarm::Commit } else { Alarm::Deadline },
            clock: Box::pin(tokio::time::sleep_until(
                if prepared.ask.stream { commit_at } else { deadline }.into(),
            )),
            first_event: None,
            log: caller.log,
            heard: false,
            recorded: false,
            turns: 0,
            tool_calls: 0,
            journalled: 0,
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
        let outcome = match AssertUnwindSafe(self.turns()).catch_unwind().await {
            Ok(Ok(ending)) => Outcome::Ended(ending),
            Ok(Err(stop)) => self.outcome(stop),
            Err(_panic) => {
                tracing::error!(request_id = %self.call.request_id, "a run panicked");
                self.outcome(Stop::Error(ApiError::internal()))
            }
        };
        self.end(outcome).await;
    }

    /// The loop: ask, hear, and ask again if the model must be told something first.
    async fn turns(&mut self) -> Result<Ending, Stop> {
        self.machine.start(self.outlet.events());
        self.show_tools()?;
        if let Some(ending) = self.run_approved().await? {
            return Ok(ending);
        }
        while self.turns < self.prepared.limits.run.max_turns {
            self.check_deadline()?;
            self.turns += 1;
            self.prepared.structured.begin_answer();
            self.gate.begin_turn(self.calls.left());
            let turn = self.infer().await?;
            if let Some(ending) = self.follow(turn).await? {
                return Ok(ending);
            }
        }
        Err(Stop::Limit("max_turns"))
    }

    /// One turn of the model; a conversation that is too long is cut once if the client allows it.
    async fn infer(&mut self) -> Result<Turn, Stop> {
        self.heard = false;
        match self.attempt().await {
            Err(Stop::Error(error)) if error.code() == "context_length_exceeded" && !self.heard => {
                if !self.prepared.shrink() {
                    return Err(Stop::Error(error));
                }
                tracing::debug!(
                    "the provider said that the conversation is too long; trying with half of it"
                );
                self.attempt().await
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
            gen_ai.request.model = self.prepared.ask.model,
            server.address = Empty,
            server.port = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            error.type = Empty,
            otel.status_code = Empty,
        )
    )]
    async fn attempt(&mut self) -> Result<Turn, Stop> {
        let span = Span::current();
        if let Some((host, port)) = &self.prepared.provider.profile().address {
            span.record("server.address", host.as_str());
            span.record("server.port", *port);
        }
        let turn = self.hear_turn().await;
        match &turn {
            Ok(Turn { usage: Some(usage), .. }) => {
                span.record("gen_ai.usage.input_tokens", usage.input_tokens);
                span.record("gen_ai.usage.output_tokens", usage.output_tokens);
            }
            Ok(_) => {}
            Err(stop) => {
                span.record("error.type", stop.name());
                span.record("otel.status_code", "ERROR");
            }
        }
        turn
    }

    async fn hear_turn(&mut self) -> Result<Turn, Stop> {
        let mut stream = self.ask_provider().await?;
        if self.turns > 1 {
            // What the turn before brought is seen before the model has thought about it.
            self.flush().await?;
        }
        let mut heard = Vec::new();
        loop {
            let more = self.wait(stream.next(&mut heard)).await?;
            let happened = !heard.is_empty();
            // Most events of a model make one of ours: no growing, and no copying for it.
            self.outlet.events().reserve(heard.len() + 2);
            for event in heard.drain(..) {
                self.hear(event)?;
            }
            self.check_size()?;
            if happened {
                self.heard = true;
                self.first_event.get_or_insert_with(|| self.started.elapsed());
                self.flush().await?;
            }
            if !more.map_err(|error| self.provider_failed(error))? {
                break;
            }
        }
        drop(stream);
        self.cite()?;
        if self.is_asked_again_after() {
            self.machine.mark_commentary();
        }
        let nothing_is_shown = if self.gate.lacks_call() { self.asks_again() } else { self.gate.kept_back() };
        Ok(self.machine.end_turn(nothing_is_shown, self.outlet.events())?)
    }

    /// An answer that is yet to come: what the provider is sent for it is written now, off the workers if that is much.
    async fn ask_provider(&mut self) -> Result<Box<dyn ModelStream>, Stop> {
        let provider = Arc::clone(&self.prepared.provider);
        let call = self.call.clone();
        let asked = if self.prepared.request_bytes + self.machine.bytes() as u64 <= WRITTEN_AT_ONCE {
            provider.infer(&self.prepared.ask, &call)
        } else {
            let (admission, requester) = (Arc::clone(self.engine.admission()), self.requester.clone());
            let ask = self.prepared.ask.clone();
            let work =
                async move { admission.blocking.run(&requester, move || provider.infer(&ask, &call)).await };
            // Few runs need it, and all would have the room for it.
            self.wait(Box::pin(work)).await??
        };
        asked.map_err(|error| self.provider_failed(error))
    }

    /// The provider's words are the client's to read, but for what of them is the operator's, and not the log's.
    fn provider_failed(&self, error: ProviderError) -> Stop {
        let error = match &self.prepared.redaction {
            Some(redaction) => redaction.apply(error),
            None => error,
        };
        Stop::Error(error.into())
    }

    /// What the provider said cannot be: its answer is malformed, though each piece of it could be read.
    fn violated(&self, violation: &Violation) -> Stop {
        let provider = self.prepared.provider.name();
        self.engine.parts.metrics.provider_failure(provider, "malformed");
        tracing::warn!(
            {
                { REQUEST_ID } = self.call.request_id,
                { RESPONSE_ID } = self.prepared.response.id.as_str(),
                { PROVIDER } = provider,
                { MODEL } = self.prepared.ask.model,
                { KIND } = "malformed",
                { CAUSE } = %violation,
            },
            "the provider failed"
        );
        Stop::Error(ProviderError::new(Failure::Malformed, violation.to_string()).into())
    }

    /// Names the sources in the text with which the turn ends.
    fn cite(&mut self) -> Result<(), Stop> {
        if self.calls.sources.is_empty() {
            return Ok(());
        }
        let text = self.machine.open_text_so_far().unwrap_or_default();
        for annotation in search::annotations(text, &self.calls.sources) {
            self.machine.push(ModelEvent::Annotation(annotation), self.outlet.events())?;
        }
        Ok(())
    }

    fn hear(&mut self, event: ModelEvent) -> Result<(), Stop> {
        match self.gate.admit(event) {
            Some(event) => Ok(self.machine.push(event, self.outlet.events())?),
            None => Ok(()),
        }
    }

    /// What follows from a turn: the end, or another turn.
    async fn follow(&mut self, turn: Turn) -> Result<Option<Ending>, Stop> {
        let lacks_call = self.gate.lacks_call();
        let denied = self.gate.end_turn();
        match turn.finish {
            Some(FinishReason::Length) => return Ok(Some(Ending::Incomplete("max_output_tokens".into()))),
            Some(FinishReason::ContentFilter) => {
                return Ok(Some(Ending::Incomplete("content_filter".into())));
            }
            Some(FinishReason::Stop) | None => {}
        }
        if lacks_call {
            return self.miss_call(&turn, denied);
        }
        self.gate.settle_demand();
        let waits = turn.client_calls + turn.asked_calls > 0;
        self.engine.parts.metrics.client_calls(turn.client_calls);
        if turn.server_calls.is_empty() && !waits && denied.is_empty() {
            return self.judge(&turn);
        }
        let made = !turn.server_calls.is_empty();
        if made {
            self.run_calls(&turn.server_calls).await?;
        }
        let output = self.machine.close_turn(self.outlet.events())?;
        self.check_size()?;
        if waits {
            // Clients know that a person is asked by the items; only functions are theirs to run.
            return Ok(Some(if turn.client_calls > 0 {
                self.prepared.pause.clone()
            } else {
                Ending::Completed
            }));
        }
        if made {
            self.denied_turns = 0;
        } else if denied.iter().any(Denied::is_mistake) {
            self.count_denied_turn()?;
        }
        self.carry_on(&turn, output, denied)?;
        self.prepare_next_turn();
        self.follow_changed_tools().await?;
        Ok(None)
    }

    /// What follows from a turn in which nothing was called any more: the end, if the answer has its form.
    pub(super) fn judge(&mut self, turn: &Turn) -> Result<Option<Ending>, Stop> {
        if self.prepared.compacts && self.machine.response().output.is_empty() {
            return Ok(Some(Ending::Failed(compaction::failed().body)));
        }
        match self.prepared.structured.judge(self.machine.turn_output()) {
            Judgement::Keep => Ok(Some(Ending::Completed)),
            Judgement::Fail(error) => Ok(Some(Ending::Failed(error.body))),
            Judgement::Repair(problem) => self.ask_for_repair(turn, &problem).map(|()| None),
        }
    }

    /// Adds a turn to the conversation, if its limits allow for another.
    pub(super) fn carry_on(
        &mut self,
        turn: &Turn,
        output: TurnOutput,
        denied: Vec<Denied>,
    ) -> Result<(), Stop> {
        self.spend(turn)?;
        if let Some(limit) = self.prepared.limits.reached_by(&self.machine.usage()) {
            return Err(Stop::Limit(limit));
        }
        self.remember(output, denied);
        Ok(())
    }

    fn count_denied_turn(&mut self) -> Result<(), Stop> {
        self.denied_turns += 1;
        if self.prepared.executes && self.denied_turns <= MAX_DENIED_TURNS {
            return Ok(());
        }
        Err(Stop::Error(ApiError::new(
            500,
            "model_error",
            "tool_not_allowed",
            "The model called only tools that this request does not have or does not allow.",
        )))
    }

    /// Adds to the conversation what the turn brought, in its order.
    pub(super) fn remember(&mut self, turn: TurnOutput, denied: Vec<Denied>) {
        let TurnOutput { first, mut states, loose } = turn;
        let conversation = &mut self.prepared.ask.conversation;
        let begin = conversation.len();
        if let Some(state) = loose {
            conversation.push(stateful(state, &mut self.prepared.ids));
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
        states::distribute(conversation);
    }

    fn prepare_next_turn(&mut self) {
        let ask = &mut self.prepared.ask;
        if self.gate.is_beyond_limit() && self.calls.left() == 0 {
            // One last inference, which must not ask for what it will not get.
            ask.tool_choice = CallChoice::None;
            self.gate.shut();
            return;
        }
        // A demand that was met is over, or the loop would never end.
        ask.tool_choice = self.prepared.offer.choice.later();
    }

    /// `max_output_tokens` is for the whole response: what a turn spent is missing in the next.
    fn spend(&mut self, turn: &Turn) -> Result<(), Stop> {
        let Some(left) = &mut self.prepared.ask.max_output_tokens else { return Ok(()) };
        *left = left.saturating_sub(turn.usage.map_or(0, |usage| usage.output_tokens));
        if *left == 0 { Err(Stop::Limit("max_output_tokens")) } else { Ok(()) }
    }

    pub(super) fn check_deadline(&self) -> Result<(), Stop> {
        if Instant::now() < self.deadline { Ok(()) } else { Err(Stop::Limit(self.deadline_name)) }
    }

    pub(super) fn check_size(&self) -> Result<(), Stop> {
        let limits = &self.engine.parts.limits.engine;
        let output = &self.machine.response().output;
        if self.machine.bytes() + self.gate.bytes() > limits.max_response_bytes
            || self.machine.largest_item() > limits.max_item_bytes
            || output.len() > limits.max_output_items
        {
            return Err(Stop::Limit("max_response_size"));
        }
        Ok(())
    }

    /// Lets out what has happened. Without a stream nobody waits for less than the end.
    pub(super) async fn flush(&mut self) -> Result<(), Stop> {
        if !self.prepared.ask.stream {
            self.outlet.commit();
            return Ok(());
        }
        self.outlet.flush().await?;
        if self.alarm == Alarm::Commit {
            self.set_alarm_after_commit();
        }
        Ok(())
    }

    /// Waits for something, while the client may go and the clock goes on.
    pub(super) async fn wait<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Stop> {
        let mut work = pin!(work);
        let cut = self.engine.parts.in_flight.cut().clone();
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = self.outlet.gone() => return Err(Stop::Cancelled),
                () = cut.cancelled() => return Err(Stop::Error(shutting_down(STOPPED))),
                () = &mut self.clock => {}
            }
            match self.alarm {
                Alarm::Deadline => return Err(Stop::Limit(self.deadline_name)),
                Alarm::Commit => {
                    self.outlet.flush().await?;
                    self.set_alarm_after_commit();
                }
                Alarm::Record => self.record_running().await,
            }
        }
    }

    /// A stream whose id the client knows is recorded if it goes on for some time.
    fn set_alarm_after_commit(&mut self) {
        let record_at = (self.started + RECORD_AFTER).max(Instant::now());
        if self.prepared.store && record_at < self.deadline {
            self.alarm = Alarm::Record;
            self.clock.as_mut().reset(record_at.into());
        } else {
            self.set_deadline_alarm();
        }
    }

    fn set_deadline_alarm(&mut self) {
        self.alarm = Alarm::Deadline;
        self.clock.as_mut().reset(self.deadline.into());
    }

    /// Nobody waits for this row, so a failure is only logged: the row that counts is the last one.
    async fn record_running(&mut self) {
        self.set_deadline_alarm();
        if self.recorded {
            return;
        }
        let record = record::running(&self.prepared, self.machine.response());
        match self.engine.parts.store.begin(record).await {
            Ok(()) => self.recorded = true,
            Err(error) => tracing::warn!(%error, "a running response could not be recorded"),
        }
    }

    fn outcome(&self, stop: Stop) -> Outcome {
        match stop {
            Stop::Violated(violation) => self.outcome(self.violated(&violation)),
            Stop::Error(error) if !self.outlet.is_committed() => Outcome::Refused(error),
            Stop::Error(error) => Outcome::Ended(Ending::Failed(error.body)),
            Stop::Limit(reason) => Outcome::Ended(Ending::Incomplete(reason.into())),
            Stop::Cancelled => Outcome::Ended(Ending::Cancelled),
        }
    }

    /// Ends the response: commits its row, then lets the terminal event leave.
    async fn end(self: Box<Self>, outcome: Outcome) {
        let Self { engine, prepared, machine, calls, call, mut outlet, started, first_event, turns, .. } =
            *self;
        // Until the row is committed.
        let _registration = self.registration;
        let first = first_event.map(|after| started + after);
        let noted = Noted { log: self.log, turns, tool_calls: self.tool_calls, first_event: first };
        calls.cancel();
        let metrics = &engine.parts.metrics;
        let took = started.elapsed();
        let ending = match outcome {
            Outcome::Ended(ending) => ending,
            Outcome::Refused(error) => {
                log_failure(&prepared, &call, error.code(), error.body.param.as_deref());
                metrics.run_refused(prepared.provider.name(), &prepared.ask.model, error.code(), took);
                noted.refusal(&prepared, error.body.code.clone());
                return outlet.refuse(error).await;
            }
        };
        let param = match &ending {
            Ending::Failed(error) => error.param.clone(),
            _ => None,
        };
        let outcome = RunOutcome { turns, structured: prepared.structured.verdict() };
        let mut finished = machine.end(ending, outcome, unix_now(), outlet.events());
        // However it ended: a request that a client sees can be answered.
        if let Err(error) = approvals::ask(&engine.parts, &prepared, &finished.asked).await {
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
            model: &prepared.ask.model,
            status: response.status,
            stream: prepared.ask.stream,
            error_code: response.error.as_ref().and_then(|error| error.code.as_deref()),
            usage: response.usage,
            duration: took,
            first_event,
        });
        if response.status == Status::Failed {
            let code = response.error.as_ref().and_then(|error| error.code.as_deref()).unwrap_or_default();
            log_failure(&prepared, &call, code, param.as_deref());
        }
        noted.response(&prepared, response);
        // A client that has gone finds the response in the store.
        let _gone = outlet.flush().await;
    }
}

/// All that an operator needs to find what failed; its message may quote what was said, and stays with the client.
fn log_failure(prepared: &Prepared, call: &CallContext, code: &str, param: Option<&str>) {
    tracing::warn!(
        {
            { REQUEST_ID } = call.request_id,
            { RESPONSE_ID } = prepared.response.id.as_str(),
            { PROVIDER } = prepared.provider.name(),
            { MODEL } = prepared.ask.model,
            { CODE } = code,
            { PARAM } = param,
        },
        "a response failed"
    );
}

/// State that came without any reasoning, in an item that no client sees.
fn stateful(state: ProviderState, ids: &mut crate::protocol::id::IdMint) -> Context {
    let item = Item::Reasoning(Reasoning {
        id: ids.next("rs"),
        summary: Vec::new(),
        content: Vec::new(),
        encrypted_content: None,
    });
    Context { state: Some(state), ..Context::from(item) }
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Cancelled
    }
}

impl From<ApiError> for Stop {
    fn from(error: ApiError) -> Self {
        Self::Error(error)
    }
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Self::Violated(violation)
    }
}
