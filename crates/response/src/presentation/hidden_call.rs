//! A `function_call` without a result: what clients see of server-side calls where `tools.stream_visibility` is `hidden`.

use super::presenter::{ArgumentEvents, CallPresenter, CallStages};
use antwort_protocol::item::{FunctionCall, Item, ItemStatus};

pub(super) static PRESENTER: CallPresenter = CallPresenter {
    name: "hidden",
    id_prefix: "fc",
    is_buffered: false,
    arguments: ArgumentEvents::Function,
    stages: CallStages::NONE,
    open: |opened| {
        Item::FunctionCall(FunctionCall {
            id: opened.id,
            status: ItemStatus::InProgress,
            call_id: opened.call_id.unwrap_or_default(),
            name: opened.call.name.clone(),
            namespace: None,
            arguments: String::new(),
        })
    },
    close: None,
    abort: |item, arguments| {
        if let Item::FunctionCall(call) = item {
            (call.status, call.arguments) = (ItemStatus::Incomplete, arguments);
        }
    },
    seals_result: false,
};
