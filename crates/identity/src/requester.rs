//! Whose shares of a resource a request takes.

use std::sync::Arc;

/// The tenant and key that request a part of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requester {
    /// The tenant.
    pub tenant: Arc<str>,
    /// The name of the key, within the tenant.
    pub key: Arc<str>,
}

impl Requester {
    /// A key of a tenant.
    pub fn new(tenant: &Arc<str>, key: &Arc<str>) -> Self {
        Self { tenant: Arc::clone(tenant), key: Arc::clone(key) }
    }
}
