//! The tools that go with the question for a summary.

use serde_json::{Value, json};

use super::{SUMMARY, ask, compact, conversation, request, triggered};
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::{Reply, Upstream, chunk, done, finish};

/// As a server does that compiles calls by the tools that are declared.
fn no_calls_without_tools(body: &Value) -> Result<(), &'static str> {
    let has_calls =
        body["messages"].as_array().unwrap().iter().any(|message| message["tool_calls"].is_array());
    match has_calls && body["tools"].as_array().is_none_or(Vec::is_empty) {
        true => Err("the `tools=` param must be set when messages have tool calls"),
        false => Ok(()),
    }
}

#[tokio::test]
async fn a_history_with_calls_is_compacted_by_servers_that_want_tools_with_it() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.refuse(no_calls_without_tools);
    // Also where the request names none, or one that is not to be had.
    for tools in [json!([]), json!([{"type": "antwort:nowhere"}]), json!([{"type": "web_search"}])] {
        for _ in 0..2 {
            upstream.text(SUMMARY);
            let mut body = request(&triggered());
            body["tools"] = tools.clone();
            let response = gateway.create(body).await;
            assert_eq!(response["output"][0]["type"], "compaction", "{tools}: {response:#}");
        }
        upstream.text(SUMMARY);
        let mut body = ask(&conversation());
        body["tools"] = tools.clone();
        let answer = compact(&gateway, &body).await;
        assert_eq!(answer.status, 200, "{tools}: {:#}", answer.body);
        let sent = upstream.last();
        assert_eq!(
            (&sent["tools"][0]["function"]["name"], &sent["tool_choice"]),
            (&json!("buy"), &json!("none"))
        );
    }
    // A stored chain whose calls are those of earlier requests.
    upstream.text("I shall.");
    let mut first = ask(&conversation());
    first["tools"] = json!([{"type": "function", "name": "buy", "parameters": {"type": "object"}}]);
    let first = gateway.create(first).await;
    upstream.text(SUMMARY);
    let body = json!({"model": "test-model", "previous_response_id": first["id"]});
    assert_eq!(compact(&gateway, &body).await.status, 200);
}

#[tokio::test]
async fn the_question_for_a_summary_begins_with_the_bytes_of_the_turn_before() {
    let upstream = Upstream::spawn().await;
    let (builder, _) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    let tools = json!([{"type": "function", "name": "buy", "parameters": {"type": "object"}},
        {"type": "antwort:echo"}, {"type": "mcp", "server_label": "antwort"}]);
    let mut turn = ask(&conversation());
    turn["tools"] = tools.clone();
    gateway.create(turn.clone()).await;
    let before = upstream.last();
    turn["input"].as_array_mut().unwrap().push(json!({"type": "compaction_trigger"}));
    upstream.text(SUMMARY);
    let response = gateway.create(turn).await;
    let kinds: Vec<_> =
        response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["compaction"], "{response:#}");
    let sent = upstream.last();
    assert_eq!(sent["tools"], before["tools"]);
    let messages = before["messages"].as_array().unwrap();
    assert_eq!(sent["messages"].as_array().unwrap()[..messages.len()], messages[..]);
    // A call that is made all the same is ignored; the text is the summary.
    let call = json!({"index": 0, "id": "c9", "function": {"name": "buy", "arguments": "{}"}});
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"content": SUMMARY})),
        chunk(json!({"tool_calls": [call]})),
        finish("tool_calls"),
        done(),
    ]));
    let response = gateway.stream(request(&triggered())).await.response;
    assert_eq!(
        (&response["status"], &response["output"][0]["type"]),
        (&json!("completed"), &json!("compaction"))
    );
    assert_eq!(response["output"].as_array().unwrap().len(), 1);
}
