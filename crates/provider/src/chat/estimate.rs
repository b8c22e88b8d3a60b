//! Estimates the size of a prompt: its texts by a tokenizer that need not be the model's, and flat figures for what a
//! chat template and a vision encoder add.

use super::message::{Assistant, CallInput, ChatMessage, MessageContent, MessagePart};
use super::options::ChatOptions;
use super::request;
use super::tools::ChatTools;
use crate::errors::ProviderError;
use antwort_protocol::request::TextFormat;
use antwort_response::turn::ModelRequest;

/// What a template puts around a message: its role and two markers.
const TOKENS_PER_MESSAGE: usize = 4;
/// The same for a call.
const TOKENS_PER_CALL: usize = 8;
/// The head of the answer.
const TOKENS_OF_ANSWER: usize = 3;
/// How most templates explain the use of tools.
const TOKENS_OF_TOOL_USE: usize = 64;
/// An image, a recording, a video or a file. What it really takes depends on its size and the model: from a hundred
/// tokens to thousands.
const TOKENS_PER_ATTACHMENT: usize = 1000;

/// Estimates the tokens of a request's prompt; `count` is the tokenizer. Fails where encoding the request would.
pub(crate) fn estimate(
    request: &ModelRequest,
    options: &ChatOptions,
    count: impl Fn(&str) -> usize,
) -> Result<usize, ProviderError> {
    let messages = request::messages(request, options)?;
    let messages: usize = messages.iter().map(|message| message_tokens(message, &count)).sum();
    let tools = match serde_json::to_string(&ChatTools::new(&request.tools, options.supports)) {
        Ok(tools) if !request.tools.is_empty() => TOKENS_OF_TOOL_USE + count(&tools),
        _ => 0,
    };
    let schema = match &request.format {
        TextFormat::JsonSchema(format) => {
            let description = format.description.as_deref().unwrap_or_default();
            count(&format.name) + count(description) + count(format.schema.as_raw().get())
        }
        TextFormat::Text | TextFormat::JsonObject => 0,
    };
    Ok(messages + tools + schema + TOKENS_OF_ANSWER)
}

fn message_tokens(message: &ChatMessage<'_>, count: &impl Fn(&str) -> usize) -> usize {
    let inside = match message {
        ChatMessage::Plain { content: MessageContent::Text(text), .. }
        | ChatMessage::Tool { content: text, .. } => count(text),
        ChatMessage::Plain { content: MessageContent::Parts(parts), .. } => {
            parts.iter().map(|part| part_tokens(part, count)).sum()
        }
        ChatMessage::Assistant(message) => assistant_tokens(message, count),
        // It is nothing that anybody has said.
        ChatMessage::Inserted { .. } => return 0,
    };
    TOKENS_PER_MESSAGE + inside
}

fn part_tokens(part: &MessagePart<'_>, count: &impl Fn(&str) -> usize) -> usize {
    match part {
        MessagePart::Text { text } => count(text),
        MessagePart::ImageUrl { .. }
        | MessagePart::InputAudio { .. }
        | MessagePart::File { .. }
        | MessagePart::VideoUrl { .. } => TOKENS_PER_ATTACHMENT,
    }
}

fn assistant_tokens(message: &Assistant<'_>, count: &impl Fn(&str) -> usize) -> usize {
    let calls: usize = message
        .calls
        .iter()
        .map(|call| {
            let input = match &call.input {
                CallInput::Json(text) => count(text),
                CallInput::Text(text) => count(text),
            };
            TOKENS_PER_CALL + count(&call.name) + input
        })
        .sum();
    count(&message.text) + count(&message.reasoning.text) + calls
}
