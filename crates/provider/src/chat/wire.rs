//! The types of chat completions as they are received: only the fields that are used, borrowed from the chunk.
//!
//! A streamed chunk and a whole body are one type, so that one state machine handles both. Deserialization is lenient where
//! servers are known to deviate; values are interpreted elsewhere.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::super::lenient::{LenientNumber, LenientText};
use super::super::upstream_error::UpstreamError;

/// Maximum number of elements of a list in one message (calls, content parts), as a bound against misbehaving servers: an
/// element takes many times the memory of its JSON.
pub(super) const MAX_ELEMENTS: usize = 1024;

/// A chunk of a stream, or a body.
#[derive(Debug, Deserialize)]
pub(super) struct CompletionChunk<'a> {
    #[serde(borrow, default)]
    pub choices: FirstChoice<'a>,
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub service_tier: LenientText<'a>,
    #[serde(borrow, default)]
    pub error: Option<UpstreamError<'a>>,
    /// `error` in older vLLM's form of an error, whose fields follow at the top level.
    #[serde(borrow, default)]
    pub object: LenientText<'a>,
    #[serde(borrow, default)]
    pub message: LenientText<'a>,
    #[serde(borrow, default)]
    pub code: LenientText<'a>,
    #[serde(borrow, default, rename = "type")]
    pub kind: LenientText<'a>,
}

/// The choice with index 0; others are never requested, and are skipped.
#[derive(Debug, Default)]
pub(super) struct FirstChoice<'a>(pub Option<Choice<'a>>);

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub index: LenientNumber,
    #[serde(borrow, default)]
    pub delta: Option<Delta<'a>>,
    /// Instead of `delta`: in a whole body, and from servers that mix the two.
    #[serde(borrow, default)]
    pub message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub finish_reason: LenientText<'a>,
    #[serde(borrow, default)]
    pub logprobs: Option<&'a RawValue>,
    /// In the last chunk of some servers (Moonshot), instead of beside `choices`.
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
    /// OpenRouter reports errors here.
    #[serde(borrow, default)]
    pub error: Option<UpstreamError<'a>>,
}

/// A delta of the message, or the whole message.
#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub content: DeltaContent<'a>,
    #[serde(borrow, default)]
    pub refusal: LenientText<'a>,
    #[serde(borrow, default)]
    pub reasoning_content: LenientText<'a>,
    #[serde(borrow, default)]
    pub reasoning: LenientText<'a>,
    #[serde(borrow, default)]
    pub thinking: LenientText<'a>,
    #[serde(borrow, default)]
    pub reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub thinking_blocks: Option<&'a RawValue>,
    /// Gemini's thought signature of a text.
    #[serde(borrow, default)]
    pub extra_content: Option<&'a RawValue>,
    /// `LiteLLM`'s: signatures, and copies of other fields.
    #[serde(borrow, default)]
    pub provider_specific_fields: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub annotations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub tool_calls: CallPieces<'a>,
    /// The legacy form of `tool_calls`.
    #[serde(borrow, default)]
    pub function_call: Option<FunctionPiece<'a>>,
}

impl Delta<'_> {
    /// Whether there is text for the client.
    pub(super) fn has_text(&self) -> bool {
        match &self.content {
            DeltaContent::Text(text) => !text.is_empty(),
            DeltaContent::Parts(parts) => !parts.is_empty(),
        }
    }

    /// Whether it says nothing, but perhaps the role.
    pub(super) fn is_blank(&self) -> bool {
        let texts = [&self.refusal, &self.reasoning_content, &self.reasoning, &self.thinking];
        !self.has_text()
            && texts.iter().all(|text| text.is_empty())
            && self.reasoning_details.is_none()
            && self.thinking_blocks.is_none()
            && self.tool_calls.0.is_empty()
            && self.function_call.is_none()
    }
}

/// Text, or a list of parts.
#[derive(Debug)]
pub(super) enum DeltaContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ContentPiece<'a>>),
}

impl Default for DeltaContent<'_> {
    fn default() -> Self {
        Self::Text(Cow::Borrowed(""))
    }
}

/// A part of a content list.
#[derive(Debug, Deserialize)]
pub(super) struct ContentPiece<'a> {
    #[serde(borrow, default)]
    pub text: LenientText<'a>,
    #[serde(borrow, default)]
    pub refusal: LenientText<'a>,
    /// Mistral's reasoning models.
    #[serde(borrow, default)]
    pub thinking: Joined<'a>,
}

/// Text, or a list of text parts, concatenated.
#[derive(Debug, Default)]
pub(super) struct Joined<'a>(pub Cow<'a, str>);

/// `tool_calls`: a list, a single call (from some servers), or absent.
#[derive(Debug, Default)]
pub(super) struct CallPieces<'a>(pub Vec<CallPiece<'a>>);

/// A delta of a call.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CallPiece<'a> {
    #[serde(default)]
    pub index: LenientNumber,
    #[serde(borrow, default)]
    pub id: LenientText<'a>,
    #[serde(borrow, default)]
    pub function: Option<FunctionPiece<'a>>,
    /// Instead of `function`, from providers that support custom tools.
    #[serde(borrow, default)]
    pub custom: Option<CustomPiece<'a>>,
    /// Gemini's thought signature, which must be sent back.
    #[serde(borrow, default)]
    pub extra_content: Option<&'a RawValue>,
    /// The same from `LiteLLM`.
    #[serde(borrow, default)]
    pub provider_specific_fields: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionPiece<'a> {
    #[serde(borrow, default)]
    pub name: LenientText<'a>,
    #[serde(borrow, default)]
    pub arguments: FunctionArguments<'a>,
    /// `LiteLLM` repeats those of the call here.
    #[serde(borrow, default)]
    pub provider_specific_fields: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct CustomPiece<'a> {
    #[serde(borrow, default)]
    pub name: LenientText<'a>,
    #[serde(borrow, default)]
    pub input: LenientText<'a>,
}

/// Arguments as text; Ollama sends the object itself, whose JSON is kept verbatim.
#[derive(Debug, Default)]
pub(super) struct FunctionArguments<'a>(pub Cow<'a, str>);

/// Implements `Deserialize` for a type that servers send as different JSON types: strings, null, lists, objects.
macro_rules! deserialize_any {
    ($visitor:ident => $target:ident { $($methods:tt)* }) => {
        struct $visitor;

        impl<'de> Visitor<'de> for $visitor {
            type Value = $target<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($target))
            }

            fn visit_unit<E: Error>(self) -> Result<$target<'de>, E> {
                Ok($target::default())
            }

            $($methods)*
        }

        impl<'de: 'a, 'a> Deserialize<'de> for $target<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any($visitor)
            }
        }
    };
}

deserialize_any!(FirstChoiceVisitor => FirstChoice {
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FirstChoice<'de>, A::Error> {
        let mut first = None;
        while first.is_none() {
            match list.next_element::<Choice<'de>>()? {
                Some(choice) if choice.index.count() == 0 => first = Some(choice),
                Some(_) => {}
                None => return Ok(FirstChoice(None)),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(FirstChoice(first))
    }
});

deserialize_any!(ContentVisitor => DeltaContent {
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<DeltaContent<'de>, E> {
        Ok(DeltaContent::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<DeltaContent<'de>, E> {
        Ok(DeltaContent::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<DeltaContent<'de>, A::Error> {
        bounded(list).map(DeltaContent::Parts)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DeltaContent<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(DeltaContent::default())
    }
});

deserialize_any!(CallPiecesVisitor => CallPieces {
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<CallPieces<'de>, A::Error> {
        bounded(list).map(CallPieces)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CallPieces<'de>, A::Error> {
        CallPiece::deserialize(MapAccessDeserializer::new(map)).map(|piece| CallPieces(vec![piece]))
    }
});

deserialize_any!(JoinedVisitor => Joined {
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Joined<'de>, E> {
        Ok(Joined(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Joined<'de>, E> {
        Ok(Joined(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Joined<'de>, A::Error> {
        #[derive(Deserialize)]
        struct Piece<'a> {
            #[serde(borrow, default)]
            text: LenientText<'a>,
        }
        let mut joined = String::new();
        while let Some(piece) = list.next_element::<Piece<'de>>()? {
            joined.push_str(piece.text.as_str());
        }
        Ok(Joined(Cow::Owned(joined)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Joined<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Joined::default())
    }
});

impl<'de: 'a, 'a> Deserialize<'de> for FunctionArguments<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        Ok(Self(match raw.as_bytes().first() {
            Some(b'"') => serde_json::from_str::<LenientText<'de>>(raw).map_err(D::Error::custom)?.0,
            Some(b'{' | b'[') => Cow::Borrowed(raw),
            _ if raw == "null" => Cow::Borrowed(""),
            _ => return Err(D::Error::custom("arguments are a string or an object")),
        }))
    }
}

/// Reads a list of calls or parts: at most [`MAX_ELEMENTS`] and one more, which shows that there were too many.
fn bounded<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(list: A) -> Result<Vec<T>, A::Error> {
    First(MAX_ELEMENTS + 1, PhantomData).visit_seq(list)
}

/// At most the first `max` elements of a list; the others are skipped. `None`: it is not such a list.
pub(super) fn first_elements<'de, T: Deserialize<'de>>(raw: &'de RawValue, max: usize) -> Option<Vec<T>> {
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    deserializer.deserialize_seq(First(max, PhantomData)).ok()
}

struct First<T>(usize, PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for First<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut elements = Vec::new();
        while elements.len() < self.0 {
            match list.next_element()? {
                Some(element) => elements.push(element),
                None => return Ok(elements),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(elements)
    }
}
