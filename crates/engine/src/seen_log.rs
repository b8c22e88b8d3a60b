//! Reads what was sent of a run whose process is gone, from the log of its events.

use antwort_protocol::a2a::A2aToolCall;
use antwort_response::machine::SeenEvent;
use antwort_store::{LogKept, LogState, OrphanedRun, Store, StoreError};
use antwort_telemetry::fields::RESPONSE_ID;

/// Bytes of a log that are read at a time, unless one piece has more.
const PIECE_BYTES: u64 = 1 << 20;

/// What was sent of a run behind its state.
#[derive(Default)]
pub(super) struct SeenLog {
    pub events: Vec<SeenEvent>,
    /// The number of the event behind the last one that is logged; `None` if the log is not kept.
    pub next: Option<u64>,
}

/// How many of these events are reports of progress.
pub(super) fn progress_events(seen: &[SeenEvent]) -> u64 {
    seen.iter().filter(|event| event.is_progress()).count() as u64
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
                let read = match read_events(&page.bytes) {
                    Ok(read) => read,
                    // Items behind a missing event would be in other places than clients saw them: as with a gap, the log
                    // is given up.
                    Err(error) => {
                        tracing::warn!({ RESPONSE_ID } = id.as_str(), %error, "the logged events of a response cannot be read");
                        return Ok(SeenLog { events: Vec::new(), next: None });
                    }
                };
                seen.events.extend(read.into_iter().filter(|event| event.sequence_number >= next));
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

/// The events of a page, which are encoded as they were sent.
fn read_events(page: &[u8]) -> Result<Vec<SeenEvent>, serde_json::Error> {
    let mut events = Vec::new();
    // Only the frame of an event whose data has no number says it.
    let mut number = None;
    for line in page.split(|byte| *byte == b'\n') {
        if let Some(id) = line.strip_prefix(b"id: ") {
            number = Some(serde_json::from_slice(id)?);
        } else if let Some(data) = line.strip_prefix(b"data: ") {
            events.push(match number.take() {
                Some(number) => SeenEvent::a2a_question(number, A2aToolCall::call_id(data)?),
                None => serde_json::from_slice(data)?,
            });
        }
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event that could not be read was left out, and the items behind it with it; a page that is not UTF-8 was empty.
    #[test]
    fn a_page_with_an_unreadable_event_is_not_read_in_part() {
        let delta = |n: usize| {
            let event = "response.output_text.delta";
            format!(
                "event: {event}\ndata: {{\"type\":\"{event}\",\"sequence_number\":{n},\"delta\":\"\u{2028}\"}}\n\n"
            )
        };
        let read = |page: &[u8]| read_events(page).map(|events| events.len()).ok();
        let page = [delta(3), delta(4), delta(5)].concat().into_bytes();
        assert_eq!(read(&page), Some(3));
        let question = "event: input-required\nid: 6\ndata: {\"taskId\":\"r\",\"inputId\":\"call_1\",\"type\":\"tool-call\"}\n\n";
        let with_question = read_events(&[&page, question.as_bytes()].concat()).unwrap();
        assert!(with_question[3].asks("call_1") && with_question[3].sequence_number == 6);
        assert_eq!(read(b""), Some(0));
        let in_text = page.len() - 6;
        assert_eq!(read(&page[..in_text]), None, "the last event is cut off");
        let mut foreign = page;
        foreign[in_text] = 0xff;
        assert_eq!(read(&foreign), None, "not UTF-8");
    }
}
