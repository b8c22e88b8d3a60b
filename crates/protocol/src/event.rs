//! Stream events: those of the API, of its hosted tools, and of this gateway.

mod delta;
mod encoder;

use std::sync::Arc;

use serde::Serialize;

use super::a2a::{self, A2aToolCall};
use super::content::{Annotation, LogProb, LogProbs};
use super::dialect::Dialect;
use super::elicitation::Elicitation;
use super::error::ErrorBody;
use super::id::Id;
use super::item::{Item, ReasoningText, SummaryText};
use super::response::ResponseSnapshot;
pub use encoder::EventEncoder;

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
    /// The client is to answer a call while the response goes on; only if the request or its agent says so.
    InputRequired {
        item_id: Id,
        output_index: u32,
        call_id: String,
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        arguments: String,
        /// What the tool asks the user, if the call is the gateway's: the answer is that of the user.
        #[serde(skip_serializing_if = "Option::is_none")]
        elicitation: Option<Box<Elicitation>>,
        /// In Unix seconds.
        expires_at: i64,
    },
    /// The same in the words of A2A clients, for a call of the client's.
    A2aInputRequired(Box<A2aToolCall>),
    /// Nothing has happened for a while; only for clients that take a stream without events for a broken one.
    Keepalive {},
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
            Self::InputRequired { .. } => "antwort:input_required",
            Self::A2aInputRequired(_) => a2a::INPUT_REQUIRED,
            // As the hosted API names it, in both dialects.
            Self::Keepalive {} => "keepalive",
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

    /// The response of an event that has it whole.
    fn response(&self) -> Option<&Arc<ResponseSnapshot>> {
        match self {
            Self::Created { response } | Self::Queued { response } | Self::InProgress { response } => {
                Some(response)
            }
            _ => self.terminal(),
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
