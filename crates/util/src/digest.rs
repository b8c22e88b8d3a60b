//! SHA-256: of bytes, of length-prefixed fields, and as hex.

use std::fmt::Write;

use aws_lc_rs::digest::{Context, SHA256, digest};

/// The SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    to_array(&digest(&SHA256, bytes))
}

/// The first `length` bytes of the SHA-256 of a text, as hex.
pub fn short_sha256(text: &str, length: usize) -> String {
    hex_encode(sha256(text.as_bytes()).get(..length).unwrap_or_default())
}

/// Lower-case hex.
pub fn hex_encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        _ = write!(text, "{byte:02x}");
    }
    text
}

/// Hashes a sequence of fields, each prefixed with its length as 64 bits, so that different sequences never give the same
/// input. The bytes hashed must not change: fingerprints are stored with approvals and compared across versions.
pub struct FieldHasher {
    context: Context,
    length_prefix: fn(u64) -> [u8; 8],
}

impl Default for FieldHasher {
    fn default() -> Self {
        Self::new()
    }
}

impl FieldHasher {
    /// Without fields yet.
    pub fn new() -> Self {
        Self { context: Context::new(&SHA256), length_prefix: u64::to_le_bytes }
    }

    /// With big-endian lengths, as fingerprints of credentials have always been stored.
    pub fn with_big_endian_lengths() -> Self {
        Self { length_prefix: u64::to_be_bytes, ..Self::new() }
    }

    /// One field.
    #[must_use]
    pub fn field(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.context.update(&(self.length_prefix)(bytes.len() as u64));
        self.context.update(bytes);
        self
    }

    /// An optional field; an absent one differs from an empty one.
    #[must_use]
    pub fn option(self, bytes: Option<impl AsRef<[u8]>>) -> Self {
        match bytes {
            Some(bytes) => self.field(b"+").field(bytes),
            None => self.field(b"-"),
        }
    }

    /// Several fields.
    #[must_use]
    pub fn fields<T: AsRef<[u8]>>(self, fields: impl IntoIterator<Item = T>) -> Self {
        fields.into_iter().fold(self, Self::field)
    }

    /// The hash of all fields.
    pub fn finish(self) -> [u8; 32] {
        to_array(&self.context.finish())
    }
}

fn to_array(digest: &aws_lc_rs::digest::Digest) -> [u8; 32] {
    let mut array = [0; 32];
    array.copy_from_slice(digest.as_ref());
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand: approvals that are stored with such hashes outlive an upgrade.
    #[test]
    fn stored_fingerprints_stay_the_same() {
        let little = [&1_u64.to_le_bytes()[..], b"a", &2_u64.to_le_bytes(), b"bc"].concat();
        assert_eq!(FieldHasher::new().field("a").field("bc").finish(), sha256(&little));
        let big = [&1_u64.to_be_bytes()[..], b"+", &0_u64.to_be_bytes(), &1_u64.to_be_bytes(), b"-"].concat();
        let hasher = FieldHasher::with_big_endian_lengths();
        assert_eq!(hasher.option(Some("")).option(None::<&str>).finish(), sha256(&big));
        assert_eq!(short_sha256("", 4), "e3b0c442");
    }

    #[test]
    fn no_field_runs_into_the_next() {
        let hash = |fields: &[&str]| FieldHasher::new().fields(fields).finish();
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        assert_ne!(hash(&["a"]), hash(&["a", ""]));
    }
}
