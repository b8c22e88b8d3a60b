//! One request of a connection, from its message to its terminal event or error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use async_stream::stream;
use axum::http::{HeaderMap, Method};
use bytes::Bytes;
use futures_util::Stream;

use super::envelope::{error_message, with_stream_id};
use super::{UpgradeHost, metered::MessageMemory};
use crate::admission::Permit;
use crate::config::settings::Scope;
use crate::engine::{BatchEvents, ConnectionHistory, EventBatch, EventReader, RunContext, RunHandle};
use crate::protocol::error::ApiError;
use crate::protocol::id::Id;
use crate::protocol::request::{ClientMessage, CreateResponse, MessageContent};
use crate::protocol::response::ResponseStatus;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::request_log::{DeliveryStats, RequestLog, RequestOutcome};
use crate::transport::AppState;
use crate::transport::access::Authenticated;
use crate::transport::body::JsonBody;
use crate::transport::request_context::RequestContext;
use crate::transport::responses;

/// A message that waits for its turn.
pub(super) struct QueuedMessage {
    pub text: Bytes,
    pub memory: MessageMemory,
    pub _queued: QueueEntry,
}

/// Counts a message in the metric of queues until it is dropped.
pub(super) struct QueueEntry(Arc<Metrics>);

impl QueueEntry {
    pub(super) fn new(metrics: &Arc<Metrics>) -> Self {
        metrics.websocket_queued(1);
        Self(Arc::clone(metrics))
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        self.0.websocket_queued(-1);
    }
}

/// What a turn sends.
pub(super) enum TurnOutput {
    /// Messages.
    Messages(Vec<String>),
    /// The last messages.
    Ended(Vec<String>),
    /// The caller may not send requests any more: the last message, and the connection is closed.
    Refused(String),
    /// The run has ended its events early, because the client takes none: the connection breaks.
    Stalled,
}

/// What the turns of a connection share.
pub(super) struct TurnContext {
    pub host: UpgradeHost,
    /// The headers of the handshake, with the caller's credentials.
    pub headers: HeaderMap,
    pub handshake: RequestContext,
    /// The route of the handshake.
    pub route: Box<str>,
    pub history: Arc<ConnectionHistory>,
    /// The client has taken nothing for `server.write_timeout`.
    pub stalled: AtomicBool,
}

/// Makes the response of a message. Dropping it cancels the run.
pub(super) fn turn(context: Arc<TurnContext>, message: QueuedMessage) -> impl Stream<Item = TurnOutput> {
    stream! {
        let app = (context.host.current)();
        let mut log = TurnLog::begin(&context, &app);
        let caller = match authorize(&app, &context.headers, &log).await {
            Ok(caller) => caller,
            Err(error) => {
                yield TurnOutput::Refused(log.refuse(&error, None));
                return;
            }
        };
        let (message, reserved) = match read(&app, &caller, message).await {
            Ok(read) => read,
            Err(error) => {
                yield TurnOutput::Ended(vec![log.refuse(&error, None)]);
                return;
            }
        };
        let ClientMessage { stream_id, previous, content } = message;
        let stream_id = stream_id.as_deref();
        let (request, generate) = match content {
            Ok(MessageContent::Processed) => {
                log.end(204);
                yield TurnOutput::Ended(Vec::new());
                return;
            }
            Ok(MessageContent::Create { request, generate }) => (*request, generate),
            Err(error) => {
                evict(&context, previous.as_deref());
                yield TurnOutput::Ended(vec![log.refuse(&error, stream_id)]);
                return;
            }
        };
        let started = start(&app, &context, &caller, &log, request, generate).await;
        drop(reserved);
        let (mut run, first) = match started {
            Ok(started) => started,
            Err(error) => {
                evict(&context, previous.as_deref());
                yield TurnOutput::Ended(vec![log.refuse(&error, stream_id)]);
                return;
            }
        };
        let mut next = Some(first);
        while let Some(batch) = next {
            let status = batch.terminal.as_ref().map(|response| response.response.status);
            let messages = messages(batch, stream_id);
            log.count(&messages);
            match status {
                None => yield TurnOutput::Messages(messages),
                Some(status) => {
                    if matches!(status, ResponseStatus::Failed | ResponseStatus::Cancelled) {
                        evict(&context, previous.as_deref());
                    }
                    log.end(200);
                    yield TurnOutput::Ended(messages);
                    return;
                }
            }
            next = run.next().await;
        }
        tracing::info!(
            response_id = %run.id,
            "client stalled for longer than server.write_timeout; closing its connection"
        );
        context.stalled.store(true, Ordering::Relaxed);
        yield TurnOutput::Stalled;
    }
}

/// The caller, as the current configuration knows it: a key may have been removed since the handshake.
async fn authorize(app: &AppState, headers: &HeaderMap, log: &TurnLog) -> Result<Authenticated, ApiError> {
    let principal = app.access.auth.authenticate(headers).await?;
    let key = (Arc::clone(&principal.name), Arc::clone(&principal.owner.tenant));
    log.log.update(|facts| facts.key = Some(key));
    principal.require(Scope::ResponsesCreate)?;
    Ok(Authenticated(principal))
}

/// Reads a message; returns the reservation of its bytes, too.
async fn read(
    app: &AppState,
    caller: &Authenticated,
    message: QueuedMessage,
) -> Result<(ClientMessage, Permit), ApiError> {
    let reserved = match message.memory {
        MessageMemory::Reserved(permit) => permit,
        MessageMemory::Held(bytes) => {
            app.services.admission.small_bodies.acquire(&caller.requester(), bytes as u64).await?
        }
    };
    let (body, limits) = (JsonBody { bytes: message.text, reserved }, app.requests.limits);
    body.read(app, caller, move |text| Ok(ClientMessage::parse(text, limits))).await
}

/// Starts the run, and waits for its first events.
async fn start(
    app: &AppState,
    context: &TurnContext,
    caller: &Authenticated,
    log: &TurnLog,
    request: CreateResponse,
    generates: bool,
) -> Result<(RunHandle, EventBatch), ApiError> {
    let request_context = RequestContext {
        request_id: Arc::clone(log.log.request_id()),
        log: Arc::clone(&log.log),
        ..context.handshake.clone()
    };
    let run = RunContext {
        events: EventReader::WebSocket,
        connection: Some(Arc::clone(&context.history)),
        generates,
        ..responses::caller(app, caller, &request_context, &context.headers)?
    };
    let mut run = app.engine.start(request, run).await?;
    let first = run.first().await?;
    Ok((run, first))
}

/// A continuation that has failed cannot be tried again from what the connection keeps.
fn evict(context: &TurnContext, previous: Option<&str>) {
    if let Some(previous) = previous {
        context.history.evict(previous);
    }
}

fn messages(batch: EventBatch, stream_id: Option<&str>) -> Vec<String> {
    match batch.events {
        BatchEvents::Frames(events) => {
            events.into_iter().map(|event| with_stream_id(event, stream_id)).collect()
        }
        _ => Vec::new(),
    }
}

/// The access log line of a request, written when the turn is dropped.
struct TurnLog {
    log: Arc<RequestLog>,
    context: Arc<TurnContext>,
    app: AppState,
    bytes: u64,
    first_byte: Option<Instant>,
    ended: RequestOutcome,
}

impl TurnLog {
    fn begin(context: &Arc<TurnContext>, app: &AppState) -> Self {
        let method = Method::from_bytes(b"WEBSOCKET").unwrap_or_default();
        let log = RequestLog::begin(Id::generate("req").as_str().into(), method);
        log.update(|facts| {
            facts.route = Some(context.route.clone());
            facts.client_address = context.handshake.origin.address;
        });
        let context = Arc::clone(context);
        Self { log, context, app: app.clone(), bytes: 0, first_byte: None, ended: RequestOutcome::ClientGone }
    }

    fn count(&mut self, messages: &[String]) {
        self.bytes += messages.iter().map(|message| message.len() as u64).sum::<u64>();
        self.first_byte.get_or_insert_with(Instant::now);
    }

    /// The turn ends with an error instead of a response. Returns its message.
    fn refuse(&mut self, error: &ApiError, stream_id: Option<&str>) -> String {
        let message = error_message(error, stream_id);
        self.count(std::slice::from_ref(&message));
        self.log.update(|facts| {
            (facts.code, facts.param) = (error.body.code.clone(), error.body.param.clone());
        });
        self.end(error.kind.status());
        message
    }

    fn end(&mut self, status: u16) {
        self.log.update(|facts| facts.status = Some(status));
        self.ended = RequestOutcome::Done;
    }
}

impl Drop for TurnLog {
    fn drop(&mut self) {
        let Self { bytes, first_byte, mut ended, .. } = *self;
        if ended == RequestOutcome::ClientGone && self.context.stalled.load(Ordering::Relaxed) {
            ended = RequestOutcome::TimedOut;
        }
        self.app.metrics.websocket_turn(ended.as_str());
        self.log.set_delivery(DeliveryStats { bytes, first_byte, ended });
    }
}
