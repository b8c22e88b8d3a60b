//! Tool calls as servers send them: whatever indexes and ids say, two calls stay two, and whole.

use serde_json::{Value, json};

use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};

const X: &str = r#"{"x":1}"#;
const Y: &str = r#"{"y":2}"#;

fn ask() -> Value {
    let parameters = json!({"type": "object", "properties": {}});
    json!({"model": "test-model", "input": "Hi", "tools": [
        {"type": "function", "name": "first", "parameters": parameters},
        {"type": "function", "name": "second", "parameters": parameters}]})
}

/// A chunk with one piece of a call.
fn piece(index: Value, id: Value, name: Value, arguments: Value) -> Step {
    let mut piece = json!({"type": "function", "function": {}});
    let mut set = |pointer: &str, value: Value| {
        if value != "-" {
            match pointer {
                "name" | "arguments" => piece["function"][pointer] = value,
                _ => piece[pointer] = value,
            }
        }
    };
    set("index", index);
    set("id", id);
    set("name", name);
    set("arguments", arguments);
    chunk(json!({"tool_calls": [piece]}))
}

/// As [`piece`]; `-` leaves a field out.
macro_rules! piece {
    ($index:tt, $id:tt, $name:tt, $arguments:tt) => {
        piece(json!($index), json!($id), json!($name), json!($arguments))
    };
}

/// What a client makes of it: name and arguments of every call.
async fn calls(gateway: &Gateway, upstream: &Upstream, steps: Vec<Step>, reason: &str) -> Value {
    let mut steps = steps;
    steps.extend([finish(reason), done()]);
    upstream.reply(Reply::Stream(steps));
    let response = gateway.stream(ask()).await.response;
    assert_eq!(response["status"], "requires_action", "{response:#}");
    let calls = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "function_call");
    calls.map(|call| json!([call["name"], call["arguments"]])).collect()
}

/// Two calls as servers number them.
fn numbered_calls() -> Vec<(&'static str, Vec<Step>)> {
    let ((x1, x2), (y1, y2)) = (X.split_at(4), Y.split_at(4));
    vec![
        (
            "by the book",
            vec![
                piece!(0, "a", "first", ""),
                piece!(0, "-", "-", X),
                piece!(1, "b", "second", ""),
                piece!(1, "-", "-", Y),
            ],
        ),
        ("always index 0, whole (Ollama)", vec![piece!(0, "a", "first", X), piece!(0, "b", "second", Y)]),
        (
            "always index 0, in pieces",
            vec![
                piece!(0, "a", "first", x1),
                piece!(0, "-", "-", x2),
                piece!(0, "b", "second", y1),
                piece!(0, "-", "-", y2),
            ],
        ),
        (
            "no index",
            vec![
                piece!("-", "a", "first", x1),
                piece!("-", "-", "-", x2),
                piece!("-", "b", "second", y1),
                piece!("-", "-", "-", y2),
            ],
        ),
        ("neither index nor ids (Gemini)", vec![piece!("-", "", "first", X), piece!("-", "", "second", Y)]),
        (
            "tails under new indexes (Nebius, Cerebras)",
            vec![
                piece!(0, "a", "first", ""),
                piece!(1, "-", "-", X),
                piece!(2, "b", "second", ""),
                piece!(3, "-", "-", y1),
                piece!(3, "-", "-", y2),
            ],
        ),
    ]
}

/// Two calls whose heads, names or ids come where they do not belong.
fn misplaced_calls() -> Vec<(&'static str, Vec<Step>)> {
    let ((x1, x2), (y1, y2)) = (X.split_at(4), Y.split_at(4));
    vec![
        (
            "second head on index 0, its tail on 1 (DeepSeek)",
            vec![piece!(0, "a", "first", X), piece!(0, "b", "second", ""), piece!(1, "-", "-", Y)],
        ),
        (
            "id and name with every piece",
            vec![
                piece!(0, "a", "first", x1),
                piece!(0, "a", "first", x2),
                piece!(1, "b", "second", y1),
                piece!(1, "b", "second", y2),
            ],
        ),
        (
            "empty names later (LM Studio)",
            vec![
                piece!(0, "a", "first", ""),
                piece!(0, "", "", X),
                piece!(1, "b", "second", ""),
                piece!(1, null, null, Y),
            ],
        ),
        (
            "arguments before their name",
            vec![
                piece!(0, "-", "-", x1),
                piece!(0, "a", "first", x2),
                piece!(1, "-", "-", y1),
                piece!(1, "b", "second", y2),
            ],
        ),
        ("one id for both", vec![piece!(0, "a", "first", X), piece!(1, "a", "second", Y)]),
        (
            "interleaved",
            vec![
                piece!(0, "a", "first", x1),
                piece!(1, "b", "second", y1),
                piece!(0, "-", "-", x2),
                piece!(1, "-", "-", y2),
            ],
        ),
        (
            "arguments as objects (Ollama)",
            vec![piece!(0, "a", "first", {"x": 1}), piece!(1, "b", "second", {"y": 2})],
        ),
        ("indexes from 1", vec![piece!(1, "a", "first", X), piece!(2, "b", "second", Y)]),
    ]
}

#[tokio::test]
async fn two_calls_stay_two_whatever_their_indexes_say() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (name, steps) in numbered_calls().into_iter().chain(misplaced_calls()) {
        for reason in ["tool_calls", "stop"] {
            let made = calls(&gateway, &upstream, steps.clone(), reason).await;
            assert_eq!(made, json!([["first", X], ["second", Y]]), "{name}, {reason}");
        }
    }
}

#[tokio::test]
async fn several_calls_in_one_chunk_are_told_apart() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let call = |index: Value, id: &str, name: &str, arguments: &str| json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}});
    for (a, b) in [(json!(0), json!(1)), (json!(0), json!(0)), (json!(null), json!(null))] {
        let both = chunk(json!({"tool_calls": [call(a, "a", "first", X), call(b, "b", "second", Y)]}));
        let made = calls(&gateway, &upstream, vec![both], "tool_calls").await;
        assert_eq!(made, json!([["first", X], ["second", Y]]));
    }
}

#[tokio::test]
async fn a_call_without_arguments_has_an_empty_object() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for nothing in [json!(""), json!(null), json!("-"), json!("{}")] {
        let steps = vec![piece(json!(0), json!("a"), json!("first"), nothing.clone())];
        let made = calls(&gateway, &upstream, steps, "tool_calls").await;
        assert_eq!(made, json!([["first", "{}"]]), "{nothing}");
    }
    let whole = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "first", "arguments": ""}}]});
    upstream.reply(Reply::Whole(
        json!({"choices": [{"index": 0, "message": whole, "finish_reason": "tool_calls"}]}),
    ));
    assert_eq!(gateway.create(ask()).await["output"][0]["arguments"], "{}");
}

#[tokio::test]
async fn the_call_of_older_servers_is_a_call() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let steps = vec![
        chunk(json!({"function_call": {"name": "first"}})),
        chunk(json!({"function_call": {"arguments": "{\"x\":"}})),
        chunk(json!({"function_call": {"arguments": "1}"}})),
    ];
    assert_eq!(calls(&gateway, &upstream, steps, "function_call").await, json!([["first", X]]));
}

#[tokio::test]
async fn a_call_that_cannot_be_understood_fails_the_response() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let text = || chunk(json!({"content": "Hm"}));
    for (name, steps, code) in [
        ("no name", vec![text(), piece!(0, "a", "-", X), finish("tool_calls"), done()], "upstream_malformed"),
        ("cut in its arguments", vec![text(), piece!(0, "a", "first", "{\"x")], "upstream_disconnected"),
    ] {
        upstream.reply(Reply::Stream(steps));
        let response = gateway.stream(ask()).await.response;
        assert_eq!(
            (&response["status"], &response["error"]["code"]),
            (&json!("failed"), &json!(code)),
            "{name}"
        );
        let whole = |item: &&Value| item["type"] == "function_call" && item["status"] == "completed";
        assert!(response["output"].as_array().unwrap().iter().all(|item| !whole(&item)), "{name}");
    }
}
