//! Compaction inside a run: a conversation that has reached the request's threshold is replaced by a summary.

use std::sync::Arc;

use super::live::{Run, RunError};
use crate::compaction::{self, AutoCompaction};
use crate::limits::cost;
use crate::truncate::{self, ContextBudget};
use antwort_protocol::request::TextFormat;
use antwort_protocol::response::Usage;
use antwort_provider::{ModelStream, ProviderError};
use antwort_response::machine::MAX_SUMMARY_BYTES;
use antwort_response::turn::{CallChoice, FinishReason, ModelEvent, ModelRequest};
use antwort_telemetry::fields::{CAUSE, PROVIDER, REQUEST_ID, RESPONSE_ID};

/// What the model wrote, or why it is no summary.
type Summary = Result<String, &'static str>;

/// Compacts the conversation if it is due. If the model writes no summary, the run goes on with the conversation as it
/// is.
pub(super) async fn compact_if_due(run: &mut Run) -> Result<(), RunError> {
    let Some(plan) = run.prompt.auto_compaction.clone() else { return Ok(()) };
    let tokens = plan.tokens(&run.prompt.request);
    if run.state.compaction.is_due(tokens, plan.threshold) {
        compact(run, &plan, false).await?;
    }
    Ok(run.prompt.truncate_to_window()?)
}

/// Compacts a conversation that the provider has refused as too long, though it was not due. Returns whether it is shorter
/// now.
pub(super) async fn compact_refused(run: &mut Run) -> Result<bool, RunError> {
    let may_try = run.state.compaction.may_try();
    let Some(plan) = run.prompt.auto_compaction.clone().filter(|_| may_try) else { return Ok(false) };
    let before = plan.tokens(&run.prompt.request);
    compact(run, &plan, true).await?;
    run.state.trace.begin_turn();
    Ok(plan.tokens(&run.prompt.request) < before)
}

/// Replaces the conversation by its summary. `is_refused`: the model does not take all of it.
async fn compact(run: &mut Run, plan: &AutoCompaction, is_refused: bool) -> Result<(), RunError> {
    let (summary, usage) = summarize(run, plan, is_refused).await?;
    // Paid for, whatever came of it.
    if let Some(usage) = usage {
        run.machine.count_usage(&usage);
    }
    match summary.and_then(|text| plan.seal.seal_all(&text).ok_or("it could not be encrypted")) {
        Ok(sealed) => {
            let item = run.machine.add_compaction(sealed, run.sink.events())?;
            let tokens = plan.tokens(&run.prompt.request);
            // A conversation that the model has refused may be far shorter than the threshold.
            let window = if is_refused { plan.threshold.min(tokens) } else { plan.threshold };
            let ask = Arc::make_mut(&mut run.prompt.request);
            let conversation = std::mem::take(&mut ask.conversation);
            ask.conversation = compaction::replace(&conversation, &item, (plan, window))?;
            run.state.compaction.compacted(plan.tokens(&run.prompt.request));
        }
        Err(problem) => {
            run.state.compaction.failed();
            tracing::warn!(
                {
                    { REQUEST_ID } = run.call.request_id,
                    { RESPONSE_ID } = run.spec.response.id.as_str(),
                    { PROVIDER } = plan.route.provider.name(),
                    { CAUSE } = problem,
                },
                "a conversation was not compacted"
            );
        }
    }
    Ok(())
}

/// Asks the model for a summary, with the tokens that it took.
#[tracing::instrument(name = "compact", target = "antwort::engine::run::compact", skip_all)]
async fn summarize(
    run: &mut Run,
    plan: &AutoCompaction,
    is_refused: bool,
) -> Result<(Summary, Option<Usage>), RunError> {
    let mut request = summary_request(&run.prompt.request, plan, run.prompt.provider.name());
    if is_refused {
        let window = truncate::estimate(&request.conversation) as u64;
        let known = ContextBudget { window, answer: 0, fixed: 0 };
        truncate::drop_oldest(&mut request.conversation, &known, (1, 2));
    }
    let request = Arc::new(request);
    run.state.trace.begin_compaction(plan.route.provider.name(), &plan.route.model);
    let mut stream = match plan.route.provider.infer(&request, &run.call) {
        Ok(stream) => stream,
        Err(error) => return Ok((Err(problem(&error)), None)),
    };
    let mut reader = SummaryReader::default();
    let read = read_summary(run, &mut reader, &mut *stream).await;
    run.state.trace.end_inference(stream.timing());
    if let Some(usage) = stream.take_usage() {
        reader.usage.get_or_insert_default().add(&usage);
    }
    if let Some(usage) = &reader.usage {
        run.state.trace.note_usage(usage, plan.price.map(|price| cost(&price, usage)));
    }
    match read {
        Ok(read) => Ok((read.and_then(|()| reader.summary()), reader.usage)),
        Err(stop) => {
            // The run ends, and its response has what was used.
            reader.usage.iter().for_each(|usage| run.machine.count_usage(usage));
            Err(stop)
        }
    }
}

/// Reads a summary to its end, or as far as it may be long. The outer error is the run's.
async fn read_summary(
    run: &mut Run,
    reader: &mut SummaryReader,
    stream: &mut (dyn ModelStream + 'static),
) -> Result<Result<(), &'static str>, RunError> {
    let mut events = Vec::new();
    loop {
        let more = run.until_cancelled(stream.next(&mut events)).await?;
        if !events.is_empty() {
            run.state.trace.note_first_token();
        }
        events.drain(..).for_each(|event| reader.read(event));
        match more {
            Ok(true) if reader.text.len() <= MAX_SUMMARY_BYTES => {}
            Ok(_) => return Ok(Ok(())),
            Err(error) => return Ok(Err(problem(&error))),
        }
    }
}

fn problem(error: &ProviderError) -> &'static str {
    tracing::debug!(%error, "a summary was not written");
    "the provider failed"
}

/// The request for the summary: the conversation with its tools, of which none may be called, and the question behind it.
fn summary_request(asked: &ModelRequest, plan: &AutoCompaction, provider: &str) -> ModelRequest {
    let mut conversation = asked.conversation.clone();
    let tools = compaction::tools::for_summary(&asked.tools, &conversation);
    if plan.route.provider.name() != provider {
        // What a provider wants returned is for that provider alone.
        for item in &mut conversation {
            (item.state, item.call_state) = (None, None);
        }
    }
    conversation.push(plan.prompt());
    if let Some(window) = plan.window {
        let answer = plan.max_output_tokens.unwrap_or(0);
        let budget = ContextBudget {
            window,
            answer,
            fixed: truncate::fixed_tokens(asked.instructions.as_deref(), &tools),
        };
        truncate::drop_oldest(&mut conversation, &budget, (1, 1));
    }
    ModelRequest {
        model: plan.route.model.clone(),
        instructions: asked.instructions.clone(),
        conversation,
        tools,
        tool_choice: CallChoice::None,
        result_format: asked.result_format,
        parallel_tool_calls: asked.parallel_tool_calls,
        max_output_tokens: plan.max_output_tokens,
        format: TextFormat::Text,
        verbosity: None,
        reasoning: asked.reasoning,
        sampling: asked.sampling,
        hints: asked.hints.clone(),
        extra: asked.extra.clone(),
        stream: asked.stream,
    }
}

/// Collects a summary from the model's events.
#[derive(Default)]
struct SummaryReader {
    text: String,
    usage: Option<Usage>,
    refused: bool,
    is_cut_off: bool,
}

impl SummaryReader {
    fn read(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::Text { delta, .. } => self.text.push_str(&delta),
            ModelEvent::Refusal(_) => self.refused = true,
            ModelEvent::Usage(usage) => self.usage = Some(usage),
            ModelEvent::Finish(reason) => self.is_cut_off |= reason != FinishReason::Stop,
            _ => {}
        }
    }

    fn summary(&self) -> Summary {
        let text = self.text.trim();
        match () {
            () if self.refused => Err("the model refused"),
            () if self.is_cut_off => Err("the summary was cut off"),
            () if text.len() > MAX_SUMMARY_BYTES => Err("the summary is too long"),
            () if text.is_empty() => Err("the model wrote nothing"),
            () => Ok(text.to_owned()),
        }
    }
}
