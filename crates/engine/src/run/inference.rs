//! One turn of the model: opens the provider's stream and feeds its events to the machine.

use std::sync::Arc;

use tracing::Span;
use tracing::field::Empty;

use super::live::{Run, RunError};
use super::{compact, limits, refused, reprompt};
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

/// One turn of the model. A conversation that the provider refuses as too long is shortened and sent again, if the request
/// allows it: once by a compaction, then by half each time. Requests that fail otherwise are sent again by the provider.
pub(super) async fn infer_with_retry(run: &mut Run) -> Result<Turn, RunError> {
    let mut may_compact = true;
    for _ in 0..MAX_SHORTENED {
        run.reading.received = false;
        match infer_once(run).await {
            Err(RunError::Failed(error))
                if error.code() == "context_length_exceeded" && !run.reading.received =>
            {
                let compacted =
                    std::mem::take(&mut may_compact) && Box::pin(compact::compact_refused(run)).await?;
                if !compacted && !run.prompt.truncate_half() {
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
    infer_once(run).await
}

#[tracing::instrument(
    name = "chat",
    target = "antwort::engine::run::inference",
    skip_all,
    fields(
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = run.prompt.provider.name(),
        gen_ai.request.model = run.prompt.request.model,
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
async fn infer_once(run: &mut Run) -> Result<Turn, RunError> {
    let span = Span::current();
    if let Some((host, port)) = &run.prompt.provider.info().address {
        span.record("server.address", host.as_str());
        span.record("server.port", *port);
    }
    let turn = stream_turn(run).await;
    run.state.trace.record_times(&span);
    let usage = match &turn {
        Ok(turn) => turn.usage,
        Err(stop) => {
            span.record("error.type", stop.error_type());
            span.record("otel.status_code", "ERROR");
            run.machine.turn_usage()
        }
    };
    if let Some(usage) = usage {
        note_usage(run, &usage);
    }
    if let Some(tokens) = run.state.trace.turn_tokens() {
        span.record("gen_ai.usage.input_tokens", tokens.input());
        span.record("gen_ai.usage.output_tokens", tokens.output());
    }
    turn
}

/// The tokens of an inference, or of an attempt of it, are part of the account.
fn note_usage(run: &mut Run, usage: &Usage) {
    run.state.trace.note_usage(usage, run.spec.limits.cost(usage));
}

async fn stream_turn(run: &mut Run) -> Result<Turn, RunError> {
    let mut stream = open_stream(run).await?;
    let read = read_turn(run, &mut *stream).await;
    run.state.trace.end_inference(stream.timing());
    if let Some(usage) = stream.take_usage() {
        run.machine.count_usage(&usage);
        note_usage(run, &usage);
    }
    drop(stream);
    let ended = end_text(run);
    read?;
    ended?;
    add_citations(run)?;
    if reprompt::will_retry_turn(run) {
        run.machine.mark_commentary();
    }
    let nothing_is_shown = if run.call_filter.lacks_required_call() {
        reprompt::retries_missing_call(run)
    } else {
        run.call_filter.has_rejected()
    };
    refused::refuse_calls(run);
    Ok(run.machine.end_turn(nothing_is_shown, run.sink.events())?)
}

/// Reads the provider's stream to its end.
async fn read_turn(run: &mut Run, stream: &mut (dyn ModelStream + 'static)) -> Result<(), RunError> {
    if run.state.turns() > 1 {
        // Results of the turn before are sent without waiting for the model's next event.
        run.flush().await?;
    }
    let mut model_events = Vec::new();
    loop {
        let more = run.until_cancelled(stream.next(&mut model_events)).await?;
        let happened = !model_events.is_empty();
        // Most model events make one event of ours: reserved, so that the buffer does not grow while they are
        // written.
        run.sink.events().reserve(model_events.len() + 2);
        for event in model_events.drain(..) {
            on_model_event(run, event)?;
        }
        limits::check_size(run)?;
        if happened {
            run.reading.received = true;
            run.state.note_first_event(run.clock.started);
            run.flush().await?;
        }
        if !more.map_err(|error| provider_failed(run, error))? {
            return Ok(());
        }
    }
}

/// Opens the provider's stream. A large request is encoded on a blocking thread.
async fn open_stream(run: &mut Run) -> Result<Box<dyn ModelStream>, RunError> {
    let provider = Arc::clone(&run.prompt.provider);
    let call = run.call.clone();
    let opened = if run.spec.request_bytes + run.machine.bytes() as u64 <= MAX_INLINE_ENCODE_BYTES {
        provider.infer(&run.prompt.request, &call)
    } else {
        let (admission, requester) = (Arc::clone(&run.parts.admission), run.requester.clone());
        let request = Arc::clone(&run.prompt.request);
        let work =
            async move { admission.blocking.run(&requester, move || provider.infer(&request, &call)).await };
        // Boxed: few runs need this future, and all would reserve the space for it.
        run.until_cancelled(Box::pin(work)).await??
    };
    opened.map_err(|error| provider_failed(run, error))
}

/// The provider's message is shown to the client, without the operator's instructions, and is not logged.
fn provider_failed(run: &Run, error: ProviderError) -> RunError {
    RunError::Failed(run.prompt.redact(error))
}

/// The provider's output is malformed, though each part of it could be parsed.
pub(super) fn violated(run: &Run, violation: &Violation) -> RunError {
    let provider = run.prompt.provider.name();
    run.parts.metrics.provider_failure(provider, "malformed");
    tracing::warn!(
        {
            { REQUEST_ID } = run.call.request_id,
            { RESPONSE_ID } = run.spec.response.id.as_str(),
            { PROVIDER } = provider,
            { MODEL } = run.prompt.request.model,
            { KIND } = "malformed",
            { CAUSE } = %violation,
        },
        "the provider failed"
    );
    RunError::Failed(ProviderError::new(ProviderErrorKind::Malformed, violation.to_string()).into())
}

/// Adds citations of the searched sources to the last text of the turn.
fn add_citations(run: &mut Run) -> Result<(), RunError> {
    if run.state.sources.is_empty() {
        return Ok(());
    }
    let text = run.machine.open_text_so_far().unwrap_or_default();
    for annotation in citations::annotations(text, &run.state.sources) {
        run.machine.push(ModelEvent::Annotation(annotation), run.sink.events())?;
    }
    Ok(())
}

fn on_model_event(run: &mut Run, event: ModelEvent) -> Result<(), RunError> {
    match run.reading.fence.take() {
        Some(fence) => pass_from(run, fence, |fence, pass| fence.filter(event, pass)),
        None => pass_on(run, event),
    }
}

/// The model says no more in this turn: what was held back of its text is passed on.
fn end_text(run: &mut Run) -> Result<(), RunError> {
    match run.reading.fence.take() {
        Some(fence) => pass_from(run, fence, |fence, pass| fence.end(pass)),
        None => Ok(()),
    }
}

/// Passes on what comes from the fence, up to the first error.
fn pass_from(
    run: &mut Run,
    mut fence: Box<CodeFence>,
    take: impl FnOnce(&mut CodeFence, &mut dyn FnMut(ModelEvent)),
) -> Result<(), RunError> {
    let mut passed = Ok(());
    take(&mut fence, &mut |event| {
        if passed.is_ok() {
            passed = pass_on(run, event);
        }
    });
    run.reading.fence = Some(fence);
    passed
}

fn pass_on(run: &mut Run, event: ModelEvent) -> Result<(), RunError> {
    match run.call_filter.filter(event) {
        Some(event) => Ok(run.machine.push(event, run.sink.events())?),
        None => Ok(()),
    }
}
