//! Ids that clients may leave out.

use serde::{Deserialize, Deserializer};

use crate::id::Id;

/// The id of an item without one, until the reader of items generates it: only there is the prefix known.
pub(super) fn unset() -> Id {
    Id::from("")
}

/// Reads an id that may be null.
pub(super) fn id_or_unset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(unset))
}
