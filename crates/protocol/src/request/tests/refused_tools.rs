//! Tools and tool choices that are refused.

use super::{check, check_fields, with};

#[test]
fn tools_that_cannot_be_read() {
    let long = "n".repeat(129);
    check(&[
        (with(r#""tools":{}"#), "invalid_type", "tools"),
        (tool("1"), "invalid_type", "tools[0]"),
        (tool("{}"), "missing_required_parameter", "tools[0].type"),
        (tool(r#"{"type":"hammer"}"#), "invalid_value", "tools[0].type"),
        (tool(r#"{"type":"antwort:"}"#), "string_below_min_length", "tools[0].type"),
        (tool(r#"{"type":"antwort:a b"}"#), "invalid_value", "tools[0].type"),
        (tool(r#"{"type":"antwort:hammer","x":1}"#), "unknown_parameter", "tools[0].x"),
        (tool(r#"{"type":"function"}"#), "missing_required_parameter", "tools[0].name"),
        (tool(r#"{"type":"function","name":"a b"}"#), "invalid_value", "tools[0].name"),
        (tool(r#"{"type":"function","name":""}"#), "string_below_min_length", "tools[0].name"),
        (
            tool(&format!(r#"{{"type":"function","name":"{long}"}}"#)),
            "string_above_max_length",
            "tools[0].name",
        ),
        (tool(r#"{"type":"function","function":{"name":"a.b"}}"#), "invalid_value", "tools[0].function.name"),
        (tool(r#"{"type":"function","function":7}"#), "invalid_type", "tools[0].function"),
        (tool(r#"{"type":"function","name":"f","parameters":[]}"#), "invalid_type", "tools[0].parameters"),
        (tool(r#"{"type":"function","name":"f","strict":"yes"}"#), "invalid_type", "tools[0].strict"),
        (
            tool(r#"{"type":"function","name":"f"},{"type":"custom","name":"f"}"#),
            "invalid_value",
            "tools[1].name",
        ),
        (
            tool(
                r#"{"type":"custom","name":"c","format":{"type":"grammar","syntax":"ebnf","definition":"x"}}"#,
            ),
            "invalid_value",
            "tools[0].format.syntax",
        ),
        (
            tool(r#"{"type":"namespace","name":"n","description":"d","tools":[]}"#),
            "invalid_value",
            "tools[0].tools",
        ),
        (
            tool(r#"{"type":"namespace","name":"n","description":"d","tools":[{"type":"mcp"}]}"#),
            "invalid_value",
            "tools[0].tools[0].type",
        ),
    ]);
}

#[test]
fn servers_and_hosted_tools_that_cannot_be_read() {
    check(&[
        (
            tool(r#"{"type":"mcp","server_url":"https://x"}"#),
            "missing_required_parameter",
            "tools[0].server_label",
        ),
        (
            tool(r#"{"type":"mcp","server_label":"l","server_url":"u","connector_id":"c"}"#),
            "mutually_exclusive_parameters",
            "tools[0].server_url",
        ),
        (
            tool(r#"{"type":"mcp","server_label":"l","server_url":"u","allowed_tool":["a"]}"#),
            "unknown_parameter",
            "tools[0].allowed_tool",
        ),
        (
            tool(r#"{"type":"mcp","server_label":"l","server_url":"u","allowed_tools":{"names":["a"]}}"#),
            "unknown_parameter",
            "tools[0].allowed_tools.names",
        ),
        (
            tool(r#"{"type":"mcp","server_label":"l","server_url":"u","allowed_tools":"a"}"#),
            "invalid_type",
            "tools[0].allowed_tools",
        ),
        (
            tool(r#"{"type":"mcp","server_label":"l","server_url":"u","require_approval":"sometimes"}"#),
            "invalid_value",
            "tools[0].require_approval",
        ),
        (
            tool(r#"{"type":"mcp","server_label":"l","server_url":"u","headers":{"X":1}}"#),
            "invalid_type",
            "tools[0].headers.X",
        ),
        (
            tool(r#"{"type":"file_search","vector_store_ids":[]}"#),
            "invalid_value",
            "tools[0].vector_store_ids",
        ),
        (
            tool(r#"{"type":"file_search","vector_store_ids":["v"],"max_num_results":51}"#),
            "integer_above_max_value",
            "tools[0].max_num_results",
        ),
        (
            tool(r#"{"type":"web_search","filters":{"allowed":[]}}"#),
            "unknown_parameter",
            "tools[0].filters.allowed",
        ),
        (
            tool(r#"{"type":"code_interpreter","container":{"type":"manual"}}"#),
            "invalid_value",
            "tools[0].container.type",
        ),
        (
            tool(r#"{"type":"image_generation","partial_images":4}"#),
            "integer_above_max_value",
            "tools[0].partial_images",
        ),
        (tool(r#"{"type":"computer_use_preview"}"#), "missing_required_parameter", "tools[0].environment"),
    ]);
}

#[test]
fn tool_choices_that_cannot_be_read() {
    check_fields(&[
        (r#""tool_choice":"maybe""#, "invalid_value", "tool_choice"),
        (r#""tool_choice":1"#, "invalid_type", "tool_choice"),
        (r#""tool_choice":{}"#, "missing_required_parameter", "tool_choice.type"),
        (r#""tool_choice":{"type":"hammer"}"#, "invalid_value", "tool_choice.type"),
        (r#""tool_choice":{"type":"function"}"#, "missing_required_parameter", "tool_choice.name"),
        (r#""tool_choice":{"type":"mcp"}"#, "missing_required_parameter", "tool_choice.server_label"),
        (
            r#""tool_choice":{"type":"allowed_tools","mode":"auto"}"#,
            "missing_required_parameter",
            "tool_choice.tools",
        ),
        (
            r#""tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}"#,
            "array_below_min_length",
            "tool_choice.tools",
        ),
        (
            r#""tool_choice":{"type":"allowed_tools","mode":"any","tools":[]}"#,
            "invalid_value",
            "tool_choice.mode",
        ),
        (
            r#""tool_choice":{"type":"allowed_tools","tools":[{"type":"function"}]}"#,
            "missing_required_parameter",
            "tool_choice.tools[0].name",
        ),
    ]);
}

/// A body with one tool or more.
fn tool(tool: &str) -> String {
    with(&format!(r#""tools":[{tool}]"#))
}
