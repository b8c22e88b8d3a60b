//! A run that is under way: its handles and its state, and the ways in which it stops.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::logged::Logged;
use super::state::RunState;
use super::timer::{KeepaliveTimer, RunTimer};
use super::trace::{Interval, WaitKind};
use crate::ConnectionHistory;
use crate::context::{EngineParts, RunContext};
use crate::event_sink::{Disconnected, EventSink};
use crate::prepare::PreparedRun;
use crate::stops::StopListener;
use crate::tool_executor::ToolCallExecutor;
use crate::tools::call_filter::CallFilter;
use crate::tools::choice::CallPolicy;
use antwort_identity::Requester;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::IdGenerator;
use antwort_protocol::request::TextFormat;
use antwort_provider::CallContext;
use antwort_response::code_fence::CodeFence;
use antwort_response::machine::{ResponseMachine, Termination, Violation};
use antwort_store::RunRegistration;
use antwort_telemetry::request_log::RequestLog;
use antwort_tools::Pause;

/// Why a run stops before the model is done.
pub(super) enum RunError {
    /// An error: the HTTP answer while nothing was sent, a failed response after that.
    Failed(ApiError),
    /// The provider's output is malformed.
    InvalidOutput(Violation),
    /// The limit of this name is reached.
    LimitReached(&'static str),
    /// The client has disconnected, or does not read, or the response was cancelled.
    Cancelled,
    /// The run has not ended: it waits for its client. Only background runs and those that are queued like them do.
    Waits,
}

impl RunError {
    /// `error.type` of traces.
    pub(super) fn error_type(&self) -> &str {
        match self {
            Self::Failed(error) => error.code(),
            Self::InvalidOutput(_) => "upstream_malformed",
            Self::LimitReached(limit) => limit,
            Self::Cancelled => "cancelled",
            Self::Waits => "waits",
        }
    }
}

pub(crate) struct Run {
    pub(super) parts: Arc<EngineParts>,
    pub(super) prepared: PreparedRun,
    pub(super) machine: ResponseMachine,
    pub(super) call_filter: CallFilter,
    /// Of an answer that is to be JSON.
    pub(super) fence: Option<Box<CodeFence>>,
    pub(super) executor: ToolCallExecutor,
    pub(super) sink: EventSink,
    pub(super) call: CallContext,
    pub(super) requester: Requester,
    pub(super) started: Instant,
    pub(super) timer: RunTimer,
    /// Of a run whose reader counts events only.
    pub(super) keepalive: Option<KeepaliveTimer>,
    /// While calls wait for the user, the time of all calls stands still.
    pub(super) pause: Option<Pause>,
    pub(super) stops: StopListener,
    pub(super) log: Option<Arc<RequestLog>>,
    /// Whether the provider has sent anything in this turn.
    pub(super) received: bool,
    /// What the run has done so far.
    pub(super) state: RunState,
    /// Of a stored stream: its client knows the id, and may delete the response before it has a row.
    pub(super) registration: Option<RunRegistration>,
    /// What the client's connection keeps.
    pub(super) connection: Option<Arc<ConnectionHistory>>,
    /// Who asks, if tools may be called whose work goes on.
    pub(super) caller: Option<Box<RunContext>>,
    /// What it takes to make a response that follows a result, sealed: the same for all calls.
    pub(super) follow_up_spec: OnceLock<Option<Arc<[u8]>>>,
    /// Whether it can wait as a row, as only a run that was queued can.
    pub(super) can_wait: bool,
    /// Whether the model is asked.
    pub(super) generates: bool,
    /// Of a run that its client may come back for.
    pub(super) logged: Option<Logged>,
}

impl Run {
    pub(crate) fn new(
        parts: Arc<EngineParts>,
        prepared: PreparedRun,
        caller: RunContext,
        sink: EventSink,
        started: Instant,
        logged: Option<Logged>,
    ) -> Self {
        let (time, deadline_name) = prepared.limits.timeout(parts.options.engine.run_timeout);
        let deadline = started + time;
        let ids = IdGenerator::resume(&prepared.response.id, 0);
        let machine = ResponseMachine::new(prepared.response.clone(), ids, prepared.options.clone());
        let offer = &prepared.offer;
        let tools = Arc::clone(&offer.tools);
        let CallPolicy { allowed, required: demand } = offer.choice.clone();
        let call_filter = CallFilter::new(allowed, demand, tools, prepared.model_request.parallel_tool_calls);
        let executor = ToolCallExecutor::new(&parts, &prepared, &caller, deadline);
        let requester = caller.requester();
        // Both are kept for what follows the results of tools.
        let asker = prepared
            .sent
            .is_some()
            .then(|| Box::new(RunContext { log: None, connection: None, ..caller.clone() }));
        let call = CallContext {
            deadline: Some(deadline),
            traceparent: caller.traceparent,
            request_id: caller.request_id,
            response_id: Some(prepared.response.id.clone()),
        };
        // Without a stream, the status can wait for the complete response.
        let commit_at = prepared.stream.then(|| started + parts.options.commit_after);
        let is_stored_stream = prepared.store && prepared.stream;
        let registration =
            is_stored_stream.then(|| parts.store.register_run(&prepared.response.id, &prepared.owner));
        let is_json = !matches!(prepared.model_request.format, TextFormat::Text);
        let mut state = RunState::default();
        state.trace.begin(started, prepared.provider.name(), &prepared.model_request.model);
        if let Some(times) = prepared.listing {
            state.trace.add_listing(times);
        }
        Self {
            registration,
            caller: asker,
            connection: caller.connection,
            follow_up_spec: OnceLock::new(),
            can_wait: false,
            generates: caller.generates,
            logged,
            machine,
            call_filter,
            fence: is_json.then(Box::default),
            executor,
            keepalive: sink.keepalive().map(KeepaliveTimer::new),
            sink,
            call,
            requester,
            started,
            pause: None,
            timer: RunTimer::new(commit_at, deadline, deadline_name),
            stops: parts.in_flight.stops().listen(),
            log: caller.log,
            received: false,
            state,
            parts,
            prepared,
        }
    }
}

impl Run {
    /// It has waited for a run slot.
    pub(crate) fn note_queued(&mut self, times: Interval) {
        self.state.trace.add_wait(WaitKind::Queue, times);
    }
}

/// How a run ends.
pub(super) enum RunEnd {
    Ended(Termination),
    Rejected(ApiError),
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
