//! The status of an item.

use serde::{Deserialize, Serialize};

/// The status of an item. Only hosted items use the values after `Incomplete`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ItemStatus {
    InProgress,
    #[default]
    Completed,
    Incomplete,
    Searching,
    Interpreting,
    Generating,
    Calling,
    Failed,
}
