//! One inference: sends the request, reads the response as it comes, and retries as long as no event of it was
//! emitted.
//!
//! The `Content-Type` says whether a response is a stream: some servers ignore what the request asks for.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Sleep;

use super::server::Server;
use super::streaming::Streaming;
use super::timer::Timer;
use super::upstream_body::UpstreamBody;
use crate::chat::Translator;
use crate::retry::RetryState;
use crate::{CallContext, InferenceTiming, ModelStream, ProviderError, ProviderErrorKind};
use antwort_net::sse::Decoder;
use antwort_protocol::response::Usage;
use antwort_response::turn::{ModelEvent, ModelRequest};
use antwort_util::random;

/// A chat completion: not yet requested, being read, or over.
pub(super) struct CompletionStream {
    server: Arc<Server>,
    call: Arc<CallContext>,
    request: Arc<ModelRequest>,
    body: Bytes,
    tries: RetryState,
    /// When the first attempt began.
    started: Instant,
    timing: InferenceTiming,
    state: State,
    /// Tokens of attempts that failed, and of an answer that was not read to its end.
    unreported: Option<Usage>,
    /// Events were emitted: there is no retry any more, and the request's body is not needed.
    emitted: bool,
}

enum State {
    /// Before a retry.
    Backoff(Pin<Box<Sleep>>),
    Unsent,
    /// Until the headers of the response.
    Sending(BoxFuture<'static, Result<State, ProviderError>>),
    /// The whole body is one answer.
    Whole(BoxFuture<'static, Result<String, ProviderError>>),
    Streaming(Box<Streaming>),
    Over,
}

impl CompletionStream {
    pub(super) fn new(
        server: Arc<Server>,
        request: Arc<ModelRequest>,
        call: CallContext,
    ) -> Result<Self, ProviderError> {
        let body = server.encode(&request)?;
        let tries = RetryState::new(server.settings.retries.clone());
        Ok(Self {
            server,
            call: Arc::new(call),
            request,
            body,
            tries,
            started: Instant::now(),
            timing: InferenceTiming::default(),
            state: State::Unsent,
            unreported: None,
            emitted: false,
        })
    }

    /// Reads up to the next events, the end, or the first failure. False at the end.
    fn poll_advance(
        &mut self,
        cx: &mut Context<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Poll<Result<bool, ProviderError>> {
        loop {
            match &mut self.state {
                State::Over => return Poll::Ready(Ok(false)),
                State::Backoff(sleep) => {
                    ready!(sleep.as_mut().poll(cx));
                    self.state = State::Unsent;
                }
                State::Unsent => {
                    self.note_attempt();
                    self.state = State::Sending(self.begin().boxed());
                }
                State::Sending(sending) => {
                    self.state = ready!(sending.as_mut().poll(cx))?;
                    self.timing.first_byte = Some(Instant::now());
                }
                State::Whole(reading) => {
                    let text = ready!(reading.as_mut().poll(cx))?;
                    self.state = State::Over;
                    let mut translator = self.translator();
                    let read = translator.push_body(&text, events);
                    self.keep_usage(translator.take_usage());
                    return Poll::Ready(read.map(|()| false));
                }
                State::Streaming(streaming) => {
                    if !ready!(streaming.poll_read(cx, events))? {
                        self.state = State::Over;
                        return Poll::Ready(Ok(false));
                    }
                    if !events.is_empty() {
                        return Poll::Ready(Ok(true));
                    }
                }
            }
        }
    }

    fn note_attempt(&mut self) {
        let now = Instant::now();
        match self.timing.sent {
            None => self.timing.sent = Some(now),
            Some(_) => self.timing.retried.push(now),
        }
    }

    /// Sends the request.
    fn begin(&self) -> impl Future<Output = Result<State, ProviderError>> + Send + use<> {
        let (server, request, call) =
            (Arc::clone(&self.server), Arc::clone(&self.request), Arc::clone(&self.call));
        let (body, started) = (self.body.clone(), self.started);
        let (translator, is_streamed) = (self.translator(), server.options.streams(&request));
        async move {
            let limits = &server.settings.timeouts;
            let sent = Instant::now();
            let total = limits.total.saturating_sub(started.elapsed());
            let mut timer = Timer::default();
            // Pinned here: a future that is passed by value and then pinned takes its space twice.
            let sending = pin!(server.send(body, is_streamed, &call));
            let response =
                timer.run(limits.first_byte, ProviderErrorKind::FirstByteTimeout, total, sending).await??;
            let incoming = UpstreamBody::new(response, limits.clone(), sent, started, timer);
            let kind = incoming.content_type();
            if kind.contains("text/html") {
                let message = "The model provider answered with a web page; its configured URL may be wrong.";
                return Err(ProviderError::new(ProviderErrorKind::Malformed, message));
            }
            let streams = kind.contains("event-stream") || is_streamed && !kind.contains("json");
            if !streams {
                return Ok(State::Whole(incoming.read_to_end(server.settings.max_answer_bytes).boxed()));
            }
            let decoder = Decoder::new(server.settings.max_event_bytes);
            Ok(State::Streaming(Box::new(Streaming::new(incoming, decoder, translator))))
        }
    }

    fn translator(&self) -> Translator {
        let wants_logprobs = self.request.sampling.logprobs.is_some();
        Translator::new(Arc::clone(&self.request.tools), wants_logprobs, self.server.options.think)
            .with_max_held_bytes(self.server.settings.max_answer_bytes)
    }

    /// The usage of an attempt that is over, or about to be dropped.
    fn keep_usage(&mut self, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.unreported.get_or_insert_default().add(&usage);
        }
    }

    fn keep_streamed_usage(&mut self) {
        if let State::Streaming(streaming) = &mut self.state {
            let usage = streaming.take_usage();
            self.keep_usage(usage);
        }
    }

    fn log_failure(&self, error: &ProviderError, retry_in: Option<Duration>) {
        self.server.log_failure("/chat/completions", Some(&self.call), error, retry_in);
    }

    fn time_left(&self) -> Option<Duration> {
        self.call.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

impl CompletionStream {
    /// What follows a failure: another attempt, or the error.
    fn recover(&mut self, mut error: ProviderError, has_events: bool) -> Result<State, ProviderError> {
        self.server.mask_error(&mut error);
        error.retried = self.tries.has_retried();
        // Events that were read before the failure are emitted with it.
        if self.emitted || has_events {
            self.log_failure(&error, None);
            return Err(error);
        }
        if self.server.disable_stream_options(&error) {
            self.timing.retry_reasons.push(error.kind_name());
            self.body = self.server.encode(&self.request)?;
            return Ok(State::Unsent);
        }
        let Some(wait) = self.tries.next_delay(&error, self.time_left(), random::unit_f64()) else {
            self.log_failure(&error, None);
            return Err(error);
        };
        self.log_failure(&error, Some(wait));
        self.timing.retry_reasons.push(error.kind_name());
        self.server.metrics.upstream_retry(&self.server.name);
        Ok(State::Backoff(Box::pin(tokio::time::sleep(wait))))
    }
}

impl ModelStream for CompletionStream {
    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Poll<Result<bool, ProviderError>> {
        loop {
            match ready!(self.poll_advance(cx, events)) {
                Ok(more) => {
                    if !events.is_empty() {
                        self.emitted = true;
                        self.body = Bytes::new();
                    }
                    return Poll::Ready(Ok(more));
                }
                Err(error) => {
                    self.keep_streamed_usage();
                    // The response that failed is dropped first, and with it its connection.
                    self.state = State::Over;
                    self.state = self.recover(error, !events.is_empty())?;
                }
            }
        }
    }

    fn timing(&self) -> &InferenceTiming {
        &self.timing
    }

    fn take_usage(&mut self) -> Option<Usage> {
        self.keep_streamed_usage();
        self.unreported.take()
    }
}
