//! The messages of a chat completion: types and their serialization, no decisions.

use std::borrow::Cow;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use antwort_response::turn::{ProviderFields, merge_fields};

/// One message.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ChatMessage<'a> {
    /// A user, system or developer message.
    Plain {
        role: &'static str,
        content: MessageContent<'a>,
    },
    Assistant(Assistant<'a>),
    /// The output of a call.
    Tool {
        role: &'static str,
        tool_call_id: Cow<'a, str>,
        content: Cow<'a, str>,
    },
    /// A message that is nobody's: the chat template demands one in this place.
    Inserted {
        role: &'static str,
        content: &'static str,
    },
}

impl ChatMessage<'_> {
    /// Bytes of its texts and files, without JSON syntax.
    pub(super) fn text_bytes(&self) -> usize {
        match self {
            Self::Plain { content: MessageContent::Text(text), .. } | Self::Tool { content: text, .. } => {
                text.len()
            }
            Self::Plain { content: MessageContent::Parts(parts), .. } => {
                parts.iter().map(MessagePart::text_bytes).sum()
            }
            Self::Assistant(message) => message.text_bytes(),
            Self::Inserted { content, .. } => content.len(),
        }
    }
}

/// A message's content: a plain string if possible, since older servers support nothing else.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum MessageContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<MessagePart<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MessagePart<'a> {
    Text {
        text: Cow<'a, str>,
    },
    ImageUrl {
        image_url: ImageUrl<'a>,
    },
    InputAudio {
        input_audio: Audio<'a>,
    },
    File {
        file: File<'a>,
    },
    /// An extension of vLLM and others.
    VideoUrl {
        video_url: VideoUrl<'a>,
    },
}

impl MessagePart<'_> {
    fn text_bytes(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::ImageUrl { image_url: ImageUrl { url, .. } }
            | Self::VideoUrl { video_url: VideoUrl { url } } => url.len(),
            Self::InputAudio { input_audio } => input_audio.data.len(),
            Self::File { file } => file.file_data.len(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct ImageUrl<'a> {
    pub url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(super) struct Audio<'a> {
    pub data: &'a str,
    pub format: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct VideoUrl<'a> {
    pub url: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<&'a str>,
    pub file_data: &'a str,
}

/// The assistant message of one turn.
#[derive(Debug, Default)]
pub(super) struct Assistant<'a> {
    pub text: Cow<'a, str>,
    pub calls: Vec<MessageCall<'a>>,
    pub reasoning: MessageReasoning<'a>,
}

/// The reasoning of a turn, in the form in which its provider takes it back.
#[derive(Debug, Default)]
pub(super) struct MessageReasoning<'a> {
    /// The field for plain text; `None` if the provider takes no text.
    pub field: Option<&'static str>,
    pub text: Cow<'a, str>,
    /// The provider's own fields, of one or several reasoning items.
    pub fields: Vec<&'a ProviderFields>,
}

#[derive(Debug)]
pub(super) struct MessageCall<'a> {
    pub id: Cow<'a, str>,
    pub name: Cow<'a, str>,
    pub input: CallInput<'a>,
    /// Fields that must be sent back to the provider; those of its function under that name.
    pub fields: Option<&'a ProviderFields>,
}

#[derive(Debug)]
pub(super) enum CallInput<'a> {
    /// A function's arguments.
    Json(Cow<'a, str>),
    /// A custom tool's input, for a provider that supports custom tools.
    Text(&'a str),
}

/// Message fields that the gateway writes itself: a provider's fields of these names are not sent back.
const MESSAGE_FIELDS: &[&str] = &["role", "content", "tool_calls"];
/// The fields of thought signatures: Gemini's, and `LiteLLM`'s for it.
const SIGNATURES: &[&str] = &["extra_content", "provider_specific_fields"];
/// The same for fields of a call.
const CALL_FIELDS: &[&str] = &["id", "type", FUNCTION, "custom"];
/// The same for fields of its function, which are kept under this name.
const FUNCTION_FIELDS: &[&str] = &["name", "arguments"];
pub(super) const FUNCTION: &str = "function";

impl Assistant<'_> {
    fn text_bytes(&self) -> usize {
        let input = |call: &MessageCall<'_>| match &call.input {
            CallInput::Json(text) => text.len(),
            CallInput::Text(text) => text.len(),
        };
        self.text.len() + self.reasoning.text.len() + self.calls.iter().map(input).sum::<usize>()
    }
}

impl Serialize for Assistant<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", "assistant")?;
        // Null next to calls, as OpenAI sends it; some chat templates would print an empty string.
        map.serialize_entry("content", &Some(&self.text).filter(|text| !text.is_empty()))?;
        self.reasoning.write(&mut map)?;
        if !self.calls.is_empty() {
            map.serialize_entry("tool_calls", &self.calls)?;
        }
        map.end()
    }
}

impl MessageReasoning<'_> {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let own: Vec<&str> = self.names();
        // The provider's own fields contain the text as well, but a signature does not.
        let holds_text = own.iter().any(|name| !SIGNATURES.contains(name));
        if let Some(field) = self.field.filter(|_| !holds_text && !self.text.is_empty()) {
            map.serialize_entry(field, &self.text)?;
        }
        for name in own {
            let values: Vec<&Value> = self.fields.iter().filter_map(|fields| fields.get(name)).collect();
            map.serialize_entry(name, &Merged(&values))?;
        }
        Ok(())
    }

    /// Distinct names of the provider's fields, without [`MESSAGE_FIELDS`].
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.fields.iter().flat_map(|fields| fields.keys()).map(String::as_str) {
            if !names.contains(&name) && !MESSAGE_FIELDS.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// One field of several reasoning items: lists are concatenated, objects merged, of other values the last one counts.
struct Merged<'a>(&'a [&'a Value]);

impl Serialize for Merged<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let lists: Option<Vec<&Vec<Value>>> = self.0.iter().map(|value| value.as_array()).collect();
        let objects =
            || self.0.iter().map(|value| value.as_object()).collect::<Option<Vec<&ProviderFields>>>();
        match (lists, self.0) {
            (Some(lists), _) => serializer.collect_seq(lists.into_iter().flatten()),
            (None, [value]) => value.serialize(serializer),
            (None, values) => match objects() {
                Some(objects) => {
                    let mut merged = ProviderFields::new();
                    objects.into_iter().for_each(|fields| merge_fields(&mut merged, fields.clone()));
                    merged.serialize(serializer)
                }
                None => values.last().serialize(serializer),
            },
        }
    }
}

struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
    own: Option<&'a ProviderFields>,
}

impl Serialize for Function<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.name)?;
        map.serialize_entry("arguments", self.arguments)?;
        let own = self.own.into_iter().flatten();
        for (name, value) in own.filter(|(name, _)| !FUNCTION_FIELDS.contains(&name.as_str())) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Serialize for MessageCall<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Custom<'a> {
            name: &'a str,
            input: &'a str,
        }
        let name = self.name.as_ref();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        match &self.input {
            CallInput::Json(arguments) => {
                map.serialize_entry("type", "function")?;
                let own = self.fields.and_then(|fields| fields.get(FUNCTION)?.as_object());
                map.serialize_entry(FUNCTION, &Function { name, arguments, own })?;
            }
            CallInput::Text(input) => {
                map.serialize_entry("type", "custom")?;
                map.serialize_entry("custom", &Custom { name, input })?;
            }
        }
        let own = self.fields.into_iter().flatten();
        for (name, value) in own.filter(|(name, _)| !CALL_FIELDS.contains(&name.as_str())) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
