//! The callers that there are, for work that is done for one of them after its request.

use std::fmt::Debug;

use super::Principal;

/// The callers that the configuration in force knows.
pub trait Callers: Debug + Send + Sync {
    /// Whether they are of several tenants.
    fn has_several_tenants(&self) -> bool;

    /// The caller with the key of this hash, as the configuration has it now. Without a hash: the one of this name.
    fn caller(&self, name: &str, key_hash: Option<&[u8; 32]>) -> Option<&Principal>;
}
