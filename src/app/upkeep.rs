//! What a process does from time to time: maintenance, recovery, lost claims, cancellations, the length of the queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use antwort_engine::{InFlight, Recovery, give_back_lost_claims, watch_cancellations};
use antwort_store::Store;
use antwort_telemetry::metrics::Metrics;

/// How often the queue of background runs is measured.
const QUEUE_INTERVAL: Duration = Duration::from_secs(5);

/// What is kept up.
pub(super) struct Upkeep {
    pub store: Arc<dyn Store>,
    pub in_flight: Arc<InFlight>,
    pub recovery: Recovery,
    pub metrics: Arc<Metrics>,
    /// `store.maintenance_interval`
    pub every: Duration,
}

impl Upkeep {
    /// Starts its tasks, which end with `closing`.
    pub(super) fn spawn(self, tasks: &TaskTracker, closing: &CancellationToken) {
        let Self { store, in_flight, recovery, metrics, every } = self;
        let store = || Arc::clone(&store);
        tasks.spawn(maintain(store(), every, closing.clone()));
        // Three fall within a lease, which is at least twice the interval.
        tasks.spawn(renew_leases(store(), every * 2 / 3, closing.clone()));
        tasks.spawn(recover(recovery, every, closing.clone()));
        tasks.spawn(give_back_lost_claims(store(), Arc::clone(&in_flight), every, closing.clone()));
        tasks.spawn(watch_cancellations(store(), in_flight, closing.clone()));
        tasks.spawn(measure_queue(store(), metrics, closing.clone()));
    }
}

async fn maintain(store: Arc<dyn Store>, every: Duration, closing: CancellationToken) {
    let mut interval = interval(every);
    while is_next_round(&mut interval, &closing).await {
        if let Err(error) = store.maintain().await {
            tracing::warn!(%error, "store: maintenance failed");
        }
    }
}

/// Apart from maintenance, whatever that waits for.
async fn renew_leases(store: Arc<dyn Store>, every: Duration, closing: CancellationToken) {
    let mut interval = interval(every);
    while is_next_round(&mut interval, &closing).await {
        if let Err(error) = store.renew_leases().await {
            tracing::warn!(%error, "store: renewing leases failed");
        }
    }
}

/// Apart from maintenance, which renews leases: many orphaned runs must not cost this process its own. What a stop
/// interrupts is done by the next process.
async fn recover(recovery: Recovery, every: Duration, closing: CancellationToken) {
    let mut interval = interval(every);
    while is_next_round(&mut interval, &closing).await {
        let recovered = tokio::select! {
            recovered = recovery.run() => recovered,
            () = closing.cancelled() => return,
        };
        if let Err(error) = recovered {
            tracing::warn!(%error, "store: ending orphaned responses failed");
        }
    }
}

/// In each process: a fleet without workers shows its queue, too.
async fn measure_queue(store: Arc<dyn Store>, metrics: Arc<Metrics>, closing: CancellationToken) {
    let mut interval = interval(QUEUE_INTERVAL);
    while is_next_round(&mut interval, &closing).await {
        match store.job_stats().await {
            Ok(stats) => {
                let now = jiff::Timestamp::now().as_second();
                let age = stats.oldest_created_at.map_or(0, |created_at| now.saturating_sub(created_at));
                metrics.jobs(stats.queued, age, stats.waiting);
            }
            Err(error) => tracing::warn!(%error, "store: counting background runs failed"),
        }
    }
}

fn interval(every: Duration) -> Interval {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Waits for the next round; `false`: the process stops.
async fn is_next_round(interval: &mut Interval, closing: &CancellationToken) -> bool {
    tokio::select! {
        _ = interval.tick() => true,
        () = closing.cancelled() => false,
    }
}
