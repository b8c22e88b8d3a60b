//! `antwort:tool_call`: what any server-side call is in the dialect that has no `mcp_call`.

use super::presenter::{ArgumentEvents, CallPresenter, CallStages, ClosedCall};
use antwort_protocol::item::hosted::McpCall;
use antwort_protocol::item::{Item, ItemStatus, ServerToolCall, ServerToolError};
use antwort_protocol::tool::BUILTIN_SERVER_LABEL;

pub(super) static PRESENTER: CallPresenter = CallPresenter {
    name: "extension",
    id_prefix: "tc",
    is_buffered: false,
    arguments: ArgumentEvents::None,
    stages: CallStages::NONE,
    open: |opened| {
        Item::ServerToolCall(ServerToolCall {
            id: opened.id,
            status: ItemStatus::InProgress,
            server_label: opened.call.namespace.clone().filter(|label| label != BUILTIN_SERVER_LABEL),
            name: opened.call.name.clone(),
            arguments: String::new(),
            output: None,
            error: None,
            approval_request_id: opened.approval_request_id,
        })
    },
    close: Some(close),
    abort: |item, arguments| {
        if let Item::ServerToolCall(call) = item {
            (call.status, call.arguments) = (ItemStatus::Incomplete, arguments);
        }
    },
    seals_result: false,
};

fn close(ClosedCall { call, result }: ClosedCall<'_>) -> Item {
    let words = result.shown.as_ref().unwrap_or(&result.output);
    let error = result.error.as_deref();
    let error = error.map(|code| ServerToolError { code: code.to_owned(), message: words.clone() });
    let McpCall { id, server_label, name, arguments, output, status, approval_request_id, .. } = call;
    let server_label = Some(server_label).filter(|label| label != BUILTIN_SERVER_LABEL);
    let call =
        ServerToolCall { id, status, server_label, name, arguments, output, error, approval_request_id };
    Item::ServerToolCall(call)
}
