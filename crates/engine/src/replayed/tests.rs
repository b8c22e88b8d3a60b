//! What is dropped, kept and refused, kind by kind.

use serde_json::{Value, json, value::to_raw_value};

use super::*;
use antwort_protocol::parse::FromJson;

const SEED: &str = "0199f0000000700080000000000000aa";

fn ours(prefix: &str, number: u32) -> String {
    format!("{prefix}_{SEED}{number:04x}")
}

fn items(items: &Value) -> Vec<Item> {
    let items = items.as_array().unwrap();
    items.iter().map(|item| Item::from_json(&to_raw_value(item).unwrap()).unwrap()).collect()
}

/// The places of the input that are new, or the path that is refused.
fn kept(past: &Value, input: &Value) -> Result<Vec<usize>, String> {
    let input: PlacedInput = items(input).into_iter().enumerate().collect();
    match input.without_replayed(&items(past)) {
        Ok(kept) => Ok(kept.places.0),
        Err(error) => {
            assert_eq!(error.code(), "invalid_value", "{error}");
            Err(error.body.param.unwrap())
        }
    }
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "f", "arguments": arguments})
}

fn output(id: &str, output: impl Into<Value>) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": output.into()})
}

fn text(text: &str) -> Value {
    json!([{"type": "input_text", "text": text}])
}

#[test]
fn a_call_and_its_output_are_known_by_their_call_id() {
    let past = json!([call("a", r#"{"x": 1.0, "y": "é"}"#), output("a", "4 C")]);
    let custom =
        |input: &str| json!({"type": "custom_tool_call", "call_id": "a", "name": "f", "input": input});
    let refused = |path: &str| Err(path.to_owned());
    for (sent, expected) in [
        (call("a", "{\"y\":\"\\u00e9\",\"x\":1}"), Ok(vec![])),
        (
            json!({"type": "function_call", "id": "fc_mine", "status": "in_progress", "call_id": "a", "name": "f",
            "arguments": "{\"x\":1,\"y\":\"é\"}"}),
            Ok(vec![]),
        ),
        (call("a", r#"{"x": 2, "y": "é"}"#), refused("input[0].arguments")),
        (call("a", "no json"), refused("input[0].arguments")),
        (
            json!({"type": "function_call", "call_id": "a", "name": "g", "arguments": "{}"}),
            refused("input[0].name"),
        ),
        (custom("{}"), refused("input[0].type")),
        (call("b", "{}"), Ok(vec![0])),
        (output("a", "4 C"), Ok(vec![])),
        (output("a", text("4 C")), Ok(vec![])),
        (
            output("a", json!([{"type": "output_text", "text": "4 C"}, {"type": "input_text", "text": ""}])),
            Ok(vec![]),
        ),
        (output("a", "5 C"), refused("input[0].output")),
        (
            output("a", json!([{"type": "input_text", "text": "4"}, {"type": "input_text", "text": " C"}])),
            refused("input[0].output"),
        ),
        (output("b", "4 C"), Ok(vec![0])),
    ] {
        assert_eq!(kept(&past, &json!([sent])), expected, "{sent}");
    }
}

#[test]
fn rounds_of_calls_are_replayed_in_part_or_whole_and_in_any_order() {
    // The first round is answered, the second is open.
    let past = json!([call("a", "{}"), output("a", "1"), call("b", "{}"), call("c", "{}")]);
    let said = json!({"role": "user", "content": "1"});
    for (input, expected) in [
        (
            json!([
                call("a", "{}"),
                output("a", "1"),
                call("b", "{}"),
                output("b", "2"),
                call("c", "{}"),
                output("c", "3")
            ]),
            vec![3, 5],
        ),
        (json!([output("b", "2"), output("a", "1"), output("c", "3")]), vec![0, 2]),
        (
            json!([said, call("b", "{}"), said, output("c", "1"), output("a", "1"), output("b", "1")]),
            vec![0, 2, 3, 5],
        ),
    ] {
        assert_eq!(kept(&past, &input), Ok(expected), "{input}");
    }
    let wrong = json!([said, output("b", "2"), output("a", "2"), output("c", "3")]);
    assert_eq!(kept(&past, &wrong), Err("input[2].output".into()));
    // Who answers a call twice is told so by the check of pairs.
    assert_eq!(kept(&past, &json!([output("b", "2"), output("b", "3")])), Ok(vec![0, 1]));
}

#[test]
fn servers_that_count_their_calls_anew_use_a_call_id_again() {
    let (first, second) = (call("call_0", "{\"n\":1}"), call("call_0", "{\"n\":2}"));
    let past = json!([first, output("call_0", "one"), second]);
    for (input, expected) in [
        // The open one is answered, also with what the other one has answered.
        (json!([output("call_0", "two")]), vec![0]),
        (json!([output("call_0", "one")]), vec![0]),
        (json!([first, output("call_0", "one"), second, output("call_0", "one")]), vec![3]),
        (json!([output("call_0", "one"), output("call_0", "two")]), vec![1]),
        (json!([second, output("call_0", "two"), first, output("call_0", "one")]), vec![1]),
        (json!([second, output("call_0", "one"), first, output("call_0", "one")]), vec![1]),
        // Nor need the open one be replayed.
        (json!([first, output("call_0", "one"), output("call_0", "two")]), vec![2]),
        (json!([first, output("call_0", "one"), output("call_0", "one")]), vec![2]),
    ] {
        assert_eq!(kept(&past, &input), Ok(expected), "{input}");
    }
    assert_eq!(kept(&past, &json!([first, output("call_0", "two")])), Err("input[1].output".into()));
    assert_eq!(kept(&past, &json!([call("call_0", "{}")])), Err("input[0].arguments".into()));
    // Twice the same call: each replay is the next of them.
    let twice = json!([first, output("call_0", "one"), first]);
    let input = json!([first, output("call_0", "one"), first, output("call_0", "one")]);
    assert_eq!(kept(&twice, &input), Ok(vec![3]));
}

#[test]
fn a_custom_tool_call_may_have_more_outputs() {
    let call = json!({"type": "custom_tool_call", "call_id": "a", "name": "run", "input": "ls"});
    let output = |text: &str| json!({"type": "custom_tool_call_output", "call_id": "a", "output": text});
    let past = json!([call, output("started"), output("half")]);
    let input = json!([call, output("started"), output("half"), output("done")]);
    assert_eq!(kept(&past, &input), Ok(vec![3]));
    let other = json!([{"type": "custom_tool_call", "call_id": "a", "name": "run", "input": "ls "}]);
    assert_eq!(kept(&past, &other), Err("input[0].input".into()));
}

#[test]
fn an_item_with_an_id_of_the_gateway_is_known_by_it() {
    let (message, reasoning, mcp) = (ours("msg", 0), ours("rs", 1), ours("mcp", 2));
    let (summary, answer) = (ours("cm", 3), ours("mcpa", 4));
    let past = json!([
        {"type": "message", "id": message, "role": "assistant",
            "content": [{"type": "output_text", "text": "Hi", "annotations": []}]},
        {"type": "reasoning", "id": reasoning, "summary": [{"type": "summary_text", "text": "S"}],
            "content": [{"type": "reasoning_text", "text": "T"}], "encrypted_content": "sealed"},
        {"type": "mcp_call", "id": mcp, "server_label": "s", "name": "f", "arguments": "{}", "output": "x"},
        {"type": "compaction", "id": summary, "encrypted_content": "y"},
        {"type": "mcp_approval_response", "id": answer, "approval_request_id": "mcpr_1", "approve": false},
        {"type": "message", "id": "msg_mine", "role": "user", "content": "Hello"},
    ]);
    let mcp_call = |more: Value| {
        let mut call =
            json!({"type": "mcp_call", "id": mcp, "server_label": "s", "name": "f", "arguments": " { } "});
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call
    };
    let refused = |path: &str| Err(path.to_owned());
    for (sent, expected) in [
        (json!({"id": message, "role": "assistant", "content": "Hi", "status": "in_progress"}), Ok(vec![])),
        (json!({"id": message, "role": "assistant", "content": "Ho"}), refused("input[0].content")),
        (json!({"id": message, "role": "user", "content": "Hi"}), refused("input[0].role")),
        (json!({"id": message, "type": "reasoning", "summary": []}), refused("input[0].type")),
        // Without one of our ids it is said once more.
        (json!({"role": "assistant", "content": "Hi"}), Ok(vec![0])),
        (json!({"id": "msg_mine", "role": "user", "content": "Hello"}), Ok(vec![0])),
        (json!({"id": ours("msg", 9), "role": "user", "content": "Hello"}), Ok(vec![0])),
        (
            json!({"id": reasoning, "type": "reasoning", "summary": [{"type": "summary_text", "text": "S"}]}),
            Ok(vec![]),
        ),
        (
            json!({"id": reasoning, "type": "reasoning", "summary": [], "encrypted_content": "other"}),
            Ok(vec![]),
        ),
        (
            json!({"id": reasoning, "type": "reasoning", "summary": [{"type": "summary_text", "text": "T"}]}),
            refused("input[0].summary"),
        ),
        (json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "S"}]}), Ok(vec![0])),
        (mcp_call(json!({"output": "x"})), Ok(vec![])),
        (mcp_call(json!({})), Ok(vec![])),
        (mcp_call(json!({"output": "less than the model has read"})), Ok(vec![])),
        (mcp_call(json!({"output": "x", "name": "g"})), refused("input[0].name")),
        (
            json!({"type": "antwort:tool_call", "id": mcp, "name": "f", "arguments": "{}", "output": "x"}),
            Ok(vec![]),
        ),
        (json!({"type": "compaction", "id": summary, "encrypted_content": "y"}), Ok(vec![])),
        (
            json!({"type": "compaction", "id": summary, "encrypted_content": "z"}),
            refused("input[0].encrypted_content"),
        ),
        (
            json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": false}),
            Ok(vec![]),
        ),
        (
            json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true}),
            refused("input[0].approve"),
        ),
        (
            json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_2", "approve": true}),
            Ok(vec![0]),
        ),
    ] {
        assert_eq!(kept(&past, &json!([sent])), expected, "{sent}");
    }
}

#[test]
fn a_search_is_known_by_its_id_alone_as_its_results_are_not_in_it() {
    let id = ours("ws", 0);
    let past = json!([{"type": "mcp_call", "id": id, "server_label": "antwort", "name": "web_search",
        "arguments": "{\"query\":\"x\"}", "output": "[]"}]);
    let sent = json!({"type": "web_search_call", "id": id, "status": "completed", "action": {"type": "search", "query": "x"}});
    assert_eq!(kept(&past, &json!([sent])), Ok(vec![]));
}

#[test]
fn a_trigger_at_the_end_asks_even_if_it_is_known() {
    let trigger = json!({"type": "compaction_trigger", "id": ours("cmt", 0)});
    let past = json!([{"role": "user", "content": "Hi"}, trigger]);
    let said = json!({"role": "user", "content": "Hi"});
    assert_eq!(kept(&past, &json!([trigger, said])), Ok(vec![1]));
    assert_eq!(kept(&past, &json!([said, trigger])), Ok(vec![0, 1]));
}

#[test]
fn errors_name_items_by_their_places_in_the_request() {
    let places = Places(vec![2, 5]);
    for (param, expected) in [
        ("input[1].call_id", "input[5].call_id"),
        ("input[0]", "input[2]"),
        ("input[2].id", "input[2].id"),
        ("input", "input"),
        ("previous_response_id", "previous_response_id"),
    ] {
        let error = places.restore(ApiError::invalid("invalid_value", param, ""));
        assert_eq!(error.body.param.as_deref(), Some(expected));
    }
}
