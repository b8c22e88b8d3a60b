//! Whether what a caller makes may be stored.

use serde::{Deserialize, Serialize};

/// Whether the responses of a key may be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorePolicy {
    /// As each request says.
    #[default]
    Allow,
    /// A request that does not say `store: false` is refused.
    Refuse,
    /// Nothing is stored, whatever a request says.
    Never,
}
