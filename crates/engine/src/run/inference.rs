//! One turn of the model: opens the provider's stream and feeds its events to the machine.

use std::sync::Arc;

use tracing::Span;
use tracing::field::Empty;

use super::live::{Run, RunError};
use crate::citations;
use antwort_protocol::response::Usage;
use antwort_provider::{ModelStream, ProviderError, ProviderErrorKind};
use antwort_response::code_fence::CodeFence;
use antwort_response::machine::{Turn, Violation};
use antwort_response::turn::ModelEvent;
use antwort_telemetry::fields::{CAUSE, KIND, MODEL, PROVIDER, REQUEST_ID, RESPONSE_ID};

/// How often a conversation is shortened that the provider refuses as too long: to a sixteenth of it.
const MAX_SHORTENED: usize = 4;
/// Up to this size of request and conversation, the provider's request is encoded on the worker thread.
const MAX_INLINE_ENCODE_BYTES: u64 = 1 << 20;

impl Run {
    /// One turn of the model. A conversation that the provider refuses as too long is shortened and sent again, if the request
    /// allows it: once by a compaction, then by half each time.
    pub(super) async fn infer_with_retry(&mut self) -> Result<Turn, RunError> {
        let mut may_compact = true;
        for _ in 0..MAX_SHORTENED {
            self.received = false;
            match self.infer_once().await {
                Err(RunError::Failed(error))
                    if error.code() == "context_length_exceeded" && !self.received =>
                {
                    let compacted =
                        std::mem::take(&mut may_compact) && Box::pin(self.compact_refused()).await?;
                    if !compacted && !self.prepared.truncate_half() {
                        return Err(RunError::Failed(error));
                    }
                    tracing::debug!(
                        compacted,
                        "the provider rejected the conversation as too long; it is shorter now"
                    );
                }
                done => return done,
            }
        }
        self.infer_once().await
    }

    #[tracing::instrument(
        name = "chat",
        target = "antwort::engine::run::inference",
        skip_all,
        fields(
            otel.kind = "client",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = self.prepared.provider.name(),
            gen_ai.request.model = self.prepared.model_request.model,
            server.address = Empty,
            server.port = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            antwort.attempts = Empty,
            antwort.first_byte_ms = Empty,
            antwort.first_token_ms = Empty,
            error.type = Empty,
            otel.status_code = Empty,
        )
    )]
    async fn infer_once(&mut self) -> Result<Turn, RunError> {
        let span = Span::current();
        if let Some((host, port)) = &self.prepared.provider.info().address {
            span.record("server.address", host.as_str());
            span.record("server.port", *port);
        }
        let turn = self.stream_turn().await;
        self.state.trace.record_times(&span);
        let usage = match &turn {
            Ok(turn) => turn.usage,
            Err(stop) => {
                span.record("error.type", stop.error_type());
                span.record("otel.status_code", "ERROR");
                self.machine.turn_usage()
            }
        };
        if let Some(usage) = usage {
            self.note_usage(&usage);
        }
        if let Some(tokens) = self.state.trace.turn_tokens() {
            span.record("gen_ai.usage.input_tokens", tokens.input());
            span.record("gen_ai.usage.output_tokens", tokens.output());
        }
        turn
    }

    /// The tokens of an inference, or of an attempt of it, are part of the account.
    fn note_usage(&mut self, usage: &Usage) {
        self.state.trace.note_usage(usage, self.prepared.limits.cost(usage));
    }

    async fn stream_turn(&mut self) -> Result<Turn, RunError> {
        let mut stream = self.open_stream().await?;
        let read = self.read_turn(&mut *stream).await;
        self.state.trace.end_inference(stream.timing());
        if let Some(usage) = stream.take_usage() {
            self.machine.count_usage(&usage);
            self.note_usage(&usage);
        }
        drop(stream);
        let ended = self.end_text();
        read?;
        ended?;
        self.add_citations()?;
        if self.will_retry_turn() {
            self.machine.mark_commentary();
        }
        let nothing_is_shown = if self.call_filter.lacks_required_call() {
            self.retries_missing_call()
        } else {
            self.call_filter.has_rejected()
        };
        self.refuse_calls();
        Ok(self.machine.end_turn(nothing_is_shown, self.sink.events())?)
    }

    /// Reads the provider's stream to its end.
    async fn read_turn(&mut self, stream: &mut (dyn ModelStream + 'static)) -> Result<(), RunError> {
        if self.state.turns() > 1 {
            // Results of the turn before are sent without waiting for the model's next event.
            self.flush().await?;
        }
        let mut model_events = Vec::new();
        loop {
            let more = self.until_cancelled(stream.next(&mut model_events)).await?;
            let happened = !model_events.is_empty();
            // Most model events make one event of ours: reserved, so that the buffer does not grow while they are
            // written.
            self.sink.events().reserve(model_events.len() + 2);
            for event in model_events.drain(..) {
                self.on_model_event(event)?;
            }
            self.check_size()?;
            if happened {
                self.received = true;
                self.state.note_first_event(self.started);
                self.flush().await?;
            }
            if !more.map_err(|error| self.provider_failed(error))? {
                return Ok(());
            }
        }
    }

    /// Opens the provider's stream. A large request is encoded on a blocking thread.
    async fn open_stream(&mut self) -> Result<Box<dyn ModelStream>, RunError> {
        let provider = Arc::clone(&self.prepared.provider);
        let call = self.call.clone();
        let opened = if self.prepared.request_bytes + self.machine.bytes() as u64 <= MAX_INLINE_ENCODE_BYTES {
            provider.infer(&self.prepared.model_request, &call)
        } else {
            let (admission, requester) = (Arc::clone(&self.parts.admission), self.requester.clone());
            let request = Arc::clone(&self.prepared.model_request);
            let work = async move {
                admission.blocking.run(&requester, move || provider.infer(&request, &call)).await
            };
            // Boxed: few runs need this future, and all would reserve the space for it.
            self.until_cancelled(Box::pin(work)).await??
        };
        opened.map_err(|error| self.provider_failed(error))
    }

    /// The provider's message is shown to the client, without the operator's instructions, and is not logged.
    fn provider_failed(&self, error: ProviderError) -> RunError {
        let error = match &self.prepared.redaction {
            Some(redaction) => redaction.apply(error),
            None => error,
        };
        RunError::Failed(error.into())
    }

    /// The provider's output is malformed, though each part of it could be parsed.
    pub(super) fn violated(&self, violation: &Violation) -> RunError {
        let provider = self.prepared.provider.name();
        self.parts.metrics.provider_failure(provider, "malformed");
        tracing::warn!(
            {
                { REQUEST_ID } = self.call.request_id,
                { RESPONSE_ID } = self.prepared.response.id.as_str(),
                { PROVIDER } = provider,
                { MODEL } = self.prepared.model_request.model,
                { KIND } = "malformed",
                { CAUSE } = %violation,
            },
            "the provider failed"
        );
        RunError::Failed(ProviderError::new(ProviderErrorKind::Malformed, violation.to_string()).into())
    }

    /// Adds citations of the searched sources to the last text of the turn.
    fn add_citations(&mut self) -> Result<(), RunError> {
        if self.state.sources.is_empty() {
            return Ok(());
        }
        let text = self.machine.open_text_so_far().unwrap_or_default();
        for annotation in citations::annotations(text, &self.state.sources) {
            self.machine.push(ModelEvent::Annotation(annotation), self.sink.events())?;
        }
        Ok(())
    }

    fn on_model_event(&mut self, event: ModelEvent) -> Result<(), RunError> {
        match self.fence.take() {
            Some(fence) => self.pass_from(fence, |fence, pass| fence.filter(event, pass)),
            None => self.pass_on(event),
        }
    }

    /// The model says no more in this turn: what was held back of its text is passed on.
    fn end_text(&mut self) -> Result<(), RunError> {
        match self.fence.take() {
            Some(fence) => self.pass_from(fence, |fence, pass| fence.end(pass)),
            None => Ok(()),
        }
    }

    /// Passes on what comes from the fence, up to the first error.
    fn pass_from(
        &mut self,
        mut fence: Box<CodeFence>,
        take: impl FnOnce(&mut CodeFence, &mut dyn FnMut(ModelEvent)),
    ) -> Result<(), RunError> {
        let mut passed = Ok(());
        take(&mut fence, &mut |event| {
            if passed.is_ok() {
                passed = self.pass_on(event);
            }
        });
        self.fence = Some(fence);
        passed
    }

    fn pass_on(&mut self, event: ModelEvent) -> Result<(), RunError> {
        match self.call_filter.filter(event) {
            Some(event) => Ok(self.machine.push(event, self.sink.events())?),
            None => Ok(()),
        }
    }
}
