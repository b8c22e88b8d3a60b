//! Fingerprints of credentials: a hash that identifies them without revealing them.

use reqwest::header::HeaderMap;

use antwort_util::digest::FieldHasher;

/// Starts the fingerprint of credentials; those of different kinds never collide.
pub(super) fn hasher(kind: &str) -> FieldHasher {
    FieldHasher::with_big_endian_lengths().field("antwort mcp credentials").field(kind)
}

/// Adds all headers, independent of their order.
pub(super) fn add_headers(hasher: FieldHasher, headers: &HeaderMap) -> FieldHasher {
    let mut sorted: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    sorted.sort_unstable();
    let hasher = hasher.field((sorted.len() as u64).to_be_bytes());
    sorted.into_iter().fold(hasher, |hasher, (name, value)| hasher.field(name).field(value))
}
