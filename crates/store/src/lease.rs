//! Leases: who may write a run.

use antwort_protocol::id::Id;

/// The right to write a run: its response, and how often the run was taken over. A backend refuses the writes of a
/// lease that was taken over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The id of the response.
    pub id: Id,
    /// 1 for the run that began the response; each take-over increments it.
    pub epoch: u32,
}

impl Lease {
    const FIRST_EPOCH: u32 = 1;

    /// The lease of a new run.
    pub fn first(id: Id) -> Self {
        Self { id, epoch: Self::FIRST_EPOCH }
    }

    /// Whether no run had one before, so that the response need not have a row yet.
    pub fn is_first(&self) -> bool {
        self.epoch == Self::FIRST_EPOCH
    }
}
