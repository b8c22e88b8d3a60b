//! What leads to a response from its items: the ids that name it, and those that need rows of their own.

use std::collections::BTreeSet;

use super::StateKey;
use super::item_index::{Damaged, entries};

/// Hex digits of a UUID.
pub const UUID_DIGITS: usize = 32;

/// The id of the response that an item's id names, as the gateway makes them: `<prefix>_<the response's 32 digits><a
/// counter>`.
pub fn response_of_item(item: &str) -> Option<String> {
    let (_, digits) = item.rsplit_once('_')?;
    let is_named = digits.len() > UUID_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(format!("resp_{}", digits.get(..UUID_DIGITS).filter(|_| is_named)?))
}

/// When the response of an id was made, in Unix milliseconds, if the gateway made the id.
pub(super) fn made_at(response: &str) -> Option<i64> {
    let digits = response.strip_prefix("resp_").filter(|digits| digits.len() == UUID_DIGITS)?;
    let uuid = u128::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
    i64::try_from(uuid >> 80).ok().filter(|_| (uuid >> 76) & 0xf == 7)
}

/// Whether the id of an item names this response.
pub(super) fn names(item: &str, response: &str) -> bool {
    let digits = response.strip_prefix("resp_").filter(|digits| digits.len() == UUID_DIGITS);
    let of_item = item.rsplit_once('_').map_or("", |(_, digits)| digits);
    digits.is_some_and(|digits| {
        of_item.len() > UUID_DIGITS
            && of_item.starts_with(digits)
            && of_item.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// What leads to a response, by its index of items.
#[derive(Default)]
pub struct ItemNames<'a> {
    /// Ids of items that do not name the response themselves.
    pub ids: BTreeSet<&'a str>,
    /// Keys of the states that are stored beside items.
    pub states: BTreeSet<&'a str>,
}

impl<'a> ItemNames<'a> {
    /// All that lead to this response, whether they need rows or not. Fails if the index is damaged.
    pub fn read(index: &'a [u8], response: &str) -> Result<Self, Damaged> {
        let mut found = Self::default();
        for entry in entries(index)? {
            if !names(entry.id, response) {
                found.ids.insert(entry.id);
            }
            found.states.extend(entry.state.map(|(key, _)| key));
        }
        Ok(found)
    }

    /// Those that need rows. A state is found by the response that the id of its item names, as the item is. Rows of such
    /// states were written once, so that [`ItemNames::read`] has them for what is deleted.
    pub fn to_write(index: &'a [u8], response: &str) -> Self {
        // What this process has written is never damaged.
        let mut found = Self::read(index, response).unwrap_or_default();
        found.states.retain(|key| !names(StateKey::item_of(key), response));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antwort_protocol::id::IdGenerator;

    #[test]
    fn an_items_id_names_its_response_if_the_gateway_made_it() {
        let mut ids = IdGenerator::new();
        let (response, item) = (ids.response(), ids.next("msg"));
        assert!(names(item.as_str(), response.as_str()));
        assert_eq!(response_of_item(item.as_str()).as_deref(), Some(response.as_str()));
        let other = IdGenerator::new().response();
        assert!(!names(item.as_str(), other.as_str()));
        for id in ["msg_1", "call_0", "", "msg_", &"f".repeat(40), &format!("msg_{}", "g".repeat(40))] {
            assert_eq!(response_of_item(id), None, "{id}");
            assert!(!names(id, response.as_str()));
        }
        assert!(!names(response.as_str(), response.as_str()), "it has no counter");
    }
}
