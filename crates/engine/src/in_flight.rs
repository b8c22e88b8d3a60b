//! The requests in flight, from admission to end: what a shutdown waits for, and aborts at its drain deadline.
//!
//! One registry for the process, shared by all engines. An admitted request is always in it, so that no request
//! can begin unseen by a shutdown that found nothing in flight.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::claims::Claims;
use super::deadlines::Deadlines;
use super::live_runs::LiveRuns;
use super::log_tails::LogTails;
use super::poll_rates::PollRates;
use super::stops::StopSignals;
use antwort_bus::Bus;
use antwort_identity::Requester;
use antwort_limits::{Permit, Resource};
use antwort_protocol::error::{ApiError, ErrorKind};

/// How long requests have to end once they are aborted.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);

/// The requests in flight.
#[derive(Debug)]
pub struct InFlight {
    requests: TaskTracker,
    /// Cancelled when the drain deadline passes.
    abort_token: CancellationToken,
    /// The same for runs, of which single ones can be stopped, too.
    stops: StopSignals,
    /// Background runs that were claimed.
    claims: Arc<Claims>,
    /// When those that wait can be claimed again.
    deadlines: Deadlines,
    /// When results of calls that go on as tasks are looked for.
    task_deadlines: Deadlines,
    poll_rates: PollRates,
    /// Results of tools have come whose work has gone on.
    completed: Notify,
    /// Those that others may wait for or follow.
    live: Arc<LiveRuns>,
    /// What their followers share.
    log_tails: Arc<LogTails>,
    /// Tells other processes, and is told by them, of runs.
    bus: Bus,
}

impl InFlight {
    /// An empty registry.
    pub fn new(bus: Bus) -> Arc<Self> {
        Arc::new(Self {
            requests: TaskTracker::new(),
            abort_token: CancellationToken::new(),
            stops: StopSignals::default(),
            claims: Arc::default(),
            deadlines: Deadlines::default(),
            task_deadlines: Deadlines::default(),
            poll_rates: PollRates::default(),
            completed: Notify::new(),
            live: LiveRuns::new(bus.clone()),
            log_tails: Arc::default(),
            bus,
        })
    }

    /// The bus to the other processes.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Waits for a permit of `runs`. The request is counted before it has the permit: once `runs` is closed, every
    /// request that holds one is in the registry.
    pub(super) async fn admit(
        self: &Arc<Self>,
        runs: &Resource,
        requester: &Requester,
    ) -> Result<AdmittedRequest, ApiError> {
        let counted = self.requests.token();
        let permit = runs.acquire(requester, 1).await?;
        Ok(AdmittedRequest { _permit: permit, _counted: counted, registry: Arc::clone(self) })
    }

    /// A background run, which needs no permit of `runs`. A shutdown waits for it until the token is dropped.
    pub fn count_job(&self) -> TaskTrackerToken {
        self.requests.token()
    }

    /// The claims of background runs that this process makes.
    pub(super) fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    /// There may be calls to settle: a result was reported, or the response of such calls has ended.
    pub(super) fn call_completed(&self) {
        self.completed.notify_one();
    }

    /// The result of an asynchronous call was reported, perhaps again: the process that took it first may not have told
    /// anybody. Its run may wait for it.
    pub(super) fn result_reported(&self) {
        self.call_completed();
        self.bus.job_queued();
    }

    /// Returns when there may be calls to settle, or after this time. For one waiter.
    pub async fn completed_or_poll(&self, every: Duration) {
        _ = tokio::time::timeout(every, self.completed.notified()).await;
    }

    /// When runs that wait can be claimed again.
    pub(super) fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// How often these results are looked for.
    pub(super) fn poll_rates(&self) -> &PollRates {
        &self.poll_rates
    }

    /// When results of calls that go on as tasks are looked for.
    pub(super) fn task_deadlines(&self) -> &Deadlines {
        &self.task_deadlines
    }

    /// There are results of tasks to look for now.
    pub fn look_for_tasks_now(&self) {
        self.task_deadlines.add(Duration::ZERO);
    }

    /// Returns when there may be a result of a task to look for, or after this time. For one waiter.
    pub async fn task_or_poll(&self, every: Duration) {
        _ = tokio::time::timeout(every, self.task_deadlines.passed()).await;
    }

    /// Returns when there may be a job to claim: one was queued, has waited for long enough, or it is time to look.
    pub async fn job_or_poll(&self) {
        tokio::select! {
            () = self.bus.job_or_poll() => {}
            () = self.deadlines.passed() => {}
        }
    }

    /// The runs that others may wait for or follow.
    pub(super) fn live(&self) -> &Arc<LiveRuns> {
        &self.live
    }

    /// What the followers of a log share.
    pub(super) fn log_tails(&self) -> &Arc<LogTails> {
        &self.log_tails
    }

    /// What stops runs.
    pub(super) fn stops(&self) -> &StopSignals {
        &self.stops
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.requests.len()
    }

    /// Cancelled when the requests in flight have to end.
    pub(super) fn abort_token(&self) -> &CancellationToken {
        &self.abort_token
    }

    /// Waits for the requests in flight to end and aborts those that have not by the deadline. `runs` must be closed
    /// before. What a client does not read can be left behind.
    pub async fn drain(&self, deadline: Duration) {
        self.requests.close();
        if tokio::time::timeout(deadline, self.requests.wait()).await.is_err() {
            tracing::warn!(
                requests = self.requests.len(),
                "server.drain_timeout reached; aborting the requests in flight"
            );
            self.stops.stop_all();
            self.abort_token.cancel();
            if tokio::time::timeout(ABORT_TIMEOUT, self.requests.wait()).await.is_err() {
                tracing::warn!(
                    requests = self.requests.len(),
                    "aborted requests still wait for clients that do not read; closing their connections"
                );
            }
        }
    }

    /// Waits for the requests that ended only as their connections were closed.
    pub async fn ended(&self) {
        self.requests.wait().await;
    }
}

/// An admitted request: holds its permit, and is waited for by a shutdown, until it is dropped.
#[derive(Debug)]
pub struct AdmittedRequest {
    _permit: Permit,
    _counted: TaskTrackerToken,
    registry: Arc<InFlight>,
}

impl AdmittedRequest {
    /// Runs a future unless a shutdown aborts it. The future is pinned by the caller: passed by value it would be
    /// stored twice in the caller's own future, which is copied for each request.
    ///
    /// # Errors
    /// 503 `server_shutting_down` if it was aborted.
    pub async fn run_until_aborted<T>(&self, work: Pin<&mut impl Future<Output = T>>) -> Result<T, ApiError> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.registry.abort_token.cancelled() => Err(shutting_down(
                "The gateway is shutting down and aborted this request. Try again: another instance may take it.",
            )),
        }
    }
}

/// The error of a request that a shutdown has aborted.
pub(super) fn shutting_down(message: &str) -> ApiError {
    ApiError::new(ErrorKind::Aborted, message).with_retry_after(Duration::from_secs(1))
}
