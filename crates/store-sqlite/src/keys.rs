//! The keys of responses: made from their ids, so that a look-up by id needs no index.
//!
//! An id that the gateway made begins with its time. Its key has the milliseconds, the first 8 bits of the part of a
//! millisecond and the last 9 bits of the counter, each of which stands at its place in a UUIDv7. The counter is what
//! tells ids of one moment apart: a process increments its last bits, and the first 63 bits of ids of the same
//! millisecond are often the same.
//!
//! The last 3 bits of a key are a slot. Ids with the same key otherwise, and the same id of several owners, take the next free slot;
//! a look-up compares the id and the owner of all of them. So deleting one hides no other.

use aws_lc_rs::digest::{SHA256, digest};

use antwort_store::item_names::UUID_DIGITS;
use antwort_store::operation::EraseRequest;

/// Bits of a key that are a slot.
const SLOT_BITS: u32 = 3;
/// Bits of the counter.
const COUNT_BITS: u32 = 9;
/// Bits of the part of a millisecond.
const PART_BITS: u32 = 8;
/// Bits of the time: until the year 2248.
const TIME_BITS: u32 = 63 - PART_BITS - COUNT_BITS - SLOT_BITS;

/// The keys that a response of one id may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyRange {
    pub first: i64,
    pub last: i64,
}

impl KeyRange {
    pub(super) fn of(id: &str) -> Self {
        let first = of_uuid(id).unwrap_or_else(|| of_other(id));
        Self { first, last: first | ((1 << SLOT_BITS) - 1) }
    }
}

/// No response that was made at this time (Unix milliseconds) or later has a lower key.
pub(super) fn lowest_at(time: i64) -> i64 {
    time.clamp(0, (1 << TIME_BITS) - 1) << (63 - TIME_BITS)
}

/// Responses with this key or a higher one stay when this is erased.
pub(super) fn before(erased: &EraseRequest) -> i64 {
    lowest_at(erased.at.saturating_add(1))
}

/// Keys of ids that name no time are negative. The lowest is none, as a walk begins behind it.
pub(super) const BEFORE_ALL: i64 = i64::MIN;

fn of_uuid(id: &str) -> Option<i64> {
    let digits = id.strip_prefix("resp_").filter(|digits| digits.len() == UUID_DIGITS)?;
    let uuid = u128::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
    let version = (uuid >> 76) & 0xf;
    let (time, part, count) = (uuid >> 80, uuid >> 68, uuid >> 32);
    if version != 7 || time >> TIME_BITS != 0 {
        return None;
    }
    let part = part & ((1 << PART_BITS) - 1);
    let count = count & ((1 << COUNT_BITS) - 1);
    i64::try_from(((((time << PART_BITS) | part) << COUNT_BITS) | count) << SLOT_BITS).ok()
}

/// Ids of another form, as imports and tests have them.
fn of_other(id: &str) -> i64 {
    let hash = digest(&SHA256, id.as_bytes());
    let hash = hash.as_ref().first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
    // The lowest key is no row's.
    let hash = (hash | i64::MIN) >> SLOT_BITS << SLOT_BITS;
    hash.max(BEFORE_ALL + (1 << SLOT_BITS))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use antwort_protocol::id::IdGenerator;

    #[test]
    fn keys_of_ids_that_are_made_one_after_another_ascend_and_do_not_overlap() {
        let mut last = KeyRange { first: 0, last: 0 };
        for _ in 0..300 {
            let id = IdGenerator::new().response();
            let keys = KeyRange::of(id.as_str());
            assert!(keys.first > last.last, "{id}");
            assert_eq!(keys.last - keys.first, 7);
            last = keys;
            let made = Instant::now();
            while made.elapsed() < Duration::from_micros(20) {}
        }
    }

    #[test]
    fn a_key_begins_with_the_time_of_its_id() {
        // 2026-11-23T12:00:00Z
        let time = 1_795_435_200_000_i64;
        let id = format!("resp_{time:012x}7fff8000000000000000");
        let keys = KeyRange::of(&id);
        assert!(keys.first >= lowest_at(time) && keys.last < lowest_at(time + 1), "{keys:?}");
        assert_eq!(lowest_at(-1), 0);
        assert!(lowest_at(i64::MAX) > keys.last);
    }

    #[test]
    fn an_id_of_another_form_has_a_key_that_is_no_time() {
        for id in [
            "",
            "resp_1",
            "x",
            "resp_+1234567890123456789012345678901",
            "resp_ffffffffffff7fffffffffffffffffff",
        ] {
            let keys = KeyRange::of(id);
            assert!(BEFORE_ALL < keys.first && keys.last < 0, "{id}: {keys:?}");
        }
    }
}
