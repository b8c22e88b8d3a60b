//! Reasoning in its many fields: picks one text where several fields repeat it, and collects the state that must be sent back.
//!
//! `reasoning_content`, `reasoning` and `thinking` are plain text. `reasoning_details` (OpenRouter) and `thinking_blocks`
//! (LiteLLM) are lists with signatures that must be sent back unchanged; streams deliver them in deltas, which are joined
//! here. `extra_content` (Gemini) and `provider_specific_fields` (LiteLLM) hold the thought signature of a text; those of a
//! call are handled in `calls`.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::errors::limit_exceeded;
use super::specific_fields;
use super::wire::{Delta, DeltaContent};
use crate::errors::ProviderError;
use antwort_response::turn::{ModelEvent, ProviderFields};

/// Bytes of an object without content that are kept to be recognised.
const MAX_SILENT: usize = 512;

/// The reasoning of one turn.
#[derive(Debug, Default)]
pub(super) struct ReasoningAssembler {
    source: Source,
    /// `reasoning_details` since the last flush.
    details: Vec<Value>,
    /// `thinking_blocks` since the last flush.
    blocks: Vec<Value>,
    /// `extra_content` with the signature of the text.
    extra: Option<Value>,
    /// `provider_specific_fields` since the last flush.
    specific: ProviderFields,
    /// The last such object that says nothing.
    silent: Option<Box<str>>,
    /// There is state that was not emitted yet.
    changed: bool,
    /// Texts that came beside the answer's own, when it had begun.
    late: Vec<ModelEvent>,
    /// Upper bound of the memory of the state in bytes.
    held_bytes: usize,
    /// Bytes of the late texts.
    late_bytes: usize,
}

/// The source of the text: lists often repeat the plain fields, possibly in another chunk.
#[derive(Debug, Default, PartialEq, Eq)]
enum Source {
    #[default]
    Unknown,
    Plain,
    Lists,
}

impl ReasoningAssembler {
    /// Processes the reasoning of a chunk, or of a whole message, whose lists are complete. Holds at most `max_held_bytes` of
    /// state.
    pub(super) fn push(
        &mut self,
        delta: &mut Delta<'_>,
        whole: bool,
        max_held_bytes: usize,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let lists = [delta.reasoning_details, delta.thinking_blocks];
        self.held_bytes += lists.into_iter().flatten().map(max_parsed_size).sum::<usize>();
        self.check_held(0, max_held_bytes)?;
        if let Some(extra) = delta.extra_content {
            self.push_extra(extra, max_held_bytes)?;
        }
        if let Some(specific) = delta.provider_specific_fields {
            self.push_specific(specific, max_held_bytes)?;
        }
        let plain = [&mut delta.reasoning_content, &mut delta.reasoning, &mut delta.thinking];
        let plain = plain.into_iter().find(|text| !text.is_empty()).map(std::mem::take);
        // Some servers send the answer in a field of reasoning as well.
        let plain = plain.filter(|plain| !is_content(delta, plain.as_str()));
        let lists = delta.reasoning_details.is_some() || delta.thinking_blocks.is_some();
        if !lists {
            if let Some(plain) = plain {
                self.push_plain(plain.0, out);
            }
            return Ok(());
        }
        let mut texts = Vec::new();
        read_list(delta.reasoning_details, &mut self.details, whole, &mut texts);
        read_list(delta.thinking_blocks, &mut self.blocks, whole, &mut texts);
        texts.retain(|text| !is_content(delta, text_of_event(text)));
        self.changed |= !(self.details.is_empty() && self.blocks.is_empty());
        if let Some(plain) = plain {
            self.source = Source::Plain;
            let summary = texts.iter().any(|text| matches!(text, ModelEvent::ReasoningSummary(_)));
            let raw = texts.iter().any(|text| matches!(text, ModelEvent::Reasoning(_)));
            let text = plain.0.into_owned();
            out.push(if summary && !raw {
                ModelEvent::ReasoningSummary(text)
            } else {
                ModelEvent::Reasoning(text)
            });
        } else if self.source != Source::Plain && !texts.is_empty() {
            self.source = Source::Lists;
            out.append(&mut texts);
        }
        Ok(())
    }

    fn push_extra(&mut self, raw: &RawValue, max_held_bytes: usize) -> Result<(), ProviderError> {
        let size = max_parsed_size(raw);
        self.check_held(size, max_held_bytes)?;
        if let Some(extra) = thought_signature(raw) {
            self.extra = Some(extra);
            self.held_bytes += size;
            self.changed = true;
        }
        Ok(())
    }

    /// Servers send these with every chunk, most with nothing in them: the same nothing is read once. Only what is kept of them
    /// is counted.
    fn push_specific(&mut self, raw: &RawValue, max_held_bytes: usize) -> Result<(), ProviderError> {
        if self.silent.as_deref() == Some(raw.get()) {
            return Ok(());
        }
        let size = max_parsed_size(raw);
        self.check_held(size, max_held_bytes)?;
        let fields = specific_fields::of_message(raw);
        if fields.is_none() && raw.get().len() <= MAX_SILENT {
            self.silent = Some(raw.get().into());
        }
        if fields.is_some_and(|fields| specific_fields::merge(&mut self.specific, fields)) {
            self.held_bytes += size;
            self.changed = true;
        }
        Ok(())
    }

    /// Checks that this many more bytes may be held.
    fn check_held(&self, more: usize, max_held_bytes: usize) -> Result<(), ProviderError> {
        if self.held_bytes + self.late_bytes + more <= max_held_bytes {
            return Ok(());
        }
        Err(limit_exceeded("of reasoning in one piece", max_held_bytes))
    }

    /// Processes reasoning that comes as plain text alone.
    pub(super) fn push_plain(&mut self, text: Cow<'_, str>, out: &mut Vec<ModelEvent>) {
        self.source = Source::Plain;
        out.push(ModelEvent::Reasoning(text.into_owned()));
    }

    /// Keeps reasoning that came in one chunk with text of the answer, which had begun: it is emitted as a whole when
    /// something else than text follows. Holds at most `max_held_bytes`.
    pub(super) fn set_aside(
        &mut self,
        events: impl Iterator<Item = ModelEvent>,
        max_held_bytes: usize,
    ) -> Result<(), ProviderError> {
        for event in events {
            self.late_bytes += text_of_event(&event).len();
            match (self.late.last_mut(), event) {
                (Some(ModelEvent::Reasoning(text)), ModelEvent::Reasoning(more))
                | (Some(ModelEvent::ReasoningSummary(text)), ModelEvent::ReasoningSummary(more)) => {
                    text.push_str(&more);
                }
                (_, event) => self.late.push(event),
            }
        }
        self.check_held(0, max_held_bytes)
    }

    /// Emits what was set aside.
    pub(super) fn write_late(&mut self, out: &mut Vec<ModelEvent>) {
        self.late_bytes = 0;
        out.append(&mut self.late);
    }

    /// Emits the collected state: the model has begun another kind of output, so the reasoning before it is complete.
    pub(super) fn flush_state(&mut self, out: &mut Vec<ModelEvent>) {
        if std::mem::take(&mut self.changed) {
            out.push(ModelEvent::ReasoningState(self.state()));
        }
    }

    /// The state since the last flush.
    fn state(&mut self) -> ProviderFields {
        self.held_bytes = 0;
        let lists = [("reasoning_details", &mut self.details), ("thinking_blocks", &mut self.blocks)];
        let lists =
            lists.map(|(name, list)| (name, Some(std::mem::take(list)).filter(|list| !list.is_empty())));
        let lists = lists.into_iter().filter_map(|(name, list)| Some((name, Value::Array(list?))));
        let extra = self.extra.take().map(|extra| ("extra_content", extra));
        let specific = Some(std::mem::take(&mut self.specific)).filter(|fields| !fields.is_empty());
        let specific = specific.map(|fields| (specific_fields::SPECIFIC, Value::Object(fields)));
        lists.chain(extra).chain(specific).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Whether a text is the content of the same chunk.
fn is_content(delta: &Delta<'_>, text: &str) -> bool {
    match &delta.content {
        DeltaContent::Text(content) => !content.is_empty() && content == text,
        DeltaContent::Parts(parts) => {
            let rest = parts.iter().try_fold(text, |rest, part| rest.strip_prefix(part.text.as_str()));
            !text.is_empty() && rest == Some("")
        }
    }
}

fn text_of_event(event: &ModelEvent) -> &str {
    match event {
        ModelEvent::Reasoning(text) | ModelEvent::ReasoningSummary(text) => text,
        _ => "",
    }
}

/// Upper bound of the memory of a JSON text as a [`Value`]: every value but the first follows one of these characters.
pub(super) fn max_parsed_size(raw: &RawValue) -> usize {
    let values = raw.get().bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{' | b':')).count();
    raw.get().len() + 2 * size_of::<Value>() * values
}

/// Extra content that has a thought signature; other extra content only concerns the display.
fn thought_signature(extra: &RawValue) -> Option<Value> {
    let extra: Value = serde_json::from_str(extra.get()).ok()?;
    let signature = extra.get("google")?.get("thought_signature")?.as_str()?;
    (!signature.is_empty()).then_some(extra)
}

/// Merges a list's elements into the collected ones, and emits their text.
fn read_list(raw: Option<&RawValue>, kept: &mut Vec<Value>, whole: bool, texts: &mut Vec<ModelEvent>) {
    let elements = raw.and_then(|raw| serde_json::from_str::<Vec<Value>>(raw.get()).ok()).unwrap_or_default();
    for element in elements {
        if let Some((field, text)) = text_of(&element) {
            let event = if field == "summary" { ModelEvent::ReasoningSummary } else { ModelEvent::Reasoning };
            texts.push(event(text.to_owned()));
        }
        match kept.last_mut().filter(|last| !whole && continues(last, &element)) {
            Some(last) => join(last, element),
            None => kept.push(element),
        }
    }
}

/// The text of an element and the field that holds it, if there is any.
fn text_of(element: &Value) -> Option<(&'static str, &str)> {
    let fields = ["text", "summary", "thinking"].into_iter();
    fields.filter_map(|name| Some((name, element.get(name)?.as_str()?))).find(|(_, text)| !text.is_empty())
}

/// Whether an element continues the last one: same type and index, and the last one has no signature yet.
fn continues(last: &Value, next: &Value) -> bool {
    let same = |name| last.get(name) == next.get(name);
    let signed = last.get("signature").is_some_and(|signature| !signature.is_null() && signature != "");
    let texts = ["text", "summary", "thinking"];
    same("type")
        && same("index")
        && !signed
        && texts.iter().any(|name| last.get(*name).is_some_and(Value::is_string))
}

fn join(last: &mut Value, next: Value) {
    let (Value::Object(last), Value::Object(next)) = (last, next) else { return };
    for (name, value) in next {
        match (last.get_mut(&name), value) {
            (Some(Value::String(text)), Value::String(more))
                if matches!(name.as_str(), "text" | "summary" | "thinking") =>
            {
                text.push_str(&more);
            }
            (Some(_), Value::Null) => {}
            (_, value) => {
                last.insert(name, value);
            }
        }
    }
}
