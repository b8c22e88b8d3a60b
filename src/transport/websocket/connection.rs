//! The loop of one connection: reads requests, makes their responses one after the other, and closes it in the end.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::HeaderMap;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::UpgradeHost;
use super::answers::answer;
use super::closing::{Closing, End, read_error, too_many, too_old};
use super::metered::Metered;
use super::turn::{QueueEntry, QueuedMessage, TurnContext, TurnOutput, turn};
use crate::transport::request_context::RequestContext;
use crate::transport::response_budget::ResponseBudget;
use antwort_config::settings::WebSocketSettings;
use antwort_engine::ConnectionHistory;
use antwort_identity::Requester;
use antwort_protocol::request::ClientMessage;
use antwort_telemetry::metrics::Metrics;

/// Bytes that are read at a time; longer messages are read into buffers of their own.
const READ_BUFFER: usize = 4 << 10;
/// Bytes that are collected before they are written.
const WRITE_BUFFER: usize = 16 << 10;
/// Messages that are larger than this together reserve their bytes until they are written.
const MAX_UNRESERVED_BYTES: usize = 128 << 10;
/// A buffer that a frame of more than this went through is not kept.
const MAX_KEPT_BUFFER: usize = 16 << 10;
/// How long the client may take to answer a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Answers that wait while another is stored. A turn seldom has so many calls.
const MAX_QUEUED_ANSWERS: usize = 256;
/// A message must arrive at this rate, beyond `server.body_idle_timeout`.
const MIN_RATE: u64 = 16 << 10;

type Socket = WebSocketStream<Metered<TokioIo<Upgraded>>>;

/// An open connection.
pub(super) struct Connection {
    upgraded: Upgraded,
    context: Arc<TurnContext>,
    requester: Requester,
    settings: WebSocketSettings,
}

impl Connection {
    pub(super) fn new(
        upgraded: Upgraded,
        host: UpgradeHost,
        (headers, route): (HeaderMap, Box<str>),
        handshake: RequestContext,
        settings: WebSocketSettings,
        requester: &Requester,
    ) -> Self {
        let history = Arc::new(ConnectionHistory::default());
        let stalled = AtomicBool::new(false);
        let (response, tools) = (Mutex::default(), Mutex::default());
        let context =
            Arc::new(TurnContext { host, headers, handshake, route, history, response, tools, stalled });
        Self { upgraded, context, requester: requester.clone(), settings }
    }

    /// Serves the connection to its end.
    pub(super) async fn serve(self) {
        let Self { upgraded, context, requester, settings } = self;
        let app = (context.host.current)();
        let _open = OpenConnection::new(&app.metrics);
        let admission = Arc::clone(&app.services.admission);
        let stream =
            Metered::new(TokioIo::new(upgraded), admission, requester.clone(), settings.max_frame_bytes);
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(WRITE_BUFFER)
            .max_message_size(Some(settings.max_frame_bytes))
            .max_frame_size(Some(settings.max_frame_bytes));
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        let now = Instant::now();
        let serving = Serving {
            socket,
            budget: ResponseBudget::new(&app, requester),
            body_idle_timeout: app.requests.body_idle_timeout,
            has_large_buffer: false,
            turn: None,
            queue: VecDeque::new(),
            answer: None,
            answers: VecDeque::new(),
            opened: now,
            last_ping: now,
            timer: Box::pin(tokio::time::sleep(settings.ping_interval.min(settings.max_age))),
            is_draining: false,
            metrics: Arc::clone(&app.metrics),
            context: Arc::clone(&context),
            settings,
        };
        tokio::select! {
            biased;
            () = context.host.force_close.cancelled() => {}
            () = serving.run() => {}
        }
    }
}

/// Counts a connection in the metrics until it is dropped.
struct OpenConnection(Arc<Metrics>);

impl OpenConnection {
    fn new(metrics: &Arc<Metrics>) -> Self {
        metrics.websocket_connections(1);
        Self(Arc::clone(metrics))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.websocket_connections(-1);
    }
}

struct Serving {
    socket: Socket,
    context: Arc<TurnContext>,
    budget: ResponseBudget,
    metrics: Arc<Metrics>,
    settings: WebSocketSettings,
    body_idle_timeout: Duration,
    /// A large message was sent, whose buffer the socket keeps.
    has_large_buffer: bool,
    /// The request in progress.
    turn: Option<BoxStream<'static, TurnOutput>>,
    /// Further ones.
    queue: VecDeque<QueuedMessage>,
    /// The answer to the request in progress that is being stored.
    answer: Option<BoxFuture<'static, String>>,
    /// Further ones.
    answers: VecDeque<QueuedMessage>,
    opened: Instant,
    last_ping: Instant,
    timer: Pin<Box<Sleep>>,
    is_draining: bool,
}

/// What happens next on a connection.
enum Event {
    Output(Option<TurnOutput>),
    Answered(String),
    Read(Option<Result<Message, Error>>),
    Timer,
    Draining,
}

impl Serving {
    async fn run(mut self) {
        let end = loop {
            if let Err(end) = self.step().await {
                break end;
            }
        };
        // Cancels the run.
        self.turn = None;
        self.store_answers();
        if let End::Close(closing) = end {
            // A client that does not answer is left.
            _ = tokio::time::timeout(CLOSE_TIMEOUT, self.close(closing)).await;
        }
    }

    /// Stores the answers that were received, whatever becomes of the connection.
    fn store_answers(&mut self) {
        let (first, context) = (self.answer.take(), Arc::clone(&self.context));
        let more = std::mem::take(&mut self.answers);
        if first.is_none() && more.is_empty() {
            return;
        }
        self.context.host.tasks.spawn(async move {
            if let Some(first) = first {
                first.await;
            }
            for message in more {
                answer(Arc::clone(&context), message).await;
            }
        });
    }

    async fn step(&mut self) -> Result<(), End> {
        if self.turn.is_none() && self.opened.elapsed() >= self.settings.max_age {
            return Err(End::Close(too_old()));
        }
        self.start_next();
        if self.turn.is_none() && self.is_draining {
            return Err(End::Close(Closing::new(CloseCode::Away, "the gateway is shutting down")));
        }
        self.release_buffers().await?;
        let draining = &self.context.host.draining;
        let event = tokio::select! {
            output = next_output(&mut self.turn) => Event::Output(output),
            answered = answered(&mut self.answer) => Event::Answered(answered),
            message = self.socket.next() => Event::Read(message),
            () = &mut self.timer => Event::Timer,
            () = draining.cancelled(), if !self.is_draining => Event::Draining,
        };
        match event {
            Event::Output(output) => self.on_output(output).await,
            Event::Answered(message) => {
                self.answer = None;
                self.send(vec![message]).await
            }
            Event::Read(message) => self.on_read(message).await,
            Event::Timer => self.on_timer().await,
            Event::Draining => {
                self.is_draining = true;
                Ok(())
            }
        }
    }

    /// The socket keeps buffers of the largest message, in either direction. It is made anew between messages, when nothing
    /// is in them.
    async fn release_buffers(&mut self) -> Result<(), End> {
        let frames = self.socket.get_ref().frames();
        let is_large = self.has_large_buffer || frames.largest() > MAX_KEPT_BUFFER as u64;
        if !is_large || !frames.is_between_messages() {
            return Ok(());
        }
        // An answer to a ping may wait.
        self.socket.flush().await.map_err(|_| End::Gone)?;
        let (stream, config) = (self.socket.get_mut().take(), *self.socket.get_config());
        self.socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        self.has_large_buffer = false;
        Ok(())
    }

    /// Starts the next request, unless one is in progress. During a shutdown those in the queue are refused by the engine.
    fn start_next(&mut self) {
        if self.answer.is_none()
            && let Some(message) = self.answers.pop_front()
        {
            self.socket.get_mut().on_taken(&message.memory);
            self.answer = Some(answer(Arc::clone(&self.context), message).boxed());
        }
        if self.turn.is_some() {
            return;
        }
        let Some(message) = self.queue.pop_front() else { return };
        self.socket.get_mut().on_taken(&message.memory);
        self.turn = Some(turn(Arc::clone(&self.context), message).boxed());
    }

    async fn on_output(&mut self, output: Option<TurnOutput>) -> Result<(), End> {
        match output {
            Some(TurnOutput::Messages(messages)) => self.send(messages).await,
            Some(TurnOutput::Ended(messages)) => {
                self.turn = None;
                self.send(messages).await
            }
            Some(TurnOutput::Refused(message)) => {
                let closing = Closing::new(CloseCode::Policy, "the request was refused");
                Err(End::Close(Closing { message: Some(message), ..closing }))
            }
            Some(TurnOutput::Stalled) => Err(End::Gone),
            None => {
                self.turn = None;
                Ok(())
            }
        }
    }

    /// Sends messages. Waits while the client does not read, up to `server.write_timeout`, which breaks the connection.
    async fn send(&mut self, messages: Vec<String>) -> Result<(), End> {
        let bytes = messages.iter().map(String::len).sum::<usize>();
        let _reserved = match bytes {
            0..=MAX_UNRESERVED_BYTES => None,
            _ => Some(self.budget.clone().acquire(bytes).await.map_err(|_| End::Gone)?),
        };
        let sent = async {
            for message in messages {
                self.has_large_buffer |= message.len() > MAX_KEPT_BUFFER;
                self.socket.feed(Message::text(message)).await?;
            }
            self.socket.flush().await
        };
        sent.await.map_err(|error: Error| {
            if matches!(&error, Error::Io(error) if error.kind() == io::ErrorKind::TimedOut) {
                self.context.stalled.store(true, Ordering::Relaxed);
            }
            End::Gone
        })
    }

    async fn on_read(&mut self, message: Option<Result<Message, Error>>) -> Result<(), End> {
        match message {
            Some(Ok(Message::Text(text))) => self.enqueue(text.into()),
            Some(Ok(Message::Binary(_))) => {
                Err(End::Close(Closing::new(CloseCode::Unsupported, "messages must be JSON texts")))
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Close(_))) => {
                // Sends the answer to it.
                _ = tokio::time::timeout(CLOSE_TIMEOUT, self.socket.flush()).await;
                Err(End::Gone)
            }
            Some(Ok(Message::Frame(_))) | None => Err(End::Gone),
            Some(Err(error)) => Err(read_error(&error)),
        }
    }

    fn enqueue(&mut self, text: Bytes) -> Result<(), End> {
        let memory = self.socket.get_mut().on_message(text.len());
        let is_answer = ClientMessage::is_input(&text);
        let waiting = self.queue.len() + usize::from(self.turn.is_some());
        let is_full = match is_answer {
            true => self.answers.len() >= MAX_QUEUED_ANSWERS,
            false => waiting > self.settings.max_queued_turns,
        };
        if is_full {
            return Err(End::Close(too_many()));
        }
        let _queued = QueueEntry::new(&self.metrics);
        let queue = if is_answer { &mut self.answers } else { &mut self.queue };
        queue.push_back(QueuedMessage { text, memory, _queued });
        Ok(())
    }

    /// The timer fires at the latest when the next of these is due.
    async fn on_timer(&mut self) -> Result<(), End> {
        let (now, last_read) = (Instant::now(), self.socket.get_ref().last_read());
        if now >= last_read + self.settings.idle_timeout {
            return Err(End::Close(Closing::new(CloseCode::Away, "the client sends nothing")));
        }
        if let Some(late) = self.socket.get_ref().partial_for() {
            let rate = Duration::from_secs(self.settings.max_frame_bytes as u64 / MIN_RATE);
            if late > self.body_idle_timeout + rate || now > last_read + self.body_idle_timeout + rate {
                return Err(End::Close(Closing::new(CloseCode::Policy, "a message did not arrive in time")));
            }
        }
        if now >= self.last_ping + self.settings.ping_interval {
            self.last_ping = now;
            self.socket.send(Message::Ping(Bytes::new())).await.map_err(|_| End::Gone)?;
        }
        let age = self.opened + self.settings.max_age;
        let due = (self.last_ping + self.settings.ping_interval).min(last_read + self.settings.idle_timeout);
        // Beyond its age, a connection only waits for the end of its request.
        self.timer.as_mut().reset(if age > now { due.min(age) } else { due });
        Ok(())
    }

    async fn close(&mut self, closing: Closing) {
        tracing::debug!(reason = closing.reason, "closing a WebSocket connection");
        if let Some(message) = closing.message
            && self.socket.send(Message::text(message)).await.is_err()
        {
            return;
        }
        let frame = CloseFrame { code: closing.code, reason: closing.reason.into() };
        if self.socket.close(Some(frame)).await.is_ok() {
            while let Some(Ok(_)) = self.socket.next().await {}
        }
    }
}

async fn answered(answer: &mut Option<BoxFuture<'static, String>>) -> String {
    match answer {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}

async fn next_output(turn: &mut Option<BoxStream<'static, TurnOutput>>) -> Option<TurnOutput> {
    match turn {
        Some(turn) => turn.next().await,
        None => std::future::pending().await,
    }
}
