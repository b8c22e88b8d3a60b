//! Every kind of output item, as servers send it.

use serde_json::{Value, json};

use super::{item, items};
use crate::dialect::Dialect;
use crate::item::Item;
use crate::request::{AddItems, RequestSizeLimits};

/// Items as servers send them come back the same, and are accepted without ids and with nulls.
#[test]
fn output_items_round_trip() {
    for sent in output_items() {
        let read = items(&item(&sent.to_string()));
        assert_eq!(json!(read[0]), sent);
        let stored: Item = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!(stored, read[0]);

        let mut bare = sent.clone();
        let fields = bare.as_object_mut().unwrap();
        fields.insert("id".into(), Value::Null);
        fields.remove("status");
        for nullable in ["caller", "results", "error", "output", "approval_request_id", "annotations"] {
            if sent["type"] != "shell_call_output" && sent["type"] != "computer_call_output" {
                fields.entry(nullable).or_insert(Value::Null);
            }
        }
        fields.insert("created_by".into(), json!("someone"));
        fields.insert("parsed_arguments".into(), Value::Null);
        let read = items(&item(&bare.to_string()));
        let id = read[0].id().as_str();
        let (prefix, rest) = id.split_once('_').unwrap();
        assert!((2..=4).contains(&prefix.len()) && rest.len() == 32, "{id}");
    }
}

/// In the other dialect all but its own five kinds are marked and have a status; either spelling is read.
#[test]
fn items_of_every_kind_are_read_and_written_in_both_dialects() {
    const STANDARD: &[&str] =
        &["message", "function_call", "function_call_output", "reasoning", "compaction"];
    for sent in output_items() {
        let read = items(&item(&sent.to_string())).remove(0);
        let foreign = json!(read.in_dialect(Dialect::OpenResponses, false));
        let kind = sent["type"].as_str().unwrap();
        let expected = if STANDARD.contains(&kind) { kind.to_owned() } else { format!("antwort:{kind}") };
        assert_eq!(foreign["type"], expected);
        assert!(foreign["status"].is_string() || kind == "reasoning", "{foreign}");
        let again = items(&item(&foreign.to_string())).remove(0);
        assert_eq!((&again, &json!(again)), (&read, &sent), "it is the same item, with nothing added");
        let begun = json!(read.in_dialect(Dialect::OpenResponses, true));
        assert!(sent.get("status").is_some() || kind == "reasoning" || begun["status"] == "in_progress");
        assert_eq!(json!(read.in_dialect(Dialect::OpenAi, true)), sent);
    }
}

#[test]
fn values_of_a_later_version_of_the_api_stop_no_item_from_being_read() {
    let read = |sent: Value| json!(items(&item(&sent.to_string()))[0]);
    let known = json!({"type": "file_path", "file_id": "f", "index": 0});
    let message = read(json!({"role": "assistant", "phase": "brand_new", "content": [
        {"type": "output_text", "text": "x", "annotations": [{"type": "brand_new", "n": 1}, known]}]}));
    assert_eq!((message.get("phase"), &message["content"][0]["annotations"]), (None, &json!([known])));
    let picture = read(json!({"role": "user", "content": [
        {"type": "input_image", "image_url": "https://x/y", "detail": "ultra"}]}));
    assert_eq!(picture["content"][0]["detail"], "auto");
    let failed = |error: Value| {
        read(json!({"type": "mcp_call", "server_label": "s", "name": "t", "arguments": "{}", "error": error}))
    };
    assert_eq!(failed(json!({"type": "brand_new", "message": "m", "n": 1}))["error"], "m");
    assert_eq!(failed(json!({"type": "brand_new"}))["error"], "brand_new");
    for error in
        [json!("m"), json!({"type": "http_error", "code": 502, "message": "m"}), json!({"message": "m"})]
    {
        let listed = read(json!({"type": "mcp_list_tools", "server_label": "s", "error": error}));
        assert_eq!(listed["error"], "m");
    }
    let found = json!([{"type": "brand_new", "n": 1}]);
    let searched = read(json!({"type": "tool_search_output", "tools": found}));
    assert_eq!(searched["tools"], found);
}

#[test]
fn files_of_a_call_are_read_from_the_store_alone() {
    let sent = json!({"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "t", "arguments": "{}",
        "output": "o", "antwort:files": [{"url": "https://x/y", "name": "n"}]});
    let files = |read: &Item| match read {
        Item::McpCall(call) => call.files.len(),
        other => panic!("{other:?}"),
    };
    let stored: Item = serde_json::from_value(sent.clone()).unwrap();
    let body = json!({"items": [sent]}).to_string();
    let added = AddItems::parse(body.as_bytes(), RequestSizeLimits::default()).unwrap();
    assert_eq!(
        (files(&stored), files(&items(&item(&sent.to_string()))[0]), files(&added.items[0])),
        (1, 0, 0)
    );
}

/// An item of every kind.
pub(super) fn output_items() -> Vec<Value> {
    let tool = json!({"type": "function", "name": "f", "description": null, "parameters": {"type": "object"}, "strict": null});
    vec![
        json!({"type": "compaction", "id": "cm_1", "encrypted_content": "x"}),
        json!({"type": "function_call_output", "id": "fco_1", "status": "completed", "call_id": "c", "output": "o"}),
        json!({"type": "custom_tool_call_output", "id": "ctco_1", "status": "completed", "call_id": "c",
            "output": [{"type": "input_text", "text": "t"}]}),
        json!({"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "c", "name": "f", "arguments": "{}"}),
        json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}]}),
        json!({"type": "custom_tool_call", "id": "ctc_1", "status": "completed", "call_id": "c", "name": "f", "input": "x"}),
        json!({"type": "file_search_call", "id": "fs_1", "status": "searching", "queries": ["q"],
            "results": [{"file_id": "f", "text": "t", "filename": "n", "attributes": {"a": 1}, "score": 0.5}]}),
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed",
            "action": {"type": "search", "query": "q", "queries": ["q"], "sources": [{"type": "url", "url": "https://x"}]}}),
        json!({"type": "web_search_call", "id": "ws_1", "status": "failed", "action": {"type": "open_page", "url": "https://x"}}),
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed",
            "action": {"type": "find_in_page", "url": "https://x", "pattern": "p"}}),
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "other", "any": [1]}}),
        json!({"type": "computer_call", "id": "cu_1", "call_id": "c", "actions": [
            {"type": "click", "button": "left", "x": 1, "y": 2}, {"type": "double_click", "x": 1, "y": 2, "keys": null},
            {"type": "drag", "path": [{"x": 1, "y": 2}]}, {"type": "keypress", "keys": ["a"]}, {"type": "move", "x": 1, "y": 2},
            {"type": "screenshot"}, {"type": "scroll", "x": 1, "y": 2, "scroll_x": 0, "scroll_y": 9},
            {"type": "type", "text": "t"}, {"type": "wait"}],
            "pending_safety_checks": [{"id": "s", "code": "c"}], "status": "completed"}),
        json!({"type": "computer_call_output", "id": "cuo_1", "call_id": "c",
            "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA=="}, "status": "completed"}),
        json!({"type": "code_interpreter_call", "id": "ci_1", "status": "interpreting", "container_id": "cntr_1", "code": "1",
            "outputs": [{"type": "logs", "logs": "1"}, {"type": "image", "url": "https://x"}]}),
        json!({"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "container_id": "cntr_1", "code": null, "outputs": null}),
        json!({"type": "image_generation_call", "id": "ig_1", "status": "generating", "result": null}),
        json!({"type": "local_shell_call", "id": "lsh_1", "call_id": "c",
            "action": {"type": "exec", "command": ["ls"], "timeout_ms": 5, "env": {"A": "b"}}, "status": "completed"}),
        json!({"type": "local_shell_call_output", "id": "lsho_1", "output": "{}", "status": "completed"}),
        json!({"type": "shell_call", "id": "sh_1", "call_id": "c", "caller": {"type": "program", "caller_id": "p"},
            "action": {"commands": ["ls"], "timeout_ms": null, "max_output_length": null}, "status": "completed",
            "environment": {"type": "container_reference", "container_id": "cntr_1"}}),
        json!({"type": "shell_call", "id": "sh_1", "call_id": "c", "caller": {"type": "direct"},
            "action": {"commands": [], "timeout_ms": 1, "max_output_length": 2}, "status": "in_progress", "environment": null}),
        json!({"type": "shell_call_output", "id": "sho_1", "call_id": "c", "status": "completed", "output": [
            {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}], "max_output_length": null}),
        json!({"type": "apply_patch_call", "id": "apc_1", "call_id": "c", "status": "completed",
            "operation": {"type": "update_file", "path": "a", "diff": "d"}}),
        json!({"type": "apply_patch_call", "id": "apc_1", "call_id": "c", "status": "completed",
            "operation": {"type": "delete_file", "path": "a"}}),
        json!({"type": "apply_patch_call_output", "id": "apco_1", "call_id": "c", "status": "failed", "output": "o"}),
        json!({"type": "tool_search_call", "id": "tsc_1", "call_id": null, "execution": "server", "arguments": {"q": [1]}, "status": "completed"}),
        json!({"type": "tool_search_output", "id": "tso_1", "call_id": "c", "execution": "client", "tools": [tool], "status": "completed"}),
        json!({"type": "additional_tools", "id": "adt_1", "role": "developer", "tools": [tool]}),
        json!({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s",
            "tools": [{"name": "t", "description": "d", "input_schema": {"type": "object"}, "annotations": {"readOnlyHint": true}}]}),
        json!({"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "t", "arguments": "{}", "output": "o", "error": null,
            "status": "completed", "approval_request_id": "mcpr_1"}),
        json!({"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "t", "arguments": "{}", "output": null, "approval_request_id": null,
            "error": {"type": "mcp_protocol_error", "code": -32000, "message": "m"}, "status": "failed"}),
        json!({"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "t", "arguments": "{}", "output": null, "approval_request_id": null,
            "error": {"type": "mcp_tool_execution_error", "content": [{"type": "text"}]}, "status": "failed"}),
        json!({"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "t", "arguments": "{}", "output": null, "approval_request_id": null, "error": "e", "status": "calling"}),
        json!({"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "t", "arguments": "{}"}),
        json!({"type": "mcp_approval_response", "id": "mcpa_1", "approval_request_id": "mcpr_1", "approve": true, "reason": "r"}),
        json!({"type": "program", "id": "prog_1", "call_id": "c", "code": "x", "fingerprint": "f"}),
        json!({"type": "program_output", "id": "prgo_1", "call_id": "c", "result": "r", "status": "completed"}),
    ]
}
