//! What a response that is being made has done so far, for whoever polls it: the items that are done, as its stream shows
//! them, and the usage of the turns that were committed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::context::EngineParts;
use super::run::SavedRun;
use antwort_identity::Owner;
use antwort_limits::run_on_bytes;
use antwort_protocol::id::Id;
use antwort_protocol::response::Usage;
use antwort_store::{LogKept, LogState, StoreError};

/// Bytes of a log that are read at a time, unless one piece has more.
const PIECE_BYTES: u64 = 256 << 10;

/// A poll looks at so many bytes of a log, from its beginning: items behind them are shown when the response has ended.
const MAX_LOG_BYTES: u64 = 16 << 20;
/// More than the usage has, for which there is `null` in what was stored.
const USAGE_BYTES: u64 = 512;
/// The statuses of a response that is being made. Its object begins with its id, its type, its time and its status.
const RUNNING: [&str; 3] =
    [r#""status":"in_progress""#, r#""status":"queued""#, r#""status":"requires_action""#];
/// The status stands within so many bytes, whatever the id is.
const HEAD_BYTES: usize = 512;

/// [`Engine::response`](crate::Engine::response).
pub(crate) async fn response(
    parts: &EngineParts,
    owner: &Owner,
    id: &str,
    max_bytes: u64,
) -> Result<Option<Arc<str>>, StoreError> {
    let body = parts.store.response(owner, id, max_bytes).await?;
    let Some(body) = body else { return Ok(None) };
    if !is_unfinished(&body) {
        return Ok(Some(body));
    }
    let progress = Progress::read(parts, owner, &Id::from(id), max_bytes).await?;
    let Some(progress) = progress else { return Ok(Some(body)) };
    // Nothing is put together that is not reserved yet.
    let bytes = progress.bytes.saturating_add(body.len() as u64).saturating_add(USAGE_BYTES);
    if progress.bytes > 0 && bytes > max_bytes {
        return Err(StoreError::TooLarge { bytes });
    }
    Ok(Some(progress.put_into(&body).map_or(body, Arc::from)))
}

/// Whether this is the object of a response that is being made.
pub fn is_unfinished(body: &str) -> bool {
    let head = body.get(..HEAD_BYTES).unwrap_or(body);
    RUNNING.iter().any(|status| head.contains(status))
}

struct Progress {
    /// The items that are done, by their place. Those that are too many for the reader are left out.
    items: BTreeMap<u32, String>,
    /// The bytes of all of them, with what stands between them.
    bytes: u64,
    max_bytes: u64,
    usage: Option<Usage>,
}

/// The data of the event that an item ends with.
#[derive(Deserialize)]
struct ItemDone<'a> {
    output_index: u32,
    #[serde(borrow)]
    item: &'a RawValue,
}

/// The parts of a response object that are replaced.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    output: &'a RawValue,
    // Not an option: `null` is a part, too.
    #[serde(borrow)]
    usage: &'a RawValue,
}

impl Progress {
    /// `None` if it does not run, or if its events are not kept.
    async fn read(
        parts: &EngineParts,
        owner: &Owner,
        id: &Id,
        max_bytes: u64,
    ) -> Result<Option<Self>, StoreError> {
        let Some(LogState { is_running: true, log: LogKept::Kept(extent) }) =
            parts.store.log_state(owner, id).await?
        else {
            return Ok(None);
        };
        let mut progress = Self::new(max_bytes);
        let (mut next, mut piece) = (0, PIECE_BYTES);
        let mut left = MAX_LOG_BYTES;
        while next < extent.next && left > 0 {
            match parts.store.logged_events(owner, id, next, piece).await {
                Ok(Some(page)) if page.next > next => {
                    progress.add(&page.bytes);
                    left = left.saturating_sub(page.bytes.len() as u64);
                    next = page.next;
                }
                Ok(_) => break,
                Err(StoreError::TooLarge { bytes })
                    if bytes > piece && bytes <= max_bytes.max(PIECE_BYTES) =>
                {
                    piece = bytes;
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(state) = parts.store.run_state(owner, id).await? {
            let open = || SavedRun::open(&parts.seal, &owner.tenant, &state);
            progress.usage = run_on_bytes(state.len(), open).and_then(|saved| saved.machine.usage());
        }
        Ok(Some(progress))
    }

    fn new(max_bytes: u64) -> Self {
        Self { items: BTreeMap::new(), bytes: 0, max_bytes, usage: None }
    }

    /// Adds the items that end in these events.
    fn add(&mut self, events: &[u8]) {
        let mut lines = events.split(|byte| *byte == b'\n');
        while let Some(line) = lines.next() {
            if line != b"event: response.output_item.done" {
                continue;
            }
            let data = lines.next().and_then(|line| line.strip_prefix(b"data: "));
            if let Some(Ok(done)) = data.map(serde_json::from_slice::<ItemDone<'_>>) {
                let item = done.item.get();
                self.bytes = self.bytes.saturating_add(item.len() as u64 + 1);
                if self.bytes <= self.max_bytes {
                    self.items.insert(done.output_index, item.to_owned());
                }
            }
        }
    }

    /// The object with the items and the usage; `None` if it is none.
    fn put_into(&self, body: &str) -> Option<String> {
        let parts: Parts<'_> = serde_json::from_str(body).ok()?;
        let mut output = String::from("[");
        for (place, item) in self.items.values().enumerate() {
            write!(output, "{}{item}", if place == 0 { "" } else { "," }).ok()?;
        }
        output.push(']');
        let usage = self.usage.as_ref().and_then(|usage| serde_json::to_string(usage).ok());
        let mut changes = vec![(place(body, parts.output), output)];
        changes.extend(usage.map(|usage| (place(body, parts.usage), usage)));
        changes.sort_unstable_by_key(|(place, _)| place.start);
        let (mut whole, mut end) = (String::with_capacity(body.len()), 0);
        for (place, text) in changes {
            whole.push_str(body.get(end..place.start)?);
            whole.push_str(&text);
            end = place.end;
        }
        whole.push_str(body.get(end..)?);
        Some(whole)
    }
}

/// Where a part of a text stands in it.
fn place(text: &str, part: &RawValue) -> Range<usize> {
    let start = part.get().as_ptr().addr().saturating_sub(text.as_ptr().addr());
    start..start + part.get().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn done_items_and_usage_replace_what_was_stored_at_the_begin() {
        let body =
            r#"{"id":"resp_1","status":"in_progress","output":[],"model":"m","usage":null,"store":true}"#;
        let mut progress = Progress::new(u64::MAX);
        progress.add(
            b"event: response.output_item.done\ndata: {\"output_index\":1,\"item\":{\"id\":\"b\"}}\n\n\
              event: response.output_text.delta\ndata: {\"delta\":\"response.output_item.done\"}\n\n\
              event: response.output_item.done\ndata: {\"output_index\":0,\"item\":{\"id\":\"a\"}}\n\n",
        );
        let found = progress.put_into(body).unwrap();
        assert_eq!(
            found,
            r#"{"id":"resp_1","status":"in_progress","output":[{"id":"a"},{"id":"b"}],"model":"m","usage":null,"store":true}"#
        );
        progress.usage = Some(Usage::default());
        let found: serde_json::Value = serde_json::from_str(&progress.put_into(body).unwrap()).unwrap();
        assert_eq!(found["usage"]["total_tokens"], 0);
        assert_eq!(found["store"], true);
    }

    #[test]
    fn items_beyond_the_bytes_that_may_be_read_are_counted_and_not_kept() {
        let mut progress = Progress::new(20);
        let item = "x".repeat(100);
        let event =
            format!("event: response.output_item.done\ndata: {{\"output_index\":0,\"item\":\"{item}\"}}\n\n");
        progress.add(event.as_bytes());
        assert_eq!((progress.items.len(), progress.bytes), (0, 103));
    }

    #[test]
    fn only_a_response_that_is_being_made_is_looked_up() {
        assert!(is_unfinished(
            r#"{"id":"resp_1","object":"response","created_at":1,"status":"queued","output":[]}"#
        ));
        assert!(!is_unfinished(
            r#"{"id":"resp_1","object":"response","created_at":1,"status":"completed","output":[]}"#
        ));
    }
}
