//! Admission control: what all requests share is shared out among tenants and keys.
//!
//! A [`Resource`] is a weighted semaphore with a bounded, fair queue: nobody holds more than a share of it, and what is
//! beyond a share or the capacity waits for `server.queue_timeout`, then is refused with 503. [`Shares`] has the
//! rule, `semaphore` keeps to it. Knows nothing of what is done with a permit.

mod resource;
mod semaphore;
mod shares;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::config::settings::{AuthSettings, ServerSettings};
use crate::telemetry::metrics::Metrics;

use resource::Label;
pub use resource::Resource;
pub use semaphore::{Attempt, FairSemaphore, Permit, Refused, Waiting};
pub use shares::{Requester, Shares};

const RUNS: Label = Label { resource: "runs", reason: "max_runs", limit: "server.max_runs" };

/// Everything that is shared out.
#[derive(Debug)]
pub struct Admission {
    /// Responses in the making, and direct calls of tools; a unit each.
    pub runs: Resource,
}

impl Admission {
    /// Shares as configured.
    pub fn new(server: &ServerSettings, auth: &AuthSettings, metrics: &Arc<Metrics>) -> Arc<Self> {
        let requesters: Vec<Requester> =
            auth.keys.iter().map(|(name, key)| Requester::new(&key.tenant, &name.as_str().into())).collect();
        let even = |capacity: usize| Shares::new(capacity as u64, &requesters);
        let mut runs = even(server.max_runs);
        if let Some(most) = server.max_runs_per_tenant {
            runs = runs.with_tenant_limit(most as u64);
        }
        for (requester, key) in requesters.iter().zip(auth.keys.values()) {
            if let Some(most) = key.max_runs {
                runs = runs.with_key_limit(requester, most as u64);
            }
        }
        let resource =
            |label, shares| Resource::new(label, FairSemaphore::new(shares), server.queue_timeout, metrics);
        Arc::new(Self { runs: resource(RUNS, runs) })
    }
}
