//! Writes messages: texts, refusals and annotations.

use super::{Events, OpenItem, ResponseMachine, Violation, size};
use antwort_protocol::content::{Annotation, ContentPart, LogProb, OutputText, Refusal};
use antwort_protocol::event::{OutputContent, ResponseEvent};
use antwort_protocol::id::Id;
use antwort_protocol::item::{Item, ItemStatus, Message, Phase, Role};

/// Annotations of one text; further ones are dropped.
pub const MAX_ANNOTATIONS: usize = 1024;

/// The message that is being written.
#[derive(Debug, Clone)]
pub(super) struct OpenMessage {
    id: Id,
    output_index: u32,
    /// The part that is being written; every open message has one.
    part: OpenPart,
}

#[derive(Debug, Clone, Copy)]
struct OpenPart {
    content_index: u32,
    kind: PartKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartKind {
    Text,
    Refusal,
}

impl OpenMessage {
    /// A message that another process was writing; `None` if it has no part.
    pub(super) fn reopen(message: &Message, output_index: u32) -> Option<Self> {
        let kind = match message.content.last()? {
            ContentPart::Refusal(_) => PartKind::Refusal,
            _ => PartKind::Text,
        };
        let content_index = u32::try_from(message.content.len() - 1).ok()?;
        Some(Self { id: message.id.clone(), output_index, part: OpenPart { content_index, kind } })
    }
}

impl ResponseMachine {
    pub(super) fn write_text(
        &mut self,
        delta: String,
        mut logprobs: Vec<LogProb>,
        out: &mut Events,
    ) -> Result<(), Violation> {
        let (item_id, output_index, content_index) = self.open_text(out)?;
        if !self.options.logprobs {
            logprobs.clear();
        }
        self.emit(
            ResponseEvent::OutputTextDelta { item_id, output_index, content_index, delta, logprobs },
            out,
        )
    }

    pub(super) fn write_refusal(&mut self, delta: String, out: &mut Events) -> Result<(), Violation> {
        let (item_id, output_index, content_index) = self.open_part(PartKind::Refusal, out)?;
        self.emit(ResponseEvent::RefusalDelta { item_id, output_index, content_index, delta }, out)
    }

    /// Adds an annotation to the open text. Dropped if no text is open, and beyond [`MAX_ANNOTATIONS`].
    pub(super) fn write_annotation(
        &mut self,
        annotation: Annotation,
        out: &mut Events,
    ) -> Result<(), Violation> {
        let OpenItem::Message(OpenMessage { id, output_index, part }) = &self.open else { return Ok(()) };
        let (item_id, output_index, content_index) = (id.clone(), *output_index, part.content_index);
        let Item::Message(message) = self.output(output_index)? else { return Err(Violation::Misplaced) };
        let Some(ContentPart::OutputText(text)) = message.content.get(content_index as usize) else {
            return Ok(());
        };
        if text.annotations.len() >= MAX_ANNOTATIONS {
            return Ok(());
        }
        let annotation_index = u32::try_from(text.annotations.len()).map_err(|_| Violation::Misplaced)?;
        self.emit(
            ResponseEvent::AnnotationAdded {
                item_id,
                output_index,
                content_index,
                annotation_index,
                annotation,
            },
            out,
        )
    }

    /// Opens a text if none is open; returns its item and indexes.
    pub(super) fn open_text(&mut self, out: &mut Events) -> Result<(Id, u32, u32), Violation> {
        self.open_part(PartKind::Text, out)
    }

    fn open_part(&mut self, kind: PartKind, out: &mut Events) -> Result<(Id, u32, u32), Violation> {
        let (id, output_index, content_index) = match &self.open {
            OpenItem::Message(OpenMessage { id, output_index, part }) if part.kind == kind => {
                return Ok((id.clone(), *output_index, part.content_index));
            }
            OpenItem::Message(message) => {
                let message = message.clone();
                self.close_part(&message, out)?;
                (message.id, message.output_index, message.part.content_index + 1)
            }
            _ => {
                self.flush_state_before_item(out)?;
                self.close(ItemStatus::Completed, out)?;
                let id = self.ids.next("msg");
                let item = Item::Message(Message {
                    id: id.clone(),
                    status: ItemStatus::InProgress,
                    role: Role::Assistant,
                    content: Vec::new(),
                    phase: None,
                });
                (id, self.add_item(item, out)?, 0)
            }
        };
        let part = match kind {
            PartKind::Text => ContentPart::OutputText(OutputText::default()),
            PartKind::Refusal => ContentPart::Refusal(Refusal::default()),
        };
        let part = OutputContent::Content(part);
        self.count(size::PART_OVERHEAD);
        self.emit(
            ResponseEvent::ContentPartAdded { item_id: id.clone(), output_index, content_index, part },
            out,
        )?;
        let part = OpenPart { content_index, kind };
        self.open = OpenItem::Message(OpenMessage { id: id.clone(), output_index, part });
        Ok((id, output_index, content_index))
    }

    /// The text of the part that is being written.
    pub(super) fn text_of(&self, open: &OpenMessage) -> Option<&str> {
        let Ok(Item::Message(message)) = self.output(open.output_index) else { return None };
        match message.content.get(open.part.content_index as usize) {
            Some(ContentPart::OutputText(text)) => Some(&text.text),
            _ => None,
        }
    }

    pub(super) fn close_message(
        &mut self,
        open: &OpenMessage,
        status: ItemStatus,
        out: &mut Events,
    ) -> Result<(), Violation> {
        self.close_part(open, out)?;
        let phase = self.turn.is_commentary.then_some(Phase::Commentary);
        self.finish_item(open.output_index, out, |item| {
            if let Item::Message(message) = item {
                message.status = status;
                message.phase = phase;
            }
        })
    }

    fn close_part(&mut self, open: &OpenMessage, out: &mut Events) -> Result<(), Violation> {
        let OpenMessage { id, output_index, part: OpenPart { content_index, .. } } = open.clone();
        let Item::Message(message) = self.output(output_index)? else { return Err(Violation::Misplaced) };
        let part = message.content.get(content_index as usize).ok_or(Violation::Misplaced)?.clone();
        let done = match &part {
            ContentPart::OutputText(OutputText { text, logprobs, .. }) => ResponseEvent::OutputTextDone {
                item_id: id.clone(),
                output_index,
                content_index,
                text: text.clone(),
                logprobs: logprobs.clone(),
            },
            ContentPart::Refusal(Refusal { refusal }) => ResponseEvent::RefusalDone {
                item_id: id.clone(),
                output_index,
                content_index,
                refusal: refusal.clone(),
            },
            _ => return Err(Violation::Misplaced),
        };
        self.emit_infallible(done, out);
        let part = OutputContent::Content(part);
        self.emit_infallible(
            ResponseEvent::ContentPartDone { item_id: id, output_index, content_index, part },
            out,
        );
        Ok(())
    }
}
