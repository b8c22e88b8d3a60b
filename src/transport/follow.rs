//! The stream of a response from the log of its events: all of it again, or from an event on, and on while the run goes on.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_stream::try_stream;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{FutureExt, Stream};

use super::AppState;
use super::access::Authenticated;
use super::error::ErrorResponse;
use super::query::Query;
use super::request_context::RequestContext;
use super::response_budget::ResponseBudget;
use super::sse::{self, Keepalive};
use antwort_engine::{Follower, RESPONSE_DELETED};
use antwort_protocol::dialect::Dialect;
use antwort_protocol::error::ApiError;
use antwort_protocol::event::{EventEncoder, ResponseEvent, StreamEvent};
use antwort_protocol::id::Id;
use antwort_protocol::parse::truncate_for_display;
use antwort_telemetry::request_log::{RequestLog, RequestOutcome, RunStats};

/// Events are read from the log in pieces of this size, unless one is larger.
const PIECE_BYTES: u64 = 64 << 10;

/// `GET /v1/responses/{id}?stream=true`. `None` if there is no such response.
pub(super) async fn retrieve(
    app: &AppState,
    principal: &Authenticated,
    context: &RequestContext,
    id: &str,
    query: &Query,
) -> Result<Option<Response>, ErrorResponse> {
    if query.get("include_obfuscation").is_some() {
        return Err(ErrorResponse(ApiError::unsupported(
            "include_obfuscation",
            "Events are sent again as they were: whether their deltas are padded is decided when the response is created, by \
             'stream_options.include_obfuscation'.",
        )));
    }
    let starting_after = starting_after(query)?;
    let owner = &principal.0.owner;
    let Some(follower) = app.engine.follow(owner, Id::from(id), starting_after).await? else {
        return Ok(None);
    };
    note(&follower, &context.log);
    let budget = ResponseBudget::new(app, principal.requester());
    let stream = frames(None, follower, budget, app.requests.keepalive, Arc::clone(&context.log));
    Ok(Some(sse::event_stream(stream)))
}

/// The number of the event behind which the stream goes on.
fn starting_after(query: &Query) -> Result<Option<u64>, ApiError> {
    let Some(text) = query.get("starting_after") else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        ApiError::invalid(
            "invalid_value",
            "starting_after",
            format!(
                "'starting_after' must be the 'sequence_number' of an event, a whole number from 0 on, and not '{}'.",
                truncate_for_display(text)
            ),
        )
    })
}

/// The stream from its beginning, or the error with which a run is answered that has come to nothing.
pub(super) async fn replay(
    mut follower: Follower,
    budget: ResponseBudget,
    keepalive: Duration,
    log: &Arc<RequestLog>,
) -> Result<Response, ErrorResponse> {
    note(&follower, log);
    let first = next_piece(&mut follower, &budget).await?;
    Ok(sse::event_stream(frames(first, follower, budget, keepalive, Arc::clone(log))))
}

/// Notes in the access log which response is sent.
pub(super) fn note(follower: &Follower, log: &RequestLog) {
    log.update(|facts| {
        let response_id = follower.id.clone();
        facts.run = Some(RunStats { response_id, turns: 0, usage: None, first_delta: None });
    });
}

/// The pieces of a stream from its log, behind the first if that was read already.
fn frames(
    first: Option<Bytes>,
    mut follower: Follower,
    budget: ResponseBudget,
    keepalive: Duration,
    log: Arc<RequestLog>,
) -> impl Stream<Item = io::Result<Bytes>> {
    let mut keepalive = Keepalive::new(keepalive);
    try_stream! {
        if let Some(first) = first {
            yield first;
        }
        loop {
            keepalive.restart();
            let read = {
                let mut next = pin!(next_piece(&mut follower, &budget));
                loop {
                    let read = tokio::select! {
                        biased;
                        read = &mut next => Some(read),
                        () = keepalive.expired() => None,
                    };
                    match read {
                        Some(read) => break read,
                        None => yield Bytes::from_static(sse::KEEPALIVE),
                    }
                }
            };
            match read {
                Ok(Some(piece)) => yield piece,
                Ok(None) => break,
                Err(ErrorResponse(error)) if error.code() == RESPONSE_DELETED => {
                    yield last_error(error, follower.next());
                    break;
                }
                Err(error) => Err(cut(&error, &log))?,
            }
        }
        yield Bytes::from_static(sse::DONE);
    }
}

/// The event that a stream ends with whose response is there no more: it cannot be resumed.
fn last_error(error: ApiError, sequence_number: u64) -> Bytes {
    let event = StreamEvent { sequence_number, event: ResponseEvent::Error { error: error.body } };
    let mut bytes = Vec::new();
    // In this dialect the event has the fields of both.
    EventEncoder { dialect: Dialect::OpenAi, obfuscate: false }.write_sse(&event, &mut bytes);
    bytes.into()
}

/// The connection breaks, so that what the client has does not look whole.
fn cut(error: &ErrorResponse, log: &RequestLog) -> io::Error {
    log.set_outcome(RequestOutcome::Cut);
    tracing::info!(error = %error.0, "closing the stream of a response that was sent before");
    io::Error::other("the events of the response ended early")
}

/// The next events, reserved if they are many; `None` behind the terminal event.
pub(super) async fn next_piece(
    follower: &mut Follower,
    budget: &ResponseBudget,
) -> Result<Option<Bytes>, ErrorResponse> {
    let budget = budget.clone();
    let reserve = move |bytes| budget.clone().reserve(bytes).boxed();
    Ok(follower.next_events(PIECE_BYTES, &reserve).await?)
}
