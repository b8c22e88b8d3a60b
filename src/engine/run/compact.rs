//! Compaction inside a run: a conversation that has reached the request's threshold is replaced by a summary.

use std::sync::Arc;

use super::live::{Run, RunError};
use crate::engine::compaction::{self, AutoCompaction};
use crate::engine::limits::cost;
use crate::engine::truncate::{self, ContextBudget};
use crate::protocol::request::TextFormat;
use crate::protocol::response::Usage;
use crate::provider::{ModelStream, ProviderError};
use crate::response::machine::MAX_SUMMARY_BYTES;
use crate::response::turn::{CallChoice, FinishReason, ModelEvent, ModelRequest};
use crate::telemetry::fields::{CAUSE, PROVIDER, REQUEST_ID, RESPONSE_ID};

/// What the model wrote, or why it is no summary.
type Summary = Result<String, &'static str>;

impl Run {
    /// Compacts the conversation if it is due. If the model writes no summary, the run goes on with the conversation as it
    /// is.
    pub(super) async fn compact_if_due(&mut self) -> Result<(), RunError> {
        let Some(plan) = self.prepared.auto_compaction.clone() else { return Ok(()) };
        let tokens = plan.tokens(&self.prepared.model_request);
        if !self.state.compaction.is_due(tokens, plan.threshold) {
            return Ok(self.prepared.truncate_to_window()?);
        }
        let (summary, usage) = self.summarize(&plan).await?;
        // Paid for, whatever came of it.
        self.machine.count_usage(&usage);
        match summary.and_then(|text| plan.seal.seal_all(&text).ok_or("it could not be encrypted")) {
            Ok(sealed) => {
                let item = self.machine.add_compaction(sealed, self.sink.events())?;
                let ask = Arc::make_mut(&mut self.prepared.model_request);
                let conversation = std::mem::take(&mut ask.conversation);
                ask.conversation = compaction::replace(&conversation, &item, &plan)?;
                self.state.compaction.compacted(plan.tokens(&self.prepared.model_request));
            }
            Err(problem) => {
                self.state.compaction.failed();
                tracing::warn!(
                    {
                        { REQUEST_ID } = self.call.request_id,
                        { RESPONSE_ID } = self.prepared.response.id.as_str(),
                        { PROVIDER } = plan.route.provider.name(),
                        { CAUSE } = problem,
                    },
                    "a conversation was not compacted"
                );
            }
        }
        Ok(self.prepared.truncate_to_window()?)
    }

    /// Asks the model for a summary, with the tokens that it took.
    #[tracing::instrument(name = "compact", skip_all)]
    async fn summarize(&mut self, plan: &AutoCompaction) -> Result<(Summary, Usage), RunError> {
        let request =
            Arc::new(summary_request(&self.prepared.model_request, plan, self.prepared.provider.name()));
        self.state.trace.begin_compaction(plan.route.provider.name(), &plan.route.model);
        let mut stream = match plan.route.provider.infer(&request, &self.call) {
            Ok(stream) => stream,
            Err(error) => return Ok((Err(problem(&error)), Usage::default())),
        };
        let read = self.read_summary(&mut *stream).await;
        self.state.trace.end_inference(stream.timing());
        if let Ok((_, usage)) = &read {
            self.state.trace.note_usage(usage, plan.price.map(|price| cost(&price, usage)));
        }
        read
    }

    async fn read_summary(
        &mut self,
        stream: &mut (dyn ModelStream + 'static),
    ) -> Result<(Summary, Usage), RunError> {
        let mut reader = SummaryReader::default();
        let mut events = Vec::new();
        loop {
            let more = self.until_cancelled(stream.next(&mut events)).await?;
            if !events.is_empty() {
                self.state.trace.note_first_token();
            }
            events.drain(..).for_each(|event| reader.read(event));
            match more {
                Ok(true) if reader.text.len() <= MAX_SUMMARY_BYTES => {}
                Ok(_) => return Ok(reader.finish()),
                Err(error) => return Ok((Err(problem(&error)), reader.usage)),
            }
        }
    }
}

fn problem(error: &ProviderError) -> &'static str {
    tracing::debug!(%error, "a summary was not written");
    "the provider failed"
}

/// The request for the summary: the conversation without tools, and the question behind it.
fn summary_request(asked: &ModelRequest, plan: &AutoCompaction, provider: &str) -> ModelRequest {
    let mut conversation = asked.conversation.clone();
    if plan.route.provider.name() != provider {
        // What a provider wants returned is for that provider alone.
        for item in &mut conversation {
            (item.state, item.call_fields) = (None, None);
        }
    }
    conversation.push(plan.prompt());
    if let Some(window) = plan.window {
        let answer = plan.max_output_tokens.unwrap_or(0);
        let budget = ContextBudget {
            window,
            answer,
            fixed: truncate::fixed_tokens(asked.instructions.as_deref(), &[]),
        };
        truncate::drop_oldest(&mut conversation, &budget, (1, 1));
    }
    ModelRequest {
        model: plan.route.model.clone(),
        instructions: asked.instructions.clone(),
        conversation,
        tools: Arc::new([]),
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
    usage: Usage,
    refused: bool,
    is_cut_off: bool,
}

impl SummaryReader {
    fn read(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::Text { delta, .. } => self.text.push_str(&delta),
            ModelEvent::Refusal(_) => self.refused = true,
            ModelEvent::Usage(usage) => self.usage = usage,
            ModelEvent::Finish(reason) => self.is_cut_off |= reason != FinishReason::Stop,
            _ => {}
        }
    }

    fn finish(self) -> (Summary, Usage) {
        let text = self.text.trim();
        let summary = match () {
            () if self.refused => Err("the model refused"),
            () if self.is_cut_off => Err("the summary was cut off"),
            () if text.len() > MAX_SUMMARY_BYTES => Err("the summary is too long"),
            () if text.is_empty() => Err("the model wrote nothing"),
            () => Ok(text.to_owned()),
        };
        (summary, self.usage)
    }
}
