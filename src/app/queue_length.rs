//! Measures the queue of background runs. All roles do: where every worker is gone, the gateways say how many are missing.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::store::Store;
use crate::telemetry::metrics::Metrics;

/// How often.
const INTERVAL: Duration = Duration::from_secs(5);

/// Measures until `closing`.
pub(super) async fn measure(store: Arc<dyn Store>, metrics: Arc<Metrics>, closing: CancellationToken) {
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
