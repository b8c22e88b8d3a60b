//! Runs whose ids their owners know before they have a row: they can be deleted, and are not stored then.
//!
//! Registering and leaving may happen on any thread. Deletion is decided by whoever orders the store's writes
//! (SQLite's writer thread), so that it cannot interleave with the run's last write.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::Owner;
use antwort_protocol::id::Id;

/// The runs of this process that can be deleted.
#[derive(Debug, Clone, Default)]
pub struct RunRegistry(Arc<Mutex<HashMap<Id, Entry>>>);

#[derive(Debug)]
struct Entry {
    owner: Owner,
    is_deleted: bool,
}

/// Keeps a run registered until it is dropped.
#[derive(Debug)]
#[must_use = "the run is forgotten when this is dropped"]
pub struct RunRegistration {
    registry: RunRegistry,
    id: Id,
}

impl RunRegistry {
    /// Registers a run.
    pub fn register(&self, id: &Id, owner: &Owner) -> RunRegistration {
        self.entries().insert(id.clone(), Entry { owner: owner.clone(), is_deleted: false });
        RunRegistration { registry: self.clone(), id: id.clone() }
    }

    /// Deletes a run. Returns whether this owner had one that was not deleted yet.
    pub(super) fn delete(&self, id: &Id, owner: &Owner) -> bool {
        match self.entries().get_mut(id) {
            Some(entry) if entry.owner == *owner && !entry.is_deleted => {
                entry.is_deleted = true;
                true
            }
            _ => false,
        }
    }

    /// Undoes a deletion whose transaction failed.
    pub(super) fn restore(&self, id: &Id) {
        if let Some(entry) = self.entries().get_mut(id) {
            entry.is_deleted = false;
        }
    }

    /// Whether this owner has a run of this id that was not deleted.
    pub(super) fn is_registered(&self, id: &Id, owner: &Owner) -> bool {
        self.entries().get(id).is_some_and(|entry| entry.owner == *owner && !entry.is_deleted)
    }

    /// The runs that were deleted and go on.
    pub fn deleted(&self) -> Vec<Id> {
        let entries = self.entries();
        entries.iter().filter(|(_, entry)| entry.is_deleted).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn is_deleted(&self, id: &Id) -> bool {
        self.entries().get(id).is_some_and(|entry| entry.is_deleted)
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Id, Entry>> {
        self.0.lock()
    }
}

impl Drop for RunRegistration {
    fn drop(&mut self) {
        self.registry.entries().remove(&self.id);
    }
}
