//! The runs of this process, as the writer thread knows them: the keys of their rows, and which were deleted.
//!
//! The keys only save look-ups: whether a run may be written is decided by its row and its lease (`running`). Changes
//! are undone with the transaction.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::orphans::END_NOT_STORED;
use super::retention::RowPolicy;
use super::write::Write;
use crate::protocol::id::Id;
use crate::store::{Lease, Owner, RunRegistry};

/// The runs of this process.
pub(super) struct InFlightRows {
    keys: HashMap<Lease, i64>,
    undo: Vec<(Lease, Option<i64>)>,
    runs: RunRegistry,
    deleted: Vec<Id>,
    abandoned: Vec<(i64, Id)>,
}

impl InFlightRows {
    pub(super) fn new(runs: RunRegistry) -> Self {
        Self { keys: HashMap::new(), undo: Vec::new(), runs, deleted: Vec::new(), abandoned: Vec::new() }
    }

    /// A write has failed for good. If it was the end of a run, the run will not write it again.
    pub(super) fn abandon(&mut self, write: &Write) {
        if let Write::Finish(record) = write
            && let Some(key) = self.keys.remove(&record.lease)
        {
            self.abandoned.push((key, record.lease.id.clone()));
        }
    }

    /// Abandons the rows of runs whose end could not be written, so that they are ended like those of a dead process.
    pub(super) fn release_abandoned(
        &mut self,
        connection: &Connection,
        policy: &RowPolicy,
    ) -> rusqlite::Result<()> {
        while let Some((key, id)) = self.abandoned.last() {
            connection
                .prepare_cached(
                    "UPDATE runs SET orphan = coalesce(orphan, ?4), lease_until = 0
                     WHERE response = ?1 AND instance = ?3
                        AND EXISTS (SELECT 1 FROM responses WHERE key = ?1 AND id = ?2)",
                )?
                .execute(params![key, id.as_str(), policy.instance, END_NOT_STORED])?;
            self.abandoned.pop();
        }
        Ok(())
    }

    /// Deletes a registered run. Returns whether this owner had one that was not deleted yet.
    pub(super) fn delete(&mut self, owner: &Owner, id: &Id) -> bool {
        let was_running = self.runs.delete(id, owner);
        if was_running {
            self.deleted.push(id.clone());
        }
        was_running
    }

    /// Whether a registered run was deleted, so that nothing more of it is stored.
    pub(super) fn is_deleted(&self, id: &Id) -> bool {
        self.runs.is_deleted(id)
    }

    pub(super) fn add(&mut self, lease: &Lease, key: i64) {
        let before = self.keys.insert(lease.clone(), key);
        self.undo.push((lease.clone(), before));
    }

    /// The key of a run's row, if it is known.
    pub(super) fn key(&self, lease: &Lease) -> Option<i64> {
        self.keys.get(lease).copied()
    }

    pub(super) fn remove(&mut self, lease: &Lease) -> Option<i64> {
        let (lease, key) = self.keys.remove_entry(lease)?;
        self.undo.push((lease, Some(key)));
        Some(key)
    }

    pub(super) fn commit(&mut self) {
        self.undo.clear();
        self.deleted.clear();
    }

    pub(super) fn rollback(&mut self) {
        for id in self.deleted.drain(..) {
            self.runs.restore(&id);
        }
        while let Some((lease, before)) = self.undo.pop() {
            match before {
                Some(key) => self.keys.insert(lease, key),
                None => self.keys.remove(&lease),
            };
        }
    }
}
