//! The background runs that this process makes, by tenant: how many of each there are, and whose turn is next.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use antwort_store::{JobTurns, TenantRuns};

/// The runs that are being made.
#[derive(Debug, Default)]
pub(super) struct JobSlots {
    of_tenants: Mutex<OfTenants>,
}

#[derive(Debug, Default)]
struct OfTenants {
    running: HashMap<Arc<str>, usize>,
    /// The tenant that was served last.
    last: Option<Arc<str>>,
}

/// The slot of a run, until it is dropped.
pub(super) struct JobSlot {
    slots: Arc<JobSlots>,
    tenant: Arc<str>,
}

impl JobSlots {
    /// A claim of at most so many runs.
    pub(super) fn turns(&self, limit: usize, share: TenantRuns) -> JobTurns {
        let of_tenants = self.of_tenants.lock();
        JobTurns::new(limit).within(share, of_tenants.running.clone()).behind(of_tenants.last.clone())
    }

    /// Notes a run that was claimed in its turn.
    pub(super) fn begin(self: &Arc<Self>, tenant: &Arc<str>) -> JobSlot {
        let mut of_tenants = self.of_tenants.lock();
        *of_tenants.running.entry(Arc::clone(tenant)).or_default() += 1;
        of_tenants.last = Some(Arc::clone(tenant));
        drop(of_tenants);
        JobSlot { slots: Arc::clone(self), tenant: Arc::clone(tenant) }
    }
}

impl Drop for JobSlot {
    fn drop(&mut self) {
        let mut of_tenants = self.slots.of_tenants.lock();
        if let Some(running) = of_tenants.running.get_mut(&self.tenant) {
            *running -= 1;
            if *running == 0 {
                of_tenants.running.remove(&self.tenant);
            }
        }
    }
}
