//! Collects errors of settings, with their keys.

use url::Url;

use crate::error::Diagnostics;
use crate::file_hashes::FileHashes;
use crate::tree::Tree;

/// Collects errors with their keys.
pub(super) struct Checker<'a> {
    pub tree: &'a Tree,
    pub(crate) diagnostics: &'a mut Diagnostics,
    pub contents: FileHashes,
}

impl Checker<'_> {
    pub(super) fn error(&mut self, path: &[&str], message: impl Into<String>) {
        self.diagnostics.add(self.tree, path, message);
    }

    /// An error about a missing value; omitted if a value of the section was rejected.
    pub(super) fn missing(&mut self, path: &[&str], message: impl Into<String>) {
        if !path.first().is_some_and(|section| self.diagnostics.has_rejected(section)) {
            self.error(path, message);
        }
    }

    /// An error if a limit is 0.
    pub(super) fn require_nonzero(&mut self, path: &[&str], zero: bool) {
        if zero {
            self.error(path, "must be more than 0");
        }
    }
}

/// Parses an http or https URL.
pub(super) fn parse_http(url: &str) -> Option<Url> {
    let url = Url::parse(url).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

/// Whether a URL holds a user or a password. Requests are never sent to such a one.
pub(super) fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}
