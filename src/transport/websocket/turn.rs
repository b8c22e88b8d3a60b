//! One request of a connection, from its message to its terminal event or error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use async_stream::stream;
use axum::http::{HeaderMap, Method};
use bytes::Bytes;
use futures_util::Stream;
use parking_lot::Mutex;

use super::envelope::{error_message, with_stream_id};
use super::followed::{Followed, LoggedMessages};
use super::{UpgradeHost, metered::MessageMemory};
use crate::transport::AppState;
use crate::transport::access::Authenticated;
use crate::transport::body::JsonBody;
use crate::transport::names_header;
use crate::transport::request_context::RequestContext;
use crate::transport::response_budget::ResponseBudget;
use crate::transport::responses;
use antwort_engine::{BatchEvents, ConnectionHistory, EventBatch, EventReader, Keyed, RunContext, RunHandle};
use antwort_identity::Scope;
use antwort_limits::Permit;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_protocol::request::{ClientMessage, CreateMessage, CreateResponse, MessageContent, SessionTool};
use antwort_protocol::response::ResponseStatus;
use antwort_telemetry::metrics::Metrics;
use antwort_telemetry::request_log::{DeliveryStats, RequestLog, RequestOutcome};

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
    /// The response that was begun last, to which answers are given.
    pub response: Mutex<Option<Id>>,
    /// The functions that the client has declared for its connection.
    pub tools: Mutex<Arc<[SessionTool]>>,
    /// The client has taken nothing for `server.write_timeout`.
    pub stalled: AtomicBool,
}

/// Makes the response of a message. Dropping it cancels the run.
pub(super) fn turn(context: Arc<TurnContext>, message: QueuedMessage) -> impl Stream<Item = TurnOutput> {
    stream! {
        let app = (context.host.current)();
        let mut log = TurnLog::begin(&context, &app);
        let caller = match log.authorize(&context.headers).await {
            Ok(caller) => caller,
            Err(error) => {
                yield TurnOutput::Refused(log.refuse(&error, None));
                return;
            }
        };
        let tools = Arc::clone(&context.tools.lock());
        let (message, reserved) = match read(&app, &caller, message, tools).await {
            Ok(read) => read,
            Err(error) => {
                yield TurnOutput::Ended(vec![log.refuse(&error, None)]);
                return;
            }
        };
        let ClientMessage { stream_id, previous, content } = message;
        let stream_id = stream_id.as_deref();
        let create = match content {
            Ok(MessageContent::Processed) => {
                log.end(204);
                yield TurnOutput::Ended(Vec::new());
                return;
            }
            Ok(MessageContent::Create(create)) => *create,
            // These do not wait for their turn.
            Ok(MessageContent::Input(_)) => {
                yield TurnOutput::Ended(vec![log.refuse(&ApiError::internal(), stream_id)]);
                return;
            }
            Err(error) => {
                evict(&context, previous.as_deref());
                yield TurnOutput::Ended(vec![log.refuse(&error, stream_id)]);
                return;
            }
        };
        let started = start(&app, &context, &caller, &log, create).await;
        drop(reserved);
        let mut events = match started {
            Ok(events) => events,
            Err(error) => {
                evict(&context, previous.as_deref());
                yield TurnOutput::Ended(vec![log.refuse(&error, stream_id)]);
                return;
            }
        };
        loop {
            let (messages, status) = match events.next(stream_id).await {
                Ok(Some((messages, status))) => (messages, status),
                Ok(None) => break,
                // What was logged cannot be read any more.
                Err(error) => {
                    yield TurnOutput::Ended(vec![log.refuse(&error, stream_id)]);
                    return;
                }
            };
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
        }
        tracing::info!(
            "client stalled for longer than server.write_timeout; closing its connection"
        );
        context.stalled.store(true, Ordering::Relaxed);
        yield TurnOutput::Stalled;
    }
}

/// The caller, as the current configuration knows it: a key may have been removed since the handshake.
pub(super) async fn authorize(app: &AppState, headers: &HeaderMap) -> Result<Authenticated, ApiError> {
    let principal = app.access.auth.authenticate(headers).await?;
    principal.require(Scope::ResponsesCreate)?;
    Ok(Authenticated(principal))
}

/// Reads a message; returns the reservation of its bytes, too. `tools` are those of the connection.
pub(super) async fn read(
    app: &AppState,
    caller: &Authenticated,
    message: QueuedMessage,
    tools: Arc<[SessionTool]>,
) -> Result<(ClientMessage, Permit), ApiError> {
    let reserved = match message.memory {
        MessageMemory::Reserved(permit) => permit,
        MessageMemory::Held(bytes) => {
            app.services.admission.small_bodies.acquire(&caller.requester(), bytes as u64).await?
        }
    };
    let (body, limits) = (JsonBody { bytes: message.text, reserved }, app.requests.limits);
    body.read(app, caller, move |text| Ok(ClientMessage::parse(text, limits, &tools))).await
}

/// Starts the run, and waits for its first events.
async fn start(
    app: &AppState,
    context: &TurnContext,
    caller: &Authenticated,
    log: &TurnLog,
    create: CreateMessage,
) -> Result<TurnEvents, ApiError> {
    let CreateMessage { request, generate: generates, text, tools } = create;
    if let Some(tools) = tools {
        *context.tools.lock() = tools;
    }
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
    let text = text.filter(|_| generates && app.engine.asks_client(&request, run.store));
    if let Some(text) = text {
        return Ok(TurnEvents::Followed(ask(app, context, caller, (request, text), run).await?));
    }
    let mut run = app.engine.start(request, run).await?;
    names_header::log_ignored(log.log.request_id(), &run.ignored);
    *context.response.lock() = Some(run.id.clone());
    let first = run.first().await?;
    Ok(TurnEvents::Run(Box::new(run), Some(first)))
}

/// Queues a run that asks its client, and follows it.
async fn ask(
    app: &AppState,
    context: &TurnContext,
    caller: &Authenticated,
    (request, text): (Box<CreateResponse>, String),
    run: RunContext,
) -> Result<Followed, ApiError> {
    let request_id = run.request_id.clone();
    let Keyed::New(queued) = app.engine.submit(request, text, run, None).await? else {
        return Err(ApiError::internal());
    };
    names_header::log_ignored(&request_id, &queued.ignored);
    *context.response.lock() = Some(queued.id.clone());
    let follower = app.engine.follow(&caller.0.owner, queued.id, None).await?;
    let follower = follower.ok_or_else(ApiError::internal)?;
    Ok(Followed::new(follower, ResponseBudget::new(app, caller.requester())))
}

/// The events of a run.
enum TurnEvents {
    /// Of one that this process makes, with its first events until they are sent.
    Run(Box<RunHandle>, Option<EventBatch>),
    /// Of one that asks its client, and so is read from its log.
    Followed(Followed),
}

impl TurnEvents {
    /// The next events, with the status of the response behind the terminal event; `None` if the client takes none.
    async fn next(
        &mut self,
        stream_id: Option<&str>,
    ) -> Result<Option<(Vec<String>, Option<ResponseStatus>)>, ApiError> {
        let next = match self {
            Self::Run(run, first) => {
                let batch = match first.take() {
                    Some(batch) => Some(batch),
                    None => run.next().await,
                };
                batch.map(|batch| {
                    let status = batch.terminal.as_ref().map(|response| response.response.status);
                    (frames(batch), status)
                })
            }
            Self::Followed(followed) => {
                let logged = followed.next().await?;
                logged.map(|LoggedMessages { messages, status }| (messages, status))
            }
        };
        Ok(next.map(|(events, status)| {
            (events.into_iter().map(|event| with_stream_id(event, stream_id)).collect(), status)
        }))
    }
}

/// A continuation that has failed cannot be tried again from what the connection keeps.
fn evict(context: &TurnContext, previous: Option<&str>) {
    if let Some(previous) = previous {
        context.history.evict(previous);
    }
}

fn frames(batch: EventBatch) -> Vec<String> {
    match batch.events {
        BatchEvents::Frames(events) => events,
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

    /// The caller, whose key is logged.
    async fn authorize(&self, headers: &HeaderMap) -> Result<Authenticated, ApiError> {
        let caller = authorize(&self.app, headers).await?;
        let key = (Arc::clone(&caller.0.name), Arc::clone(&caller.0.owner.tenant));
        self.log.update(|facts| facts.key = Some(key));
        Ok(caller)
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
