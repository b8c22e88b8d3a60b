//! Erasure: deletes all that a tenant, or one owner of it, has stored.

use std::sync::Arc;

use antwort_identity::Owner;

/// Whose data is erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasureTarget {
    /// The tenant.
    pub tenant: Arc<str>,
    /// The principal within the tenant; `None`: all of them.
    pub principal: Option<Arc<str>>,
}

impl ErasureTarget {
    /// Whether the rows of this owner are erased.
    pub fn includes(&self, owner: &Owner) -> bool {
        owner.tenant == self.tenant
            && self.principal.as_ref().is_none_or(|principal| *principal == owner.principal)
    }
}

/// What was erased.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErasedCounts {
    /// Responses, with those that still ran.
    pub responses: u64,
    /// Conversations.
    pub conversations: u64,
}

impl std::ops::AddAssign for ErasedCounts {
    fn add_assign(&mut self, other: Self) {
        self.responses += other.responses;
        self.conversations += other.conversations;
    }
}
