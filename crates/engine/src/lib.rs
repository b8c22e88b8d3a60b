//! The agentic loop: every transport starts a run here and reads one stream of events.
//!
//! One run:
//! - `prepare` validates a request and collects what its run needs (history, tools, echo), `tools` says which tools it has and
//!   what may be called, `states` returns sealed state to the provider that it came from.
//! - `run` drives the model and ends the response, `event_sink` sends the events, `record` builds the stored rows,
//!   `run_conversation` is the conversation that a run appends to.
//!
//! Runs that clients come back for:
//! - `keyed` starts runs that have an idempotency key, and leads to what they have come to; `background` queues runs and executes
//!   them.
//! - `event_log` writes the events of a run to the store, `follow` sends them again, `log_tails` shares the reads of followers,
//!   `live_runs` says how far the runs of this process are, `claims` and `lost_claims`
//!   which background runs it executes.
//! - `client_tools` says whether a run asks its client and goes on, `inputs` takes the answers, `deadlines` wakes runs that got none.
//! - `completions` takes results of tools whose work goes on, `callbacks` from other programs, by a `callback_token`; `completed_calls` does what they lead to.
//! - `cancel` ends runs for their owner, `webhooks` and `webhook_delivery` tell of the end of responses, `recover` ends the runs of
//!   processes that are gone.
//!
//! Without a run: `conversations` changes conversations, `token_count` measures a prompt.

mod async_results;
mod background;
mod call_items;
mod callback_token;
mod callbacks;
mod cancel;
mod chain;
mod citations;
mod claims;
mod client_answers;
mod client_tools;
mod compaction;
mod completed_calls;
mod completion_text;
mod completions;
#[cfg(test)]
mod complexity_tests;
mod connection_history;
mod context;
mod conversation;
mod conversations;
mod deadlines;
mod disconnect;
mod echo;
mod event_log;
mod event_sink;
mod follow;
mod followed_page;
mod history;
mod in_flight;
mod inputs;
mod itemless_turns;
mod journal;
mod keyed;
mod large_pages;
mod limits;
mod live_runs;
mod log_tails;
mod lost_claims;
mod named_outputs;
mod poll_rates;
mod prepare;
mod profile;
mod progress;
mod record;
mod recover;
mod redaction;
mod refused_calls;
mod replayed;
mod run;
mod run_conversation;
mod run_handle;
mod sampling;
mod seen_log;
mod states;
mod stops;
mod structured;
mod task_polls;
mod token_count;
mod tool_executor;
mod tools;
pub mod trace_document;
mod truncate;
mod user_questions;
mod webhook_delivery;
mod webhooks;

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tracing::Instrument;

use antwort_config::{AsyncMode, StorePolicy, ToolOverride};
use antwort_identity::Requester;
use antwort_protocol::error::ApiError;
use antwort_protocol::request::{CreateResponse, OnDisconnect};
use antwort_store::TenantRuns;
use event_sink::EventSink;
use prepare::Purpose;
use run::Logged;
use run::trace::Interval;

pub use background::Queued;
pub use cancel::{Cancelled, watch_cancellations};
pub use connection_history::ConnectionHistory;
pub use context::{EngineOptions, EngineParts, EventReader, OnUnservedTool, RunContext};
use event_sink::EventFormat;
pub use event_sink::{BatchEvents, EventBatch};
pub use follow::{Follower, RESPONSE_DELETED, deleted_meanwhile};
pub use in_flight::{AdmittedRequest, InFlight};
pub use keyed::{Keyed, KnownResponse};
pub use lost_claims::give_back_lost_claims;
pub use progress::is_unfinished;
pub use recover::{RecoveredRun, Recovery};
pub use run_handle::RunHandle;
pub use sampling::EngineSampler;
pub use tools::hosted;
pub use webhook_delivery::WebhookDelivery;
pub use webhooks::Webhooks;

/// Starts responses.
pub struct Engine {
    parts: Arc<EngineParts>,
}

impl Engine {
    /// An engine of these parts.
    pub fn new(parts: EngineParts) -> Arc<Self> {
        Arc::new(Self { parts: Arc::new(parts) })
    }

    /// Whether the work of any tool may go on after its call, so that a request may have to be continued.
    pub fn has_async_tools(&self) -> bool {
        let allows = |tool: &ToolOverride| tool.asynchronous == Some(AsyncMode::Allow);
        self.parts.options.tools.overrides.values().any(allows)
            || self.parts.toolbox.catalog().iter().any(|tool| tool.may_go_on())
    }

    /// Starts a run once it is admitted; every transport starts its runs here.
    pub async fn start(
        self: &Arc<Self>,
        mut request: Box<CreateResponse>,
        caller: RunContext,
    ) -> Result<RunHandle, ApiError> {
        let started = Instant::now();
        apply_store_policy(caller.store, &mut request)?;
        self.launch(request, caller, started, None).await
    }

    /// Starts a run whose store policy is applied; it is `logged` if it has an idempotency key.
    async fn launch(
        self: &Arc<Self>,
        request: Box<CreateResponse>,
        caller: RunContext,
        started: Instant,
        logged: Option<Logged>,
    ) -> Result<RunHandle, ApiError> {
        // A client with a key may come back for the response, and `cancel` was refused with it.
        let on_disconnect = match &logged {
            Some(_) => OnDisconnect::Continue,
            None => disconnect::policy(&self.parts, &request, &caller)?,
        };
        self.check_storage(request.store).await?;
        let asked = Instant::now();
        let admitted = self.admit(&caller.requester()).await?;
        let admitted_at = Instant::now();
        let mut prepared = admitted
            .run_until_aborted(pin!(prepare::prepare(&self.parts, request, &caller, Purpose::Run)))
            .await??;
        let format = match caller.events {
            EventReader::Watcher => EventFormat::Typed,
            _ if !prepared.stream => EventFormat::ResponseOnly,
            EventReader::Client => EventFormat::Sse(prepared.encoding),
            EventReader::WebSocket => EventFormat::Frames(prepared.encoding),
            EventReader::Process => EventFormat::Typed,
        };
        let (sink, events) = EventSink::new(format, self.parts.options.write_timeout, on_disconnect);
        let sink = sink.with_keepalive(caller.keepalive);
        let handle = RunHandle {
            id: prepared.response.id.clone(),
            encoding: prepared.encoding,
            ignored: prepared.ignored.clone(),
            omitted_tools: prepared.offer.omitted.clone(),
            retained: std::mem::take(&mut prepared.retained),
            events,
        };
        let memory = std::mem::take(&mut prepared.memory_permits);
        let logged = logged.or_else(|| (on_disconnect == OnDisconnect::Continue).then(Logged::without_key));
        // Boxed before it is spawned: a run is large, and would be copied into the task.
        let mut run =
            Box::new(run::Run::new(Arc::clone(&self.parts), prepared, caller, sink, started, logged));
        let queued = Interval { from: asked, to: admitted_at };
        if queued.is_noticed() {
            run.note_queued(queued);
        }
        // The run outlives the request's handler and still belongs to its span.
        let span = tracing::Span::current();
        let task = async move {
            run.drive().await;
            drop((memory, admitted));
        };
        #[expect(clippy::disallowed_methods, reason = "a shutdown waits for what was admitted")]
        tokio::spawn(task.instrument(span));
        Ok(handle)
    }

    /// How many background runs this process makes at a time.
    pub fn max_jobs(&self) -> usize {
        self.parts.options.jobs.concurrency
    }

    /// How many of them may be of one tenant: half of them as soon as there are others, unless the operator says it.
    pub fn jobs_of_tenant(&self) -> TenantRuns {
        let jobs = &self.parts.options.jobs;
        let half = (jobs.concurrency / 2).max(1);
        match jobs.max_runs_per_tenant {
            Some(most) => TenantRuns::AtMost(most),
            None if self.parts.callers.has_several_tenants() => TenantRuns::AtMost(half),
            None => TenantRuns::AtMostBesideOthers(half),
        }
    }

    /// Refuses a request whose response is to be stored while the store cannot be written to, before the model is asked.
    async fn check_storage(&self, is_stored: bool) -> Result<(), ApiError> {
        if is_stored && self.parts.store.is_impaired() {
            self.parts.store.check_writable().await?;
        }
        Ok(())
    }

    /// Waits for a permit of the run semaphore, at most `server.queue_timeout`. The request is in flight until the
    /// returned value is dropped. Also used by routes that run tools without a response.
    pub async fn admit(&self, requester: &Requester) -> Result<AdmittedRequest, ApiError> {
        self.parts.in_flight.admit(&self.parts.admission.runs, requester).await
    }
}

/// Applies the policy of the caller's key.
fn apply_store_policy(policy: StorePolicy, request: &mut CreateResponse) -> Result<(), ApiError> {
    match policy {
        StorePolicy::Refuse if request.store => Err(ApiError::invalid(
            "unsupported_value",
            "store",
            "This API key does not allow responses to be stored: send 'store': false.",
        )),
        StorePolicy::Never => {
            request.store = false;
            Ok(())
        }
        StorePolicy::Allow | StorePolicy::Refuse => Ok(()),
    }
}
