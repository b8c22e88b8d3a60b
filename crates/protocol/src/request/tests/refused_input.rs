//! Items and content parts that are refused, and what waits for a later capability.

use super::{check, check_fields, item, part};

#[test]
fn what_waits_for_a_later_capability() {
    check_fields(&[
        (r#""prompt":{"id":"p","version":"2"}"#, "unsupported_parameter", "prompt.version"),
        (
            r#""prompt":{"id":"p","variables":{"x":{"type":"input_image","image_url":"u"}}}"#,
            "unsupported_parameter",
            "prompt.variables.x",
        ),
        (r#""moderation":{"model":"m"}"#, "unsupported_parameter", "moderation"),
        (r#""n":2"#, "unsupported_parameter", "n"),
        (r#""reasoning":{"mode":"pro"}"#, "unsupported_parameter", "reasoning.mode"),
        (r#""reasoning":{"context":"current_turn"}"#, "unsupported_parameter", "reasoning.context"),
        (
            r#""conversation":"c","previous_response_id":"r""#,
            "mutually_exclusive_parameters",
            "previous_response_id",
        ),
    ]);
    check(&[
        (
            part(r#"{"type":"input_image","file_id":"file-1"}"#),
            "unsupported_parameter",
            "input[0].content[0].file_id",
        ),
        (
            part(r#"{"type":"input_file","file_id":"file-1"}"#),
            "unsupported_parameter",
            "input[0].content[0].file_id",
        ),
    ]);
}

#[test]
fn inputs_that_cannot_be_read() {
    let id = "c".repeat(65);
    check(&[
        (r#"{"model":"m"}"#.to_owned(), "missing_required_parameter", "input"),
        (r#"{"model":"m","input":null}"#.to_owned(), "missing_required_parameter", "input"),
        (r#"{"model":"m","input":""}"#.to_owned(), "missing_required_parameter", "input"),
        (r#"{"model":"m","input":[]}"#.to_owned(), "missing_required_parameter", "input"),
        (r#"{"model":"m","input":5}"#.to_owned(), "invalid_type", "input"),
        (r#"{"model":"m","input":{}}"#.to_owned(), "invalid_type", "input"),
        (format!(r#"{{"input":"{}"}}"#, "x".repeat(10_485_761)), "string_above_max_length", "input"),
        (item("7"), "invalid_type", "input[0]"),
        (item("{}"), "missing_required_parameter", "input[0].type"),
        (item(r#"{"type":5}"#), "invalid_type", "input[0].type"),
        (item(r#"{"type":"telepathy"}"#), "invalid_value", "input[0].type"),
        (
            item(r#"{"type":"compaction_trigger"},{"role":"user","content":"x"}"#),
            "invalid_value",
            "input[0].type",
        ),
        (item(r#"{"type":"item_reference"}"#), "missing_required_parameter", "input[0].id"),
        (item(r#"{"type":"item_reference","id":""}"#), "invalid_value", "input[0].id"),
        (item(r#"{"role":"robot","content":"x"}"#), "invalid_value", "input[0].role"),
        (item(r#"{"role":"user"}"#), "missing_required_parameter", "input[0].content"),
        (item(r#"{"role":"user","content":null}"#), "invalid_type", "input[0].content"),
        (
            item(r#"{"type":"function_call","name":"f","arguments":"{}"}"#),
            "missing_required_parameter",
            "input[0].call_id",
        ),
        (
            item(r#"{"type":"function_call","call_id":"","name":"f","arguments":"{}"}"#),
            "string_below_min_length",
            "input[0].call_id",
        ),
        (
            item(&format!(r#"{{"type":"function_call_output","call_id":"{id}","output":""}}"#)),
            "string_above_max_length",
            "input[0].call_id",
        ),
        (
            item(r#"{"type":"function_call","call_id":"c","name":"f","arguments":{}}"#),
            "invalid_type",
            "input[0].arguments",
        ),
        (
            item(r#"{"type":"function_call_output","call_id":"c","output":{}}"#),
            "invalid_type",
            "input[0].output",
        ),
        (
            item(
                r#"{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"x"}]}"#,
            ),
            "invalid_value",
            "input[0].output[0].image_url",
        ),
        (
            item(
                r#"{"type":"function_call_output","call_id":"c","output":[{"type":"refusal","refusal":"x"}]}"#,
            ),
            "invalid_value",
            "input[0].output[0].type",
        ),
        (
            item(r#"{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot"}}"#),
            "missing_required_parameter",
            "input[0].output.image_url",
        ),
        (
            item(r#"{"type":"additional_tools","tools":[{"type":"x"}]}"#),
            "invalid_value",
            "input[0].tools[0].type",
        ),
    ]);
}

#[test]
fn content_parts_that_cannot_be_read() {
    check(&[
        (part("1"), "invalid_type", "input[0].content[0]"),
        (part("{}"), "missing_required_parameter", "input[0].content[0].type"),
        (part(r#"{"type":"smell"}"#), "invalid_value", "input[0].content[0].type"),
        (part(r#"{"type":"input_text"}"#), "missing_required_parameter", "input[0].content[0].text"),
        (part(r#"{"type":"input_text","text":1}"#), "invalid_type", "input[0].content[0].text"),
        (part(r#"{"type":"input_image"}"#), "missing_required_parameter", "input[0].content[0].image_url"),
        (part(r#"{"type":"input_image","image_url":""}"#), "invalid_value", "input[0].content[0].image_url"),
        (
            part(r#"{"type":"input_image","image_url":"file:///etc/passwd"}"#),
            "invalid_value",
            "input[0].content[0].image_url",
        ),
        (
            part(r#"{"type":"input_image","image_url":"https://"}"#),
            "invalid_value",
            "input[0].content[0].image_url",
        ),
        (
            part(r#"{"type":"input_image","image_url":"data:text/html,x"}"#),
            "invalid_value",
            "input[0].content[0].image_url",
        ),
        (
            part(r#"{"type":"input_image","image_url":{"url":"https://x"}}"#),
            "invalid_type",
            "input[0].content[0].image_url",
        ),
        (
            part(r#"{"type":"input_image","image_url":"https://x/y","detail":8}"#),
            "invalid_type",
            "input[0].content[0].detail",
        ),
    ]);
}

#[test]
fn files_and_audio_that_cannot_be_read() {
    let data = r#""file_data":"data:text/plain;base64,aGk=""#;
    check(&[
        (part(r#"{"type":"input_file"}"#), "missing_required_parameter", "input[0].content[0].file_data"),
        (
            part(&format!(r#"{{"type":"input_file",{data},"file_url":"https://x/y"}}"#)),
            "mutually_exclusive_parameters",
            "input[0].content[0]",
        ),
        (
            part(r#"{"type":"input_file","file_url":"ftp://x/y"}"#),
            "invalid_value",
            "input[0].content[0].file_url",
        ),
        (
            part(r#"{"type":"input_file","file_url":"https://x/y"}"#),
            "unsupported_parameter",
            "input[0].content[0].file_url",
        ),
        (
            item(
                r#"{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"a"},{"type":"input_file","file_url":"https://x"}]}"#,
            ),
            "unsupported_parameter",
            "input[0].output[1].file_url",
        ),
        (part(r#"{"type":"input_file","file_data":""}"#), "invalid_value", "input[0].content[0].file_data"),
        (
            part(r#"{"type":"input_audio","input_audio":{"data":"","format":"ogg"}}"#),
            "invalid_value",
            "input[0].content[0].input_audio.format",
        ),
    ]);
}

#[test]
fn content_parts_where_they_do_not_belong() {
    check(&[
        (part(r#"{"type":"refusal","refusal":"no"}"#), "invalid_value", "input[0].content[0].type"),
        (
            item(r#"{"role":"system","content":[{"type":"input_image","image_url":"https://x/y"}]}"#),
            "invalid_value",
            "input[0].content[0].type",
        ),
        (
            item(
                r#"{"role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"input_file","file_url":"https://x"}]}"#,
            ),
            "invalid_value",
            "input[0].content[1].type",
        ),
        (
            item(
                r#"{"role":"user","content":"a"},{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"x"}]}"#,
            ),
            "invalid_value",
            "input[1].content[1].image_url",
        ),
    ]);
}

#[test]
fn carried_items_without_what_they_need() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (fields, code, param) in [
        (r#""computer_call""#, "missing_required_parameter", "call_id"),
        (r#""computer_call","call_id":"""#, "string_below_min_length", "call_id"),
        (r#""computer_call","call_id":"c","actions":[{}]"#, "missing_required_parameter", "actions[0].type"),
        (
            r#""computer_call","call_id":"c","pending_safety_checks":[{}]"#,
            "missing_required_parameter",
            "pending_safety_checks[0].id",
        ),
        (r#""computer_call_output","call_id":"c""#, "missing_required_parameter", "output"),
        (
            r#""computer_call_output","call_id":"c","output":{"file_id":"f"}"#,
            "unsupported_parameter",
            "output.file_id",
        ),
        (r#""code_interpreter_call""#, "missing_required_parameter", "container_id"),
        (
            r#""code_interpreter_call","container_id":"c","outputs":[{}]"#,
            "missing_required_parameter",
            "outputs[0].type",
        ),
        (r#""local_shell_call","call_id":"c""#, "missing_required_parameter", "action"),
        (
            r#""local_shell_call","call_id":"c","action":{"type":"exec"}"#,
            "missing_required_parameter",
            "action.command",
        ),
        (r#""local_shell_call_output""#, "missing_required_parameter", "output"),
        (r#""shell_call","call_id":"c""#, "missing_required_parameter", "action"),
        (r#""shell_call","call_id":"c","action":{}"#, "missing_required_parameter", "action.commands"),
        (r#""shell_call","call_id":"c","action":{"commands":[null]}"#, "invalid_type", "action.commands[0]"),
        (
            r#""shell_call_output","call_id":"c","output":[{"stdout":"","stderr":""}]"#,
            "missing_required_parameter",
            "output[0].outcome",
        ),
        (r#""apply_patch_call","call_id":"c""#, "missing_required_parameter", "operation"),
        (
            r#""apply_patch_call","call_id":"c","operation":{"type":"delete_file"}"#,
            "missing_required_parameter",
            "operation.path",
        ),
        (r#""apply_patch_call_output","output":"o""#, "missing_required_parameter", "call_id"),
        (r#""tool_search_call""#, "missing_required_parameter", "arguments"),
        (r#""tool_search_output""#, "missing_required_parameter", "tools"),
        (r#""tool_search_output","tools":[{"type":5}]"#, "invalid_type", "tools[0].type"),
        (r#""program","call_id":"c","code":"x""#, "missing_required_parameter", "fingerprint"),
        (r#""program_output","call_id":"c""#, "missing_required_parameter", "result"),
        (r#""program_output","call_id":"c","result":null"#, "invalid_type", "result"),
        (r#""file_search_call","status":5"#, "invalid_type", "status"),
        (r#""image_generation_call","id":5"#, "invalid_type", "id"),
        (r#""image_generation_call","result":"\ud800""#, "invalid_value", "result"),
    ] {
        let body = item(&format!(r#"{{"type":{fields}}}"#));
        check(&[(body, code, &format!("input[0].{param}"))]);
    }
    check(&[(
        item(&format!(r#"{{"type":"image_generation_call","later":{deep}}}"#)),
        "invalid_value",
        "input[0]",
    )]);
}

/// Values of later versions of the API are read; those of another JSON type are mistakes.
#[test]
fn values_of_the_wrong_type() {
    for (fields, code, param) in [
        (r#""message","role":"assistant","content":"x","phase":5"#, "invalid_type", "phase"),
        (
            r#""message","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[{"type":5}]}]"#,
            "invalid_type",
            "content[0].annotations[0].type",
        ),
        (
            r#""mcp_call","server_label":"s","name":"t","arguments":"{}","error":{"type":"x","message":5}"#,
            "invalid_type",
            "error.message",
        ),
        (r#""mcp_list_tools","server_label":"s","error":5"#, "invalid_type", "error"),
        (r#""mcp_list_tools","server_label":"s","error":{}"#, "missing_required_parameter", "error.type"),
    ] {
        let body = item(&format!(r#"{{"type":{fields}}}"#));
        check(&[(body, code, &format!("input[0].{param}"))]);
    }
}
