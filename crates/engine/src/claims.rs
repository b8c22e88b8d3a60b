//! The claims of background runs that this process really makes.
//!
//! A process renews the leases of all that it has claimed, whoever of it makes them. So a claim that is made by nobody any
//! more (its answer was lost, what made it panicked, or giving it back failed) would stay with the process until that ends.
//! Such a claim is in the store and not in this registry: it is given back (`lost_claims`).

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use antwort_store::Lease;

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

    /// Leaves the leases that nobody makes.
    pub(super) fn retain_lost(&self, leases: &mut HashSet<Lease>) {
        let held = self.0.lock();
        leases.retain(|lease| !held.contains(lease));
    }
}

impl Drop for HeldClaim {
    fn drop(&mut self) {
        self.claims.0.lock().remove(&self.lease);
    }
}
