//! The tools that go with the question for a summary.
//!
//! Servers refuse a history with calls in a request without tools, and their prompt caches begin with the tools: so the
//! question has those of the requests around it, and `tool_choice: none`. Calls that the model makes all the same are
//! ignored.

use std::collections::HashSet;
use std::sync::Arc;

use crate::tools::offered::OfferedTools;
use antwort_protocol::item::Item;
use antwort_protocol::request::CreateResponse;
use antwort_protocol::tool_choice::ToolChoice;
use antwort_response::turn::{CallKind, HistoryItem, ModelTool, ToolInput};
use antwort_tools::wire_name;

/// The request as it collects tools of which none may be called.
pub(crate) fn tool_request(request: &CreateResponse) -> CreateResponse {
    CreateResponse {
        tools: request.tools.clone(),
        tool_choice: ToolChoice::None,
        ..CreateResponse::default()
    }
}

/// The same tools, which nobody runs.
pub(crate) fn never_called(offer: OfferedTools) -> OfferedTools {
    OfferedTools { bindings: vec![None; offer.tools.len()], omitted: Vec::new(), ..offer }
}

/// The tools of the question: those that are offered, else those that the history calls.
pub(crate) fn for_summary(
    offered: &Arc<[Arc<ModelTool>]>,
    conversation: &[HistoryItem],
) -> Arc<[Arc<ModelTool>]> {
    if offered.is_empty() { called_in(conversation) } else { Arc::clone(offered) }
}

/// Declarations of the tools that a history calls: their names are all that is known of them.
fn called_in(conversation: &[HistoryItem]) -> Arc<[Arc<ModelTool>]> {
    let mut known = HashSet::new();
    let called = conversation.iter().filter_map(|context| {
        let json = ToolInput::Json { schema: None, strict: None };
        let (namespace, name, input, kind) = match context.item.as_ref() {
            Item::FunctionCall(call) => (call.namespace.as_deref(), &call.name, json, CallKind::Function),
            Item::CustomToolCall(call) => {
                let input = ToolInput::Text { grammar: None };
                (call.namespace.as_deref(), &call.name, input, CallKind::Custom)
            }
            Item::McpCall(call) => (Some(&*call.server_label), &call.name, json, CallKind::Function),
            _ => return None,
        };
        let wire_name = wire_name(namespace, name);
        known.insert(wire_name.clone()).then(|| {
            Arc::new(ModelTool {
                wire_name: wire_name.into(),
                name: name.as_str().into(),
                namespace: namespace.map(str::to_owned),
                description: None,
                input,
                kind,
            })
        })
    });
    called.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;
    use antwort_protocol::parse::FromJson;

    #[test]
    fn every_tool_that_the_history_calls_is_declared_once() {
        let items = [
            json!({"role": "user", "content": "hi"}),
            json!({"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "1", "output": "x"}),
            json!({"type": "function_call", "call_id": "2", "name": "f", "arguments": "{}"}),
            json!({"type": "custom_tool_call", "call_id": "3", "name": "patch", "input": "x"}),
            json!({"type": "mcp_call", "id": "mcp_1", "server_label": "docs", "name": "find", "arguments": "{}",
                "output": "x"}),
        ];
        let item = |item| HistoryItem::from(Item::from_json(&to_raw_value(item).unwrap()).unwrap());
        let history: Vec<_> = items.iter().map(item).collect();
        let declared = for_summary(&Arc::from([]), &history);
        let names: Vec<_> = declared.iter().map(|tool| tool.wire_name.as_str()).collect();
        assert_eq!(names, ["f", "patch", "docs__find"]);
        assert!(for_summary(&Arc::from([]), &history[..1]).is_empty());
        assert_eq!(for_summary(&declared, &history[..1]).len(), 3, "those of the request stay as they are");
    }
}
