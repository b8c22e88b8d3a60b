//! The status of an item.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};

/// The status of an item. Only hosted items use the values after `Incomplete`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
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

impl<'de> Deserialize<'de> for ItemStatus {
    /// A status that a later version of the API may have is none that stops an item from being read: it counts as
    /// `completed`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
        Ok(match Name::deserialize(deserializer)?.0.as_ref() {
            "in_progress" => Self::InProgress,
            "incomplete" => Self::Incomplete,
            "searching" => Self::Searching,
            "interpreting" => Self::Interpreting,
            "generating" => Self::Generating,
            "calling" => Self::Calling,
            "failed" => Self::Failed,
            _ => Self::Completed,
        })
    }
}
