//! The claims of background runs that this process really makes.
//!
//! A process renews the leases of all that it has claimed, whoever of it makes them. So a claim that is made by nobody any
//! more (its answer was lost, what made it panicked, or giving it back failed) would stay with the process until that ends.
//! Such a claim is in the store and not in this registry: it is given back.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::InFlight;
use crate::store::{Lease, Requeue, Store, StoreError};
use crate::telemetry::fields::RESPONSE_ID;

/// The registry, one for the process.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<HashSet<Lease>>);

/// A claim that is being made, until it is dropped.
#[derive(Debug)]
pub(super) struct HeldClaim {
    lease: Lease,
    claims: Arc<Claims>,
}

impl Claims {
    /// Registers a claim.
    pub(super) fn hold(self: &Arc<Self>, lease: &Lease) -> HeldClaim {
        self.0.lock().insert(lease.clone());
        HeldClaim { lease: lease.clone(), claims: Arc::clone(self) }
    }

    fn retain_lost(&self, leases: &mut HashSet<Lease>) {
        let held = self.0.lock();
        leases.retain(|lease| !held.contains(lease));
    }
}

impl Drop for HeldClaim {
    fn drop(&mut self) {
        self.claims.0.lock().remove(&self.lease);
    }
}

/// Gives back the claims that nobody makes, until `closing`.
pub(crate) async fn give_back_lost_claims(
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
