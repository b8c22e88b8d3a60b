//! Measures a read before it is made, by the lengths of texts.

use crate::{ReadLimit, StoreError};

/// The size of the items that are about to be read.
pub struct Size {
    bytes: u64,
    limit: ReadLimit,
}

impl Size {
    /// Counts from zero, up to this limit.
    pub fn new(limit: ReadLimit) -> Self {
        Self { bytes: 0, limit }
    }

    /// Adds an item with texts of this length, read so many times. Fails once measuring further is of no use.
    pub fn add(&mut self, text: u64, times: u64) -> Result<(), StoreError> {
        let item = ReadLimit::ITEM_OVERHEAD.saturating_add(text);
        self.bytes = self.bytes.saturating_add(item.saturating_mul(times));
        if self.bytes > self.limit.max_count_bytes { Err(self.too_large()) } else { Ok(()) }
    }

    /// Fails if the total exceeds the limit.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.bytes > self.limit.max_read_bytes { Err(self.too_large()) } else { Ok(()) }
    }

    fn too_large(&self) -> StoreError {
        StoreError::TooLarge { bytes: self.bytes }
    }
}
