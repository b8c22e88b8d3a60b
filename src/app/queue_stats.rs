//! Measures the queue of background runs, in each process: a fleet without workers shows its queue, too.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::store::Store;
use crate::telemetry::metrics::Metrics;

const INTERVAL: Duration = Duration::from_secs(5);

/// Sets the metrics until `closing`.
pub(super) async fn watch(store: Arc<dyn Store>, metrics: Arc<Metrics>, closing: CancellationToken) {
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = closing.cancelled() => return,
        }
        match store.job_stats().await {
            Ok(stats) => {
                let now = jiff::Timestamp::now().as_second();
                let age = stats.oldest_created_at.map_or(0, |created_at| now.saturating_sub(created_at));
                metrics.jobs(stats.queued, age);
            }
            Err(error) => tracing::warn!(%error, "store: counting background runs failed"),
        }
    }
}
