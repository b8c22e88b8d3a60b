//! Calls of tools and their outputs, as messages.

use super::*;
use crate::chat::call_ids::plain_id;
use antwort_response::turn::CallState;

/// A row: what is shown, the items, and the messages that they give.
type MessageRow<'a> = (&'a str, Value, Value);

fn check_messages(rows: &[MessageRow<'_>]) {
    for (name, items, expected) in rows {
        assert_eq!(messages(items.clone(), &generic()), *expected, "{name}");
    }
}

fn tool(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

/// A message with calls.
fn calling(content: Value, calls: Value) -> Value {
    let mut message = json!({"role": "assistant"});
    message["content"] = content;
    message["tool_calls"] = calls;
    message
}

/// A message with text alone.
fn plain(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

#[test]
fn calls_and_their_outputs() {
    let (f, g) = (wire_call("1", "f", "{}"), wire_call("2", "get_weather", "{}"));
    check_messages(&[
        (
            "parallel calls are one message, with the text before them",
            json!([
                user("q"),
                said("t"),
                call("1", "f", "{}"),
                call("2", "get_weather", "{}"),
                output("1", "x"),
                output("2", "y"),
                said("z")
            ]),
            json!([
                user("q"),
                calling(json!("t"), json!([f, g])),
                tool("1", "x"),
                tool("2", "y"),
                plain("z")
            ]),
        ),
        (
            "turns stay apart",
            json!([
                user("q"),
                call("1", "f", "{}"),
                output("1", "x"),
                call("2", "get_weather", "{}"),
                output("2", "y")
            ]),
            json!([
                user("q"),
                calling(Value::Null, json!([f])),
                tool("1", "x"),
                calling(Value::Null, json!([g])),
                tool("2", "y")
            ]),
        ),
        (
            "text between a call and its output",
            json!([call("1", "f", "{}"), said("t"), output("1", "x")]),
            json!([calling(json!("t"), json!([f])), tool("1", "x")]),
        ),
        (
            "text before and between",
            json!([said("s"), call("1", "f", "{}"), said("t"), output("1", "x")]),
            json!([calling(json!("s\n\nt"), json!([f])), tool("1", "x")]),
        ),
        (
            "a user between a call and its output",
            json!([call("1", "f", "{}"), user("well?"), output("1", "x")]),
            json!([calling(Value::Null, json!([f])), tool("1", "x"), user("well?")]),
        ),
        (
            "outputs in another order than their calls",
            json!([call("1", "f", "{}"), call("2", "get_weather", "{}"), output("2", "y"), output("1", "x")]),
            json!([calling(Value::Null, json!([f, g])), tool("1", "x"), tool("2", "y")]),
        ),
        (
            "an id that was used twice",
            json!([call("1", "f", "{}"), output("1", "x"), call("1", "f", "{}"), output("1", "y")]),
            json!([
                calling(Value::Null, json!([f])),
                tool("1", "x"),
                calling(Value::Null, json!([f])),
                tool("1", "y")
            ]),
        ),
        (
            "an output without its call",
            json!([user("q"), output("9", "x")]),
            json!([user("q"), tool("9", "x")]),
        ),
    ]);
}

#[test]
fn calls_of_every_kind_become_functions() {
    let f = wire_call("1", "f", "{}");
    check_messages(&[
        (
            "no arguments, and arguments that are no JSON",
            json!([call("1", "f", ""), call("2", "get_weather", "oops"), output("1", ""), output("2", "y")]),
            json!([
                calling(Value::Null, json!([f, wire_call("2", "get_weather", r#"{"input":"oops"}"#)])),
                tool("1", ""),
                tool("2", "y")
            ]),
        ),
        (
            "namespaces, and tools that are gone",
            json!([
                {"type": "function_call", "call_id": "1", "namespace": "ns", "name": "js", "arguments": "{}"},
                {"type": "function_call", "call_id": "2", "namespace": "old", "name": "js", "arguments": "{}"},
                output("1", "x"), output("2", "y"),
            ]),
            json!([
                calling(
                    Value::Null,
                    json!([wire_call("1", "ns__js", "{}"), wire_call("2", "old__js", "{}")])
                ),
                tool("1", "x"),
                tool("2", "y")
            ]),
        ),
        (
            "custom tools",
            json!([
                {"type": "custom_tool_call", "call_id": "1", "name": "patch", "input": "a\"b"},
                {"type": "custom_tool_call_output", "call_id": "1", "output": "x"},
            ]),
            json!([
                calling(Value::Null, json!([wire_call("1", "patch", r#"{"input":"a\"b"}"#)])),
                tool("1", "x")
            ]),
        ),
        (
            "calls of MCP servers hold their output",
            json!([
                {"type": "mcp_call", "id": "mcp_1", "server_label": "ns", "name": "js", "arguments": "{}", "output": "x"},
                {"type": "mcp_call", "id": "mcp_2", "server_label": "s", "name": "n", "arguments": "", "error": "no"},
                said("t"),
            ]),
            json!([
                calling(
                    Value::Null,
                    json!([
                        wire_call(&plain_id("mcp_1"), "ns__js", "{}"),
                        wire_call(&plain_id("mcp_2"), "s__n", "{}")
                    ])
                ),
                tool(&plain_id("mcp_1"), "x"),
                tool(&plain_id("mcp_2"), "Error: no"),
                plain("t")
            ]),
        ),
        (
            "hosted items without a form in Chat",
            json!([user("q"), {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "q"}}, said("t")]),
            json!([user("q"), plain("t")]),
        ),
    ]);
}

#[test]
fn custom_calls_stay_custom_where_the_provider_knows_them() {
    let mut native = generic();
    native.supports.custom_tools = true;
    let items = json!([{"type": "custom_tool_call", "call_id": "1", "name": "patch", "input": "p"}]);
    let expected = json!([{"id": "1", "type": "custom", "custom": {"name": "patch", "input": "p"}}]);
    assert_eq!(messages(items, &native)[0]["tool_calls"], expected);
}

/// Calls of another provider, of a client of its own, and one whose id the provider gave.
#[test]
fn ids_are_nine_letters_and_digits_where_the_provider_takes_no_others() {
    assert!(ChatOptions::from(&ProviderSettings::new(Preset::Mistral, "")).short_call_ids);
    let short = ChatOptions { short_call_ids: true, ..generic() };
    let long = format!("call_{}", "x".repeat(100));
    let items = || {
        json!([
            call("call_1", "f", "{}"), call(&long, "f", "{}"), call("D681PevKs", "f", "{}"),
            {"type": "custom_tool_call", "call_id": "call-2", "name": "patch", "input": "p"},
            {"type": "custom_tool_call_output", "call_id": "call-2", "output": "4"},
            output(&long, "2"), output("call_1", "1"), output("D681PevKs", "3"), output("lost", "5"),
        ])
    };
    let ids = |sent: &Value| {
        let messages = sent.as_array().unwrap();
        let calls = messages[0]["tool_calls"].as_array().unwrap();
        let calls: Vec<String> = calls.iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect();
        let outputs = messages.iter().filter(|message| message["role"] == "tool");
        let outputs: Vec<String> =
            outputs.map(|message| message["tool_call_id"].as_str().unwrap().to_owned()).collect();
        (calls, outputs)
    };
    let (calls, outputs) = ids(&messages(items(), &short));
    assert_eq!(calls, [plain_id("call_1"), plain_id(&long), "D681PevKs".to_owned(), plain_id("call-2")]);
    assert_eq!(outputs[..4], calls[..]);
    assert_eq!(outputs[4..], [plain_id("lost")]);
    let (calls, outputs) = ids(&messages(items(), &generic()));
    assert_eq!(calls, ["call_1", &long, "D681PevKs", "call-2"]);
    assert_eq!(outputs, ["call_1", &long, "D681PevKs", "call-2", "lost"]);

    let mut known = HistoryItem::from(serde_json::from_value::<Item>(call("call_1", "f", "{}")).unwrap());
    known.call_state = Some(CallState { id: Some("of_its_own".to_owned()), ..CallState::default() });
    let request = ModelRequest { conversation: vec![known], ..hello() };
    let sent = sent(&request, &short);
    assert_eq!(sent["messages"][0]["tool_calls"][0]["id"], "of_its_own");
}

#[test]
fn outputs_with_pictures() {
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,A"});
    let parts = |parts: Value| json!({"type": "function_call_output", "call_id": "1", "output": parts});
    let items = |parts: Value| {
        json!([call("1", "f", "{}"), call("2", "f", "{}"), parts, output("2", "y"), user("q")])
    };
    let wire_image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}});
    let follow = json!({"role": "user", "content": [{"type": "text", "text": "Output of the tool call 1:"}, wire_image]});
    let text = json!({"type": "input_text", "text": "a"});
    let sent = messages(items(parts(json!([text, image]))), &generic());
    assert_eq!(sent.as_array().unwrap()[1..], [tool("1", "a"), tool("2", "y"), follow, user("q")]);
    let sent = messages(items(parts(json!([image]))), &generic());
    assert_eq!(
        sent.as_array().unwrap()[1..3],
        [tool("1", "The output follows in the next message."), tool("2", "y")]
    );
    let output_text = json!({"type": "output_text", "text": "b"});
    let sent = messages(items(parts(json!([text, output_text]))), &generic());
    assert_eq!(sent[1], tool("1", "a\nb"));
}
