//! Label values that clients, providers and servers choose: the first ones get a series of their own, the rest is `other`.

use std::collections::HashSet;

use parking_lot::RwLock;

/// The value of all beyond the bound.
pub(super) const OTHER: &str = "other";

/// Known values, up to a maximum.
#[derive(Debug)]
pub(super) struct BoundedLabels {
    known: RwLock<HashSet<Box<str>>>,
    most: usize,
}

impl BoundedLabels {
    pub(super) fn new(most: usize) -> Self {
        Self { known: RwLock::default(), most }
    }

    /// The value itself if it is known, or (with `learn`) can become so.
    pub(super) fn value<'a>(&self, value: &'a str, learn: bool) -> &'a str {
        {
            let known = self.known.read();
            if known.contains(value) {
                return value;
            }
            // The common case of a full set must not take the write lock.
            if !learn || known.len() >= self.most {
                return OTHER;
            }
        }
        let mut known = self.known.write();
        if known.len() < self.most || known.contains(value) {
            known.insert(value.into());
            value
        } else {
            OTHER
        }
    }
}
