//! The messages of a chat completion as they are written: shapes and their serialisation, no decisions.

use std::borrow::Cow;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value};

/// One message.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Message<'a> {
    /// Of a person or of the one who runs the model.
    Plain {
        role: &'static str,
        content: Content<'a>,
    },
    Assistant(Assistant<'a>),
    /// What a call gave.
    Tool {
        role: &'static str,
        tool_call_id: &'a str,
        content: Cow<'a, str>,
    },
}

/// A message's content: plain where it can be, as older servers know nothing else.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
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
    /// Not OpenAI's: vLLM and others have it.
    VideoUrl {
        video_url: VideoUrl<'a>,
    },
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

/// What the model said in one turn.
#[derive(Debug, Default)]
pub(super) struct Assistant<'a> {
    pub text: Cow<'a, str>,
    pub calls: Vec<Call<'a>>,
    pub reasoning: Reasoning<'a>,
}

/// What the model thought in that turn, as its provider takes it back.
#[derive(Debug, Default)]
pub(super) struct Reasoning<'a> {
    /// The field for plain text; none where the provider takes no text.
    pub field: Option<&'static str>,
    pub text: Cow<'a, str>,
    /// The provider's own fields, of one or several stretches of reasoning.
    pub fields: Vec<&'a Map<String, Value>>,
}

#[derive(Debug)]
pub(super) struct Call<'a> {
    pub id: &'a str,
    pub name: Cow<'a, str>,
    pub input: CallInput<'a>,
}

#[derive(Debug)]
pub(super) enum CallInput<'a> {
    /// A function's arguments.
    Json(Cow<'a, str>),
    /// A custom tool's input, for a provider that knows such tools.
    Text(&'a str),
}

/// The entry of a provider's fields that belongs to calls, not to the message; see `thoughts`.
const OF_CALLS: &str = "tool_calls";

impl Serialize for Assistant<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", "assistant")?;
        // Null is what OpenAI itself sends beside calls; an empty text makes some templates print it.
        map.serialize_entry("content", &Some(&self.text).filter(|text| !text.is_empty()))?;
        self.reasoning.write(&mut map)?;
        if !self.calls.is_empty() {
            map.serialize_entry(
                "tool_calls",
                &CallList { calls: &self.calls, fields: &self.reasoning.fields },
            )?;
        }
        map.end()
    }
}

impl Reasoning<'_> {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let own: Vec<&str> = self.names();
        // The provider's own form of its reasoning holds the text as well.
        if let Some(field) = self.field.filter(|_| own.is_empty() && !self.text.is_empty()) {
            map.serialize_entry(field, &self.text)?;
        }
        for name in own {
            let values: Vec<&Value> = self.fields.iter().filter_map(|fields| fields.get(name)).collect();
            map.serialize_entry(name, &Merged(&values))?;
        }
        Ok(())
    }

    /// Names of the provider's fields, each once, but for those that the message has anyway.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.fields.iter().flat_map(|fields| fields.keys()).map(String::as_str) {
            if !names.contains(&name) && !["role", "content", OF_CALLS].contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// One field of several stretches of reasoning: lists one behind the other, otherwise the last value.
struct Merged<'a>(&'a [&'a Value]);

impl Serialize for Merged<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let lists: Option<Vec<&Vec<Value>>> = self.0.iter().map(|value| value.as_array()).collect();
        match lists {
            Some(lists) => serializer.collect_seq(lists.into_iter().flatten()),
            None => self.0.last().serialize(serializer),
        }
    }
}

struct CallList<'a> {
    calls: &'a [Call<'a>],
    fields: &'a [&'a Map<String, Value>],
}

impl Serialize for CallList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.calls.len()))?;
        for (slot, call) in self.calls.iter().enumerate() {
            list.serialize_element(&CallOut { call, extra: self.extra(slot) })?;
        }
        list.end()
    }
}

impl CallList<'_> {
    /// What the provider sent with the call in this place and wants back with it.
    fn extra(&self, slot: usize) -> Option<&Value> {
        let mut entries = self.fields.iter().filter_map(|fields| fields.get(OF_CALLS)?.as_array()).flatten();
        let entry = entries.rfind(|entry| entry.get("index").and_then(Value::as_u64) == Some(slot as u64));
        entry?.get("extra_content")
    }
}

struct CallOut<'a> {
    call: &'a Call<'a>,
    extra: Option<&'a Value>,
}

impl Serialize for CallOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: &'a str,
        }
        #[derive(Serialize)]
        struct Custom<'a> {
            name: &'a str,
            input: &'a str,
        }
        let name = self.call.name.as_ref();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", self.call.id)?;
        match &self.call.input {
            CallInput::Json(arguments) => {
                map.serialize_entry("type", "function")?;
                map.serialize_entry("function", &Function { name, arguments })?;
            }
            CallInput::Text(input) => {
                map.serialize_entry("type", "custom")?;
                map.serialize_entry("custom", &Custom { name, input })?;
            }
        }
        if let Some(extra) = self.extra {
            map.serialize_entry("extra_content", extra)?;
        }
        map.end()
    }
}
