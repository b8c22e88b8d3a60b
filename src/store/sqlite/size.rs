//! Counts what a read would hold, before it is read. `octet_length` of a column knows a text's length without the text.

use crate::store::{ReadLimit, StoreError};

/// Bytes of items that are about to be read.
pub(super) struct Size {
    bytes: u64,
    limit: ReadLimit,
}

impl Size {
    /// Nothing yet.
    pub(super) fn new(limit: ReadLimit) -> Self {
        Self { bytes: 0, limit }
    }

    /// Adds an item with texts of this length, which is read so many times. Fails where counting any further is of no use.
    pub(super) fn add(&mut self, text: u32, times: u64) -> Result<(), StoreError> {
        let item = ReadLimit::ITEM_OVERHEAD.saturating_add(text.into());
        self.bytes = self.bytes.saturating_add(item.saturating_mul(times));
        if self.bytes > self.limit.max_count_bytes { Err(self.too_large()) } else { Ok(()) }
    }

    /// Fails if all of it is more than may be read.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.bytes > self.limit.max_read_bytes { Err(self.too_large()) } else { Ok(()) }
    }

    fn too_large(&self) -> StoreError {
        StoreError::TooLarge { bytes: self.bytes }
    }
}
