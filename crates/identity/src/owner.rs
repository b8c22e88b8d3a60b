//! The owner of stored rows.

use std::sync::Arc;

/// The owner whose rows an operation may see. Rows of others do not exist for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The tenant; nothing is shared between tenants.
    pub tenant: Arc<str>,
    /// The principal within the tenant.
    pub principal: Arc<str>,
}
