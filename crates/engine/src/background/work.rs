//! Makes a run that was claimed, from where it is: a new one from its request, one whose process is gone from its last
//! commit.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tracing::Instrument;

use super::asker;
use super::left::{self, Left};
use super::spec::JobSpec;
use crate::chain::{Chain, Step};
use crate::context::EngineParts;
use crate::context::RunContext;
use crate::event_log::EventLogger;
use crate::event_sink::EventSink;
use crate::live_runs::{LiveRun, RunEnding};
use crate::prepare::{self, Prepared, Purpose, Resumed};
use crate::recover::Recovery;
use crate::resume_point::ResumePoint;
use crate::run::{self, Driven, Logged, Run};
use crate::stops::Stop;
use crate::user_questions;
use antwort_limits::run_on_bytes;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::request::CreateResponse;
use antwort_response::machine::{ResponseMachine, Termination};
use antwort_store::{ClaimedJob, Lease, OrphanedRun, Requeue, StoreError};
use antwort_telemetry::fields::RESPONSE_ID;
use antwort_tools::{RefusedFollowUp, audit_refused_follow_up};

/// When a run is claimed again whose conversation another one has: of those that were queued the one before has just ended, or a client
/// waits for another.
const BUSY_DELAY: Duration = Duration::from_millis(100);
/// When a run is claimed again that could not be begun or stored.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Why a run is not made to its end now.
enum NotMade {
    /// Its response fails.
    Failed(ApiError),
    /// Its response fails, which was to follow the result of this call.
    NotFollowed(Box<(ApiError, Step)>),
    /// Its owner has cancelled it before.
    Cancelled,
    /// It is claimed again.
    Later(Requeue),
    /// It waits, and is claimed again when all results are there, or late.
    WhenAnswered,
}

impl From<ApiError> for NotMade {
    fn from(error: ApiError) -> Self {
        let later = |delay, counts| Self::Later(Requeue { delay, counts });
        match (error.kind, error.code()) {
            (_, "conversation_locked") => later(BUSY_DELAY, false),
            (ErrorKind::Aborted, _) => later(Duration::ZERO, false),
            // There is no room for it now.
            (ErrorKind::Unavailable, _) => later(RETRY_DELAY, false),
            // The database may have been away for a moment.
            (_, "storage_error") => later(RETRY_DELAY, true),
            _ => Self::Failed(error),
        }
    }
}

impl From<StoreError> for NotMade {
    fn from(_: StoreError) -> Self {
        Self::Later(Requeue { delay: RETRY_DELAY, counts: true })
    }
}

/// [`Engine::work`](crate::Engine::work).
pub(crate) async fn work(parts: &Arc<EngineParts>, job: ClaimedJob) {
    let in_conversation = job.in_conversation;
    make_or_give_back(parts, job).await;
    if in_conversation {
        // Any process may make the next one of its conversation.
        parts.in_flight.bus().job_queued();
    }
}

async fn make_or_give_back(parts: &Arc<EngineParts>, mut job: ClaimedJob) {
    let span = tracing::info_span!("job", response_id = job.run.lease.id.as_str(), attempt = job.attempt);
    let _held = parts.in_flight.claims().hold(&job.run.lease);
    let live = Arc::new(parts.in_flight.live().register(&job.run.lease.id));
    let spec = std::mem::take(&mut job.spec);
    let made = Box::pin(make(parts, &job, spec, &live)).instrument(span);
    let made = AssertUnwindSafe(made).catch_unwind().await;
    let made = made.unwrap_or_else(|_panic| {
        tracing::error!({ RESPONSE_ID } = job.run.lease.id.as_str(), "making a background run panicked");
        Err(NotMade::Later(Requeue { delay: RETRY_DELAY, counts: true }))
    });
    let requeue = match made {
        Ok(()) => return,
        Err(NotMade::Later(requeue)) => requeue,
        Err(NotMade::WhenAnswered) => return wait_for_inputs(parts, &job.run.lease).await,
        Err(NotMade::Failed(error)) => {
            match end_job(parts, &job.run, Termination::Failed(error.body)).await {
                Ok(()) => return live.ended(RunEnding::Stored),
                Err(_) => Requeue { delay: RETRY_DELAY, counts: true },
            }
        }
        Err(NotMade::NotFollowed(refused)) => {
            let (error, step) = *refused;
            let code = error.code().to_owned();
            match end_job(parts, &job.run, Termination::Failed(error.body)).await {
                Ok(()) => {
                    let (owner, call, tool) = (&job.run.owner, &*step.call, &*step.tool);
                    audit_refused_follow_up(&RefusedFollowUp { owner, call, tool, code: &code });
                    return live.ended(RunEnding::Stored);
                }
                Err(_) => Requeue { delay: RETRY_DELAY, counts: true },
            }
        }
        Err(NotMade::Cancelled) => match end_job(parts, &job.run, Termination::Cancelled).await {
            Ok(()) => return live.ended(RunEnding::Stored),
            Err(_) => Requeue { delay: RETRY_DELAY, counts: true },
        },
    };
    match parts.store.requeue(job.run.lease.clone(), requeue).await {
        Ok(()) => announce(parts, requeue.delay),
        Err(StoreError::Superseded) => {}
        // It is given back when it is found to be made by nobody.
        Err(error) => {
            tracing::warn!({ RESPONSE_ID } = job.run.lease.id.as_str(), %error, "giving a background run back failed");
        }
    }
}

/// Ends the lease of a run until its results are there. From here on it is nothing but a row.
async fn wait_for_inputs(parts: &EngineParts, lease: &Lease) {
    match parts.store.wait_for_inputs(lease.clone()).await {
        Ok(Duration::ZERO) => parts.in_flight.bus().job_queued(),
        Ok(most) => parts.in_flight.deadlines().add(most),
        Err(StoreError::Superseded) => {}
        // It is given back when it is found to be made by nobody, and waits then.
        Err(error) => {
            tracing::warn!({ RESPONSE_ID } = lease.id.as_str(), %error, "putting a run to wait for its client failed");
        }
    }
}

/// Tells of a run that can be claimed after this time: all processes, or this one when it has passed.
fn announce(parts: &EngineParts, delay: Duration) {
    let bus = parts.in_flight.bus();
    if delay.is_zero() {
        return bus.job_queued();
    }
    let bus = bus.clone();
    #[expect(clippy::disallowed_methods, reason = "ends when the time has passed, and nobody waits for it")]
    tokio::spawn(async move {
        tokio::time::sleep(delay).await;
        bus.job_queued_here();
    });
}

/// Ends a run without making it.
pub(crate) async fn end_job(
    parts: &EngineParts,
    run: &OrphanedRun,
    ending: Termination,
) -> Result<(), StoreError> {
    Recovery::of(parts).end_job(run, ending).await
}

async fn make(
    parts: &Arc<EngineParts>,
    job: &ClaimedJob,
    sealed: Arc<[u8]>,
    live: &Arc<LiveRun>,
) -> Result<(), NotMade> {
    let (started, parts, claimed) = (Instant::now(), parts, &job.run);
    if claimed.is_cancelled {
        return Err(NotMade::Cancelled);
    }
    if job.attempt > parts.options.jobs.max_attempts {
        return Err(NotMade::Failed(exhausted(parts.options.jobs.max_attempts)));
    }
    let spec = run_on_bytes(sealed.len(), || {
        let spec = JobSpec::open(&parts.seal, &claimed.owner.tenant, &sealed)?;
        Some((spec.request(), spec))
    });
    // It holds the whole request, and is not needed for as long as the run goes on.
    drop(sealed);
    let (Some((request, spec)), Some(left)) = (spec, left::read(parts, claimed).await?) else {
        return Err(NotMade::Failed(unreadable()));
    };
    let request = request?;
    let Left { saved, committed, output, history, seen } = left;
    // Also if a state could not be saved with its turn.
    let has_turns = saved.state.committed.turns > 0 || !claimed.calls.is_empty();
    let lease = claimed.lease.clone();
    let resumed = Resumed { lease, created_at: claimed.created_at, history, committed, has_turns };
    let (mut prepared, caller) = prepare_job(parts, spec, request, claimed, &resumed).await?;
    let memory = std::mem::take(&mut prepared.memory_permits);
    let encoder = prepared.spec.output.encoder();
    let log = seen.next.map(|next| {
        let max_bytes = parts.options.engine.max_response_bytes;
        let (store, lease) = (Arc::clone(&parts.store), claimed.lease.clone());
        live.logged(next);
        EventLogger::start(store, Arc::clone(live), encoder, lease, next, max_bytes)
    });
    let sink = EventSink::to_log(encoder, log, parts.options.write_timeout);
    let point = ResumePoint::of(claimed, &saved, seen);
    let mut response = prepared.spec.response.clone();
    response.output.extend(output);
    let machine = ResponseMachine::resume(response, saved.machine, prepared.options.clone());
    let logged = Some(Logged::Begun(Arc::clone(live)));
    // Time that it has waited for does not count.
    let asked_at = user_questions::active(&claimed.pending, saved.state.committed.turns.checked_sub(1));
    let active = saved.state.active().max(asked_at.unwrap_or_default());
    let started = started.checked_sub(active).unwrap_or(started);
    let mut state = saved.state;
    state.trace.resume(active, asked_at.is_some());
    if let Some(times) = prepared.tools.listing {
        state.trace.add_listing(times);
    }
    let mut run = Box::new(Run::new(Arc::clone(parts), prepared, caller, sink, started, logged));
    run::restore(&mut run, machine, state, &point);
    let driven = run::resume(run, point).await;
    drop(memory);
    match (driven, live.ending()) {
        (Driven::GivenBack, _) => Err(NotMade::Later(Requeue { delay: Duration::ZERO, counts: false })),
        (Driven::Waits, _) => Err(NotMade::WhenAnswered),
        (Driven::Ended, Some(RunEnding::Stored)) => Ok(()),
        (Driven::Ended, _) => Err(NotMade::Later(Requeue { delay: RETRY_DELAY, counts: true })),
    }
}

/// Prepares a run that was claimed. Of one that follows the result of a tool, whoever asked must still be allowed to: nobody
/// has sent it.
async fn prepare_job(
    parts: &EngineParts,
    spec: JobSpec,
    request: Box<CreateResponse>,
    claimed: &OrphanedRun,
    resumed: &Resumed,
) -> Result<(Prepared, RunContext), NotMade> {
    let asked = spec.chain().map_or(Ok(()), |_| asker::check_asker(parts, &spec, &claimed.owner));
    let caller = spec.caller(claimed.owner.clone());
    let prepared = match asked {
        Ok(()) => prepare_unless_stopped(parts, request, &caller, resumed).await,
        Err(error) => Err(error.into()),
    };
    match (prepared, caller.chain.as_deref().and_then(Chain::last)) {
        (Ok(prepared), _) => Ok((prepared, caller)),
        (Err(NotMade::Failed(error)), Some(step)) => {
            Err(NotMade::NotFollowed(Box::new((error, step.clone()))))
        }
        (Err(error), _) => Err(error),
    }
}

async fn prepare_unless_stopped(
    parts: &EngineParts,
    request: Box<CreateResponse>,
    caller: &RunContext,
    resumed: &Resumed,
) -> Result<Prepared, NotMade> {
    let mut stops = parts.in_flight.stops().listen();
    tokio::select! {
        biased;
        prepared = prepare::prepare(parts, request, caller, Purpose::Resume(resumed)) => Ok(prepared?),
        stop = stops.stopped(&resumed.lease.id) => Err(match stop {
            Stop::Cancelled => NotMade::Cancelled,
            Stop::Shutdown => NotMade::Later(Requeue { delay: Duration::ZERO, counts: false }),
        }),
    }
}

fn exhausted(attempts: u32) -> ApiError {
    ApiError::new(
        ErrorKind::Internal,
        format!(
            "The response was begun {attempts} times, and each time its process was lost or it could not be stored. Send the \
             request again."
        ),
    )
    .with_code("run_attempts_exhausted")
}

fn unreadable() -> ApiError {
    ApiError::new(
        ErrorKind::Internal,
        "The run was queued by a gateway whose seal keys or version this one does not have. Send the request again.",
    )
    .with_code("run_unreadable")
}
