//! Encodes a model request as the body of a chat completion.
//!
//! Instructions, tools and history are the same bytes in every turn of a run, so that the provider's prompt cache hits.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::errors::unsupported;
use super::messages::{self, ChatMessage};
use super::options::ChatOptions;
use super::tools::{ChatToolChoice, ChatTools};
use crate::errors::ProviderError;
use antwort_config::provider::is_translated_field;
use antwort_config::{ForwardedField, MaxTokensField};
use antwort_protocol::request::{JsonSchemaFormat, TextFormat};
use antwort_response::turn::{ModelRequest, ProviderHints};

/// Encodes the body of the request. `include_usage`: whether usage is requested at the end of a stream.
///
/// Fails if the request contains something that the provider does not support.
pub(crate) fn encode(
    request: &ModelRequest,
    options: &ChatOptions,
    include_usage: bool,
) -> Result<Vec<u8>, ProviderError> {
    let messages = messages(request, options)?;
    let body = Body { request, options, messages, include_usage };
    to_json(&body.messages, &body)
}

/// The messages of the request. Fails if it contains something that the provider does not support.
pub(super) fn messages<'a>(
    request: &'a ModelRequest,
    options: &'a ChatOptions,
) -> Result<Vec<ChatMessage<'a>>, ProviderError> {
    if !options.supports.response_format && request.format != TextFormat::Text {
        return Err(unsupported("text.format", "The model's provider does not support structured outputs."));
    }
    let messages = messages::build(request, options)?;
    if messages.is_empty() {
        return Err(unsupported("input", "The request is empty: provide 'input' or 'instructions'."));
    }
    Ok(messages)
}

/// Serializes a body with these messages.
pub(super) fn to_json(messages: &[ChatMessage<'_>], body: &impl Serialize) -> Result<Vec<u8>, ProviderError> {
    // Allocated once: a growing buffer would hold a long conversation more than once.
    let texts: usize = messages.iter().map(ChatMessage::text_bytes).sum();
    let mut bytes = Vec::with_capacity(texts + texts / 8 + 4096);
    serde_json::to_writer(&mut bytes, body).map_err(|error| {
        tracing::error!(%error, "serializing a provider request failed");
        unsupported("input", "The request cannot be encoded as a chat completion.")
    })?;
    Ok(bytes)
}

struct Body<'a> {
    request: &'a ModelRequest,
    options: &'a ChatOptions,
    messages: Vec<ChatMessage<'a>>,
    include_usage: bool,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { request, options, messages, .. } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &request.model)?;
        map.serialize_entry("messages", messages)?;
        if !request.tools.is_empty() {
            map.serialize_entry("tools", &ChatTools::new(&request.tools, options.supports))?;
            let choice = ChatToolChoice::new(&request.tool_choice, &request.tools, options.supports);
            option(&mut map, "tool_choice", choice.as_ref())?;
            // Only with tools, as OpenAI refuses it otherwise; always set, as llama.cpp's default is false.
            if options.supports.parallel_tool_calls {
                map.serialize_entry("parallel_tool_calls", &request.parallel_tool_calls)?;
            }
        }
        self.write_form(&mut map)?;
        self.write_sampling(&mut map)?;
        if options.streams(request) {
            map.serialize_entry("stream", &true)?;
            if self.include_usage {
                map.serialize_entry("stream_options", &StreamOptions { include_usage: true })?;
            }
        }
        write_hints(&mut map, &request.hints, &options.forward)?;
        for (name, value) in request.extra.iter().filter(|(name, _)| !is_translated_field(name)) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Body<'_> {
    fn write_form<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let request = self.request;
        match &request.format {
            TextFormat::Text => {}
            TextFormat::JsonObject => {
                map.serialize_entry("response_format", &Typed { kind: "json_object" })?;
            }
            TextFormat::JsonSchema(format) => {
                let strict = format.strict.filter(|_| self.options.supports.strict);
                map.serialize_entry("response_format", &ResponseFormat::new(format, strict))?;
            }
        }
        option(map, "verbosity", request.verbosity.map(|verbosity| verbosity.as_str()))?;
        let limit = match self.options.max_tokens_field {
            MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
            MaxTokensField::MaxTokens => "max_tokens",
        };
        option(map, limit, request.max_output_tokens)?;
        option(map, "reasoning_effort", request.reasoning.effort.map(|effort| effort.as_str()))
    }

    fn write_sampling<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let sampling = &self.request.sampling;
        option(map, "temperature", sampling.temperature)?;
        option(map, "top_p", sampling.top_p)?;
        option(map, "presence_penalty", sampling.presence_penalty)?;
        option(map, "frequency_penalty", sampling.frequency_penalty)?;
        option(map, "logprobs", sampling.logprobs.map(|_| true))?;
        option(map, "top_logprobs", sampling.logprobs.filter(|alternatives| *alternatives > 0))
    }
}

fn write_hints<M: SerializeMap>(
    map: &mut M,
    hints: &ProviderHints,
    forward: &[ForwardedField],
) -> Result<(), M::Error> {
    for hint in forward {
        match hint {
            ForwardedField::User => option(map, "user", hints.user.as_ref())?,
            ForwardedField::SafetyIdentifier => {
                option(map, "safety_identifier", hints.safety_identifier.as_ref())?;
            }
            ForwardedField::PromptCacheKey => {
                option(map, "prompt_cache_key", hints.prompt_cache_key.as_ref())?;
            }
            ForwardedField::PromptCacheRetention => {
                option(map, "prompt_cache_retention", hints.prompt_cache_retention.as_ref())?;
            }
            ForwardedField::ServiceTier => {
                option(map, "service_tier", hints.service_tier.map(|tier| tier.as_str()))?;
            }
            ForwardedField::Metadata => {
                option(map, "metadata", Some(&hints.metadata).filter(|metadata| !metadata.0.is_empty()))?;
            }
        }
    }
    Ok(())
}

fn option<M: SerializeMap, T: Serialize>(
    map: &mut M,
    name: &'static str,
    value: Option<T>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(name, &value))
}

#[derive(serde::Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(serde::Serialize)]
struct Typed {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(serde::Serialize)]
struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: Schema<'a>,
}

#[derive(serde::Serialize)]
struct Schema<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    schema: &'a serde_json::value::RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

impl<'a> ResponseFormat<'a> {
    fn new(format: &'a JsonSchemaFormat, strict: Option<bool>) -> Self {
        let (name, description) = (format.name.as_str(), format.description.as_deref());
        Self {
            kind: "json_schema",
            json_schema: Schema { name, description, schema: format.schema.as_raw(), strict },
        }
    }
}
