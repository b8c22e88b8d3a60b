//! Starts runs: admits a request, prepares its run and executes it as a task of its own.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tracing::Instrument;

use super::context::{EngineParts, EventReader, RunContext};
use super::disconnect;
use super::event_sink::{EventFormat, EventSink};
use super::in_flight::AdmittedRequest;
use super::prepare::{self, Purpose};
use super::run::trace::Interval;
use super::run::{self, Logged};
use super::run_handle::RunHandle;
use antwort_config::{AsyncMode, StorePolicy, ToolOverride};
use antwort_identity::Requester;
use antwort_protocol::error::ApiError;
use antwort_protocol::request::{CreateResponse, OnDisconnect};
use antwort_store::TenantRuns;

/// [`Engine::has_async_tools`](crate::Engine::has_async_tools).
pub(crate) fn has_async_tools(parts: &EngineParts) -> bool {
    let allows = |tool: &ToolOverride| tool.asynchronous == Some(AsyncMode::Allow);
    parts.options.tools.overrides.values().any(allows)
        || parts.toolbox.catalog().iter().any(|tool| tool.may_go_on())
}

/// [`Engine::start`](crate::Engine::start).
pub(crate) async fn start(
    parts: &Arc<EngineParts>,
    mut request: Box<CreateResponse>,
    caller: RunContext,
) -> Result<RunHandle, ApiError> {
    let started = Instant::now();
    apply_store_policy(caller.store, &mut request)?;
    launch(parts, request, caller, started, None).await
}

/// Starts a run whose store policy is applied; it is `logged` if it has an idempotency key, or goes on without its client.
pub(crate) async fn launch(
    parts: &Arc<EngineParts>,
    request: Box<CreateResponse>,
    caller: RunContext,
    started: Instant,
    logged: Option<Logged>,
) -> Result<RunHandle, ApiError> {
    // A client with a key may come back for the response, and `cancel` was refused with it.
    let on_disconnect = match &logged {
        Some(_) => OnDisconnect::Continue,
        None => disconnect::policy(parts, &request, &caller)?,
    };
    check_storage(parts, request.store).await?;
    let asked = Instant::now();
    let admitted = admit(parts, &caller.requester()).await?;
    let admitted_at = Instant::now();
    let mut prepared =
        admitted.run_until_aborted(pin!(prepare::prepare(parts, request, &caller, Purpose::Run))).await??;
    let encoding = prepared.spec.output.encoder();
    let format = match caller.events {
        EventReader::Watcher => EventFormat::Typed,
        _ if !prepared.spec.stream => EventFormat::ResponseOnly,
        EventReader::Client => EventFormat::Sse(encoding),
        EventReader::WebSocket => EventFormat::Frames(encoding),
        EventReader::Process => EventFormat::Typed,
    };
    let (sink, events) = EventSink::new(format, parts.options.write_timeout, on_disconnect);
    let sink = sink.with_keepalive(caller.keepalive);
    let handle = RunHandle {
        id: prepared.spec.response.id.clone(),
        encoding,
        ignored: std::mem::take(&mut prepared.ignored),
        omitted_tools: prepared.tools.offer.omitted.clone(),
        retained: std::mem::take(&mut prepared.retained),
        events,
    };
    let memory = std::mem::take(&mut prepared.memory_permits);
    let logged = logged.or_else(|| (on_disconnect == OnDisconnect::Continue).then(Logged::without_key));
    // Boxed before it is spawned: a run is large, and would be copied into the task.
    let mut run = Box::new(run::Run::new(Arc::clone(parts), prepared, caller, sink, started, logged));
    let queued = Interval { from: asked, to: admitted_at };
    if queued.is_noticed() {
        run.note_queued(queued);
    }
    // The run outlives the request's handler and still belongs to its span.
    let span = tracing::Span::current();
    let task = async move {
        run::execute(run).await;
        drop((memory, admitted));
    };
    #[expect(clippy::disallowed_methods, reason = "a shutdown waits for what was admitted")]
    tokio::spawn(task.instrument(span));
    Ok(handle)
}

/// [`Engine::max_jobs`](crate::Engine::max_jobs).
pub(crate) fn max_jobs(parts: &EngineParts) -> usize {
    parts.options.jobs.concurrency
}

/// [`Engine::jobs_of_tenant`](crate::Engine::jobs_of_tenant).
pub(crate) fn jobs_of_tenant(parts: &EngineParts) -> TenantRuns {
    let jobs = &parts.options.jobs;
    let half = (jobs.concurrency / 2).max(1);
    match jobs.max_runs_per_tenant {
        Some(most) => TenantRuns::AtMost(most),
        None if parts.callers.has_several_tenants() => TenantRuns::AtMost(half),
        None => TenantRuns::AtMostBesideOthers(half),
    }
}

/// Refuses a request whose response is to be stored while the store cannot be written to, before the model is asked.
pub(crate) async fn check_storage(parts: &EngineParts, is_stored: bool) -> Result<(), ApiError> {
    if is_stored && parts.store.is_impaired() {
        parts.store.check_writable().await?;
    }
    Ok(())
}

/// [`Engine::admit`](crate::Engine::admit).
pub(crate) async fn admit(parts: &EngineParts, requester: &Requester) -> Result<AdmittedRequest, ApiError> {
    parts.in_flight.admit(&parts.admission.runs, requester).await
}

/// Applies the policy of the caller's key.
pub(crate) fn apply_store_policy(policy: StorePolicy, request: &mut CreateResponse) -> Result<(), ApiError> {
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
