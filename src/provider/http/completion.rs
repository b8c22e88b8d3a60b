//! One inference: sends the request, reads the response as it comes, and retries as long as no event of it was
//! emitted.
//!
//! The `Content-Type` says whether a response is a stream: some servers ignore what the request asks for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;

use super::server::Server;
use super::upstream_body::{UpstreamBody, with_timeouts};
use crate::net::sse::{Decoder, TooLarge};
use crate::provider::chat::Translator;
use crate::provider::retry::RetryState;
use crate::provider::{CallContext, ModelStream, ProviderError, ProviderErrorKind};
use crate::response::turn::{ModelEvent, ModelRequest};
use crate::util::random;

/// Bytes that arrive together are emitted as one batch, up to this.
const MAX_BATCH_BYTES: usize = 64 * 1024;

/// A chat completion: not yet requested, being read, or over.
pub(super) struct CompletionStream {
    server: Arc<Server>,
    call: CallContext,
    request: Arc<ModelRequest>,
    body: Bytes,
    tries: RetryState,
    /// When the first attempt began.
    started: Instant,
    state: State,
    /// Events were emitted: there is no retry any more, and the request's body is not needed.
    emitted: bool,
}

enum State {
    Unsent,
    Whole(Box<UpstreamBody>),
    Streaming(Box<Streaming>),
    Over,
}

struct Streaming {
    incoming: UpstreamBody,
    decoder: Decoder,
    translator: Translator,
    emitted: bool,
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
            call,
            request,
            body,
            tries,
            started: Instant::now(),
            state: State::Unsent,
            emitted: false,
        })
    }

    /// Reads up to the next events, the end, or the first failure. False at the end.
    async fn advance(&mut self, events: &mut Vec<ModelEvent>) -> Result<bool, ProviderError> {
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Ok(false),
                State::Unsent => self.state = self.begin().await?,
                State::Whole(incoming) => {
                    let text = incoming.read_to_end(self.server.settings.max_answer_bytes).await?;
                    self.translator().push_body(&text, events)?;
                    return Ok(false);
                }
                State::Streaming(mut streaming) => {
                    if !streaming.read(events).await? {
                        return Ok(false);
                    }
                    self.state = State::Streaming(streaming);
                    if !events.is_empty() {
                        return Ok(true);
                    }
                }
            }
        }
    }

    async fn begin(&self) -> Result<State, ProviderError> {
        let limits = &self.server.settings.timeouts;
        let sent = Instant::now();
        let total = limits.total.saturating_sub(self.started.elapsed());
        let sending = self.server.send(self.body.clone(), self.request.stream, &self.call);
        let response =
            with_timeouts(limits.first_byte, ProviderErrorKind::FirstByteTimeout, total, sending).await??;
        let incoming = UpstreamBody::new(response, limits.clone(), sent, self.started);
        let kind = incoming.content_type();
        if kind.contains("text/html") {
            let message = "The model provider answered with a web page; its configured URL may be wrong.";
            return Err(ProviderError::new(ProviderErrorKind::Malformed, message));
        }
        let streams = kind.contains("event-stream") || self.request.stream && !kind.contains("json");
        if !streams {
            return Ok(State::Whole(Box::new(incoming)));
        }
        let decoder = Decoder::new(self.server.settings.max_event_bytes);
        let translator = self.translator();
        Ok(State::Streaming(Box::new(Streaming { incoming, decoder, translator, emitted: false })))
    }

    fn translator(&self) -> Translator {
        let wants_logprobs = self.request.sampling.logprobs.is_some();
        Translator::new(Arc::clone(&self.request.tools), wants_logprobs, self.server.options.think)
            .with_max_held_bytes(self.server.settings.max_answer_bytes)
    }

    fn log_failure(&self, error: &ProviderError, retry_in: Option<Duration>) {
        self.server.log_failure("/chat/completions", Some(&self.call), error, retry_in);
    }

    fn time_left(&self) -> Option<Duration> {
        self.call.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

#[async_trait]
impl ModelStream for CompletionStream {
    async fn next(&mut self, events: &mut Vec<ModelEvent>) -> Result<bool, ProviderError> {
        loop {
            let mut error = match self.advance(events).await {
                Ok(more) => {
                    if !events.is_empty() {
                        self.emitted = true;
                        self.body = Bytes::new();
                    }
                    return Ok(more);
                }
                Err(error) => error,
            };
            self.server.mask_error(&mut error);
            error.retried = self.tries.has_retried();
            // Events that were read before the failure are emitted with it.
            if self.emitted || !events.is_empty() {
                self.log_failure(&error, None);
                return Err(error);
            }
            self.state = State::Unsent;
            if self.server.disable_stream_options(&error) {
                self.body = self.server.encode(&self.request)?;
                continue;
            }
            let Some(wait) = self.tries.next_delay(&error, self.time_left(), random::unit_f64()) else {
                self.state = State::Over;
                self.log_failure(&error, None);
                return Err(error);
            };
            self.log_failure(&error, Some(wait));
            self.server.metrics.upstream_retry(&self.server.name);
            tokio::time::sleep(wait).await;
        }
    }
}

impl Streaming {
    /// Waits for bytes, and reads all that have arrived by then. False: the response is over.
    async fn read(&mut self, events: &mut Vec<ModelEvent>) -> Result<bool, ProviderError> {
        let mut taken = 0;
        let mut piece = self.incoming.next().await;
        loop {
            match piece {
                Ok(Some(bytes)) => {
                    taken += bytes.len();
                    self.decoder.feed(&bytes);
                    self.translate(events)?;
                    if self.translator.is_done() {
                        self.translator.finish(events)?;
                        self.incoming.drain().await;
                        return Ok(false);
                    }
                }
                Ok(None) => return self.end(events).map(|()| false),
                // The response may have been complete when the connection broke.
                Err(error) if error.kind == ProviderErrorKind::Cut => {
                    return self.end(events).map(|()| false).map_err(|_| error);
                }
                Err(error) => return Err(error),
            }
            // The first events are emitted at once, for the time to the first token. Later ones are batched.
            if taken >= MAX_BATCH_BYTES || (!self.emitted && !events.is_empty()) {
                self.emitted = true;
                return Ok(true);
            }
            piece = match self.incoming.try_next().await {
                Some(next) => next,
                None => return Ok(true),
            };
        }
    }

    fn translate(&mut self, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        while !self.translator.is_done() {
            match self.decoder.next_event() {
                Ok(Some(event)) => self.translator.push(event.name.as_deref(), &event.data, events)?,
                Ok(None) => break,
                Err(error) => return Err(too_large(error)),
            }
        }
        Ok(())
    }

    /// Ends the response where the connection ended. The last event may be incomplete: then it is ignored, and the
    /// translator decides whether the response was complete without it.
    fn end(&mut self, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        self.decoder.end();
        match self.translate(events) {
            Err(error) if error.kind != ProviderErrorKind::Malformed => Err(error),
            _ => self.translator.finish(events),
        }
    }
}

pub(super) fn too_large(TooLarge { limit }: TooLarge) -> ProviderError {
    let message = format!("An event of the model provider is larger than {limit} bytes.");
    ProviderError::new(ProviderErrorKind::Malformed, message)
}
