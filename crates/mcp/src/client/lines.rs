//! Splits bytes into lines. A line that is too long is skipped, and the next can still be read.
//!
//! For stdio, over which the answers of many calls come.

use memchr::memchr;

use antwort_net::sse::Excerpt;

/// Memory that is kept for the next line.
const MAX_IDLE_BUFFER_BYTES: usize = 64 * 1024;

/// Splits bytes at line feeds; a carriage return before one belongs to it.
#[derive(Debug)]
pub(super) struct Lines {
    limit: usize,
    buffer: Vec<u8>,
    /// Where the line to be read begins.
    start: usize,
    /// Bytes before it hold no line feed behind `start`.
    searched: usize,
    skipping: Option<Excerpt>,
}

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Without its end.
    Whole(&'a [u8]),
    /// It was too long.
    Skipped(Excerpt),
}

impl Lines {
    /// Lines of up to `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, buffer: Vec::new(), start: 0, searched: 0, skipping: None }
    }

    /// Takes in the next bytes. Pull all lines before feeding more.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.searched -= self.start.min(self.searched);
        self.start = 0;
        if self.buffer.is_empty() {
            self.buffer.shrink_to(MAX_IDLE_BUFFER_BYTES);
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next line that is whole.
    pub(super) fn next(&mut self) -> Option<Line<'_>> {
        let from = self.searched.max(self.start);
        let found = memchr(b'\n', self.buffer.get(from..).unwrap_or_default()).map(|offset| from + offset);
        let Some(end) = found else {
            self.searched = self.buffer.len();
            self.skip_oversized_line();
            return None;
        };
        let line = self.start..end;
        self.start = end + 1;
        self.searched = end + 1;
        let bytes = self.buffer.get(line).unwrap_or_default();
        if let Some(mut skipped) = self.skipping.take() {
            skipped.add(bytes);
            return Some(Line::Skipped(skipped));
        }
        if bytes.len() > self.limit {
            return Some(Line::Skipped(Excerpt::from_bytes(bytes)));
        }
        Some(Line::Whole(bytes.strip_suffix(b"\r").unwrap_or(bytes)))
    }

    /// Whether the line that is being read is already too long.
    pub(super) fn is_skipping(&self) -> bool {
        self.skipping.is_some()
    }

    fn skip_oversized_line(&mut self) {
        let unfinished = self.buffer.get(self.start..).unwrap_or_default();
        match &mut self.skipping {
            Some(skipped) => skipped.add(unfinished),
            None if unfinished.len() > self.limit => self.skipping = Some(Excerpt::from_bytes(unfinished)),
            None => return,
        }
        self.buffer.clear();
        self.start = 0;
        self.searched = 0;
    }
}
