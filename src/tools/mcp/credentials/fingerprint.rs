//! The fingerprint of credentials: a hash in which no two different ones run into each other.

use aws_lc_rs::digest::{Context, SHA256};
use reqwest::header::HeaderMap;

use super::Fingerprint;

/// Hashes fields, each with its length in front.
pub(super) struct FingerprintBuilder(Context);

impl FingerprintBuilder {
    /// Begins one; those of different kinds are always different.
    pub(super) fn new(kind: &str) -> Self {
        let print = Self(Context::new(&SHA256));
        print.field(b"antwort mcp credentials").field(kind.as_bytes())
    }

    pub(super) fn field(mut self, bytes: &[u8]) -> Self {
        self.0.update(&(bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    /// A field that may not be there, which is something else than an empty one.
    pub(super) fn option(self, bytes: Option<&[u8]>) -> Self {
        match bytes {
            Some(bytes) => self.field(b"+").field(bytes),
            None => self.field(b"-"),
        }
    }

    /// All headers, in whatever order they were said.
    pub(super) fn headers(self, headers: &HeaderMap) -> Self {
        let mut sorted: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        sorted.sort_unstable();
        let counted = self.field(&(sorted.len() as u64).to_be_bytes());
        sorted.into_iter().fold(counted, |print, (name, value)| print.field(name.as_bytes()).field(value))
    }

    pub(super) fn finish(self) -> Fingerprint {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(self.0.finish().as_ref()) {
            *to = *from;
        }
        Fingerprint(bytes)
    }
}
