//! The beginning and the end of something that was too large to be kept.

/// Bytes kept of each.
const EDGE_BYTES: usize = 512;

/// Enough to tell which request an oversized message answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The first bytes, at most 512.
    pub head: Vec<u8>,
    /// The last bytes, at most 512; of a short text they overlap with the first ones.
    pub tail: Vec<u8>,
}

impl Excerpt {
    /// An excerpt of these bytes, to which those that follow them can be added.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut excerpt = Self::default();
        excerpt.add(bytes);
        excerpt
    }

    /// Takes in the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        let room = EDGE_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        let new = bytes.get(bytes.len().saturating_sub(EDGE_BYTES)..).unwrap_or_default();
        let spare = (self.tail.len() + new.len()).saturating_sub(EDGE_BYTES);
        self.tail.drain(..spare.min(self.tail.len()));
        self.tail.extend_from_slice(new);
    }
}
