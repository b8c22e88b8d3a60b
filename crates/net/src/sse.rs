//! Server-sent events, decoded as bytes come in: feed pieces, pull events, no I/O of its own.
//!
//! `BlockSplitter` finds event blocks within a size limit. A block of the plain shape, one `data` line with or without
//! an `event` line before it, is borrowed as it is; the crate `eventsource-stream` parses every other one. What the
//! data means is not known here. `docs/adr/0004-sse-decoder.md` says why it is split so.

mod blocks;
mod event;
mod excerpt;
mod parse;

use memchr::memmem;

use blocks::{Block, BlockSplitter, Split};
pub use event::Event;
pub use excerpt::Excerpt;
use parse::PlainEvent;

/// An event is larger than the decoder was told to accept. No later event can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is larger than {limit} bytes")]
pub struct TooLarge {
    /// The limit, in bytes.
    pub limit: usize,
}

/// Decodes a stream that is one answer: an event that is too large fails all of it, and events without data are left
/// out.
///
/// ```
/// # use antwort_net::sse::Decoder;
/// let mut decoder = Decoder::new(1024);
/// decoder.feed(b"data: one\n\nda");
/// assert_eq!(decoder.next_event().unwrap().unwrap().data, "one");
/// assert_eq!(decoder.next_event().unwrap(), None);
/// decoder.feed(b"ta: two\r\n\r\n");
/// assert_eq!(decoder.next_event().unwrap().unwrap().data, "two");
/// ```
#[derive(Debug)]
pub struct Decoder {
    blocks: BlockSplitter,
    limit: usize,
    failed: bool,
}

impl Decoder {
    /// A decoder that refuses events of more than `limit` bytes, field names included.
    pub fn new(limit: usize) -> Self {
        Self { blocks: BlockSplitter::new(limit), limit, failed: false }
    }

    /// Takes in the next bytes of the stream. Pull all events before feeding more.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.blocks.feed(bytes);
    }

    /// Says that the stream is over. What it left unfinished is given out as a last event: servers are
    /// known to omit the blank line, or even the line feed, behind a final `data: [DONE]`.
    pub fn end(&mut self) {
        self.blocks.finish_input();
    }

    /// The next whole event that has data; `None` when more bytes are needed.
    ///
    /// # Errors
    /// If an event is larger than the limit; from then on always.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, TooLarge> {
        while !self.failed {
            match self.blocks.next_found() {
                Some(Found::Plain(block, plain)) => return Ok(Some(self.blocks.read(block, plain))),
                Some(Found::Parsed(event)) if event.data.is_empty() => {}
                Some(Found::Parsed(event)) => return Ok(Some(*event)),
                Some(Found::Oversized(..)) => self.failed = true,
                None if self.blocks.is_skipping() => self.failed = true,
                None => return Ok(None),
            }
        }
        Err(TooLarge { limit: self.limit })
    }
}

/// Decodes a stream that carries many messages: an event that is too large is skipped, and the next can still be read.
#[derive(Debug)]
pub struct SkippingDecoder(BlockSplitter);

/// What a [`SkippingDecoder`] finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A whole event within the limit.
    Event(Event<'a>),
    /// The event without its data, of which there was too much.
    Oversized(Event<'a>, Excerpt),
}

impl SkippingDecoder {
    /// A decoder that skips events of more than `limit` bytes, field names included.
    pub fn new(limit: usize) -> Self {
        Self(BlockSplitter::new(limit))
    }

    /// Takes in the next bytes of the stream. Pull all events before feeding more.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    /// The next event that has a known field; `None` when more bytes are needed.
    pub fn next_event(&mut self) -> Option<Decoded<'_>> {
        Some(match self.0.next_found()? {
            Found::Plain(block, plain) => Decoded::Event(self.0.read(block, plain)),
            Found::Parsed(event) => Decoded::Event(*event),
            Found::Oversized(event, excerpt) => Decoded::Oversized(*event, excerpt),
        })
    }

    /// Whether the event that is being read is already too large.
    pub fn is_skipping(&self) -> bool {
        self.0.is_skipping()
    }

    /// Bytes since this was asked last that belong to no event: comments, unknown fields, empty lines.
    pub fn take_stray_bytes(&mut self) -> usize {
        std::mem::take(&mut self.0.stray_bytes)
    }
}

/// How many bytes whole events take at the beginning: up to the last blank line.
pub fn end_of_events(bytes: &[u8]) -> usize {
    let ends = [&b"\n\n"[..], b"\n\r\n", b"\r\r"];
    let last = ends.iter().filter_map(|end| Some(memmem::rfind(bytes, end)? + end.len()));
    last.max().unwrap_or(0)
}

/// An event that was found, and not yet borrowed from the buffer.
enum Found {
    Plain(Block, PlainEvent),
    Parsed(Box<Event<'static>>),
    Oversized(Box<Event<'static>>, Excerpt),
}

impl BlockSplitter {
    /// The next block that has a known field.
    fn next_found(&mut self) -> Option<Found> {
        loop {
            let block = match self.next_block()? {
                Split::Block(block) => block,
                Split::Oversized(oversized) => {
                    let (event, stray) = parse::parse(&oversized.fields);
                    self.stray_bytes += stray;
                    return Some(Found::Oversized(Box::new(event), oversized.data));
                }
            };
            if let Some(plain) = PlainEvent::find(self.bytes(block), block) {
                return Some(Found::Plain(block, plain));
            }
            let (event, stray) = parse::parse(self.bytes(block));
            if event != Event::default() {
                self.stray_bytes += stray;
                return Some(Found::Parsed(Box::new(event)));
            }
            self.stray_bytes += self.bytes(block).len();
        }
    }

    fn read(&self, block: Block, plain: PlainEvent) -> Event<'_> {
        let bytes = self.bytes(block);
        // Only bytes that are not UTF-8 are left to the crate here.
        plain.read(bytes, block).unwrap_or_else(|| parse::parse(bytes).0)
    }
}

#[cfg(test)]
mod tests;
