//! Encodes a request for the tokenizer of its server, which applies the model's chat template and counts.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::message::{ChatMessage, MessageContent, MessagePart};
use super::options::ChatOptions;
use super::request;
use super::tools::ChatTools;
use crate::errors::ProviderError;
use antwort_config::TokenizerApi;
use antwort_response::turn::ModelRequest;

/// The field with the variables of the chat template.
const TEMPLATE_VARIABLES: &str = "chat_template_kwargs";

/// Encodes the request; `None` if it has images or files, of which a tokenizer counts the placeholders only. Fails
/// where encoding it as a completion would.
pub(crate) fn encode_prompt(
    request: &ModelRequest,
    options: &ChatOptions,
    api: TokenizerApi,
) -> Result<Option<Vec<u8>>, ProviderError> {
    let messages = request::messages(request, options)?;
    if messages.iter().any(has_attachment) {
        return Ok(None);
    }
    match api {
        TokenizerApi::Vllm => {
            let prompt = VllmPrompt { request, options, messages };
            request::to_json(&prompt.messages, &prompt).map(Some)
        }
        // It takes the body of a completion, and leaves out what its template does not use.
        TokenizerApi::LlamaCpp => request::encode(request, options, false).map(Some),
    }
}

fn has_attachment(message: &ChatMessage<'_>) -> bool {
    match message {
        ChatMessage::Plain { content: MessageContent::Parts(parts), .. } => {
            parts.iter().any(|part| !matches!(part, MessagePart::Text { .. }))
        }
        _ => false,
    }
}

/// The body of vLLM's `/tokenize`: what of a completion makes the prompt.
struct VllmPrompt<'a> {
    request: &'a ModelRequest,
    options: &'a ChatOptions,
    messages: Vec<ChatMessage<'a>>,
}

impl Serialize for VllmPrompt<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { request, options, messages } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &request.model)?;
        map.serialize_entry("messages", messages)?;
        map.serialize_entry("add_generation_prompt", &true)?;
        if !request.tools.is_empty() {
            map.serialize_entry("tools", &ChatTools::new(&request.tools, options.supports))?;
        }
        let given = request.extra.iter().find(|(name, _)| name == TEMPLATE_VARIABLES).map(|(_, value)| value);
        let effort = request.reasoning.effort.map(|effort| effort.as_str());
        if given.is_some() || effort.is_some() {
            let given = given.map(AsRef::as_ref);
            map.serialize_entry(TEMPLATE_VARIABLES, &TemplateVariables { given, effort })?;
        }
        map.end()
    }
}

/// The variables of the template: those of the request, and the effort, which vLLM makes one of them.
struct TemplateVariables<'a> {
    given: Option<&'a RawValue>,
    effort: Option<&'static str>,
}

impl Serialize for TemplateVariables<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let given = self.given.map_or("{}", RawValue::get);
        // What is not an object is vLLM's to refuse, as in a completion.
        let Ok(given) = serde_json::from_str::<serde_json::Map<_, _>>(given) else {
            return self.given.serialize(serializer);
        };
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in
            given.iter().filter(|(name, _)| self.effort.is_none() || *name != "reasoning_effort")
        {
            map.serialize_entry(name, value)?;
        }
        if let Some(effort) = self.effort {
            map.serialize_entry("reasoning_effort", effort)?;
        }
        map.end()
    }
}
