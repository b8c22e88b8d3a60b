//! Content parts, annotations and log probabilities.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::parse::{FromJson, ParseError};
use super::tagged::tagged;

/// One part of a message or of a tool's output.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// Text from the client.
    InputText(InputText),
    /// An image from the client.
    InputImage(InputImage),
    /// A document from the client.
    InputFile(InputFile),
    /// Audio from the client.
    InputAudio(InputAudio),
    /// A video, as the output of a tool.
    InputVideo(InputVideo),
    /// Text from the model.
    OutputText(OutputText),
    /// The model's refusal.
    Refusal(Refusal),
}

/// Text from the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputText {
    /// At most 10,485,760 characters.
    pub text: String,
}

/// An image: a URL, or data in a `data:` URL. Uploaded files are not supported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputImage {
    /// `https:` or `data:` URL; at most 20,971,520 characters.
    #[serde(default)]
    pub image_url: Option<String>,
    /// Id of an uploaded file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_id: Option<String>,
    /// The resolution at which the model looks at it.
    #[serde(default, deserialize_with = "null_is_default")]
    pub detail: ImageDetail,
}

/// The resolution at which a model looks at an image. One that a later version of the API may have counts as `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ImageDetail {
    Low,
    High,
    Original,
    #[default]
    #[serde(other)]
    Auto,
}

/// A document, inline as a `data:` URL or base64, or by URL or upload.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InputFile {
    /// Id of an uploaded file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_id: Option<String>,
    /// Name shown to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// `data:` URL or base64; at most 73,400,320 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_data: Option<String>,
    /// The URL from which the provider fetches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_url: Option<String>,
}

/// An audio recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputAudio {
    /// The data and its format.
    pub input_audio: AudioData,
}

/// The data of an audio recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudioData {
    /// Base64.
    pub data: String,
    /// `mp3` or `wav`.
    pub format: String,
}

/// A video: a URL, or data in a `data:` URL. Part of the Open Responses specification, not of OpenAI's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputVideo {
    /// `https:` or `data:` URL; at most 73,400,320 characters.
    pub video_url: String,
}

/// Text from the model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OutputText {
    /// The text so far.
    pub text: String,
    /// Citations; never null on the wire.
    #[serde(default, deserialize_with = "known_annotations")]
    pub annotations: Vec<Annotation>,
    /// Log probabilities of its tokens; empty unless requested by `include`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub logprobs: LogProbs,
}

/// The model's refusal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Refusal {
    /// The text of the refusal.
    pub refusal: String,
}

tagged! {
    /// A citation in an output text.
    #[derive(Debug, Clone, PartialEq, Eq)]
    #[allow(missing_docs, reason = "the names are the API's own")]
    pub enum Annotation {
        FileCitation {
            file_id: String,
            filename: String,
            index: u64,
        },
        UrlCitation {
            url: String,
            title: String,
            start_index: u64,
            end_index: u64,
        },
        ContainerFileCitation {
            container_id: String,
            file_id: String,
            filename: String,
            start_index: u64,
            end_index: u64,
        },
        FilePath {
            file_id: String,
            index: u64,
        },
    }
}

/// A citation of a type that a later version of the API may have is left out: it stops no text from being read.
struct KnownAnnotation(Option<Annotation>);

impl FromJson for KnownAnnotation {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        match Annotation::from_json(raw) {
            Ok(annotation) => Ok(Self(Some(annotation))),
            Err(error) if error.is_unknown_value() => Ok(Self(None)),
            Err(error) => Err(error),
        }
    }
}

impl<'de> Deserialize<'de> for KnownAnnotation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        super::parse::deserialize_from_json(deserializer)
    }
}

fn known_annotations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Annotation>, D::Error> {
    let read: Vec<KnownAnnotation> = null_is_default(deserializer)?;
    Ok(read.into_iter().filter_map(|annotation| annotation.0).collect())
}

/// Log probabilities of a text. Clones share them: a text is cloned for each event that closes it, and they take many
/// times its size.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Vec<LogProb>")]
pub struct LogProbs(Option<Arc<Vec<LogProb>>>);

impl LogProbs {
    /// Appends the log probabilities of a delta.
    pub fn extend_from_slice(&mut self, more: &[LogProb]) {
        if !more.is_empty() {
            Arc::make_mut(self.0.get_or_insert_default()).extend_from_slice(more);
        }
    }
}

impl From<Vec<LogProb>> for LogProbs {
    fn from(list: Vec<LogProb>) -> Self {
        Self(Some(list).filter(|list| !list.is_empty()).map(Arc::new))
    }
}

impl Deref for LogProbs {
    type Target = [LogProb];

    fn deref(&self) -> &[LogProb] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl Serialize for LogProbs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

/// The log probability of one generated token. Sized exactly, as there are many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogProb {
    /// The token's text.
    pub token: Box<str>,
    /// The natural logarithm of the token's probability.
    pub logprob: f64,
    /// Its UTF-8 bytes; always an array on the wire.
    #[serde(default, deserialize_with = "null_is_default")]
    pub bytes: Box<[u8]>,
    /// The most likely tokens at this position.
    #[serde(default, deserialize_with = "null_is_default")]
    pub top_logprobs: Box<[TopLogProb]>,
}

/// One of the most likely tokens at a position.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopLogProb {
    /// The token's text.
    pub token: Box<str>,
    /// The natural logarithm of its probability.
    pub logprob: f64,
    /// Its UTF-8 bytes.
    #[serde(default, deserialize_with = "null_is_default")]
    pub bytes: Box<[u8]>,
}

impl ContentPart {
    /// A text from the client.
    pub fn input_text(text: impl Into<String>) -> Self {
        Self::InputText(InputText { text: text.into() })
    }

    /// A text from the model.
    pub fn output_text(text: impl Into<String>) -> Self {
        Self::OutputText(OutputText { text: text.into(), ..OutputText::default() })
    }

    /// The text of a text part.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::InputText(part) => Some(&part.text),
            Self::OutputText(part) => Some(&part.text),
            _ => None,
        }
    }
}

impl FromJson for ContentPart {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let shape = super::parse::peek_discriminator(raw)?;
        match shape.kind.as_deref() {
            // `text` is the chat API's name, which SDK users mix up with `input_text`; the meaning is clear.
            Some("input_text" | "text") => Ok(Self::InputText(super::parse::read(raw)?)),
            Some("input_image") => Ok(Self::InputImage(super::parse::read(raw)?)),
            Some("input_file") => Ok(Self::InputFile(super::parse::read(raw)?)),
            Some("input_audio") => Ok(Self::InputAudio(super::parse::read(raw)?)),
            Some("input_video") => Ok(Self::InputVideo(super::parse::read(raw)?)),
            Some("output_text") => Ok(Self::OutputText(super::parse::read(raw)?)),
            Some("refusal") => Ok(Self::Refusal(super::parse::read(raw)?)),
            Some(other) => Err(ParseError::unknown_type(
                other,
                "input_text, input_image, input_file, input_audio, input_video, output_text or refusal",
            )),
            None => Err(ParseError::missing("type")),
        }
    }
}

impl<'de> Deserialize<'de> for ContentPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        super::parse::deserialize_from_json(deserializer)
    }
}

/// Reads null as the default: SDKs send null for fields that are not set.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
