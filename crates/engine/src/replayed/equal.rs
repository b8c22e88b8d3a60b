//! Whether an item that a client sends again says the same as the stored one.
//!
//! Statuses do not count, nor do fields that clients drop or fill by themselves: annotations and log probabilities of
//! texts, sealed reasoning. A text is the same whichever type its part has, and a plain text is one part.

use serde_json::Value;

use crate::tools::hosted;
use antwort_protocol::content::ContentPart;
use antwort_protocol::item::hosted::{McpApprovalResponse, McpListTools};
use antwort_protocol::item::{CustomToolCall, FunctionCall, Item, Message, Reasoning, ToolOutput};
use antwort_protocol::json;
use antwort_tools::{arguments_read_again, is_same_arguments};
use antwort_util::digest::FieldHasher;

/// What identifies a call or an output by what it says.
pub(crate) type Print = [u8; 32];

/// Equal for calls that are the same, but for their namespace.
pub(super) fn call_print(call: &Item) -> Print {
    let (name, input) = match call {
        Item::FunctionCall(call) => (&call.name, arguments_read_again(&call.arguments)),
        Item::CustomToolCall(call) => (&call.name, call.input.clone().into_bytes()),
        _ => return Print::default(),
    };
    let kind = if matches!(call, Item::FunctionCall(_)) { "function" } else { "custom" };
    FieldHasher::new().field(kind).field(name).field(input).finish()
}

/// Equal for outputs that are the same.
pub(crate) fn output_print(output: &ToolOutput) -> Print {
    let parts = match output {
        ToolOutput::Text(text) => return content_print([Shown::Text(text)].into_iter()),
        ToolOutput::Parts(parts) => parts,
    };
    content_print(parts.iter().map(Shown::of))
}

fn content_print<'a>(parts: impl Iterator<Item = Shown<'a>>) -> Print {
    parts.fold(FieldHasher::new(), |hasher, part| Shown::hash(hasher, &part)).finish()
}

/// The first field in which the replayed item differs from the stored one.
pub(super) fn difference(stored: &Item, replayed: &Item) -> Option<&'static str> {
    match (stored, replayed) {
        (Item::FunctionCall(a), Item::FunctionCall(b)) => function_difference(a, b),
        (Item::CustomToolCall(a), Item::CustomToolCall(b)) => custom_difference(a, b),
        (Item::FunctionCallOutput(a), Item::FunctionCallOutput(b)) => {
            first([("call_id", a.call_id == b.call_id)]).or_else(|| output_difference(&a.output, &b.output))
        }
        (Item::CustomToolCallOutput(a), Item::CustomToolCallOutput(b)) => {
            first([("call_id", a.call_id == b.call_id)]).or_else(|| output_difference(&a.output, &b.output))
        }
        (Item::Message(a), Item::Message(b)) => message_difference(a, b),
        (Item::Reasoning(a), Item::Reasoning(b)) => reasoning_difference(a, b),
        (Item::McpApprovalRequest(a), Item::McpApprovalRequest(b)) => first([
            ("server_label", a.server_label == b.server_label),
            ("name", a.name == b.name),
            ("arguments", is_same_arguments(&a.arguments, &b.arguments)),
        ]),
        (Item::McpApprovalResponse(a), Item::McpApprovalResponse(b)) => answer_difference(a, b),
        (Item::McpListTools(a), Item::McpListTools(b)) => list_difference(a, b),
        (Item::Compaction(a), Item::Compaction(b)) => {
            first([("encrypted_content", a.encrypted_content == b.encrypted_content)])
        }
        // Its results, which the model reads, are not in the item of the client.
        (Item::McpCall(_) | Item::WebSearchCall(_), call) if hosted::is_call(call) => None,
        (stored, replayed) => match (ServerCall::of(stored), ServerCall::of(replayed)) {
            (Some(a), Some(b)) => a.difference(&b),
            _ => other_difference(stored, replayed),
        },
    }
}

fn output_difference(a: &ToolOutput, b: &ToolOutput) -> Option<&'static str> {
    first([("output", output_print(a) == output_print(b))])
}

/// The reason counts if there is one in both.
pub(super) fn answer_difference(a: &McpApprovalResponse, b: &McpApprovalResponse) -> Option<&'static str> {
    first([
        ("approval_request_id", a.approval_request_id == b.approval_request_id),
        ("approve", a.approve == b.approve),
        ("reason", a.reason == b.reason || a.reason.is_none() || b.reason.is_none()),
    ])
}

/// The first field that is not the same.
fn first<const N: usize>(fields: [(&'static str, bool); N]) -> Option<&'static str> {
    fields.into_iter().find(|(_, is_same)| !is_same).map(|(field, _)| field)
}

fn function_difference(a: &FunctionCall, b: &FunctionCall) -> Option<&'static str> {
    first([
        ("call_id", a.call_id == b.call_id),
        ("name", a.name == b.name),
        // Some clients know no namespaces.
        ("namespace", a.namespace == b.namespace || b.namespace.is_none()),
        ("arguments", is_same_arguments(&a.arguments, &b.arguments)),
    ])
}

fn custom_difference(a: &CustomToolCall, b: &CustomToolCall) -> Option<&'static str> {
    first([
        ("call_id", a.call_id == b.call_id),
        ("name", a.name == b.name),
        ("namespace", a.namespace == b.namespace || b.namespace.is_none()),
        ("input", a.input == b.input),
    ])
}

fn message_difference(a: &Message, b: &Message) -> Option<&'static str> {
    first([("role", a.role == b.role), ("content", is_same_content(&a.content, &b.content))])
}

/// Clients may keep only the summary, or only the text.
fn reasoning_difference(a: &Reasoning, b: &Reasoning) -> Option<&'static str> {
    first([
        ("summary", a.summary == b.summary || b.summary.is_empty()),
        ("content", a.content == b.content || b.content.is_empty()),
    ])
}

/// The schemas of the tools are not compared: the model does not see them.
fn list_difference(a: &McpListTools, b: &McpListTools) -> Option<&'static str> {
    let has_same_names = a.tools.iter().map(|tool| &tool.name).eq(b.tools.iter().map(|tool| &tool.name));
    first([("server_label", a.server_label == b.server_label), ("tools", has_same_names)])
}

/// A part as it is compared.
#[derive(PartialEq)]
enum Shown<'a> {
    Text(&'a str),
    Refusal(&'a str),
    Other(&'a ContentPart),
}

impl<'a> Shown<'a> {
    fn of(part: &'a ContentPart) -> Self {
        match (part.text(), part) {
            (Some(text), _) => Self::Text(text),
            (None, ContentPart::Refusal(part)) => Self::Refusal(&part.refusal),
            (None, other) => Self::Other(other),
        }
    }

    /// Adds the part; an empty text adds nothing.
    fn hash(hasher: FieldHasher, part: &Self) -> FieldHasher {
        match part {
            Self::Text("") => hasher,
            Self::Text(text) => hasher.field("text").field(text),
            Self::Refusal(text) => hasher.field("refusal").field(text),
            Self::Other(part) => hasher.field("part").field(json::to_text(part).as_bytes()),
        }
    }
}

fn is_same_content(a: &[ContentPart], b: &[ContentPart]) -> bool {
    let filled = |part: &Shown<'_>| *part != Shown::Text("");
    a.iter().map(Shown::of).filter(filled).eq(b.iter().map(Shown::of).filter(filled))
}

/// A call that the gateway has made, in either dialect, or as `tools.stream_visibility: hidden` shows it.
struct ServerCall<'a> {
    label: Option<&'a str>,
    name: &'a str,
    arguments: &'a str,
}

impl<'a> ServerCall<'a> {
    fn of(item: &'a Item) -> Option<Self> {
        Some(match item {
            Item::McpCall(call) => {
                Self { label: Some(&call.server_label), name: &call.name, arguments: &call.arguments }
            }
            Item::ServerToolCall(call) => {
                Self { label: call.server_label.as_deref(), name: &call.name, arguments: &call.arguments }
            }
            Item::FunctionCall(call) => Self { label: None, name: &call.name, arguments: &call.arguments },
            _ => return None,
        })
    }

    /// Results are [compared](super::results) with what clients were given.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        first([
            ("server_label", self.label == other.label || self.label.is_none() || other.label.is_none()),
            ("name", self.name == other.name),
            ("arguments", is_same_arguments(self.arguments, other.arguments)),
        ])
    }
}

/// Of items that the model is not shown, everything is compared but what SDKs add to them.
fn other_difference(a: &Item, b: &Item) -> Option<&'static str> {
    if std::mem::discriminant(a) != std::mem::discriminant(b) {
        return Some("type");
    }
    let plain = |item: &Item| {
        let mut value = serde_json::from_str::<Value>(&json::to_text(item)).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.retain(|name, value| !matches!(name.as_str(), "id" | "status") && !value.is_null());
        }
        value
    };
    let (a, b) = (plain(a), plain(b));
    match a == b {
        true => None,
        false if a.get("type") != b.get("type") => Some("type"),
        false => Some("id"),
    }
}
