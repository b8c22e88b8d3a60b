//! Server-sent events, decoded as bytes come in: push chunks, pull events, no input or output of its own.
//!
//! Owns framing only: line ends, comments, fields, the size limit. What the data means is not known here.
//! Every byte is looked at once and moved at most twice however the chunks are cut; in steady state nothing
//! is allocated. `docs/adr/0004-own-sse-decoder.md` says why it is ours.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Memory that an idle decoder may keep for the next chunk.
const KEPT: usize = 64 * 1024;

/// One event. Events without data, comments, `id` and `retry` never surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event` field, where there is one.
    pub name: Option<&'a str>,
    /// The `data` lines, joined by line feeds; never empty. Bytes that are no UTF-8 became U+FFFD.
    pub data: Cow<'a, str>,
}

/// A line or an event is larger than the decoder was told to accept. No later event can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is larger than {limit} bytes")]
pub struct TooLarge {
    /// The limit, in bytes.
    pub limit: usize,
}

/// Turns bytes into events.
///
/// ```
/// # use antwort::net::sse::Decoder;
/// let mut decoder = Decoder::new(1024);
/// decoder.feed(b"data: one\n\nda");
/// assert_eq!(decoder.next_event().unwrap().unwrap().data, "one");
/// assert_eq!(decoder.next_event().unwrap(), None);
/// decoder.feed(b"ta: two\r\n\r\n");
/// assert_eq!(decoder.next_event().unwrap().unwrap().data, "two");
/// ```
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// Bytes fed; those before `line` are done with.
    buffer: Vec<u8>,
    /// Where the line to be read begins.
    line: usize,
    /// Bytes before it hold no line end behind `line`.
    searched: usize,
    /// Data lines of the event being read, or of the one last given out.
    data: Vec<u8>,
    name: String,
    state: State,
    /// The line before ended in a carriage return: a line feed that follows belongs to it.
    after_cr: bool,
    ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was read: a byte order mark may come.
    Start,
    Reading,
    /// `data` and `name` were given out and are to be forgotten.
    Given,
    Failed,
}

impl Decoder {
    /// A decoder that refuses lines and events larger than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            line: 0,
            searched: 0,
            data: Vec::new(),
            name: String::new(),
            state: State::Start,
            after_cr: false,
            ended: false,
        }
    }

    /// Takes in the next bytes of the stream. Pull all events before feeding more.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.forget_read();
        self.buffer.extend_from_slice(bytes);
    }

    /// Says that the stream is over. What it left unfinished is given out as a last event: servers are
    /// known to omit the blank line, or even the line feed, behind a final `data: [DONE]`.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// The next whole event of what was fed; `None` when more bytes are needed.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, TooLarge> {
        match self.state {
            State::Failed => return Err(TooLarge { limit: self.limit }),
            State::Start => {
                if !self.skip_bom() {
                    return Ok(None);
                }
            }
            State::Given => {
                self.data.clear();
                self.data.shrink_to(KEPT);
                self.name.clear();
                self.state = State::Reading;
            }
            State::Reading => {}
        }
        let found = self.read_lines();
        let unfinished = if found { 0 } else { self.buffer.len() - self.line };
        if self.data.len() > self.limit || unfinished > self.limit {
            self.state = State::Failed;
            return Err(TooLarge { limit: self.limit });
        }
        if !found {
            return Ok(None);
        }
        self.state = State::Given;
        let name = (!self.name.is_empty()).then_some(self.name.as_str());
        Ok(Some(Event { name, data: String::from_utf8_lossy(&self.data) }))
    }

    /// Reads lines until one completes an event that has data. Whether one did.
    fn read_lines(&mut self) -> bool {
        while let Some((line, next)) = self.next_line() {
            if line.is_empty() {
                self.line = next;
                if !self.data.is_empty() {
                    return true;
                }
                self.name.clear();
                continue;
            }
            self.take_line(line);
            self.line = next;
            if self.data.len() > self.limit {
                return false;
            }
        }
        self.ended && !self.data.is_empty()
    }

    /// Bounds of the next line without its end, and where the one behind it begins.
    fn next_line(&mut self) -> Option<(std::ops::Range<usize>, usize)> {
        if self.after_cr && self.line < self.buffer.len() {
            self.after_cr = false;
            if self.buffer.get(self.line) == Some(&b'\n') {
                self.line += 1;
            }
        }
        let from = self.searched.max(self.line);
        let Some(offset) = memchr2(b'\n', b'\r', self.buffer.get(from..)?) else {
            self.searched = self.buffer.len();
            let rest = self.line..self.buffer.len();
            return (self.ended && !rest.is_empty()).then_some((rest.clone(), rest.end));
        };
        let end = from + offset;
        self.after_cr = self.buffer.get(end) == Some(&b'\r');
        self.searched = end + 1;
        Some((self.line..end, end + 1))
    }

    fn take_line(&mut self, bounds: std::ops::Range<usize>) {
        let Some(line) = self.buffer.get(bounds) else { return };
        let (field, value) = match memchr(b':', line) {
            // A server that fails in mid-stream may write its error as bare JSON between two events
            // (llama.cpp does); no field of the format begins with a brace.
            _ if line.starts_with(b"{") => (&b"data"[..], line),
            Some(colon) => line.split_at(colon),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.push_str(&String::from_utf8_lossy(value));
            }
            _ => {}
        }
    }

    /// Skips a byte order mark. False while what came could still become one.
    fn skip_bom(&mut self) -> bool {
        if self.buffer.starts_with(BOM) {
            self.line = BOM.len();
        } else if BOM.starts_with(&self.buffer) && !self.ended {
            return false;
        }
        self.state = State::Reading;
        true
    }

    /// Drops read bytes from the buffer, unless moving what stays would cost more than it frees.
    fn forget_read(&mut self) {
        let unread = self.buffer.len() - self.line;
        if unread > self.line {
            return;
        }
        self.buffer.drain(..self.line);
        self.searched = self.searched.saturating_sub(self.line);
        self.line = 0;
        if unread == 0 {
            self.buffer.shrink_to(KEPT);
        }
    }
}

#[cfg(test)]
mod tests;
