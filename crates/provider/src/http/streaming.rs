//! An answer that is a stream of server-sent events.

use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use super::upstream_body::UpstreamBody;
use crate::chat::Translator;
use crate::{ProviderError, ProviderErrorKind};
use antwort_net::sse::{Decoder, TooLarge};
use antwort_protocol::response::Usage;
use antwort_response::turn::ModelEvent;

/// Bytes that arrive together are emitted as one batch, up to this.
const MAX_BATCH_BYTES: usize = 64 * 1024;
/// How long the usage and the end of a stream are waited for when the model has finished.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A stream that is being read.
pub(super) struct Streaming {
    incoming: UpstreamBody,
    decoder: Decoder,
    translator: Translator,
    emitted: bool,
    /// Of a model that has finished: until when the rest is waited for.
    ends_by: Option<Instant>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// For the first bytes of a batch.
    Waiting,
    /// So many bytes of a batch were read; more may have arrived.
    Batching(usize),
    /// The answer is complete, the response is not: the rest is read so that the connection can be reused.
    Draining,
}

impl Streaming {
    pub(super) fn new(incoming: UpstreamBody, decoder: Decoder, translator: Translator) -> Self {
        Self { incoming, decoder, translator, emitted: false, ends_by: None, phase: Phase::Waiting }
    }

    /// The usage that was received and not emitted.
    pub(super) fn take_usage(&mut self) -> Option<Usage> {
        self.translator.take_usage()
    }

    /// Waits for bytes, and reads all that have arrived by then. False: the response is over.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Poll<Result<bool, ProviderError>> {
        loop {
            let piece = match self.phase {
                Phase::Draining => return self.incoming.poll_drain(cx).map(|()| Ok(false)),
                Phase::Waiting => ready!(self.incoming.poll_next(cx)),
                Phase::Batching(_) => match ready!(self.incoming.poll_arrived(cx)) {
                    Some(piece) => piece,
                    None => {
                        self.phase = Phase::Waiting;
                        return Poll::Ready(Ok(true));
                    }
                },
            };
            match piece {
                Ok(Some(bytes)) => {
                    self.decoder.feed(&bytes);
                    self.translate(events)?;
                    if self.translator.is_done() {
                        self.translator.finish(events)?;
                        self.phase = Phase::Draining;
                        continue;
                    }
                    if self.is_overdue() {
                        return Poll::Ready(self.translator.finish(events).map(|()| false));
                    }
                    let taken = bytes.len() + if let Phase::Batching(taken) = self.phase { taken } else { 0 };
                    // The first events are emitted at once, for the time to the first token. Later ones are batched.
                    if taken >= MAX_BATCH_BYTES || (!self.emitted && !events.is_empty()) {
                        self.emitted = true;
                        self.phase = Phase::Waiting;
                        return Poll::Ready(Ok(true));
                    }
                    self.phase = Phase::Batching(taken);
                }
                Ok(None) => return Poll::Ready(self.end(false, events).map(|()| false)),
                Err(error) => return Poll::Ready(self.fail(error, events).map(|()| false)),
            }
        }
    }

    /// Whether the rest of a finished answer has been waited for long enough, whatever trickles on.
    fn is_overdue(&mut self) -> bool {
        if !self.translator.is_finished() {
            return false;
        }
        let now = Instant::now();
        match self.ends_by {
            Some(end) => now >= end,
            None => {
                let end = now + END_TIMEOUT;
                self.ends_by = Some(end);
                self.incoming.end_by(end);
                false
            }
        }
    }

    /// The connection has failed, or nothing came in time. The answer may be complete without what is missing; if it is not,
    /// an error that the server has told comes first.
    fn fail(&mut self, error: ProviderError, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if self.translator.is_finished() || error.kind == ProviderErrorKind::Cut {
            return self.end(true, events).map_err(|own| if own.is_reported() { own } else { error });
        }
        Err(self.translator.told_error().unwrap_or(error))
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
    /// translator decides whether the response was complete without it. `failed`: the connection did not end by itself.
    fn end(&mut self, failed: bool, events: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        self.decoder.end();
        let read = self.translate(events);
        if failed {
            self.translator.forget_words();
        }
        match read {
            Err(error) if error.kind != ProviderErrorKind::Malformed => Err(error),
            _ => self.translator.finish(events),
        }
    }
}

pub(super) fn too_large(TooLarge { limit }: TooLarge) -> ProviderError {
    let message = format!("An event of the model provider is larger than {limit} bytes.");
    ProviderError::new(ProviderErrorKind::Malformed, message)
}
