//! `mcp_call`: what any server-side call is in OpenAI's dialect, and what the model's history has of every call.

use super::presenter::{ArgumentEvents, CallPresenter, CallStages};
use crate::turn::ToolCallRequest;
use antwort_protocol::event::HostedStage;
use antwort_protocol::id::Id;
use antwort_protocol::item::hosted::McpCall;
use antwort_protocol::item::{Item, ItemStatus};
use antwort_protocol::tool::BUILTIN_SERVER_LABEL;

pub(super) static PRESENTER: CallPresenter = CallPresenter {
    name: "mcp",
    id_prefix: "mcp",
    is_buffered: false,
    arguments: ArgumentEvents::Mcp,
    stages: CallStages {
        added: Some(HostedStage::McpCallInProgress),
        started: None,
        completed: Some(HostedStage::McpCallCompleted),
        failed: Some(HostedStage::McpCallFailed),
    },
    open: |opened| {
        Item::McpCall(mcp_call(&opened.id, opened.call, opened.approval_request_id, ItemStatus::InProgress))
    },
    close: Some(|closed| Item::McpCall(closed.call)),
    abort: |item, arguments| {
        if let Item::McpCall(call) = item {
            (call.status, call.arguments) = (ItemStatus::Incomplete, arguments);
        }
    },
    seals_result: false,
};

/// The call as the model's history has it, whatever clients see of it.
pub(crate) fn mcp_call(
    id: &Id,
    call: &ToolCallRequest,
    approval_request_id: Option<String>,
    status: ItemStatus,
) -> McpCall {
    let arguments = if status == ItemStatus::InProgress { String::new() } else { call.arguments.clone() };
    McpCall {
        id: id.clone(),
        server_label: call.namespace.clone().unwrap_or_else(|| BUILTIN_SERVER_LABEL.to_owned()),
        name: call.name.clone(),
        arguments,
        output: None,
        error: None,
        status,
        approval_request_id,
        files: Vec::new(),
    }
}
