//! The keys of responses: the UUID of an id, which begins with its time.
//!
//! Ids of another form, as imports and tests have them, have a key that is no time and precedes all others: zeros, and
//! a part of the SHA-256 of the id. Only their rows hold the id beside the key.

use aws_lc_rs::digest::{SHA256, digest};
use uuid::Uuid;

use super::error::corrupt;
use antwort_protocol::id::Id;
use antwort_store::StoreError;
use antwort_store::item_names::UUID_DIGITS;

/// The bits of a UUIDv7 that are its time in milliseconds.
const TIME_BITS: u32 = 48;

/// The first bits of a key that is no time are zeros; no time is so early.
const ZERO_BITS: u32 = 32;

/// The key of a response, and its id if the key does not tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResponseKey<'a> {
    pub uuid: Uuid,
    /// The column `id`.
    pub id: Option<&'a [u8]>,
}

impl<'a> ResponseKey<'a> {
    pub(super) fn of(id: &'a str) -> Self {
        match of_uuid(id) {
            Some(uuid) => Self { uuid, id: None },
            None => Self { uuid: of_other(id), id: Some(id.as_bytes()) },
        }
    }
}

/// The id of a row.
pub(super) fn id_of(key: Uuid, id: Option<&[u8]>) -> Result<Id, StoreError> {
    match id {
        None => Ok(Id::from(format!("resp_{}", key.simple()))),
        Some(id) => std::str::from_utf8(id).map(Id::from).map_err(corrupt),
    }
}

/// No response that was made at this time (Unix milliseconds) or later has a lower key.
pub(super) fn lowest_at(time: i64) -> Uuid {
    let time = u128::try_from(time).unwrap_or(0).clamp(1 << (TIME_BITS - ZERO_BITS), (1 << TIME_BITS) - 1);
    Uuid::from_u128(time << (128 - TIME_BITS))
}

fn of_uuid(id: &str) -> Option<Uuid> {
    let digits = id.strip_prefix("resp_").filter(|digits| digits.len() == UUID_DIGITS)?;
    let is_lower = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    let uuid = Uuid::try_parse_ascii(digits.as_bytes()).ok().filter(|_| digits.bytes().all(is_lower))?;
    (uuid.get_version_num() == 7 && !is_other(uuid)).then_some(uuid)
}

/// Whether a key is no time.
fn is_other(key: Uuid) -> bool {
    key.as_u128() >> (128 - ZERO_BITS) == 0
}

fn of_other(id: &str) -> Uuid {
    let hash = digest(&SHA256, id.as_bytes());
    let hash = hash.as_ref().first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
    Uuid::from_u128(hash >> ZERO_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use antwort_protocol::id::IdGenerator;

    #[test]
    fn the_key_of_an_id_of_the_gateway_tells_the_id() {
        let id = IdGenerator::new().response();
        let key = ResponseKey::of(id.as_str());
        assert_eq!(key.id, None);
        assert_eq!(id_of(key.uuid, None).unwrap(), id);
    }

    #[test]
    fn an_id_of_another_form_stands_in_its_row_and_precedes_all_times() {
        let all = [
            "",
            "resp_1",
            "a\0b",
            "resp_0193F1B2C3D47E5F8A9B0C1D2E3F4A5B",
            "resp_ffffffffffff4fffffffffffffffffff",
            "resp_00000000ffff7fffffffffffffffffff",
        ];
        for id in all {
            let key = ResponseKey::of(id);
            assert_eq!(id_of(key.uuid, key.id).unwrap().as_str(), id);
            assert!(key.id.is_some() && key.uuid < lowest_at(i64::MIN), "{id}");
        }
    }

    #[test]
    fn a_key_begins_with_the_time_of_its_id() {
        // 2026-11-23T12:00:00Z
        let time = 1_795_435_200_000_i64;
        let key = ResponseKey::of(&format!("resp_{time:012x}7fff8000000000000000")).uuid;
        assert!(key >= lowest_at(time) && key < lowest_at(time + 1));
        assert!(lowest_at(i64::MAX) > key);
    }
}
