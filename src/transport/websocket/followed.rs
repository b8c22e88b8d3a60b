//! The stream of a run that asks its client: read from the log of its events, as messages.

use bytes::Bytes;
use serde::Deserialize;

use crate::transport::error::ErrorResponse;
use crate::transport::follow::next_piece;
use crate::transport::response_budget::ResponseBudget;
use antwort_engine::Follower;
use antwort_protocol::error::ApiError;
use antwort_protocol::response::ResponseStatus;

/// The stream.
pub(super) struct Followed {
    follower: Follower,
    budget: ResponseBudget,
}

/// Events that were logged together.
pub(super) struct LoggedMessages {
    /// A JSON text for each.
    pub messages: Vec<String>,
    /// The status of the response, if the last event is the terminal event.
    pub status: Option<ResponseStatus>,
}

impl Followed {
    pub(super) fn new(follower: Follower, budget: ResponseBudget) -> Self {
        Self { follower, budget }
    }

    /// The next events; `None` behind the terminal event.
    pub(super) async fn next(&mut self) -> Result<Option<LoggedMessages>, ApiError> {
        let piece =
            next_piece(&mut self.follower, &self.budget).await.map_err(|ErrorResponse(error)| error)?;
        Ok(piece.map(|piece| read(&piece)))
    }
}

fn read(piece: &Bytes) -> LoggedMessages {
    let lines = piece.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data: "));
    let mut events = lines.map(String::from_utf8_lossy).peekable();
    let (mut messages, mut status) = (Vec::new(), None);
    while let Some(event) = events.next() {
        // Over WebSocket a message `error` ends a request that has no response.
        if let Some(failed) = events.next_if(|_| is_error(&event)) {
            status = terminal(&failed);
            messages.push(renumbered(&failed));
            continue;
        }
        status = terminal(&event);
        messages.push(event.into_owned());
    }
    LoggedMessages { messages, status }
}

fn is_error(event: &str) -> bool {
    event.starts_with(r#"{"type":"error","#)
}

/// The status with which an event ends the response.
fn terminal(event: &str) -> Option<ResponseStatus> {
    #[derive(Deserialize)]
    struct Event {
        response: Status,
    }
    #[derive(Deserialize)]
    struct Status {
        status: ResponseStatus,
    }
    let names = ["completed", "incomplete", "failed"];
    let kind = event.strip_prefix(r#"{"type":"response."#)?;
    let ends = names.iter().any(|name| kind.strip_prefix(name).is_some_and(|rest| rest.starts_with('"')));
    let event: Event = serde_json::from_str(event).ok().filter(|_| ends)?;
    Some(event.response.status)
}

/// The event with the number before its own, which was that of the event that is left out.
fn renumbered(event: &str) -> String {
    const NAME: &str = r#""sequence_number":"#;
    let Some((before, rest)) = event.split_once(NAME) else { return event.to_owned() };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, behind) = rest.split_at(digits);
    let number = number.parse::<u64>().unwrap_or_default().saturating_sub(1);
    format!("{before}{NAME}{number}{behind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_response_is_one_message_without_a_gap_before_it() {
        let events = "event: a\ndata: {\"type\":\"response.created\",\"sequence_number\":0}\n\n\
            event: error\ndata: {\"type\":\"error\",\"sequence_number\":1}\n\n\
            event: b\ndata: {\"type\":\"response.failed\",\"sequence_number\":2,\"response\":{\"status\":\"failed\"}}\n\n";
        let LoggedMessages { messages, status } = read(&Bytes::from_static(events.as_bytes()));
        assert_eq!(status, Some(ResponseStatus::Failed));
        assert_eq!(messages.len(), 2);
        assert!(messages[1].starts_with(r#"{"type":"response.failed","sequence_number":1,"#), "{messages:?}");
        assert_eq!(terminal(r#"{"type":"response.completed_not","response":{"status":"failed"}}"#), None);
    }
}
