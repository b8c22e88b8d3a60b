//! A page of a log as its followers have it.

use bytes::Bytes;

use antwort_store::LogPage;

/// Events of a log, one behind the other.
#[derive(Debug, Clone)]
pub(super) struct FollowedPage {
    pub bytes: Bytes,
    pub first: u64,
    pub next: u64,
    pub is_end: bool,
    pub replaced_from: Option<u64>,
    /// Whether the log was just read, and the run was one of this process then.
    pub(crate) is_own_run: bool,
}

impl From<LogPage> for FollowedPage {
    fn from(page: LogPage) -> Self {
        let LogPage { first, bytes, next, is_end, is_running, is_own, replaced_from } = page;
        Self { bytes: bytes.into(), first, next, is_end, replaced_from, is_own_run: is_own && is_running }
    }
}
