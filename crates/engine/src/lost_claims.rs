//! Gives back the claims of background runs that nobody of this process makes, though their leases are renewed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::InFlight;
use antwort_store::{Lease, Requeue, Store, StoreError};
use antwort_telemetry::fields::RESPONSE_ID;

/// Gives back the claims that nobody makes, until `closing`.
pub async fn give_back_lost_claims(
    store: Arc<dyn Store>,
    in_flight: Arc<InFlight>,
    every: Duration,
    closing: CancellationToken,
) {
    let mut suspects = HashSet::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = closing.cancelled() => return,
        }
        if let Err(error) = look(&*store, &in_flight, &mut suspects).await {
            tracing::warn!(%error, "store: looking for background runs that nobody makes failed");
        }
    }
}

/// Gives back what is made by nobody, and was not the last time: a claim that has just been committed is not registered yet.
async fn look(
    store: &dyn Store,
    in_flight: &InFlight,
    suspects: &mut HashSet<Lease>,
) -> Result<(), StoreError> {
    let mut lost: HashSet<Lease> = store.claimed_jobs().await?.into_iter().collect();
    in_flight.claims().retain_lost(&mut lost);
    for lease in lost.intersection(suspects) {
        tracing::warn!(
            { RESPONSE_ID } = lease.id.as_str(),
            "a background run that nobody makes is given back"
        );
        match store.requeue(lease.clone(), Requeue { delay: Duration::ZERO, counts: true }).await {
            Ok(()) => in_flight.bus().job_queued(),
            Err(StoreError::Superseded) => {}
            Err(error) => return Err(error),
        }
    }
    *suspects = lost;
    Ok(())
}
