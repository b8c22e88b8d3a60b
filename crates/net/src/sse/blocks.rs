//! Splits a stream into event blocks, which are the lines up to a blank one.
//!
//! Owns line ends, the byte order mark, the size limit and the end of the stream. Every byte is searched once and moved
//! at most twice however the pieces are cut; in steady state nothing is allocated.

use std::ops::Range;

use memchr::memchr2;

use super::excerpt::Excerpt;

const BOM: &[u8] = b"\xEF\xBB\xBF";
/// Memory that an idle splitter may keep for the next piece.
const MAX_IDLE_BUFFER_BYTES: usize = 64 * 1024;
/// Bytes of other lines than `data` that are kept of an oversized event, and of one of them that is unfinished.
const MAX_FIELD_BYTES: usize = 1024;

#[derive(Debug)]
pub(super) struct BlockSplitter {
    limit: usize,
    /// Bytes fed; those before the current block are done with.
    pub(super) buffer: Vec<u8>,
    /// The block being read, as far as its lines are whole.
    current: Block,
    /// Where the line being read begins.
    line: usize,
    /// Bytes before it hold no line end behind `line`.
    searched: usize,
    /// The line before ended in a carriage return: a line feed that follows belongs to it.
    after_cr: bool,
    /// A byte order mark may still come.
    at_start: bool,
    ended: bool,
    /// Set while a block beyond the limit is skipped.
    oversized: Option<OversizedBlock>,
    /// Bytes of blank lines, and of comments before a block.
    pub(super) stray_bytes: usize,
}

/// A block within the buffer. Places count from its start, so that they stay right when the buffer moves.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Block {
    start: usize,
    /// Behind the last line, without its line end.
    end: usize,
    pub(super) lines: usize,
    pub(super) first_line_end: usize,
    pub(super) last_line_start: usize,
}

/// What is kept of a block beyond the limit.
#[derive(Debug, Default)]
pub(super) struct OversizedBlock {
    pub(super) data: Excerpt,
    /// The other lines, as far as there is room.
    pub(super) fields: Vec<u8>,
    /// The beginning of the current line was dropped, and whether it was a `data` line.
    truncated_line: Option<bool>,
}

pub(super) enum Split {
    Block(Block),
    Oversized(OversizedBlock),
}

impl BlockSplitter {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            current: Block::default(),
            line: 0,
            searched: 0,
            after_cr: false,
            at_start: true,
            ended: false,
            oversized: None,
            stray_bytes: 0,
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.forget_read();
        self.buffer.extend_from_slice(bytes);
    }

    /// What is unfinished now counts as finished.
    pub(super) fn finish_input(&mut self) {
        self.ended = true;
    }

    pub(super) fn is_skipping(&self) -> bool {
        self.oversized.is_some()
    }

    /// The lines of a block, without the last line end. Valid until more is fed.
    pub(super) fn bytes(&self, block: Block) -> &[u8] {
        self.buffer.get(block.start..block.start + block.end).unwrap_or_default()
    }

    /// The next block that is whole and not empty.
    pub(super) fn next_block(&mut self) -> Option<Split> {
        if self.at_start && !self.skip_bom() {
            return None;
        }
        while let Some(line) = self.next_line() {
            let is_blank = line.is_empty() && !self.is_line_truncated();
            if !is_blank {
                self.add_line(line);
                continue;
            }
            self.stray_bytes += 1;
            if let Some(split) = self.finish() {
                return Some(split);
            }
        }
        self.check_unfinished_line();
        if self.ended { self.finish() } else { None }
    }

    fn finish(&mut self) -> Option<Split> {
        let block = std::mem::take(&mut self.current);
        match self.oversized.take() {
            Some(oversized) => Some(Split::Oversized(oversized)),
            None => (block.lines > 0).then_some(Split::Block(block)),
        }
    }

    /// Bounds of the next line without its end.
    fn next_line(&mut self) -> Option<Range<usize>> {
        if self.after_cr && self.line < self.buffer.len() {
            self.after_cr = false;
            if self.buffer.get(self.line) == Some(&b'\n') {
                self.line += 1;
            }
        }
        let start = self.line;
        let from = self.searched.max(start);
        let Some(offset) = memchr2(b'\n', b'\r', self.buffer.get(from..)?) else {
            self.searched = self.buffer.len();
            if !self.ended || start == self.searched {
                return None;
            }
            self.line = self.searched;
            return Some(start..self.searched);
        };
        let end = from + offset;
        self.after_cr = self.buffer.get(end) == Some(&b'\r');
        self.line = end + 1;
        self.searched = self.line;
        Some(start..end)
    }

    fn add_line(&mut self, line: Range<usize>) {
        if let Some(oversized) = &mut self.oversized {
            return oversized.add_line(self.buffer.get(line).unwrap_or_default());
        }
        let mut block = self.current;
        if block.lines == 0 {
            block.start = line.start;
            // Heartbeats, which need not end in a blank line, do not pile up to a block.
            if self.buffer.get(line.start) == Some(&b':') && line.len() <= self.limit {
                self.stray_bytes += line.len();
                return;
            }
            block.first_line_end = line.len();
        }
        block.lines += 1;
        block.last_line_start = line.start - block.start;
        block.end = line.end - block.start;
        self.current = block;
        if block.end > self.limit {
            self.skip_current();
        }
    }

    /// From here to the next blank line, nothing is kept but an excerpt.
    fn skip_current(&mut self) {
        let block = std::mem::take(&mut self.current);
        let mut oversized = OversizedBlock::default();
        for line in self.bytes(block).split(|byte| matches!(byte, b'\n' | b'\r')) {
            oversized.add_line(line);
        }
        self.oversized = Some(oversized);
    }

    /// Applies the limit to a line whose end has not come yet.
    fn check_unfinished_line(&mut self) {
        let line = self.line..self.buffer.len();
        if self.oversized.is_none() {
            let start = if self.current.lines == 0 { line.start } else { self.current.start };
            if line.is_empty() || line.end - start <= self.limit {
                return;
            }
            self.skip_current();
        }
        if let Some(oversized) = &mut self.oversized
            && oversized.truncate_line(self.buffer.get(line).unwrap_or_default())
        {
            self.line = self.buffer.len();
        }
    }

    fn is_line_truncated(&self) -> bool {
        self.oversized.as_ref().is_some_and(|oversized| oversized.truncated_line.is_some())
    }

    /// Skips a byte order mark. False while what came could still become one.
    fn skip_bom(&mut self) -> bool {
        if self.buffer.starts_with(BOM) {
            self.line = BOM.len();
        } else if BOM.starts_with(&self.buffer) && !self.ended {
            return false;
        }
        self.at_start = false;
        true
    }

    /// Drops read bytes from the buffer, unless moving what stays would cost more than it frees.
    fn forget_read(&mut self) {
        let read = if self.current.lines == 0 { self.line } else { self.current.start };
        let unread = self.buffer.len() - read;
        if unread > read {
            return;
        }
        self.buffer.drain(..read);
        self.line -= read;
        self.searched = self.searched.saturating_sub(read);
        self.current.start = self.current.start.saturating_sub(read);
        if unread == 0 {
            self.buffer.shrink_to(MAX_IDLE_BUFFER_BYTES);
        }
    }
}

impl OversizedBlock {
    /// Takes in a line, or the rest of one whose beginning was dropped.
    fn add_line(&mut self, line: &[u8]) {
        match self.truncated_line.take() {
            Some(true) => self.data.add(line),
            Some(false) => {}
            None => match field_value(line, b"data") {
                Some(value) => self.data.add(value),
                None if !line.is_empty() && self.fields.len() + line.len() < MAX_FIELD_BYTES => {
                    self.fields.extend_from_slice(line);
                    self.fields.push(b'\n');
                }
                None => {}
            },
        }
    }

    /// Takes in the beginning of a line if it is long enough to be dropped.
    fn truncate_line(&mut self, beginning: &[u8]) -> bool {
        if self.truncated_line.is_none() && beginning.len() <= MAX_FIELD_BYTES {
            return false;
        }
        let is_data = self.truncated_line.unwrap_or_else(|| field_value(beginning, b"data").is_some());
        self.add_line(beginning);
        self.truncated_line = Some(is_data);
        true
    }
}

/// The value of a line if it is the field of this name.
pub(super) fn field_value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    let Some(value) = rest.strip_prefix(b":") else { return rest.is_empty().then_some(rest) };
    Some(value.strip_prefix(b" ").unwrap_or(value))
}
