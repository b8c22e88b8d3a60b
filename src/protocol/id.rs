//! Identifiers.
//!
//! A response's id is a UUIDv7 in hex after `resp_`, so that ids sort by time and rows are appended. Ids of a
//! response's items derive from its id and a counter: unique, unguessable, and the same in every replay.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};

use serde::{Deserialize, Serialize};
use uuid::{ContextV7, Timestamp, Uuid};

/// Hex digits of a UUID.
const SEED_LEN: usize = 32;

/// An identifier on the wire. Cheap to clone, since every delta event names its item.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Id(Arc<str>);

impl Id {
    /// A fresh, time-ordered identifier such as `msg_0192…`.
    pub fn generate(prefix: &str) -> Self {
        Self(format!("{prefix}_{}", Uuid::now_v7().simple()).into())
    }

    /// Whether an [`IdGenerator`] made it, so that it names a single item. Items that come without an id are given a
    /// shorter one.
    pub fn is_response_scoped(&self) -> bool {
        let digits = self.0.rsplit_once('_').map_or("", |(_, digits)| digits);
        digits.len() > SEED_LEN && digits.bytes().all(|b| b.is_ascii_hexdigit())
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
        Self::from_seed(&Uuid::new_v7(Timestamp::now(&*CONTEXT)).simple().to_string())
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

    /// The response's own identifier.
    pub fn response(&self) -> Id {
        format!("resp_{}", self.seed).into()
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
    use super::{Id, IdGenerator};

    #[test]
    fn ids_of_items_of_responses_are_told_from_those_of_items_without() {
        assert!(IdGenerator::new().next("fc").is_response_scoped());
        assert!(!Id::generate("fc").is_response_scoped());
        assert!(!Id::from("call_0").is_response_scoped());
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
