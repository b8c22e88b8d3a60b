//! Identifiers.
//!
//! A response's id is a UUIDv7 in hex after `resp_`, so that ids sort by time and rows are appended. Ids of a
//! response's items derive from its id and a counter: unique, unguessable, and the same in every replay.

use std::fmt;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::{ContextV7, Timestamp, Uuid};

/// Hex digits of a UUID.
const SEED_LEN: usize = 32;

/// The number of a response's first input item. Its output has fewer items.
const FIRST_INPUT: u32 = 0x1_0000;

/// Where the version stands among the digits of a UUID.
const VERSION_DIGIT: usize = 12;

/// An identifier on the wire. Cheap to clone, since every delta event names its item.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Id(Arc<str>);

impl Id {
    /// A fresh, time-ordered identifier such as `msg_0192…`.
    pub fn generate(prefix: &str) -> Self {
        Self(format!("{prefix}_{}", Uuid::now_v7().simple()).into())
    }

    /// An id for an item that came without one. It is unique, but says nothing of its response, which is not known yet:
    /// [`IdGenerator::name_input`] replaces it.
    pub fn unnamed(prefix: &str) -> Self {
        // Version 8 is for those who make their own: no other id of the gateway has it.
        let mut digits = Uuid::now_v7().simple().to_string();
        digits.replace_range(VERSION_DIGIT..=VERSION_DIGIT, "8");
        Self(format!("{prefix}_{digits}").into())
    }

    /// Whether it stands for an id that is yet to be given.
    pub fn is_unnamed(&self) -> bool {
        let digits = self.0.rsplit_once('_').map_or("", |(_, digits)| digits).as_bytes();
        digits.len() == SEED_LEN
            && digits.get(VERSION_DIGIT) == Some(&b'8')
            && digits.iter().all(u8::is_ascii_hexdigit)
    }

    /// Whether an [`IdGenerator`] made it, so that it names a single item. Items that come without an id have a
    /// shorter one until their response is known.
    pub fn is_response_scoped(&self) -> bool {
        let digits = self.0.rsplit_once('_').map_or("", |(_, digits)| digits);
        digits.len() > SEED_LEN && digits.bytes().all(|b| b.is_ascii_hexdigit())
    }

    /// The response whose [`IdGenerator`] made it; `None` if none did.
    pub fn of_response(&self) -> Option<Self> {
        let (_, digits) = self.0.rsplit_once('_').filter(|_| self.is_response_scoped())?;
        Some(format!("resp_{}", digits.get(..SEED_LEN)?).into())
    }

    /// The identifier as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Id {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether an id is one that the gateway made for a conversation.
pub fn is_conversation_id(id: &str) -> bool {
    id.strip_prefix("conv_")
        .is_some_and(|hex| hex.len() == SEED_LEN && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Generates the identifiers of one response: its own, and those of its items.
#[derive(Debug, Clone)]
pub struct IdGenerator {
    seed: Arc<str>,
    next: u32,
}

impl IdGenerator {
    /// Identifiers of a new response.
    pub fn new() -> Self {
        // With the part of a millisecond: stores make keys of the id, which sort as the ids do.
        static CONTEXT: LazyLock<Mutex<ContextV7>> =
            LazyLock::new(|| Mutex::new(ContextV7::new().with_additional_precision()));
        Self::from_seed(&Uuid::new_v7(Timestamp::now(&*CONTEXT.lock())).simple().to_string())
    }

    /// Identifiers with a given seed, for tests.
    pub fn from_seed(seed: &str) -> Self {
        Self { seed: seed.into(), next: 0 }
    }

    /// Further identifiers of a response that was begun by another process, from this number on.
    pub fn resume(response: &Id, next: u32) -> Self {
        let seed = response.as_str().strip_prefix("resp_").unwrap_or(response.as_str());
        Self { next, ..Self::from_seed(seed) }
    }

    /// The number of the next identifier.
    pub fn position(&self) -> u32 {
        self.next
    }

    /// Notes an identifier of this response that was given before, so that it is not given again.
    pub fn note(&mut self, id: &str) {
        let digits = id.rsplit_once('_').map_or("", |(_, digits)| digits);
        let number = digits.strip_prefix(&*self.seed).and_then(|number| u32::from_str_radix(number, 16).ok());
        // Those of input items lie above.
        if let Some(number) = number.filter(|number| *number < FIRST_INPUT) {
            self.next = self.next.max(number + 1);
        }
    }

    /// The response's own identifier.
    pub fn response(&self) -> Id {
        format!("resp_{}", self.seed).into()
    }

    /// The identifier of an input item of the response at this place, which replaces that of an item without one;
    /// `None` if the item came with an id, which it keeps.
    pub fn name_input(&self, place: usize, id: &Id) -> Option<Id> {
        let (prefix, _) = id.0.rsplit_once('_').filter(|_| id.is_unnamed())?;
        let number = u32::try_from(place).ok()?.checked_add(FIRST_INPUT)?;
        Some(format!("{prefix}_{}{number:04x}", self.seed).into())
    }

    /// Another identifier for an input item at this place whose own is taken.
    pub fn rename_input(&self, place: usize, id: &Id) -> Id {
        let prefix = id.0.rsplit_once('_').map_or("item", |(prefix, _)| prefix);
        let number = u32::try_from(place).unwrap_or(u32::MAX).saturating_add(FIRST_INPUT);
        format!("{prefix}_{}{number:04x}", self.seed).into()
    }

    /// The next identifier with this prefix, for an item or a call of the response.
    pub fn next(&mut self, prefix: &str) -> Id {
        let number = self.next;
        self.next += 1;
        format!("{prefix}_{}{number:04x}", self.seed).into()
    }
}

impl Default for IdGenerator {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Id, IdGenerator, is_conversation_id};

    #[test]
    fn ids_of_items_of_responses_are_told_from_those_of_items_without() {
        let mut ids = IdGenerator::new();
        let item = ids.next("fc");
        assert!(item.is_response_scoped());
        assert_eq!((item.of_response(), ids.response().of_response()), (Some(ids.response()), None));
        assert!(!Id::generate("fc").is_response_scoped());
        assert!(!Id::from("call_0").is_response_scoped());
    }

    #[test]
    fn ids_of_conversations_are_told_from_those_of_responses() {
        assert!(is_conversation_id(Id::generate("conv").as_str()));
        for id in ["conv_1", "", "conv_", IdGenerator::new().response().as_str()] {
            assert!(!is_conversation_id(id), "{id}");
        }
    }

    #[test]
    fn an_input_item_without_an_id_is_named_by_its_response_and_others_keep_theirs() {
        let ids = IdGenerator::new();
        let named = ids.name_input(3, &Id::unnamed("msg")).unwrap();
        let seed = ids.response().as_str().trim_start_matches("resp_").to_owned();
        assert_eq!(named.as_str(), format!("msg_{seed}10003"));
        assert!(named.is_response_scoped());
        for id in [named, Id::generate("msg"), "msg_".into(), "".into(), "my-own".into(), ids.response()] {
            assert_eq!(ids.name_input(0, &id), None, "{id}");
        }
    }

    #[test]
    fn ids_of_one_response_differ_and_repeat_for_the_same_seed() {
        let (mut a, mut b) = (IdGenerator::from_seed("00ff"), IdGenerator::from_seed("00ff"));
        assert_eq!(a.response().as_str(), "resp_00ff");
        let first = a.next("msg");
        assert_eq!(first.as_str(), "msg_00ff0000");
        assert_ne!(first, a.next("msg"));
        assert_eq!(first, b.next("msg"));
    }
}
