//! Server-sent events with all their fields. One that is too large is skipped, and the next can still be read.

use super::lines::{Line, Lines, Skipped};

/// Turns bytes into events.
#[derive(Debug)]
pub(super) struct Events {
    limit: usize,
    lines: Lines,
    reading: Event,
    data: Vec<u8>,
    has_data: bool,
    skipped: Option<Skipped>,
    stray: usize,
}

/// An event; one that is empty never comes out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// The `event` field.
    pub name: Option<String>,
    /// The `data` lines, joined by line feeds.
    pub data: Data,
    /// The `id` field.
    pub id: Option<String>,
    /// The `retry` field, in milliseconds.
    pub retry: Option<u64>,
}

/// The data of an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Data {
    /// There is none.
    #[default]
    None,
    /// All of it.
    Text(String),
    /// There was too much.
    Skipped(Skipped),
}

impl Events {
    /// Events of up to `limit` bytes of data.
    pub fn new(limit: usize) -> Self {
        // The name of the field is no part of the message.
        let lines = Lines::new(limit.saturating_add(16));
        Self {
            limit,
            lines,
            reading: Event::default(),
            data: Vec::new(),
            has_data: false,
            skipped: None,
            stray: 0,
        }
    }

    /// Bytes since this was asked last that belong to no message: comments, fields that nobody knows, empty lines.
    pub fn take_stray(&mut self) -> usize {
        std::mem::take(&mut self.stray)
    }

    /// Takes in the next bytes. Pull all events before feeding more.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.lines.feed(bytes);
    }

    /// The next event that is whole.
    pub fn next(&mut self) -> Option<Event> {
        loop {
            let line = match self.lines.next()? {
                Line::Whole(line) => line,
                Line::Skipped(line) => {
                    let skipped = self.skipped.get_or_insert_default();
                    if skipped.head.is_empty() {
                        skipped.head = line.head;
                    }
                    skipped.tail = line.tail;
                    continue;
                }
            };
            if line.is_empty() {
                let event = self.finish();
                if event != Event::default() {
                    return Some(event);
                }
                self.stray += 1;
                continue;
            }
            let (field, value) = match memchr::memchr(b':', line) {
                Some(colon) => line.split_at(colon),
                None => (line, &b""[..]),
            };
            let value = value.strip_prefix(b":").unwrap_or(value);
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match field {
                b"data" => add_data(&mut self.data, &mut self.has_data, &mut self.skipped, value, self.limit),
                b"event" => self.reading.name = Some(String::from_utf8_lossy(value).into_owned()),
                b"id" => self.reading.id = Some(String::from_utf8_lossy(value).into_owned()),
                b"retry" => self.reading.retry = milliseconds(value),
                _ => self.stray += line.len(),
            }
        }
    }

    /// Whether the event that is being read is already too large.
    pub fn is_skipping(&self) -> bool {
        self.skipped.is_some() || self.lines.is_skipping()
    }

    fn finish(&mut self) -> Event {
        let mut event = std::mem::take(&mut self.reading);
        let data = std::mem::take(&mut self.data);
        event.data = match (self.skipped.take(), std::mem::take(&mut self.has_data)) {
            (Some(skipped), _) => Data::Skipped(skipped),
            (None, true) => Data::Text(
                String::from_utf8(data)
                    .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned()),
            ),
            (None, false) => Data::None,
        };
        event
    }
}

fn milliseconds(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn add_data(
    data: &mut Vec<u8>,
    has_data: &mut bool,
    skipped: &mut Option<Skipped>,
    value: &[u8],
    limit: usize,
) {
    if let Some(skipped) = skipped {
        return skipped.add(value);
    }
    if std::mem::replace(has_data, true) {
        data.push(b'\n');
    }
    data.extend_from_slice(value);
    if data.len() > limit {
        *skipped = Some(Skipped::from_bytes(&std::mem::take(data)));
    }
}
