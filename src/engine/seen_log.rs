//! Reads what was sent of a run whose process is gone, from the log of its events.

use crate::response::machine::SeenEvent;
use crate::store::{LogKept, LogState, OrphanedRun, Store, StoreError};

/// Bytes of a log that are read at a time, unless one piece has more.
const PIECE_BYTES: u64 = 1 << 20;

/// What was sent of a run behind its state.
pub(super) struct SeenLog {
    pub events: Vec<SeenEvent>,
    /// The number of the event behind the last one that is logged; `None` if the log is not kept.
    pub next: Option<u64>,
}

/// Reads what was logged of a run from this event on.
pub(super) async fn seen(store: &dyn Store, run: &OrphanedRun, from: u64) -> Result<SeenLog, StoreError> {
    let mut seen = SeenLog { events: Vec::new(), next: None };
    let (owner, id) = (&run.owner, &run.lease.id);
    let Some(LogState { log: LogKept::Kept(extent), .. }) = store.log_state(owner, id).await? else {
        return Ok(seen);
    };
    // The log was given up before the state was saved: a stream with a gap must not look whole.
    if extent.next < from {
        return Ok(seen);
    }
    let (mut next, mut max_bytes) = (from, PIECE_BYTES);
    while next < extent.next {
        match store.logged_events(owner, id, next, max_bytes).await {
            Ok(Some(page)) if page.next > next => {
                let events = std::str::from_utf8(&page.bytes).unwrap_or_default();
                let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
                let read = data.filter_map(|data| serde_json::from_str::<SeenEvent>(data).ok());
                seen.events.extend(read.filter(|event| event.sequence_number >= next));
                next = page.next;
            }
            Ok(_) => return Ok(SeenLog { events: Vec::new(), next: None }),
            Err(StoreError::TooLarge { bytes }) => max_bytes = bytes,
            Err(error) => return Err(error),
        }
    }
    seen.next = Some(next);
    Ok(seen)
}
