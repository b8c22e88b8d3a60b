//! Writes reasoning items: raw text and summaries. Their provider state is the business of `state`.

use super::{Events, OpenItem, ReasoningDisplay, ResponseMachine, Violation, size};
use crate::turn::ProviderState;
use antwort_protocol::event::{OutputContent, ResponseEvent};
use antwort_protocol::id::Id;
use antwort_protocol::item::{Item, ItemStatus, Reasoning, ReasoningText, SummaryText};

/// The reasoning item that is being written.
#[derive(Debug)]
pub(super) struct OpenReasoning {
    id: Id,
    pub(super) output_index: u32,
    part: OpenPart,
    pub(super) state: ProviderState,
}

/// The part that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenPart {
    None,
    Raw(u32),
    Summary(u32),
}

impl OpenReasoning {
    /// A reasoning item that another process was writing.
    pub(super) fn reopen(id: Id, output_index: u32, part: OpenPart) -> Self {
        Self { id, output_index, part, state: ProviderState::default() }
    }
}

impl ResponseMachine {
    /// Raw reasoning, shown as the options say.
    pub(super) fn write_reasoning(&mut self, delta: String, out: &mut Events) -> Result<(), Violation> {
        self.open_reasoning(out)?;
        if let OpenItem::Reasoning(open) = &mut self.open {
            open.state.text.push_str(&delta);
        }
        match self.options.reasoning {
            ReasoningDisplay::Text => self.write_raw(delta, out),
            ReasoningDisplay::Summary => self.write_summary_text(delta, out),
            ReasoningDisplay::Hidden => Ok(()),
        }
    }

    /// Reasoning that the provider itself calls a summary.
    pub(super) fn write_summary(&mut self, delta: String, out: &mut Events) -> Result<(), Violation> {
        self.open_reasoning(out)?;
        self.write_summary_text(delta, out)
    }

    pub(super) fn close_reasoning(
        &mut self,
        mut open: OpenReasoning,
        out: &mut Events,
    ) -> Result<(), Violation> {
        self.close_reasoning_part(&mut open, out)?;
        let sealed = self.client_blob(&open.state);
        self.finish_item(open.output_index, out, |item| {
            if let Item::Reasoning(reasoning) = item {
                reasoning.encrypted_content = sealed;
            }
        })?;
        self.keep_state(open.output_index, open.state);
        Ok(())
    }

    fn open_reasoning(&mut self, out: &mut Events) -> Result<(), Violation> {
        if matches!(self.open, OpenItem::Reasoning(_)) {
            return Ok(());
        }
        self.close(ItemStatus::Completed, out)?;
        self.open = OpenItem::Reasoning(self.add_reasoning(out)?);
        self.join_waiting();
        Ok(())
    }

    /// Adds an empty reasoning item.
    pub(super) fn add_reasoning(&mut self, out: &mut Events) -> Result<OpenReasoning, Violation> {
        let id = self.ids.next("rs");
        let item = Item::Reasoning(Reasoning {
            id: id.clone(),
            summary: Vec::new(),
            content: Vec::new(),
            encrypted_content: None,
            is_abandoned: false,
        });
        let output_index = self.add_item(item, out)?;
        Ok(OpenReasoning { id, output_index, part: OpenPart::None, state: ProviderState::default() })
    }

    fn write_raw(&mut self, delta: String, out: &mut Events) -> Result<(), Violation> {
        let (item_id, output_index, content_index) = match self.part_of_reasoning()? {
            (id, index, OpenPart::Raw(content_index)) => (id, index, content_index),
            _ => self.open_reasoning_part(OpenPart::Raw, out)?,
        };
        self.emit(ResponseEvent::ReasoningTextDelta { item_id, output_index, content_index, delta }, out)
    }

    fn write_summary_text(&mut self, delta: String, out: &mut Events) -> Result<(), Violation> {
        let (item_id, output_index, summary_index) = match self.part_of_reasoning()? {
            (id, index, OpenPart::Summary(summary_index)) => (id, index, summary_index),
            _ => self.open_reasoning_part(OpenPart::Summary, out)?,
        };
        self.emit(ResponseEvent::SummaryTextDelta { item_id, output_index, summary_index, delta }, out)
    }

    fn part_of_reasoning(&self) -> Result<(Id, u32, OpenPart), Violation> {
        match &self.open {
            OpenItem::Reasoning(open) => Ok((open.id.clone(), open.output_index, open.part)),
            _ => Err(Violation::Misplaced),
        }
    }

    /// Closes the open part and opens one of the given kind.
    fn open_reasoning_part(
        &mut self,
        kind: fn(u32) -> OpenPart,
        out: &mut Events,
    ) -> Result<(Id, u32, u32), Violation> {
        let OpenItem::Reasoning(mut open) = std::mem::replace(&mut self.open, OpenItem::Nothing) else {
            return Err(Violation::Misplaced);
        };
        self.close_reasoning_part(&mut open, out)?;
        let Item::Reasoning(item) = self.output(open.output_index)? else { return Err(Violation::Misplaced) };
        let (contents, summaries) = (item.content.len(), item.summary.len());
        let (item_id, output_index) = (open.id.clone(), open.output_index);
        let raw = matches!(kind(0), OpenPart::Raw(_));
        let index =
            u32::try_from(if raw { contents } else { summaries }).map_err(|_| Violation::Misplaced)?;
        let added = if raw {
            let part = OutputContent::Reasoning(ReasoningText { text: String::new() });
            ResponseEvent::ContentPartAdded {
                item_id: item_id.clone(),
                output_index,
                content_index: index,
                part,
            }
        } else {
            let part = SummaryText { text: String::new() };
            ResponseEvent::SummaryPartAdded {
                item_id: item_id.clone(),
                output_index,
                summary_index: index,
                part,
            }
        };
        self.count(size::PART_OVERHEAD);
        self.emit(added, out)?;
        open.part = kind(index);
        self.open = OpenItem::Reasoning(open);
        Ok((item_id, output_index, index))
    }

    fn close_reasoning_part(&mut self, open: &mut OpenReasoning, out: &mut Events) -> Result<(), Violation> {
        let (item_id, output_index) = (open.id.clone(), open.output_index);
        let Item::Reasoning(item) = self.output(output_index)? else { return Err(Violation::Misplaced) };
        match std::mem::replace(&mut open.part, OpenPart::None) {
            OpenPart::None => {}
            OpenPart::Raw(content_index) => {
                let part = item.content.get(content_index as usize).ok_or(Violation::Misplaced)?.clone();
                let (id, text) = (item_id.clone(), part.text.clone());
                self.emit_infallible(
                    ResponseEvent::ReasoningTextDone { item_id: id, output_index, content_index, text },
                    out,
                );
                let part = OutputContent::Reasoning(part);
                self.emit_infallible(
                    ResponseEvent::ContentPartDone { item_id, output_index, content_index, part },
                    out,
                );
            }
            OpenPart::Summary(summary_index) => {
                let part = item.summary.get(summary_index as usize).ok_or(Violation::Misplaced)?.clone();
                let (id, text) = (item_id.clone(), part.text.clone());
                self.emit_infallible(
                    ResponseEvent::SummaryTextDone { item_id: id, output_index, summary_index, text },
                    out,
                );
                self.emit_infallible(
                    ResponseEvent::SummaryPartDone { item_id, output_index, summary_index, part },
                    out,
                );
            }
        }
        Ok(())
    }
}
