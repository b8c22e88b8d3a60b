//! Builds a response from the events of its stream, as a client would.
//!
//! The machine keeps its state here, so that the stream, the stored row and the JSON body cannot differ. Events
//! that close something are made of this state; a validator in the tests accumulates finished streams with code of
//! its own and compares.

use antwort_protocol::content::{ContentPart, OutputText, Refusal};
use antwort_protocol::event::{OutputContent, ResponseEvent};
use antwort_protocol::item::{Item, ReasoningText, SummaryText};
use antwort_protocol::response::Response;

/// The response so far.
#[derive(Debug)]
pub(crate) struct ResponseAccumulator {
    response: Response,
}

/// An event that does not fit the events before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the event refers to an item or part that does not exist or has another type")]
pub(crate) struct InvalidEvent;

impl ResponseAccumulator {
    pub(crate) fn new(response: Response) -> Self {
        Self { response }
    }

    pub(crate) fn response(&self) -> &Response {
        &self.response
    }

    pub(crate) fn into_response(self) -> Response {
        self.response
    }

    /// Changes an item; the event that announces the change is made of the result.
    pub(super) fn change_item(
        &mut self,
        index: u32,
        change: impl FnOnce(&mut Item),
    ) -> Result<&Item, InvalidEvent> {
        let item = self.item(index)?;
        change(item);
        Ok(item)
    }

    /// Applies an event that adds something.
    pub(crate) fn apply(&mut self, event: &ResponseEvent) -> Result<(), InvalidEvent> {
        match event {
            ResponseEvent::Hosted(_)
            | ResponseEvent::ToolProgress { .. }
            | ResponseEvent::Keepalive {}
            | ResponseEvent::InputRequired { .. }
            | ResponseEvent::A2aInputRequired(_) => {}
            ResponseEvent::OutputItemAdded { output_index, item } => {
                if *output_index as usize != self.response.output.len() {
                    return Err(InvalidEvent);
                }
                self.response.output.push((**item).clone());
            }
            ResponseEvent::ContentPartAdded { output_index, content_index, part, .. } => {
                self.add_part(*output_index, *content_index, part)?;
            }
            ResponseEvent::SummaryPartAdded { output_index, summary_index, part, .. } => {
                let summary = self.summary(*output_index)?;
                if *summary_index as usize != summary.len() {
                    return Err(InvalidEvent);
                }
                summary.push(part.clone());
            }
            ResponseEvent::OutputTextDelta { output_index, content_index, delta, logprobs, .. } => {
                let part = self.text(*output_index, *content_index)?;
                part.text.push_str(delta);
                part.logprobs.extend_from_slice(logprobs);
            }
            ResponseEvent::AnnotationAdded { output_index, content_index, annotation, .. } => {
                self.text(*output_index, *content_index)?.annotations.push(annotation.clone());
            }
            ResponseEvent::RefusalDelta { output_index, content_index, delta, .. } => {
                self.refusal(*output_index, *content_index)?.refusal.push_str(delta);
            }
            ResponseEvent::ReasoningTextDelta { output_index, content_index, delta, .. } => {
                self.reasoning(*output_index, *content_index)?.text.push_str(delta);
            }
            ResponseEvent::SummaryTextDelta { output_index, summary_index, delta, .. } => {
                self.summary_part(*output_index, *summary_index)?.text.push_str(delta);
            }
            ResponseEvent::FunctionArgumentsDelta { output_index, delta, .. }
            | ResponseEvent::CustomInputDelta { output_index, delta, .. }
            | ResponseEvent::McpArgumentsDelta { output_index, delta, .. } => {
                self.argument(*output_index)?.push_str(delta);
            }
            _ => return Err(InvalidEvent),
        }
        Ok(())
    }

    fn add_part(&mut self, index: u32, content_index: u32, part: &OutputContent) -> Result<(), InvalidEvent> {
        match (self.item(index)?, part) {
            (Item::Message(message), OutputContent::Content(part))
                if message.content.len() == content_index as usize =>
            {
                message.content.push(part.clone());
                Ok(())
            }
            (Item::Reasoning(reasoning), OutputContent::Reasoning(part))
                if reasoning.content.len() == content_index as usize =>
            {
                reasoning.content.push(part.clone());
                Ok(())
            }
            _ => Err(InvalidEvent),
        }
    }

    fn item(&mut self, index: u32) -> Result<&mut Item, InvalidEvent> {
        self.response.output.get_mut(index as usize).ok_or(InvalidEvent)
    }

    fn content(&mut self, index: u32, content_index: u32) -> Result<&mut ContentPart, InvalidEvent> {
        match self.item(index)? {
            Item::Message(message) => message.content.get_mut(content_index as usize).ok_or(InvalidEvent),
            _ => Err(InvalidEvent),
        }
    }

    fn text(&mut self, index: u32, content_index: u32) -> Result<&mut OutputText, InvalidEvent> {
        match self.content(index, content_index)? {
            ContentPart::OutputText(text) => Ok(text),
            _ => Err(InvalidEvent),
        }
    }

    fn refusal(&mut self, index: u32, content_index: u32) -> Result<&mut Refusal, InvalidEvent> {
        match self.content(index, content_index)? {
            ContentPart::Refusal(refusal) => Ok(refusal),
            _ => Err(InvalidEvent),
        }
    }

    fn reasoning(&mut self, index: u32, content_index: u32) -> Result<&mut ReasoningText, InvalidEvent> {
        match self.item(index)? {
            Item::Reasoning(reasoning) => {
                reasoning.content.get_mut(content_index as usize).ok_or(InvalidEvent)
            }
            _ => Err(InvalidEvent),
        }
    }

    fn summary(&mut self, index: u32) -> Result<&mut Vec<SummaryText>, InvalidEvent> {
        match self.item(index)? {
            Item::Reasoning(reasoning) => Ok(&mut reasoning.summary),
            _ => Err(InvalidEvent),
        }
    }

    fn summary_part(&mut self, index: u32, summary_index: u32) -> Result<&mut SummaryText, InvalidEvent> {
        self.summary(index)?.get_mut(summary_index as usize).ok_or(InvalidEvent)
    }

    fn argument(&mut self, index: u32) -> Result<&mut String, InvalidEvent> {
        match self.item(index)? {
            Item::FunctionCall(call) => Ok(&mut call.arguments),
            Item::CustomToolCall(call) => Ok(&mut call.input),
            Item::McpCall(call) => Ok(&mut call.arguments),
            _ => Err(InvalidEvent),
        }
    }
}
