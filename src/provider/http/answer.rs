//! One inference: sends the request, reads the answer as it comes, and tries again while nothing of it was
//! handed over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;

use super::{Server, failure, read_whole};
use crate::net::sse::Decoder;
use crate::provider::chat::Translator;
use crate::provider::resilience::Tries;
use crate::provider::{CallContext, Failure, ModelStream, ProviderError};
use crate::response::turn::{ModelEvent, ModelRequest};

/// What arrives together is handed over together, up to this.
const MOST_AT_ONCE: usize = 64 * 1024;

/// An answer: yet to be asked for, on its way, or over.
pub(super) struct Answer {
    server: Arc<Server>,
    call: CallContext,
    request: ModelRequest,
    body: Bytes,
    tries: Tries,
    /// When the first try began.
    started: Instant,
    /// When the latest did.
    sent: Instant,
    state: State,
    /// Something was handed over: from now on the answer cannot be asked for again.
    heard: bool,
}

enum State {
    Unsent,
    Streaming(Box<Streaming>),
    Over,
}

struct Streaming {
    response: reqwest::Response,
    decoder: Decoder,
    translator: Translator,
    begun: bool,
}

impl Answer {
    pub(super) fn new(server: Arc<Server>, request: &ModelRequest, call: CallContext) -> Result<Self, ProviderError> {
        let body = server.encode(request)?;
        let tries = Tries::new(server.settings.retries.clone());
        Ok(Self {
            server,
            call,
            request: request.clone(),
            body,
            tries,
            started: Instant::now(),
            sent: Instant::now(),
            state: State::Unsent,
            heard: false,
        })
    }

    /// As far as the next events, the end, or the first failure.
    async fn advance(&mut self, events: &mut Vec<ModelEvent>) -> Result<bool, ProviderError> {
        loop {
            match &mut self.state {
                State::Over => return Ok(false),
                State::Unsent if self.request.stream => self.state = State::Streaming(Box::new(self.begin().await?)),
                State::Unsent => {
                    self.whole(events).await?;
                    self.state = State::Over;
                }
                State::Streaming(streaming) => {
                    let limits = &self.server.settings.timeouts;
                    let (limit, kind) = if streaming.begun {
                        (limits.idle, Failure::IdleTimeout)
                    } else {
                        (limits.first_byte.saturating_sub(self.sent.elapsed()), Failure::FirstByteTimeout)
                    };
                    let total = limits.total.saturating_sub(self.started.elapsed());
                    let more = within(limit, kind, total, streaming.read(events)).await??;
                    if !more {
                        self.state = State::Over;
                    }
                    if more && events.is_empty() {
                        continue;
                    }
                    return Ok(more);
                }
            }
        }
    }

    fn translator(&self) -> Translator {
        let wants_logprobs = self.request.sampling.logprobs.is_some();
        Translator::new(Arc::clone(&self.request.tools), wants_logprobs, self.server.options.think)
    }

    async fn begin(&self) -> Result<Streaming, ProviderError> {
        let limits = &self.server.settings.timeouts;
        let sending = self.server.send(self.body.clone(), true, &self.call);
        let total = limits.total.saturating_sub(self.started.elapsed());
        let response = within(limits.first_byte, Failure::FirstByteTimeout, total, sending).await??;
        let decoder = Decoder::new(self.server.settings.max_event_bytes);
        Ok(Streaming { response, decoder, translator: self.translator(), begun: false })
    }

    async fn whole(&self, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let limits = &self.server.settings.timeouts;
        let sending = self.server.send(self.body.clone(), false, &self.call);
        let total = limits.total.saturating_sub(self.started.elapsed());
        let response = within(limits.first_byte, Failure::FirstByteTimeout, total, sending).await??;
        let total = limits.total.saturating_sub(self.started.elapsed());
        let reading = read_whole(response, self.server.settings.max_answer_bytes);
        let text = within(total, Failure::TotalTimeout, total, reading).await??;
        self.translator().push_body(&text, events)
    }

    fn time_left(&self) -> Option<Duration> {
        self.call.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

#[async_trait]
impl ModelStream for Answer {
    async fn next(&mut self, events: &mut Vec<ModelEvent>) -> Result<bool, ProviderError> {
        loop {
            let error = match self.advance(events).await {
                Ok(more) => {
                    self.heard |= !events.is_empty();
                    return Ok(more);
                }
                Err(error) => error,
            };
            // What was understood before the failure is handed over with it.
            if self.heard || !events.is_empty() {
                self.state = State::Over;
                return Err(error);
            }
            self.state = State::Unsent;
            if self.server.refused_stream_options(&error) {
                self.body = self.server.encode(&self.request)?;
                continue;
            }
            let Some(wait) = self.tries.next(&error, self.time_left(), chance()) else { return Err(error) };
            tracing::info!(provider = self.server.name, %error, ?wait, "trying again");
            tokio::time::sleep(wait).await;
            self.sent = Instant::now();
        }
    }
}

impl Streaming {
    /// Waits for a piece, and takes with it all that have arrived. False: the answer is over.
    async fn read(&mut self, events: &mut Vec<ModelEvent>) -> Result<bool, ProviderError> {
        let mut taken = 0;
        let mut piece = self.response.chunk().await;
        loop {
            match piece.map_err(|error| failure(&error)) {
                Ok(Some(bytes)) => {
                    taken += bytes.len();
                    self.begun = true;
                    self.decoder.feed(&bytes);
                    if self.translate(events)? {
                        return Ok(false);
                    }
                }
                Ok(None) => {
                    self.decoder.end();
                    if !self.translate(events)? {
                        self.translator.finish(events)?;
                    }
                    return Ok(false);
                }
                Err(error) => {
                    // The answer may have been whole when the connection broke.
                    return self.translator.finish(events).map(|()| false).map_err(|_| error);
                }
            }
            if taken >= MOST_AT_ONCE {
                return Ok(true);
            }
            piece = match self.response.chunk().now_or_never() {
                Some(next) => next,
                None => return Ok(true),
            };
        }
    }

    /// Hands decoded events to the translator. True: the server said that the answer is over.
    fn translate(&mut self, events: &mut Vec<ModelEvent>) -> Result<bool, ProviderError> {
        loop {
            match self.decoder.next_event() {
                Ok(Some(event)) => self.translator.push(event.name, &event.data, events)?,
                Ok(None) => return Ok(false),
                Err(too_large) => {
                    let message = format!("An event of the model provider is larger than {} bytes.", too_large.limit);
                    return Err(ProviderError::new(Failure::Malformed, message));
                }
            }
            if self.translator.is_done() {
                self.translator.finish(events)?;
                return Ok(true);
            }
        }
    }
}

/// Runs work within two limits; which of them passed decides the failure.
async fn within<T>(
    limit: Duration,
    kind: Failure,
    total: Duration,
    work: impl Future<Output = T>,
) -> Result<T, ProviderError> {
    let (limit, kind) = if total < limit { (total, Failure::TotalTimeout) } else { (limit, kind) };
    tokio::time::timeout(limit, work).await.map_err(|_| ProviderError::new(kind, "the provider took too long"))
}

/// A number between 0 and 1 that differs between callers.
fn chance() -> f64 {
    let mut bytes = [0; 2];
    // Without a source of chance there is only less jitter.
    let _filled = aws_lc_rs::rand::fill(&mut bytes);
    f64::from(u16::from_le_bytes(bytes)) / f64::from(u16::MAX)
}
