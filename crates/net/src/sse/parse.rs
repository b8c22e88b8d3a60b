//! One whole block of lines becomes an event: borrowed if it has the plain shape, else parsed by `eventsource-stream`.

use std::borrow::Cow;
use std::convert::Infallible;
use std::iter;

use eventsource_stream::Eventsource;
use futures_util::{FutureExt, StreamExt, stream};

use super::blocks::{Block, field_value};
use super::event::Event;

/// A block of the plain shape: one `data` line that is not empty, at most one `event` line before it, and nothing else.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlainEvent {
    /// Where the value of the `event` line begins; it ends with the first line.
    name: Option<usize>,
    /// Where the data begins; it ends with the block.
    data: usize,
}

impl PlainEvent {
    pub(super) fn find(bytes: &[u8], block: Block) -> Option<Self> {
        let data =
            field_value(bytes.get(block.last_line_start..)?, b"data").filter(|data| !data.is_empty())?;
        let name = match block.lines {
            1 => None,
            2 => Some(field_value(bytes.get(..block.first_line_end)?, b"event")?),
            _ => return None,
        };
        Some(Self {
            name: name.map(|name| block.first_line_end - name.len()),
            data: bytes.len() - data.len(),
        })
    }

    /// The event, from the bytes that it was found in; `None` if they are not UTF-8.
    pub(super) fn read(self, bytes: &[u8], block: Block) -> Option<Event<'_>> {
        let text = |from: usize, to: usize| std::str::from_utf8(bytes.get(from..to)?).ok();
        let name = match self.name {
            None => None,
            Some(start) => Some(text(start, block.first_line_end)?).filter(|name| is_named(name)),
        };
        let data = text(self.data, bytes.len())?;
        Some(Event { name: name.map(Cow::Borrowed), data: Cow::Borrowed(data), id: None, retry: None })
    }
}

/// Parses the lines of a block. Also says how many bytes of them are comments and unknown fields.
///
/// The crate is given one line at a time, as each line costs it a copy of all that it holds behind that line. A blank
/// line comes first, since a block that begins with the bytes of a byte order mark would make it panic; a `data` line
/// comes last, since it would drop an event without one together with its `id`.
pub(super) fn parse(block: &[u8]) -> (Event<'static>, usize) {
    let text = String::from_utf8_lossy(block);
    let mut stray = 0;
    let lines = text.split(LINE_ENDS).filter(|line| {
        let is_known = is_known(line.as_bytes());
        stray += if is_known { 0 } else { line.len() };
        is_known
    });
    // A server that fails in mid-stream may write its error as bare JSON between two events (llama.cpp does); no field
    // of the standard begins with a brace.
    let pieces = lines.flat_map(|line| [if line.starts_with('{') { "data:" } else { "" }, line, "\n"]);
    let pieces = iter::once("\n").chain(pieces).chain(["data\n\n"]);
    let parsed = stream::iter(pieces.map(Ok::<_, Infallible>)).eventsource().next().now_or_never();
    let Some(Some(Ok(mut event))) = parsed else { return (Event::default(), block.len()) };
    // The line feed before the last `data` line.
    event.data.pop();
    let event = Event {
        name: Some(event.event).filter(|name| is_named(name)).map(Cow::Owned),
        data: Cow::Owned(event.data),
        id: Some(event.id).filter(|id| !id.is_empty()),
        retry: event.retry,
    };
    (event, stray)
}

/// Of lines that are not blank: a carriage return with a line feed encloses an empty piece, which is no known field.
const LINE_ENDS: [char; 2] = ['\n', '\r'];

/// `message` is what events without a name are.
fn is_named(name: &str) -> bool {
    !name.is_empty() && name != "message"
}

fn is_known(line: &[u8]) -> bool {
    line.starts_with(b"{")
        || [&b"data"[..], b"event", b"id", b"retry"].into_iter().any(|name| field_value(line, name).is_some())
}
