//! The runs of this process, as their writer knows them: which have a row, and which were deleted.
//!
//! Whether a run may be written is decided by its row and its lease (`running`). Changes are undone with the
//! transaction.

use std::collections::HashSet;

use super::item_names::made_at;
use super::operation::{EraseRequest, Write};
use super::row_policy::now;
use super::{Lease, Owner, RunRegistry};
use antwort_protocol::id::Id;

/// No run goes on for longer than this.
const MAX_RUN_MILLIS: i64 = 24 * 60 * 60 * 1000;

/// The runs of this process.
pub struct InFlightRows {
    /// Those whose row was written. If it is gone at their end, the response was deleted.
    begun: HashSet<Lease>,
    undo: Vec<Undo>,
    runs: RunRegistry,
    deleted: Vec<Id>,
    /// Runs that began before an erasure of their owner are not stored.
    erasures: Vec<EraseRequest>,
    /// Runs that were found to be such, until their end.
    dropped: HashSet<Id>,
    /// Runs whose end could not be written.
    abandoned: Vec<Lease>,
}

enum Undo {
    Forget(Lease),
    Remember(Lease),
}

impl InFlightRows {
    /// No run has a row yet; those in `runs` can be deleted before they have one.
    pub fn new(runs: RunRegistry) -> Self {
        Self {
            begun: HashSet::new(),
            undo: Vec::new(),
            runs,
            deleted: Vec::new(),
            erasures: Vec::new(),
            dropped: HashSet::new(),
            abandoned: Vec::new(),
        }
    }

    /// A write has failed for good. If it was the end of a run, or gave its lease back, the run will not write it again.
    pub fn abandon(&mut self, write: &Write) {
        let lease = match write {
            Write::Requeue(lease, _) | Write::WaitForInputs(lease) => {
                return self.abandoned.push(lease.clone());
            }
            Write::Finish(record) => &record.lease,
            Write::FinishLogged(end) => &end.0.lease,
            Write::Withdraw(lease) => lease,
            _ => return,
        };
        if self.begun.remove(lease) {
            self.abandoned.push(lease.clone());
        }
    }

    /// Runs whose end could not be written: their rows are to be ended like those of a dead process. One that was taken
    /// over since, also by this process, is its new holder's.
    pub fn abandoned(&self) -> &[Lease] {
        &self.abandoned
    }

    /// All of them are released.
    pub fn forget_abandoned(&mut self) {
        self.abandoned.clear();
    }

    /// Deletes a registered run. Returns whether this owner had one that was not deleted yet.
    pub fn delete(&mut self, owner: &Owner, id: &Id) -> bool {
        let was_running = self.runs.delete(id, owner);
        if was_running {
            self.deleted.push(id.clone());
        }
        was_running
    }

    /// Whether this owner has a registered run of this id.
    pub fn is_registered(&self, owner: &Owner, id: &Id) -> bool {
        self.runs.is_registered(id, owner)
    }

    /// Whether a run of this owner was deleted or erased before it had a row, so that nothing of it is stored.
    pub fn is_deleted(&self, owner: &Owner, id: &Id) -> bool {
        self.runs.is_deleted(id) || self.is_erased(owner, id)
    }

    /// The same, for the first write of a run that goes on: its later writes are dropped, too.
    pub fn drops(&mut self, owner: &Owner, id: &Id) -> bool {
        if self.is_erased(owner, id) {
            self.dropped.insert(id.clone());
            return true;
        }
        self.runs.is_deleted(id)
    }

    /// The same, for a run whose first write was made.
    pub fn was_dropped(&self, id: &Id) -> bool {
        self.runs.is_deleted(id) || self.dropped.contains(id)
    }

    /// Remembers an erasure, for the runs that began before it and have no row.
    pub fn erase(&mut self, request: &EraseRequest) {
        let oldest = now().saturating_sub(MAX_RUN_MILLIS);
        self.erasures.retain(|earlier| earlier.at >= oldest);
        match self.erasures.iter_mut().find(|earlier| earlier.target == request.target) {
            Some(earlier) => earlier.at = earlier.at.max(request.at),
            None => self.erasures.push(request.clone()),
        }
    }

    fn is_erased(&self, owner: &Owner, id: &Id) -> bool {
        if self.erasures.is_empty() {
            return false;
        }
        let Some(made_at) = made_at(id.as_str()) else { return false };
        self.erasures.iter().any(|erased| made_at <= erased.at && erased.target.includes(owner))
    }

    /// The row of a run was written.
    pub fn add(&mut self, lease: &Lease) {
        if self.begun.insert(lease.clone()) {
            self.undo.push(Undo::Forget(lease.clone()));
        }
    }

    /// Whether the row of a run was written.
    pub fn is_begun(&self, lease: &Lease) -> bool {
        self.begun.contains(lease)
    }

    /// The run has ended. Returns whether its row was written before.
    pub fn remove(&mut self, lease: &Lease) -> bool {
        self.dropped.remove(&lease.id);
        let removed = self.begun.take(lease);
        let was_begun = removed.is_some();
        self.undo.extend(removed.map(Undo::Remember));
        was_begun
    }

    /// The transaction was committed: its changes are no longer undone.
    pub fn commit(&mut self) {
        self.undo.clear();
        self.deleted.clear();
    }

    /// The transaction has failed: undoes the rows and deletions that were noted since the last commit.
    pub fn rollback(&mut self) {
        for id in self.deleted.drain(..) {
            self.runs.restore(&id);
        }
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Forget(lease) => self.begun.remove(&lease),
                Undo::Remember(lease) => self.begun.insert(lease),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErasureTarget;
    use antwort_protocol::id::IdGenerator;

    /// Each step of an erasure replaced that of another one of the same owner, also a newer one.
    #[test]
    fn an_older_erasure_does_not_undo_a_newer_one() {
        let mut rows = InFlightRows::new(RunRegistry::default());
        let owner = Owner { tenant: "t".into(), principal: "p".into() };
        let target = ErasureTarget { tenant: "t".into(), principal: None };
        let id = IdGenerator::new().response();
        let at = now();
        assert!(!rows.drops(&owner, &id));
        for at in [at - 1000, at + 1000, at - 1000] {
            rows.erase(&EraseRequest { target: target.clone(), at });
        }
        assert!(rows.is_deleted(&owner, &id) && rows.drops(&owner, &id) && rows.was_dropped(&id));
        let other = Owner { tenant: "other".into(), ..owner.clone() };
        assert!(!rows.is_deleted(&other, &id));
        // Nothing is remembered of a run that has ended.
        rows.remove(&Lease::first(id.clone()));
        assert!(rows.is_deleted(&owner, &id) && !rows.was_dropped(&id));
    }
}
