//! Runs that are taken from their rows: how large they are, and what becomes of one that cannot be read.
//!
//! One damaged row must not keep the others from being taken. What cannot be read of a run is left out, and whoever takes it
//! ends it. If not even its name can be read, it is passed over for a while.

use super::operation::item_size;
use super::{Lease, OrphanedCall, OrphanedRun, PendingCall};
use antwort_telemetry::fields::RESPONSE_ID;

/// A batch ends after this many bytes: all of it is in memory.
pub const MAX_BATCH_BYTES: usize = 16 << 20;

/// How long a run is passed over whose name cannot be read, in milliseconds.
pub const PASSED_OVER: i64 = 60 * 60 * 1000;

/// Tells that a run whose name cannot be read is passed over.
pub fn log_unreadable(error: &dyn std::fmt::Display) {
    tracing::error!(%error, "store: a run is passed over for an hour: the columns that name it cannot be read");
}

/// Tells that a run is ended since it cannot be read.
pub fn log_damaged(lease: &Lease, error: &dyn std::fmt::Display) {
    tracing::error!({ RESPONSE_ID } = lease.id.as_str(), %error, "store: a run cannot be read, and is ended");
}

impl OrphanedRun {
    /// Leaves out what goes with items that cannot be read: those that can be, and the state that was saved of them.
    pub fn leave_out_items(&mut self) {
        self.items.clear();
        self.state = None;
    }

    /// The approximate number of bytes that it takes in memory.
    pub fn size(&self) -> usize {
        let state = self.state.as_ref().map_or(0, |state| state.len());
        let of_call = |call: &OrphanedCall| {
            call.arguments.len() + call.outcome.as_ref().map_or(0, |(output, _)| output.len())
        };
        let of_pending = |call: &PendingCall| {
            call.request.len() + call.outcome.as_ref().map_or(0, |(output, _)| output.len())
        };
        let calls = self.calls.iter().map(of_call).chain(self.pending.iter().map(of_pending)).sum::<usize>();
        let items = self.items.iter().map(item_size).sum::<usize>();
        self.body.len() + state + items + calls
    }
}
