//! Translates chat completions to model events: one state machine for chunks of a stream and for whole bodies.
//!
//! Decides when an answer is complete: after a `finish_reason` or `[DONE]`. A stream that ends without either was cut off.
//! The tables in `tests` have a row for each known deviation of servers.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::calls::CallAssembler;
use super::chunk_template::{ChunkTemplate, TextKind};
use super::early::EarlyParts;
use super::errors::limit_exceeded;
use super::reasoning::{ReasoningAssembler, max_parsed_size};
use super::surrogates::{self, Repaired};
use super::think_tags::{Segment, ThinkTagParser};
use super::wire::{
    Choice, CompletionChunk, ContentPiece, Delta, DeltaContent, MAX_ELEMENTS, UsageCounts, first_elements,
};
use crate::config::ThinkTags;
use crate::protocol::content::{Annotation, LogProb};
use crate::protocol::response::{InputTokensDetails, OutputTokensDetails, Usage};
use crate::provider::errors::{ProviderError, ProviderErrorKind};
use crate::provider::lenient::{LenientNumber, LenientText};
use crate::provider::upstream_error::UpstreamError;
use crate::response::machine::MAX_ANNOTATIONS;
use crate::response::turn::{FinishReason, ModelEvent, ModelTool};

/// Maximum number of events that are skipped because they are not JSON objects, such as a stray `ping`.
const MAX_SKIPPED: usize = 8;
/// Default of [`Translator::with_max_held_bytes`].
const DEFAULT_MAX_HELD_BYTES: usize = 64 << 20;
/// Log probabilities of tokens without text that a chunk may have, in addition to one for each byte of its text.
const MAX_TEXTLESS_TOKENS: usize = 64;
/// Maximum number of alternatives for a token, by the API.
const MAX_TOP_LOGPROBS: usize = 20;

/// Translates one answer to model events.
#[derive(Debug)]
pub struct Translator {
    calls: CallAssembler,
    reasoning: ReasoningAssembler,
    think: ThinkTagParser,
    wants_logprobs: bool,
    early: EarlyParts,
    usage: Option<Usage>,
    service_tier: bool,
    finish: Option<FinishReason>,
    /// Part of the answer itself was received.
    answered: bool,
    /// At least one chunk was a chat completion.
    understood: bool,
    skipped: usize,
    /// A chunk that ends with half a surrogate pair.
    held_chunk: Option<String>,
    template: ChunkTemplate,
    done: bool,
    /// Maximum bytes of the answer that may be buffered.
    max_held_bytes: usize,
}

impl Translator {
    /// A translator for the answer to one request, with its tools and whether it asked for log probabilities.
    pub fn new(tools: Arc<[Arc<ModelTool>]>, wants_logprobs: bool, think: ThinkTags) -> Self {
        Self {
            calls: CallAssembler::new(tools),
            reasoning: ReasoningAssembler::default(),
            think: ThinkTagParser::new(think),
            wants_logprobs,
            early: EarlyParts::default(),
            usage: None,
            service_tier: false,
            finish: None,
            answered: false,
            understood: false,
            skipped: 0,
            held_chunk: None,
            template: ChunkTemplate::default(),
            done: false,
            max_held_bytes: DEFAULT_MAX_HELD_BYTES,
        }
    }

    /// Limits the bytes of the answer that may be buffered: of a call without a name, or of reasoning state.
    pub fn with_max_held_bytes(self, max_held_bytes: usize) -> Self {
        Self { max_held_bytes, ..self }
    }

    /// Whether the answer has ended: `[DONE]`, or a whole body.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Translates one event of a stream.
    pub fn push(
        &mut self,
        name: Option<&str>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        if self.done {
            return Ok(());
        }
        let held = self.held_chunk.take();
        if data.trim() == "[DONE]" {
            self.done = true;
            return held.map_or(Ok(()), |held| self.read(&surrogates::repair_all(&held), out));
        }
        if name == Some("error") {
            return Err(UpstreamError::parse(data).into_error(None, None));
        }
        if let Some(held) = held {
            let (held, data) = surrogates::join(&held, data);
            self.read(&held, out)?;
            return self.repair_and_read(&data, out);
        }
        match self.template.read(data) {
            Some((kind, text)) => {
                self.push_plain(kind, text, out);
                Ok(())
            }
            None => self.repair_and_read(data, out),
        }
    }

    /// Parses every chunk up to the next one that holds nothing but a text.
    #[cfg(test)]
    pub(super) fn forget_template(&mut self) {
        self.template = ChunkTemplate::default();
    }

    /// Reads a chunk; one that ends with half a surrogate pair waits for the next.
    fn repair_and_read(&mut self, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        match surrogates::repair(data, true) {
            Repaired::Whole(data) => self.read(&data, out),
            Repaired::Half(data) => {
                self.held_chunk = Some(data);
                Ok(())
            }
        }
    }

    fn read(&mut self, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        match serde_json::from_str::<CompletionChunk<'_>>(data) {
            Ok(chunk) => {
                self.template.learn(data, &chunk, self.wants_logprobs);
                self.push_chunk(chunk, false, out)
            }
            Err(_) => self.skip(data),
        }
    }

    /// Translates the whole body of an answer that is not a stream, and ends the answer.
    pub fn push_body(&mut self, body: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let body = match surrogates::repair(body, false) {
            Repaired::Whole(body) => body,
            Repaired::Half(body) => body.into(),
        };
        match serde_json::from_str::<CompletionChunk<'_>>(&body) {
            Ok(chunk) => self.push_chunk(chunk, true, out)?,
            Err(_) => return Err(malformed()),
        }
        // A whole body needs no further sign of its end.
        self.done = true;
        self.finish(out)
    }

    /// Ends the answer: at `[DONE]`, or when the connection has ended.
    pub fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if let Some(held) = self.held_chunk.take() {
            self.read(&surrogates::repair_all(&held), out)?;
        }
        let reason = match self.finish {
            Some(reason) => Ok(reason),
            None if self.done && self.answered => Ok(FinishReason::Stop),
            None if self.done || !self.understood => Err(malformed()),
            None => Err(ProviderError::new(
                ProviderErrorKind::Cut,
                "The model provider closed the connection before its answer was complete.",
            )),
        };
        out.extend(self.usage.take().map(ModelEvent::Usage));
        let reason = reason?;
        let mut segments = Vec::new();
        self.think.end(&mut segments);
        self.write_segments(segments, out);
        self.calls.finish(reason == FinishReason::Length, out)?;
        self.reasoning.flush_state(out);
        out.push(ModelEvent::Finish(reason));
        Ok(())
    }

    fn push_chunk(
        &mut self,
        chunk: CompletionChunk<'_>,
        whole: bool,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let CompletionChunk { choices, usage, service_tier, error, object, message, code, kind } = chunk;
        if let Some(error) = error.filter(|error| !error.is_empty()) {
            return Err(error.into_error(None, None));
        }
        if object.as_str() == "error" {
            return Err(UpstreamError::from_fields(message, code, kind).into_error(None, None));
        }
        if !self.service_tier && !service_tier.is_empty() {
            self.service_tier = true;
            out.push(ModelEvent::ServiceTier(service_tier.0.into_owned()));
        }
        if let Some(usage) = usage.and_then(read_usage) {
            self.understood = true;
            self.usage = Some(usage);
        }
        match choices.0 {
            Some(choice) => self.push_choice(choice, whole, out),
            None => Ok(()),
        }
    }

    fn push_choice(
        &mut self,
        choice: Choice<'_>,
        whole: bool,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let Choice { delta, message, finish_reason, logprobs, error, .. } = choice;
        self.understood = true;
        if let Some(error) = error.filter(|error| !error.is_empty()) {
            return Err(error.into_error(None, None));
        }
        // A whole message after its own deltas repeats them.
        let message = message.filter(|_| whole || !self.answered && delta.is_none());
        if let Some(delta) = message.or(delta) {
            self.push_delta(delta, whole, logprobs, out)?;
        }
        if let Some(reason) = finish_reason.some() {
            let reason = read_finish(reason)?;
            self.finish.get_or_insert(reason);
        }
        Ok(())
    }

    fn push_delta(
        &mut self,
        mut delta: Delta<'_>,
        whole: bool,
        logprobs: Option<&RawValue>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let before = out.len();
        self.check_counts(&delta)?;
        self.hold_logprobs(&delta, logprobs);
        self.reasoning.push(&mut delta, whole, self.max_held_bytes, out)?;
        match delta.content {
            DeltaContent::Text(text) => self.write_text(text, logprobs, out),
            DeltaContent::Parts(parts) => parts.into_iter().for_each(|part| self.write_part(part, out)),
        }
        if !delta.refusal.is_empty() {
            self.reasoning.flush_state(out);
            out.push(ModelEvent::Refusal(delta.refusal.0.into_owned()));
        }
        if let Some(annotations) = delta.annotations {
            self.early.keep_annotations(read_annotations(annotations));
        }
        self.early.write_annotations(out);
        let pieces = delta.tool_calls.0;
        let several = pieces.len() > 1;
        for (position, piece) in pieces.iter().enumerate() {
            self.reasoning.flush_state(out);
            self.check_held(piece.extra_content.map_or(0, max_parsed_size))?;
            self.calls.push(piece, several.then_some(position), out)?;
        }
        if let Some(call) = delta.function_call {
            self.reasoning.flush_state(out);
            self.calls.push_legacy(&call, out)?;
        }
        self.answered |= out.len() > before || self.calls.any();
        self.check_held(0)
    }

    /// Checks that this many more bytes of calls may be held.
    fn check_held(&self, more: usize) -> Result<(), ProviderError> {
        if self.calls.held_bytes() + more <= self.max_held_bytes {
            return Ok(());
        }
        Err(limit_exceeded("of tool calls", self.max_held_bytes))
    }

    /// Refuses lists that exceed [`MAX_ELEMENTS`].
    fn check_counts(&self, delta: &Delta<'_>) -> Result<(), ProviderError> {
        let parts = match &delta.content {
            DeltaContent::Text(_) => 0,
            DeltaContent::Parts(parts) => parts.len(),
        };
        let lists = [("parts of a message", parts), ("tool calls", delta.tool_calls.0.len())];
        match lists.into_iter().find(|(_, count)| *count > MAX_ELEMENTS) {
            None => Ok(()),
            Some((what, _)) => Err(ProviderError::new(
                ProviderErrorKind::Malformed,
                format!("The model provider sent more than {MAX_ELEMENTS} {what} at once."),
            )),
        }
    }

    /// What `push_delta` does with a delta that holds nothing but this text.
    fn push_plain(&mut self, kind: TextKind, text: Cow<'_, str>, out: &mut Vec<ModelEvent>) {
        let before = out.len();
        match kind {
            TextKind::Content => {
                self.write_text(text, None, out);
                self.early.write_annotations(out);
            }
            TextKind::Reasoning => self.reasoning.push_plain(text, out),
        }
        self.answered |= out.len() > before;
    }

    fn write_text(&mut self, text: Cow<'_, str>, logprobs: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
        if text.is_empty() {
            return;
        }
        if !self.think.is_done() {
            let mut segments = Vec::new();
            self.think.push(&text, &mut segments);
            self.answered = true;
            return self.write_segments(segments, out);
        }
        self.reasoning.flush_state(out);
        let delta = text.into_owned();
        let logprobs = logprobs.filter(|_| self.wants_logprobs);
        let mut logprobs = logprobs.map(|raw| read_logprobs(raw, delta.len())).unwrap_or_default();
        self.early.begin_text(&mut logprobs);
        out.push(ModelEvent::Text { delta, logprobs });
    }

    /// Keeps the log probabilities of a chunk that holds nothing else. Those of reasoning and calls are of no text.
    fn hold_logprobs(&mut self, delta: &Delta<'_>, logprobs: Option<&RawValue>) {
        let Some(raw) = logprobs.filter(|_| self.wants_logprobs) else { return };
        if delta.is_blank() {
            self.early.keep_logprobs(read_logprobs(raw, 0));
        } else if !delta.has_text() {
            self.early.drop_logprobs();
        }
    }

    fn write_segments(&mut self, segments: Vec<Segment>, out: &mut Vec<ModelEvent>) {
        for segment in segments {
            match segment {
                Segment::Reasoning(text) => out.push(ModelEvent::Reasoning(text)),
                Segment::Text(delta) => {
                    self.reasoning.flush_state(out);
                    let mut logprobs = Vec::new();
                    self.early.begin_text(&mut logprobs);
                    out.push(ModelEvent::Text { delta, logprobs });
                }
            }
        }
    }

    fn write_part(&mut self, part: ContentPiece<'_>, out: &mut Vec<ModelEvent>) {
        let thinking = part.thinking.0;
        if !thinking.is_empty() {
            out.push(ModelEvent::Reasoning(thinking.into_owned()));
        }
        self.write_text(part.text.0, None, out);
        if !part.refusal.is_empty() {
            out.push(ModelEvent::Refusal(part.refusal.0.into_owned()));
        }
    }

    /// Skips a few events that are not chunks. A damaged chunk is an error: part of the answer would be missing.
    fn skip(&mut self, data: &str) -> Result<(), ProviderError> {
        self.skipped += 1;
        if data.trim_start().starts_with('{') || self.skipped > MAX_SKIPPED {
            return Err(malformed());
        }
        tracing::debug!(
            bytes = data.len(),
            "skipped an event of the provider's stream that is not a JSON object"
        );
        Ok(())
    }
}

fn malformed() -> ProviderError {
    ProviderError::new(ProviderErrorKind::Malformed, "The model provider's answer is not a chat completion.")
}

/// Maps a `finish_reason`. `tool_calls` is treated as `stop`, which servers use interchangeably. An unknown reason may stand
/// for a failure, and is an error.
fn read_finish(reason: &str) -> Result<FinishReason, ProviderError> {
    Ok(match reason.to_ascii_lowercase().as_str() {
        "stop" | "tool_calls" | "tool_call" | "tool_use" | "function_call" | "end_turn" | "eos"
        | "eos_token" | "stop_sequence" | "complete" | "completed" => FinishReason::Stop,
        "length" | "max_tokens" | "max_output_tokens" | "model_length" => FinishReason::Length,
        "content_filter" | "content-filter" | "safety" | "refusal" | "recitation" | "blocklist"
        | "prohibited_content" => FinishReason::ContentFilter,
        _ => {
            let shown: String = reason.chars().filter(|c| !c.is_control()).take(40).collect();
            let message = format!("The model provider ended its answer with finish_reason '{shown}'.");
            return Err(ProviderError::new(ProviderErrorKind::Reported, message));
        }
    })
}

/// Parses usage; `None` if all counts are 0, as in chunks of servers that report usage later.
fn read_usage(raw: &RawValue) -> Option<Usage> {
    let object = Some(raw.get()).filter(|text| text.starts_with('{'))?;
    let tokens: UsageCounts = serde_json::from_str(object).ok()?;
    let prompt = tokens.prompt_tokens_details.unwrap_or_default();
    let completion = tokens.completion_tokens_details.unwrap_or_default();
    let cached = prompt.cached_tokens.count().max(tokens.prompt_cache_hit_tokens.count());
    let (input_tokens, output_tokens) = (tokens.prompt_tokens.count(), tokens.completion_tokens.count());
    let total = match tokens.total_tokens {
        LenientNumber(None) => input_tokens.saturating_add(output_tokens),
        total => total.count(),
    };
    let usage = Usage {
        input_tokens,
        input_tokens_details: InputTokensDetails {
            cached_tokens: cached,
            cache_write_tokens: prompt.cache_write_tokens.count(),
        },
        output_tokens,
        output_tokens_details: OutputTokensDetails { reasoning_tokens: completion.reasoning_tokens.count() },
        total_tokens: total,
    };
    Some(usage).filter(|usage| *usage != Usage::default())
}

/// Parses the log probabilities of a text: at most one token for each of its bytes, and [`MAX_TEXTLESS_TOKENS`] more.
fn read_logprobs(raw: &RawValue, text_bytes: usize) -> Vec<LogProb> {
    #[derive(Deserialize)]
    struct LogProbs<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    let Ok(LogProbs { content: Some(content) }) = serde_json::from_str(raw.get()) else { return Vec::new() };
    let mut tokens = first_elements::<LogProb>(content, text_bytes + MAX_TEXTLESS_TOKENS).unwrap_or_default();
    for token in tokens.iter_mut().filter(|token| token.top_logprobs.len() > MAX_TOP_LOGPROBS) {
        let known = std::mem::take(&mut token.top_logprobs).into_iter().take(MAX_TOP_LOGPROBS);
        token.top_logprobs = known.collect();
    }
    tokens
}

/// Parses URL citations, nested as in chat completions or flat; other annotations are dropped.
fn read_annotations(raw: &RawValue) -> Vec<Annotation> {
    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow, default)]
        url_citation: Option<Citation<'a>>,
        #[serde(borrow, flatten)]
        flat: Citation<'a>,
    }
    #[derive(Deserialize)]
    struct Citation<'a> {
        #[serde(borrow, default)]
        url: LenientText<'a>,
        #[serde(borrow, default)]
        title: LenientText<'a>,
        #[serde(default)]
        start_index: LenientNumber,
        #[serde(default)]
        end_index: LenientNumber,
    }
    let annotations = first_elements::<Outer<'_>>(raw, MAX_ANNOTATIONS).unwrap_or_default();
    let citations = annotations.into_iter().map(|outer| outer.url_citation.unwrap_or(outer.flat));
    citations
        .filter(|citation| !citation.url.is_empty())
        .map(|citation| Annotation::UrlCitation {
            url: citation.url.0.into_owned(),
            title: citation.title.0.into_owned(),
            start_index: citation.start_index.count(),
            end_index: citation.end_index.count(),
        })
        .collect()
}
