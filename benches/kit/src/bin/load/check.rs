//! Is an answer whole? Only whole ones count.

use crate::tally::Tally;
use memchr::memmem;
use serde::Deserialize;
use std::time::Instant;

const MARK: &[u8] = b"ENDMARK";

pub(crate) fn check_document(bytes: &[u8], direct: bool) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Document<'a> {
        status: Option<&'a str>,
        object: Option<&'a str>,
    }
    let doc: Document = serde_json::from_slice(bytes).map_err(|e| format!("JSON: {e}"))?;
    if direct && doc.object != Some("chat.completion") {
        return Err(format!("object {:?}", doc.object));
    }
    if !direct && doc.status != Some("completed") {
        return Err(format!("response status {:?}", doc.status));
    }
    memmem::find(bytes, MARK).map(|_| ()).ok_or_else(|| "text is cut short".into())
}

/// What has been seen of one event stream.
#[derive(Default)]
pub(crate) struct Seen {
    last: Option<Instant>,
    deltas: u64,
    marked: bool,
    done: bool,
    failed: Option<String>,
}

impl Seen {
    pub(crate) fn line(
        &mut self,
        line: &[u8],
        direct: bool,
        start: Instant,
        now: Instant,
        tally: &mut Tally,
    ) {
        let Some(data) = line.strip_prefix(b"data:") else { return };
        match self.last.replace(now) {
            None => tally.first_event.saturating_record((now - start).as_micros() as u64),
            Some(last) => tally.gap.saturating_record((now - last).as_micros() as u64),
        }
        let is_done_line = data.trim_ascii() == b"[DONE]";
        if !is_done_line {
            tally.events += 1;
        }
        let has = |needle: &[u8]| memmem::find(data, needle).is_some();
        let delta = if direct { has(b"\"content\":\"word") } else { has(b"\"response.output_text.delta\"") };
        if delta {
            if self.deltas == 0 {
                tally.first_delta.saturating_record((now - start).as_micros() as u64);
            }
            self.deltas += 1;
            tally.deltas += 1;
        } else if direct {
            self.done |= is_done_line;
        } else if has(b"\"response.completed\"") {
            self.done = true;
        } else if self.failed.is_none()
            && (has(b"\"response.failed\"") || has(b"\"error\":{") || has(b"\"error\": {"))
        {
            self.failed = Some(format!("event {}", String::from_utf8_lossy(&data[..data.len().min(160)])));
        }
        self.marked = self.marked || has(MARK);
    }

    pub(crate) fn verdict(self) -> Result<(), String> {
        match self {
            Seen { failed: Some(why), .. } => Err(why),
            Seen { done: false, .. } => Err("no terminal event".into()),
            Seen { marked: false, .. } => Err("text is cut short".into()),
            _ => Ok(()),
        }
    }
}
