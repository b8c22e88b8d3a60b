//! The size of a response in bytes, which counts against `engine.max_response_bytes` and `engine.max_item_bytes`.
//!
//! Within a small constant factor it is an upper bound of what is held in memory and of the JSON. For this, values
//! with hardly any text, such as citations, are counted with an overhead.

use serde_json::Value;

use super::machine::CallResult;
use super::turn::{ModelEvent, ProviderFields};
use antwort_protocol::content::{Annotation, LogProb, TopLogProb};
use antwort_protocol::item::hosted::McpListedTool;

/// Of an item beside its text: ids, names of fields, its entry in the output.
pub(super) const ITEM_OVERHEAD: usize = 256;
/// Of a content part, or of a pending event, beside its text.
pub(super) const PART_OVERHEAD: usize = 128;
/// Of a short text: no allocation is smaller.
const MIN_ALLOCATION: usize = 8;

impl ModelEvent {
    /// How much the event adds to the size of the response.
    pub fn size(&self) -> usize {
        match self {
            Self::Text { delta, logprobs } => delta.len() + logprobs.iter().map(logprob_size).sum::<usize>(),
            Self::Refusal(text) | Self::Reasoning(text) | Self::ReasoningSummary(text) => text.len(),
            Self::CallDelta { delta, .. } => delta.len(),
            Self::CallId { call_id, .. } => call_id.len(),
            Self::Annotation(annotation) => annotation_size(annotation),
            Self::CallStarted { call_id, name, namespace, fields, .. } => {
                let id = call_id.as_ref().map_or(0, String::len);
                let namespace = namespace.as_ref().map_or(0, String::len);
                ITEM_OVERHEAD
                    + id
                    + name.len()
                    + namespace
                    + fields.as_ref().map_or(0, |fields| fields_size(fields))
            }
            Self::ReasoningState(fields) => fields_size(fields),
            Self::CallState { fields, .. } => fields_size(fields),
            Self::Usage(_) | Self::ServiceTier(_) | Self::Finish(_) => 0,
        }
    }
}

impl CallResult {
    /// How much the result adds to the size of the response; a message to the user is an item of its own.
    pub(super) fn size(&self) -> usize {
        let sources = self.sources.iter().flatten().map(|url| PART_OVERHEAD + url.len()).sum::<usize>();
        let files = self.files.iter().map(|file| PART_OVERHEAD + file.size()).sum::<usize>();
        self.output.len() + self.shown.as_ref().map_or(0, String::len) + sources + files
    }
}

pub(super) fn listed_tool_size(tool: &McpListedTool) -> usize {
    let hints = tool.annotations.as_ref().map_or(0, |hints| hints.get().len());
    let description = tool.description.as_ref().map_or(0, String::len);
    PART_OVERHEAD + tool.name.len() + description + tool.input_schema.get().len() + hints
}

fn annotation_size(annotation: &Annotation) -> usize {
    PART_OVERHEAD
        + match annotation {
            Annotation::FileCitation { file_id, filename, .. } => file_id.len() + filename.len(),
            Annotation::UrlCitation { url, title, .. } => url.len() + title.len(),
            Annotation::ContainerFileCitation { container_id, file_id, filename, .. } => {
                container_id.len() + file_id.len() + filename.len()
            }
            Annotation::FilePath { file_id, .. } => file_id.len(),
        }
}

fn logprob_size(logprob: &LogProb) -> usize {
    // A byte takes up to four characters in JSON.
    let token = |text: &str, bytes: &[u8]| 2 * MIN_ALLOCATION + text.len() + 4 * bytes.len();
    let of_other = |other: &TopLogProb| size_of::<TopLogProb>() + token(&other.token, &other.bytes);
    let others = logprob.top_logprobs.iter().map(of_other).sum::<usize>();
    size_of::<LogProb>() + token(&logprob.token, &logprob.bytes) + others
}

fn fields_size(fields: &ProviderFields) -> usize {
    fields.iter().map(|(name, value)| value_size(name, value)).sum()
}

fn value_size(name: &str, value: &Value) -> usize {
    let held = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(|value| value_size("", value)).sum(),
        Value::Object(fields) => fields_size(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + name.len() + held
}
