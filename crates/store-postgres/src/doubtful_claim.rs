//! Claims of runs whose outcome is not known.

use std::time::Instant;

use uuid::Uuid;

/// A claim of which nobody was told, and which may have been committed, or may yet be.
pub(super) struct DoubtfulClaim {
    pub claim: Uuid,
    pub since: Instant,
}
