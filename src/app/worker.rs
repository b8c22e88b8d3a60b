//! Makes background runs: claims those that wait, as many as this process makes at a time, and drives each.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::generation::CurrentGeneration;
use super::job_slots::JobSlots;
use antwort_engine::InFlight;
use antwort_store::{ClaimedJob, Requeue, Store};

/// Runs that are claimed at a time.
const BATCH: usize = 16;

/// The worker of a process.
pub(super) struct Worker {
    pub current: CurrentGeneration,
    pub store: Arc<dyn Store>,
    pub in_flight: Arc<InFlight>,
}

impl Worker {
    /// Makes background runs, does what the results of tools lead to, and looks for those of tasks, until `draining`.
    pub(super) fn spawn(self, tasks: &TaskTracker, draining: &CancellationToken) {
        let (current, in_flight) = (self.current.clone(), Arc::clone(&self.in_flight));
        tasks.spawn(self.run(draining.clone()));
        tasks.spawn(settle_calls(current.clone(), Arc::clone(&in_flight), draining.clone()));
        tasks.spawn(poll_tasks(current, in_flight, draining.clone()));
    }

    /// Claims runs until `draining`. Those that go on then are waited for, or given back, as other runs in flight.
    async fn run(self, draining: CancellationToken) {
        let (running, slots) = (TaskTracker::new(), Arc::new(JobSlots::default()));
        loop {
            let has_more = self.claim(&running, &slots, &draining).await;
            if draining.is_cancelled() {
                return;
            }
            if has_more {
                continue;
            }
            tokio::select! {
                () = draining.cancelled() => return,
                () = self.in_flight.job_or_poll() => {}
            }
        }
    }

    /// Claims runs and starts them. Returns whether there may be more.
    async fn claim(
        &self,
        running: &TaskTracker,
        slots: &Arc<JobSlots>,
        draining: &CancellationToken,
    ) -> bool {
        let engine = Arc::clone(&self.current.load().state.engine);
        let free = engine.max_jobs().saturating_sub(running.len()).min(BATCH);
        if free == 0 {
            return false;
        }
        let claimed = match self.store.claim_in_turn(slots.turns(free, engine.jobs_of_tenant())).await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(%error, "store: claiming background runs failed");
                return false;
            }
        };
        // A claim also ends at a number of bytes.
        let has_more = !claimed.is_empty();
        for job in claimed {
            if draining.is_cancelled() {
                self.give_back(job).await;
                continue;
            }
            let (engine, in_flight) = (Arc::clone(&engine), Arc::clone(&self.in_flight));
            // From here on a shutdown waits for it.
            let (counted, slot) = (in_flight.count_job(), slots.begin(&job.run.owner.tenant));
            running.spawn(async move {
                engine.work(job).await;
                drop((counted, slot));
                // Another one may begin.
                in_flight.bus().job_queued_here();
            });
        }
        has_more
    }

    /// A stop has come between.
    async fn give_back(&self, job: ClaimedJob) {
        let at_once = Requeue { delay: Duration::ZERO, counts: false };
        if let Err(error) = self.store.requeue(job.run.lease, at_once).await {
            tracing::warn!(%error, "giving a background run back failed");
        }
    }
}

/// How often calls whose work has gone on are looked for, beside those of which this process is told.
const SETTLE_INTERVAL: Duration = Duration::from_secs(5);

/// Does what the results of tools lead to whose work has gone on, until `draining`.
async fn settle_calls(current: CurrentGeneration, in_flight: Arc<InFlight>, draining: CancellationToken) {
    loop {
        tokio::select! {
            () = draining.cancelled() => return,
            () = in_flight.completed_or_poll(SETTLE_INTERVAL) => {}
        }
        let engine = Arc::clone(&current.load().state.engine);
        loop {
            match engine.settle_completed_calls().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(%error, "store: looking for completed tool calls failed");
                    break;
                }
            }
        }
    }
}

/// Tasks that are looked at together: one whose server does not answer holds up one of these places.
const MAX_POLLS: usize = 32;

/// Looks for the results of calls that go on as tasks of MCP servers, until `draining`.
async fn poll_tasks(current: CurrentGeneration, in_flight: Arc<InFlight>, draining: CancellationToken) {
    let running = TaskTracker::new();
    loop {
        tokio::select! {
            () = draining.cancelled() => return,
            () = in_flight.task_or_poll(SETTLE_INTERVAL) => {}
        }
        let engine = Arc::clone(&current.load().state.engine);
        let free = MAX_POLLS.saturating_sub(running.len());
        let due = match engine.due_tasks(free).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "store: looking for tasks of MCP servers failed");
                continue;
            }
        };
        // There may be more than there is room for.
        let is_full = due.len() == free;
        for task in due {
            let (engine, in_flight) = (Arc::clone(&engine), Arc::clone(&in_flight));
            running.spawn(async move {
                engine.poll_task(task).await;
                if is_full {
                    in_flight.look_for_tasks_now();
                }
            });
        }
    }
}
