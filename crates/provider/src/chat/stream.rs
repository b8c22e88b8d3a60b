//! Translates chat completions to model events: one state machine for chunks of a stream and for whole bodies.
//!
//! Decides when an answer is complete: after a `finish_reason` or `[DONE]`. A stream that ends without either was cut off.
//! The tables in `tests` have a row for each known deviation of servers.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::calls::CallAssembler;
use super::chunk_template::{ChunkTemplate, TextKind};
use super::early::EarlyParts;
use super::errors::limit_exceeded;
use super::extras::{read_annotations, read_logprobs};
use super::finish::read_finish;
use super::plain_text::{PlainText, told_in_place_of};
use super::reasoning::{ReasoningAssembler, max_parsed_size};
use super::surrogates::{self, Repaired};
use super::think_tags::{Segment, ThinkTagParser};
use super::usage::read_usage;
use super::wire::{Choice, CompletionChunk, ContentPiece, Delta, DeltaContent, MAX_ELEMENTS};
use crate::errors::{ProviderError, ProviderErrorKind};
use crate::upstream_error::UpstreamError;
use antwort_config::ThinkTags;
use antwort_protocol::response::Usage;
use antwort_response::turn::{FinishReason, ModelEvent, ModelTool};

/// Maximum number of events between two chunks that are skipped as they are not JSON objects, such as a stray `ping`.
const MAX_SKIPPED: usize = 8;
/// Default of [`Translator::with_max_held_bytes`].
const DEFAULT_MAX_HELD_BYTES: usize = 64 << 20;
/// Translates one answer to model events.
#[derive(Debug)]
pub struct Translator {
    calls: CallAssembler,
    reasoning: ReasoningAssembler,
    think: ThinkTagParser,
    wants_logprobs: bool,
    early: EarlyParts,
    /// The last output was text of the answer.
    in_text: bool,
    /// The reasoning of this chunk is kept for later.
    sets_reasoning_aside: bool,
    usage: Option<Usage>,
    service_tier: bool,
    /// Why the model has ended its answer, or the error that its reason stands for: the usage may still come.
    finish: Option<Result<FinishReason, ProviderError>>,
    /// Part of the answer itself was received.
    answered: bool,
    /// At least one chunk was a chat completion.
    understood: bool,
    skipped: usize,
    /// The last text that came in place of a chunk, or the last of them that reads like an error.
    plain_text: Option<PlainText>,
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
            in_text: false,
            sets_reasoning_aside: false,
            usage: None,
            service_tier: false,
            finish: None,
            answered: false,
            understood: false,
            skipped: 0,
            plain_text: None,
            held_chunk: None,
            template: ChunkTemplate::default(),
            done: false,
            max_held_bytes: DEFAULT_MAX_HELD_BYTES,
        }
    }

    /// Limits the bytes of the answer that may be buffered: of a call without a name, or of reasoning state.
    pub(crate) fn with_max_held_bytes(self, max_held_bytes: usize) -> Self {
        Self { max_held_bytes, ..self }
    }

    /// Whether the answer has ended: `[DONE]`, or a whole body.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the model has finished: only the usage and the end of the stream may still come.
    pub fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// The usage that was received and not emitted, of an answer that failed or was not read to its end.
    pub fn take_usage(&mut self) -> Option<Usage> {
        self.usage.take()
    }

    /// The error that the server has told as plain text, for an answer that did not end as it should.
    pub(crate) fn told_error(&self) -> Option<ProviderError> {
        self.plain_text.as_ref().filter(|text| text.is_error()).map(PlainText::to_error)
    }

    /// Forgets a text that does not read like an error: it is not why the connection broke.
    pub(crate) fn forget_words(&mut self) {
        self.plain_text = self.plain_text.take().filter(PlainText::is_error);
    }

    /// Translates one event of a stream. What is wrong behind the model's own end is no part of its answer, and ends the
    /// stream only.
    pub fn push(
        &mut self,
        name: Option<&str>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        if self.done {
            return Ok(());
        }
        let read = self.push_event(name, data, out);
        if read.is_err() && matches!(self.finish, Some(Ok(_))) {
            tracing::debug!(bytes = data.len(), "ignored an error behind the end of the provider's answer");
            self.done = true;
            return Ok(());
        }
        read
    }

    fn push_event(
        &mut self,
        name: Option<&str>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
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
                self.skipped = 0;
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
                self.skipped = 0;
                self.template.learn(data, &chunk, self.wants_logprobs);
                self.push_chunk(chunk, false, out)
            }
            Err(_) => self.skip(data),
        }
    }

    /// Translates the whole body of an answer that is not a stream, and ends the answer.
    pub(crate) fn push_body(&mut self, body: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let body = match surrogates::repair(body, false) {
            Repaired::Whole(body) => body,
            Repaired::Half(body) => body.into(),
        };
        match serde_json::from_str::<CompletionChunk<'_>>(&body) {
            Ok(chunk) => self.push_chunk(chunk, true, out)?,
            Err(_) => return Err(told_in_place_of(&body).unwrap_or_else(malformed)),
        }
        // A whole body needs no further sign of its end.
        self.done = true;
        self.finish(out)
    }

    /// Ends the answer: at `[DONE]`, or when the connection has ended.
    pub fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if let Some(held) = self.held_chunk.take() {
            let read = self.read(&surrogates::repair_all(&held), out);
            if !matches!(self.finish, Some(Ok(_))) {
                read?;
            }
        }
        let reason = self.finish_reason()?;
        out.extend(self.usage.take().map(ModelEvent::Usage));
        let mut segments = Vec::new();
        self.think.end(&mut segments);
        self.write_segments(segments, out);
        self.reasoning.write_late(out);
        self.calls.finish(reason == FinishReason::Length, out)?;
        self.reasoning.flush_state(out);
        out.push(ModelEvent::Finish(reason));
        Ok(())
    }

    /// The reason that the server has given, or that the end of its stream stands for.
    fn finish_reason(&self) -> Result<FinishReason, ProviderError> {
        match (&self.finish, self.told_error()) {
            (Some(reason), _) => reason.clone(),
            (None, Some(told)) => Err(told),
            (None, None) if self.done && self.answered => Ok(FinishReason::Stop),
            (None, None) if self.done || !self.understood => Err(self.why_malformed()),
            (None, None) => Err(ProviderError::new(
                ProviderErrorKind::Cut,
                "The model provider closed the connection before its answer was complete.",
            )),
        }
    }

    /// The error of what is no chat completion: what the server has told, in any words if it has not answered.
    fn why_malformed(&self) -> ProviderError {
        let told = self.plain_text.as_ref().filter(|text| text.is_error() || !self.answered);
        told.map_or_else(malformed, PlainText::to_error)
    }

    fn push_chunk(
        &mut self,
        chunk: CompletionChunk<'_>,
        whole: bool,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let CompletionChunk { choices, usage, service_tier, error, object, message, code, kind } = chunk;
        let in_choice = || choices.0.as_ref().and_then(|choice| choice.usage);
        // First, as what was used counts even if the answer fails.
        if let Some(usage) = usage.and_then(read_usage).or_else(|| in_choice().and_then(read_usage)) {
            self.understood = true;
            self.usage = Some(usage);
        }
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
            self.finish.get_or_insert_with(|| read_finish(reason));
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
        let has_text = delta.has_text();
        if !has_text && !delta.is_blank() {
            self.reasoning.write_late(out);
        }
        let reasoning_begins = out.len();
        self.reasoning.push(&mut delta, whole, self.max_held_bytes, out)?;
        // Servers that send a piece of each in every chunk would open two items a chunk.
        self.sets_reasoning_aside = self.in_text && has_text && out.len() > reasoning_begins;
        if self.sets_reasoning_aside {
            self.reasoning.set_aside(out.drain(reasoning_begins..), self.max_held_bytes)?;
        }
        match delta.content {
            DeltaContent::Text(text) => self.write_text(text, logprobs, out),
            DeltaContent::Parts(parts) => parts.into_iter().for_each(|part| self.write_part(part, out)),
        }
        self.sets_reasoning_aside = false;
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
        if !pieces.is_empty() || delta.function_call.is_some() {
            self.reasoning.write_late(out);
        }
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
        self.note_output(out.get(before..).unwrap_or_default());
        self.check_held(0)
    }

    /// Notes whether these events leave the answer's text open.
    fn note_output(&mut self, events: &[ModelEvent]) {
        for event in events {
            match event {
                ModelEvent::Text { .. } => self.in_text = true,
                ModelEvent::Reasoning(_)
                | ModelEvent::ReasoningSummary(_)
                | ModelEvent::CallStarted { .. } => self.in_text = false,
                _ => {}
            }
        }
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
            TextKind::Reasoning => {
                self.reasoning.write_late(out);
                self.reasoning.push_plain(text, out);
            }
        }
        self.answered |= out.len() > before;
        self.note_output(out.get(before..).unwrap_or_default());
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
        if !self.sets_reasoning_aside {
            self.reasoning.flush_state(out);
        }
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
        let data = data.trim();
        if data.starts_with('[') {
            let listed = UpstreamError::parse(data);
            if !listed.is_empty() {
                return Err(listed.into_error(None, None));
            }
        }
        if data.starts_with('{') || self.skipped > MAX_SKIPPED {
            return Err(self.why_malformed());
        }
        let has_error = self.plain_text.as_ref().is_some_and(PlainText::is_error);
        if let Some(text) = PlainText::read(data).filter(|text| text.is_error() || !has_error) {
            self.plain_text = Some(text);
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
