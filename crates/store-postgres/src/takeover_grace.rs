//! After an outage of the database, processes do not take over runs at once.
//!
//! No process could renew its leases meanwhile, so they may all have expired while their runs went on. Whoever could reach
//! the database first would take the runs of living processes. An outage is noticed by the renewal of this process's own
//! leases, which every process attempts several times within a lease.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use antwort_store::retention::millis;

/// A renewal that takes more than this part of a lease was held up by an outage. Renewals are attempted three times within a
/// lease, so an outage in which a lease expires holds one up for more than a third of it.
const OUTAGE_DIVISOR: u32 = 4;
/// Milliseconds: no lease is older. One that was given up, whose time is 0, is.
const NEVER: i64 = 10 * 365 * 24 * 60 * 60 * 1000;

/// Whether expired leases of other processes can be taken over.
pub(super) struct TakeoverGrace {
    lease: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the first attempt to renew the leases began that has not succeeded yet.
    renewing_since: Option<Instant>,
    /// The database could not be reached when the process was started: nobody knows for how long.
    is_unreachable: bool,
    until: Option<Instant>,
}

impl TakeoverGrace {
    pub(super) fn new(lease: Duration) -> Self {
        Self { lease, state: Mutex::default() }
    }

    /// The database cannot be reached at the start of the process.
    pub(super) fn unreachable(&self) {
        self.state.lock().is_unreachable = true;
    }

    /// A renewal begins.
    pub(super) fn renewing(&self) {
        self.state.lock().renewing_since.get_or_insert_with(Instant::now);
    }

    /// A renewal has succeeded.
    pub(super) fn renewed(&self) {
        let mut state = self.state.lock();
        let began = state.renewing_since.take();
        if std::mem::take(&mut state.is_unreachable) || began.is_some_and(|began| self.is_outage(began)) {
            state.until = Some(Instant::now() + self.lease);
        }
    }

    /// For how many milliseconds a lease must have expired before its run can be taken over.
    pub(super) fn millis(&self) -> i64 {
        let state = self.state.lock();
        let is_held_up =
            state.is_unreachable || state.renewing_since.is_some_and(|began| self.is_outage(began));
        let is_over = state.until.is_none_or(|until| Instant::now() >= until);
        if is_held_up || !is_over { NEVER.max(millis(self.lease)) } else { 0 }
    }

    fn is_outage(&self, began: Instant) -> bool {
        began.elapsed() > self.lease / OUTAGE_DIVISOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back_by(grace: &TakeoverGrace, time: Duration) {
        let mut state = grace.state.lock();
        let State { renewing_since, until, .. } = &mut *state;
        for at in [renewing_since, until].into_iter().flatten() {
            *at = at.checked_sub(time).unwrap();
        }
    }

    #[test]
    fn leases_that_expired_in_an_outage_are_left_to_their_processes_for_a_lease() {
        let lease = Duration::from_secs(60);
        let grace = TakeoverGrace::new(lease);
        assert_eq!(grace.millis(), 0, "nothing is known of an outage");
        grace.renewing();
        grace.renewed();
        assert_eq!(grace.millis(), 0);
        grace.renewing();
        back_by(&grace, Duration::from_secs(10));
        assert_eq!(grace.millis(), 0, "it takes a while");
        // A further attempt; the first has failed.
        grace.renewing();
        back_by(&grace, Duration::from_secs(10));
        assert_eq!(grace.millis(), NEVER);
        grace.renewed();
        assert_eq!(grace.millis(), NEVER, "others renew theirs");
        grace.renewing();
        grace.renewed();
        back_by(&grace, lease - Duration::from_secs(1));
        assert_eq!(grace.millis(), NEVER);
        back_by(&grace, Duration::from_secs(1));
        assert_eq!(grace.millis(), 0);
        grace.unreachable();
        assert_eq!(grace.millis(), NEVER);
        grace.renewing();
        grace.renewed();
        assert_eq!(grace.millis(), NEVER);
        back_by(&grace, lease);
        assert_eq!(grace.millis(), 0);
    }
}
