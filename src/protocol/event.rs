//! Stream events: those of the API, of its hosted tools, and of this gateway.
//!
//! An event is encoded once, straight into the buffer that is sent to the client.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;

use super::content::{Annotation, LogProb, LogProbs};
use super::dialect::Dialect;
use super::error::ErrorBody;
use super::id::Id;
use super::item::{Item, ReasoningText, SummaryText};
use super::response::ResponseSnapshot;

/// An event with its sequence number: 0, 1, 2 … without gaps.
#[derive(Debug, Clone)]
pub struct StreamEvent {
    /// The sequence number in the stream.
    pub sequence_number: u64,
    /// The payload.
    pub event: ResponseEvent,
}

/// The payload of an event. Serialises to the event's own fields, without `type` and `sequence_number`.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
#[allow(missing_docs, reason = "each variant is the event of the same name")]
pub enum ResponseEvent {
    Created {
        response: Arc<ResponseSnapshot>,
    },
    Queued {
        response: Arc<ResponseSnapshot>,
    },
    InProgress {
        response: Arc<ResponseSnapshot>,
    },
    Completed {
        response: Arc<ResponseSnapshot>,
    },
    Incomplete {
        response: Arc<ResponseSnapshot>,
    },
    Failed {
        response: Arc<ResponseSnapshot>,
    },
    Error {
        error: ErrorBody,
    },
    OutputItemAdded {
        output_index: u32,
        item: Box<Item>,
    },
    OutputItemDone {
        output_index: u32,
        item: Box<Item>,
    },
    ContentPartAdded {
        item_id: Id,
        output_index: u32,
        content_index: u32,
        part: OutputContent,
    },
    ContentPartDone {
        item_id: Id,
        output_index: u32,
        content_index: u32,
        part: OutputContent,
    },
    OutputTextDelta {
        item_id: Id,
        output_index: u32,
        content_index: u32,
        delta: String,
        logprobs: Vec<LogProb>,
    },
    OutputTextDone {
        item_id: Id,
        output_index: u32,
        content_index: u32,
        text: String,
        logprobs: LogProbs,
    },
    AnnotationAdded {
        item_id: Id,
        output_index: u32,
        content_index: u32,
        annotation_index: u32,
        annotation: Annotation,
    },
    RefusalDelta {
        item_id: Id,
        output_index: u32,
        content_index: u32,
        delta: String,
    },
    RefusalDone {
        item_id: Id,
        output_index: u32,
        content_index: u32,
        refusal: String,
    },
    ReasoningTextDelta {
        item_id: Id,
        output_index: u32,
        content_index: u32,
        delta: String,
    },
    ReasoningTextDone {
        item_id: Id,
        output_index: u32,
        content_index: u32,
        text: String,
    },
    SummaryPartAdded {
        item_id: Id,
        output_index: u32,
        summary_index: u32,
        part: SummaryText,
    },
    SummaryPartDone {
        item_id: Id,
        output_index: u32,
        summary_index: u32,
        part: SummaryText,
    },
    SummaryTextDelta {
        item_id: Id,
        output_index: u32,
        summary_index: u32,
        delta: String,
    },
    SummaryTextDone {
        item_id: Id,
        output_index: u32,
        summary_index: u32,
        text: String,
    },
    FunctionArgumentsDelta {
        item_id: Id,
        output_index: u32,
        delta: String,
    },
    FunctionArgumentsDone {
        item_id: Id,
        output_index: u32,
        name: String,
        arguments: String,
    },
    CustomInputDelta {
        item_id: Id,
        output_index: u32,
        delta: String,
    },
    CustomInputDone {
        item_id: Id,
        output_index: u32,
        input: String,
    },
    /// A hosted tool has reached another stage.
    Hosted(HostedProgress),
    McpArgumentsDelta {
        item_id: Id,
        output_index: u32,
        delta: String,
    },
    McpArgumentsDone {
        item_id: Id,
        output_index: u32,
        arguments: String,
    },
    /// A progress report of a running tool; only if the request asked for them.
    ToolProgress {
        item_id: Id,
        output_index: u32,
        message: String,
    },
    CodeDelta {
        item_id: Id,
        output_index: u32,
        delta: String,
    },
    CodeDone {
        item_id: Id,
        output_index: u32,
        code: String,
    },
}

/// A content part of `content_part` events.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs, reason = "each variant is documented at its type")]
pub enum OutputContent {
    Content(super::content::ContentPart),
    Reasoning(ReasoningText),
}

/// Progress of a hosted tool's item.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostedProgress {
    /// The stage that was reached.
    #[serde(skip)]
    pub stage: HostedStage,
    /// The id of the tool's item.
    pub item_id: Id,
    /// The index of the item in the output.
    pub output_index: u32,
}

/// The name of an event that only OpenAI's API has.
macro_rules! foreign {
    ($dialect:expr, $name:literal) => {
        $dialect.foreign_event(concat!("response.", $name), concat!("antwort:", $name))
    };
}

/// Declares the progress events of hosted tools: one name per variant.
macro_rules! hosted_stages {
    ($($variant:ident => $name:literal,)*) => {
        /// The stage that a hosted tool has reached.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each variant is the event of the same name")]
        pub enum HostedStage { $($variant,)* }

        impl HostedStage {
            /// The event's `type`.
            pub fn name(self, dialect: Dialect) -> &'static str {
                match self { $(Self::$variant => foreign!(dialect, $name),)* }
            }
        }
    };
}

hosted_stages! {
    FileSearchInProgress => "file_search_call.in_progress",
    FileSearchSearching => "file_search_call.searching",
    FileSearchCompleted => "file_search_call.completed",
    WebSearchInProgress => "web_search_call.in_progress",
    WebSearchSearching => "web_search_call.searching",
    WebSearchCompleted => "web_search_call.completed",
    CodeInProgress => "code_interpreter_call.in_progress",
    CodeInterpreting => "code_interpreter_call.interpreting",
    CodeCompleted => "code_interpreter_call.completed",
    ImageInProgress => "image_generation_call.in_progress",
    ImageGenerating => "image_generation_call.generating",
    ImageCompleted => "image_generation_call.completed",
    McpCallInProgress => "mcp_call.in_progress",
    McpCallCompleted => "mcp_call.completed",
    McpCallFailed => "mcp_call.failed",
    McpListInProgress => "mcp_list_tools.in_progress",
    McpListCompleted => "mcp_list_tools.completed",
    McpListFailed => "mcp_list_tools.failed",
}

impl ResponseEvent {
    /// The event's `type` on the wire.
    pub fn name(&self, dialect: Dialect) -> &'static str {
        match self {
            Self::Created { .. } => "response.created",
            Self::Queued { .. } => "response.queued",
            Self::InProgress { .. } => "response.in_progress",
            Self::Completed { .. } => "response.completed",
            Self::Incomplete { .. } => "response.incomplete",
            Self::Failed { .. } => "response.failed",
            Self::Error { .. } => "error",
            Self::OutputItemAdded { .. } => "response.output_item.added",
            Self::OutputItemDone { .. } => "response.output_item.done",
            Self::ContentPartAdded { .. } => "response.content_part.added",
            Self::ContentPartDone { .. } => "response.content_part.done",
            Self::OutputTextDelta { .. } => "response.output_text.delta",
            Self::OutputTextDone { .. } => "response.output_text.done",
            Self::AnnotationAdded { .. } => "response.output_text.annotation.added",
            Self::RefusalDelta { .. } => "response.refusal.delta",
            Self::RefusalDone { .. } => "response.refusal.done",
            Self::ReasoningTextDelta { .. } => dialect.reasoning_delta(),
            Self::ReasoningTextDone { .. } => dialect.reasoning_done(),
            Self::SummaryPartAdded { .. } => "response.reasoning_summary_part.added",
            Self::SummaryPartDone { .. } => "response.reasoning_summary_part.done",
            Self::SummaryTextDelta { .. } => "response.reasoning_summary_text.delta",
            Self::SummaryTextDone { .. } => "response.reasoning_summary_text.done",
            Self::FunctionArgumentsDelta { .. } => "response.function_call_arguments.delta",
            Self::FunctionArgumentsDone { .. } => "response.function_call_arguments.done",
            Self::CustomInputDelta { .. } => foreign!(dialect, "custom_tool_call_input.delta"),
            Self::CustomInputDone { .. } => foreign!(dialect, "custom_tool_call_input.done"),
            Self::Hosted(progress) => progress.stage.name(dialect),
            Self::McpArgumentsDelta { .. } => foreign!(dialect, "mcp_call_arguments.delta"),
            Self::McpArgumentsDone { .. } => foreign!(dialect, "mcp_call_arguments.done"),
            Self::ToolProgress { .. } => "antwort:tool_progress",
            Self::CodeDelta { .. } => foreign!(dialect, "code_interpreter_call_code.delta"),
            Self::CodeDone { .. } => foreign!(dialect, "code_interpreter_call_code.done"),
        }
    }

    /// The response of an event that ends a stream.
    pub fn terminal(&self) -> Option<&Arc<ResponseSnapshot>> {
        match self {
            Self::Completed { response } | Self::Incomplete { response } | Self::Failed { response } => {
                Some(response)
            }
            _ => None,
        }
    }

    /// Whether the event is a delta, which may be padded against traffic analysis.
    fn is_delta(&self) -> bool {
        matches!(
            self,
            Self::OutputTextDelta { .. }
                | Self::RefusalDelta { .. }
                | Self::ReasoningTextDelta { .. }
                | Self::SummaryTextDelta { .. }
                | Self::FunctionArgumentsDelta { .. }
                | Self::CustomInputDelta { .. }
                | Self::McpArgumentsDelta { .. }
                | Self::CodeDelta { .. }
        )
    }
}

/// How the events of one stream are encoded.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventEncoder {
    /// The dialect of the events' names.
    pub dialect: Dialect,
    /// Whether deltas are padded to hide their length (`stream_options.include_obfuscation`).
    pub obfuscate: bool,
}

impl EventEncoder {
    /// Appends the event's JSON, on one line.
    pub fn write_json(self, event: &StreamEvent, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(event.event.name(self.dialect).as_bytes());
        out.extend_from_slice(b"\",\"sequence_number\":");
        write_number(event.sequence_number, out);
        let fields = out.len();
        if self.write_fields(&event.event, out).is_err() {
            // Writing to memory cannot fail, and neither can these types; see `to_raw`.
            out.truncate(fields);
            out.push(b'}');
            return;
        }
        // The fields were written as an object of their own: its opening brace becomes the comma.
        if let Some(brace) = out.get_mut(fields) {
            *brace = b',';
        }
        if self.obfuscate && event.event.is_delta() {
            out.pop();
            out.extend_from_slice(b",\"obfuscation\":\"");
            out.extend_from_slice(padding(out.len() - fields).as_bytes());
            out.extend_from_slice(b"\"}");
        }
    }

    /// The event's JSON, on one line.
    pub fn to_json(self, event: &StreamEvent) -> String {
        let mut bytes = Vec::with_capacity(256);
        self.write_json(event, &mut bytes);
        // What is written as JSON is UTF-8.
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// Appends the event's own fields, as an object.
    fn write_fields(self, event: &ResponseEvent, out: &mut Vec<u8>) -> serde_json::Result<()> {
        #[derive(Serialize)]
        struct Placed<T> {
            output_index: u32,
            item: T,
        }
        #[derive(Serialize)]
        struct FlatError<'a> {
            code: &'a Option<Cow<'static, str>>,
            message: &'a str,
            param: &'a Option<String>,
            error: &'a ErrorBody,
        }
        match event {
            ResponseEvent::OutputItemAdded { output_index, item } => {
                let item = item.in_dialect(self.dialect, true);
                serde_json::to_writer(out, &Placed { output_index: *output_index, item })
            }
            ResponseEvent::OutputItemDone { output_index, item } => {
                let item = item.in_dialect(self.dialect, false);
                serde_json::to_writer(out, &Placed { output_index: *output_index, item })
            }
            ResponseEvent::Error { error } if self.dialect.has_flat_error_fields() => {
                let ErrorBody { message, param, code, .. } = error;
                serde_json::to_writer(out, &FlatError { code, message, param, error })
            }
            event => serde_json::to_writer(out, event),
        }
    }

    /// Appends the event as a server-sent event.
    pub fn write_sse(self, event: &StreamEvent, out: &mut Vec<u8>) {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(event.event.name(self.dialect).as_bytes());
        out.extend_from_slice(b"\ndata: ");
        self.write_json(event, out);
        out.extend_from_slice(b"\n\n");
    }
}

fn write_number(number: u64, out: &mut Vec<u8>) {
    use std::io::Write;
    let _infallible_in_memory = write!(out, "{number}");
}

/// Pads the event's fields to a multiple of 64 bytes, so that their length tells little.
fn padding(length: usize) -> &'static str {
    const FILL: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    FILL.get(..64 - length % 64).unwrap_or(FILL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_object_with_type_and_number_first() {
        let event = StreamEvent {
            sequence_number: 7,
            event: ResponseEvent::ReasoningTextDelta {
                item_id: "rs_1".into(),
                output_index: 0,
                content_index: 0,
                delta: "a\nb".into(),
            },
        };
        let mut out = Vec::new();
        EventEncoder { dialect: Dialect::OpenResponses, obfuscate: false }.write_sse(&event, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "event: response.reasoning.delta\ndata: {\"type\":\"response.reasoning.delta\",\"sequence_number\":7,\
             \"item_id\":\"rs_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"a\\nb\"}\n\n"
        );
    }

    #[test]
    fn obfuscation_pads_deltas_only() {
        let mut out = Vec::new();
        let delta =
            ResponseEvent::CustomInputDelta { item_id: "c".into(), output_index: 0, delta: "x".into() };
        let encoding = EventEncoder { obfuscate: true, ..EventEncoder::default() };
        encoding.write_json(&StreamEvent { sequence_number: 0, event: delta }, &mut out);
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert!(!value["obfuscation"].as_str().unwrap().is_empty());
        out.clear();
        let done = ResponseEvent::CustomInputDone { item_id: "c".into(), output_index: 0, input: "x".into() };
        encoding.write_json(&StreamEvent { sequence_number: 1, event: done }, &mut out);
        assert!(!String::from_utf8(out).unwrap().contains("obfuscation"));
    }
}
