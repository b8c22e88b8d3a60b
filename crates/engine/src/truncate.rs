//! Fits a conversation into a model's context window.
//!
//! Tokens are estimated: every model has a tokenizer of its own. The estimate is low for most texts, so that only
//! a request that surely does not fit is refused; the provider has the last word.

use std::collections::HashMap;
use std::sync::Arc;

use antwort_protocol::content::ContentPart;
use antwort_protocol::error::ApiError;
use antwort_protocol::item::{Item, Role, ToolOutput};
use antwort_response::turn::{HistoryItem, ModelTool, ToolInput};

/// Bytes of text per token, about.
const BYTES_PER_TOKEN: usize = 4;
/// An image, a recording or a file counts as this many tokens: the real cost differs by model.
const TOKENS_PER_ATTACHMENT: usize = 256;
/// Tokens of a message beside its text.
const TOKENS_PER_ITEM: usize = 4;

/// A context window, and what is reserved in it.
pub(super) struct ContextBudget {
    pub window: u64,
    /// Tokens reserved for the answer.
    pub answer: u64,
    /// Tokens of instructions and tools.
    pub fixed: usize,
}

impl ContextBudget {
    fn room(&self) -> usize {
        let room = self.window.saturating_sub(self.answer).saturating_sub(self.fixed as u64);
        usize::try_from(room).unwrap_or(usize::MAX)
    }
}

/// The estimate for instructions and tools.
pub(super) fn fixed_tokens(instructions: Option<&str>, tools: &[Arc<ModelTool>]) -> usize {
    let tools: usize = tools
        .iter()
        .map(|tool| {
            let input = match &tool.input {
                ToolInput::Json { schema, .. } => schema.as_ref().map_or(0, |schema| schema.get().len()),
                ToolInput::Text { grammar } => grammar.as_ref().map_or(0, String::len),
            };
            tool.name.len() + tool.description.as_ref().map_or(0, String::len) + input
        })
        .sum();
    (instructions.map_or(0, str::len) + tools) / BYTES_PER_TOKEN
}

/// The error for a conversation that does not fit.
pub(super) fn too_long(estimate: usize, budget: &ContextBudget) -> ApiError {
    let refused = ApiError::invalid(
        "context_length_exceeded",
        "input",
        format!(
            "The conversation takes about {} tokens and the model's context window holds {}. Shorten the input, \
             or set 'truncation' to 'auto'.",
            estimate + budget.fixed,
            budget.window
        ),
    );
    refused.without_retry()
}

/// The estimate for a conversation.
pub(super) fn estimate(conversation: &[HistoryItem]) -> usize {
    conversation.iter().map(|context| tokens(&context.item)).sum()
}

/// Whether the conversation surely does not fit.
pub(super) fn exceeds(conversation: &[HistoryItem], budget: &ContextBudget) -> bool {
    estimate(conversation) > budget.room()
}

/// Drops the oldest items until the rest fits into `numerator/denominator` of the room.
///
/// System and developer messages stay, a call is dropped with its output, and the last item stays whatever its
/// length. Returns how many items were dropped.
pub(super) fn drop_oldest(
    conversation: &mut Vec<HistoryItem>,
    budget: &ContextBudget,
    share: (usize, usize),
) -> usize {
    let room = budget.room() / share.1.max(1) * share.0;
    let dropped = oldest_beyond(conversation, room);
    let mut drops = dropped.iter();
    conversation.retain(|_| drops.next() != Some(&true));
    dropped.iter().filter(|dropped| **dropped).count()
}

/// Marks the items that have to go, by place.
fn oldest_beyond(conversation: &[HistoryItem], room: usize) -> Vec<bool> {
    let mut total = estimate(conversation);
    let mut dropped = vec![false; conversation.len()];
    let mut pairs = Pairs::new(conversation);
    let candidates = conversation.iter().enumerate().take(conversation.len().saturating_sub(1));
    for (i, context) in candidates {
        if total <= room {
            break;
        }
        if dropped.get(i) == Some(&true) || is_instruction(&context.item) {
            continue;
        }
        for j in std::iter::once(i).chain(pairs.take(&context.item)) {
            if let (Some(dropped @ false), Some(context)) = (dropped.get_mut(j), conversation.get(j)) {
                *dropped = true;
                total -= tokens(&context.item);
            }
        }
    }
    dropped
}

/// Places of calls and outputs, by the ids that they share.
struct Pairs<'a>(HashMap<&'a str, Vec<usize>>);

impl<'a> Pairs<'a> {
    fn new(conversation: &'a [HistoryItem]) -> Self {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, context) in conversation.iter().enumerate() {
            if let Some(id) = pair_id(&context.item) {
                places.entry(id).or_default().push(place);
            }
        }
        Self(places)
    }

    /// The places that must go together with an item: a call's output, an output's call.
    fn take(&mut self, item: &Item) -> Vec<usize> {
        pair_id(item).and_then(|id| self.0.remove(id)).unwrap_or_default()
    }
}

fn pair_id(item: &Item) -> Option<&str> {
    #[cfg(test)]
    super::complexity_tests::look();
    match item {
        Item::FunctionCall(call) => Some(&call.call_id),
        Item::CustomToolCall(call) => Some(&call.call_id),
        Item::FunctionCallOutput(output) => Some(&output.call_id),
        Item::CustomToolCallOutput(output) => Some(&output.call_id),
        _ => None,
    }
}

fn is_instruction(item: &Item) -> bool {
    matches!(item, Item::Message(message) if matches!(message.role, Role::System | Role::Developer))
}

/// The estimate for an item.
pub(super) fn tokens(item: &Item) -> usize {
    let bytes = match item {
        Item::Message(message) => return TOKENS_PER_ITEM + part_tokens(&message.content),
        Item::FunctionCall(call) => call.name.len() + call.arguments.len(),
        Item::CustomToolCall(call) => call.name.len() + call.input.len(),
        Item::FunctionCallOutput(output) => return TOKENS_PER_ITEM + output_tokens(&output.output),
        Item::CustomToolCallOutput(output) => return TOKENS_PER_ITEM + output_tokens(&output.output),
        // A call of the gateway holds its output.
        Item::McpCall(call) => {
            let given = call.output.as_ref().map_or(0, String::len)
                + call.error.as_ref().map_or(0, |error| error.message().len());
            call.name.len() + call.arguments.len() + given
        }
        Item::Reasoning(reasoning) => reasoning.content.iter().map(|part| part.text.len()).sum(),
        _ => 0,
    };
    TOKENS_PER_ITEM + bytes / BYTES_PER_TOKEN
}

fn output_tokens(output: &ToolOutput) -> usize {
    match output {
        ToolOutput::Text(text) => text.len() / BYTES_PER_TOKEN,
        ToolOutput::Parts(parts) => part_tokens(parts),
    }
}

fn part_tokens(parts: &[ContentPart]) -> usize {
    parts
        .iter()
        .map(|part| match part {
            ContentPart::InputText(part) => part.text.len() / BYTES_PER_TOKEN,
            ContentPart::OutputText(part) => part.text.len() / BYTES_PER_TOKEN,
            ContentPart::Refusal(part) => part.refusal.len() / BYTES_PER_TOKEN,
            ContentPart::InputImage(_)
            | ContentPart::InputFile(_)
            | ContentPart::InputAudio(_)
            | ContentPart::InputVideo(_) => TOKENS_PER_ATTACHMENT,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use antwort_protocol::parse::FromJson;
    use serde_json::{Value, json, value::to_raw_value};

    fn conversation(items: &[Value]) -> Vec<HistoryItem> {
        items.iter().map(|item| Item::from_json(&to_raw_value(item).unwrap()).unwrap().into()).collect()
    }

    fn long(n: usize) -> String {
        "word".repeat(n)
    }

    #[test]
    fn the_oldest_go_first_and_a_call_goes_with_its_output() {
        let mut items = conversation(&[
            json!({"role": "developer", "content": long(10)}),
            json!({"role": "user", "content": long(50)}),
            json!({"type": "function_call", "call_id": "c1", "name": "f", "arguments": long(50)}),
            json!({"role": "assistant", "content": long(5)}),
            json!({"type": "function_call_output", "call_id": "c1", "output": long(50)}),
            json!({"role": "user", "content": long(20)}),
        ]);
        let budget = ContextBudget { window: 70, answer: 0, fixed: 0 };
        assert!(exceeds(&items, &budget));
        assert_eq!(drop_oldest(&mut items, &budget, (1, 1)), 3);
        let kinds: Vec<_> =
            items.iter().map(|context| serde_json::to_value(&*context.item).unwrap()).collect();
        assert_eq!(kinds.len(), 3);
        assert_eq!(kinds[0]["role"], "developer");
        assert_eq!(kinds[1]["role"], "assistant");
        assert_eq!(kinds[2]["role"], "user");
    }

    #[test]
    fn what_the_gateways_own_calls_gave_counts() {
        let call = |given: Value| {
            let mut call = json!({"type": "mcp_call", "id": "mcp_1", "server_label": "antwort", "name": "f",
                "arguments": "{}"});
            call.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
            estimate(&conversation(&[call]))
        };
        assert!(call(json!({"output": long(500)})) >= 500);
        assert!(call(json!({"error": long(500)})) >= 500);
    }

    #[test]
    fn the_last_item_stays_whatever_its_length() {
        let mut items = conversation(&[json!({"role": "user", "content": long(500)})]);
        assert_eq!(drop_oldest(&mut items, &ContextBudget { window: 10, answer: 0, fixed: 0 }, (1, 1)), 0);
        assert_eq!(items.len(), 1);
    }
}
