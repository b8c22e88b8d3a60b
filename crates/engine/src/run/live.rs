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
use crate::prepare::Prepared;
use crate::prompt::Prompt;
use crate::run_spec::RunSpec;
use crate::stops::StopListener;
use crate::structured::OutputValidator;
use crate::tool_executor::ToolCallExecutor;
use crate::tools::RunTools;
use crate::tools::call_filter::CallFilter;
use crate::tools::choice::CallPolicy;
use antwort_identity::Requester;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::IdGenerator;
use antwort_protocol::request::TextFormat;
use antwort_provider::CallContext;
use antwort_response::code_fence::CodeFence;
use antwort_response::machine::{ResponseMachine, Termination, Violation};
use antwort_store::{ConversationLock, RunRegistration};
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
    /// The run has not ended: it waits as a row for what comes from outside. Only runs that were queued do.
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

/// A run that is under way.
pub(crate) struct Run {
    pub(super) parts: Arc<EngineParts>,
    pub(super) spec: RunSpec,
    pub(super) prompt: Prompt,
    pub(super) tools: RunTools,
    /// Validates the answer against `text.format`.
    pub(super) structured: OutputValidator,
    pub(super) machine: ResponseMachine,
    pub(super) call_filter: CallFilter,
    pub(super) reading: TurnReading,
    pub(super) executor: ToolCallExecutor,
    pub(super) sink: EventSink,
    pub(super) call: CallContext,
    pub(super) requester: Requester,
    pub(super) clock: Clock,
    pub(super) stops: StopListener,
    /// What the run has done so far.
    pub(super) state: RunState,
    pub(super) attached: Attached,
    pub(super) follow_ups: FollowUps,
    /// No other run begins in its conversation meanwhile.
    pub(super) conversation_lock: Option<ConversationLock>,
    /// Whether it can wait as a row, as only a run that was queued can.
    pub(super) can_wait: bool,
    /// Whether the model is asked.
    pub(super) generates: bool,
}

/// What is read of the model's turn.
pub(super) struct TurnReading {
    /// Of an answer that is to be JSON.
    pub(super) fence: Option<Box<CodeFence>>,
    /// Whether the provider has sent anything.
    pub(super) received: bool,
}

/// The times of a run.
pub(super) struct Clock {
    pub(super) started: Instant,
    pub(super) timer: RunTimer,
    /// Of a run whose reader counts events only.
    pub(super) keepalive: Option<KeepaliveTimer>,
    /// While calls wait for the user, the time of all calls stands still.
    pub(super) pause: Option<Pause>,
}

/// What else knows of a run.
pub(super) struct Attached {
    /// The log of its request.
    pub(super) log: Option<Arc<RequestLog>>,
    /// What the client's connection keeps.
    pub(super) connection: Option<Arc<ConnectionHistory>>,
    /// Of a stored stream: its client knows the id, and may delete the response before it has a row.
    pub(super) registration: Option<RunRegistration>,
    /// Of a run that its client may come back for.
    pub(super) logged: Option<Logged>,
}

/// What it takes to make responses that follow results of calls whose work goes on.
pub(super) struct FollowUps {
    /// Who asks, if such tools may be called.
    pub(super) caller: Option<Box<RunContext>>,
    /// The request and the caller, sealed: the same for all calls.
    pub(super) spec: OnceLock<Option<Arc<[u8]>>>,
}

impl Run {
    pub(crate) fn new(
        parts: Arc<EngineParts>,
        prepared: Prepared,
        caller: RunContext,
        sink: EventSink,
        started: Instant,
        logged: Option<Logged>,
    ) -> Self {
        let Prepared { spec, options, prompt, tools, structured, conversation_lock, .. } = prepared;
        let (time, deadline_name) = spec.limits.timeout(parts.options.engine.run_timeout);
        let deadline = started + time;
        let ids = IdGenerator::resume(&spec.response.id, 0);
        let machine = ResponseMachine::new(spec.response.clone(), ids, options);
        let CallPolicy { allowed, required: demand } = tools.offer.choice.clone();
        let offered = Arc::clone(&tools.offer.tools);
        let call_filter = CallFilter::new(allowed, demand, offered, prompt.request.parallel_tool_calls);
        let executor = ToolCallExecutor::new(&parts, (&spec, &prompt, &tools), &caller, deadline);
        let requester = caller.requester();
        // Both are kept for what follows the results of tools.
        let asker = spec
            .sent
            .is_some()
            .then(|| Box::new(RunContext { log: None, connection: None, ..caller.clone() }));
        let call = CallContext {
            deadline: Some(deadline),
            traceparent: caller.traceparent,
            request_id: caller.request_id,
            response_id: Some(spec.response.id.clone()),
        };
        // Without a stream, the status can wait for the complete response.
        let commit_at = spec.stream.then(|| started + parts.options.commit_after);
        let is_stored_stream = spec.store && spec.stream;
        let registration = is_stored_stream.then(|| parts.store.register_run(&spec.response.id, &spec.owner));
        let is_json = !matches!(prompt.request.format, TextFormat::Text);
        let mut state = RunState::default();
        state.trace.begin(started, prompt.provider.name(), &prompt.request.model);
        if let Some(times) = tools.listing {
            state.trace.add_listing(times);
        }
        Self {
            reading: TurnReading { fence: is_json.then(Box::default), received: false },
            clock: Clock {
                started,
                timer: RunTimer::new(commit_at, deadline, deadline_name),
                keepalive: sink.keepalive().map(KeepaliveTimer::new),
                pause: None,
            },
            attached: Attached { log: caller.log, connection: caller.connection, registration, logged },
            follow_ups: FollowUps { caller: asker, spec: OnceLock::new() },
            can_wait: false,
            generates: caller.generates,
            machine,
            call_filter,
            executor,
            sink,
            call,
            requester,
            stops: parts.in_flight.stops().listen(),
            state,
            parts,
            spec,
            prompt,
            tools,
            structured,
            conversation_lock,
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
