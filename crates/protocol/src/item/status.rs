//! The status of an item.

use serde::{Deserialize, Serialize};

/// The status of an item. Only hosted items use the values after `Incomplete`. One that a later version of the API may have is
/// none that stops an item from being read: it counts as `completed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ItemStatus {
    InProgress,
    Incomplete,
    Searching,
    Interpreting,
    Generating,
    Calling,
    Failed,
    #[default]
    #[serde(other)]
    Completed,
}
