//! The status of items that have none otherwise: `incomplete`, if their inference was abandoned. No other is read or written.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ItemStatus;

pub(in crate::item) fn serialize<S: Serializer>(_: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    ItemStatus::Incomplete.serialize(serializer)
}

pub(in crate::item) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<ItemStatus>::deserialize(deserializer)? == Some(ItemStatus::Incomplete))
}
