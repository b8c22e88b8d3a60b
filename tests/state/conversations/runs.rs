//! Responses in a conversation: what they read of it, and what they leave in it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ask, asked, conversation, said};
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};
use antwort_test_support::websocket::WebSocket;

#[tokio::test]
async fn a_response_reads_its_conversation_and_its_turn_is_appended() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let id = conversation(&gateway, json!([{"role": "developer", "content": "Be brief."}])).await;
    upstream.text("One.").text("Two.").text("Three.").text("Four.");
    let first = gateway.create(ask(&id, "1")).await;
    assert_eq!((&first["conversation"], &first["previous_response_id"]), (&json!({"id": id}), &Value::Null));
    let mut body = ask(&id, "2");
    body["conversation"] = json!({"id": id});
    let second = gateway.stream(body).await.response;
    assert_eq!(second["conversation"], json!({"id": id}));
    assert_eq!(asked(&upstream), ["Be brief.", "1", "One.", "2"]);
    let mut socket = WebSocket::connect(&gateway).await;
    socket.response(ask(&id, "3"), "completed").await;
    assert_eq!(asked(&upstream), ["Be brief.", "1", "One.", "2", "Two.", "3"]);
    // Without input, the model goes on.
    gateway.create(json!({"model": "test-model", "conversation": id})).await;
    assert_eq!(said(&gateway, &id).await, ["Be brief.", "1", "One.", "2", "Two.", "3", "Three.", "Four."]);
    let item = &first["output"][0];
    let path = format!("/v1/conversations/{id}/items/{}", item["id"].as_str().unwrap());
    assert_eq!(gateway.get(&path).await.body, *item);
    // What a response is, is not changed by its conversation.
    gateway.delete(&path).await;
    gateway.delete(&format!("/v1/conversations/{id}")).await;
    let stored = gateway.get(&format!("/v1/responses/{}", first["id"].as_str().unwrap())).await;
    assert_eq!(stored.body, first);
}

#[tokio::test]
async fn a_call_of_the_clients_function_is_answered_in_the_conversation() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let id = conversation(&gateway, json!([])).await;
    upstream.reply(Reply::Calls(vec![("f", json!({"a": 1}))])).text("Done.");
    let tools = json!([{"type": "function", "name": "f"}]);
    let mut body = ask(&id, "Call it.");
    body["tools"] = tools.clone();
    let first = gateway.create(body).await;
    let call = &first["output"][0]["call_id"];
    let unanswered = gateway.refuse(ask(&id, "Well?"), 400, "tool_output_not_found").await;
    assert!(unanswered["message"].as_str().unwrap().contains(call.as_str().unwrap()));
    let mut body = ask(&id, json!([{"type": "function_call_output", "call_id": call, "output": "42"}]));
    body["tools"] = tools;
    assert_eq!(text_of(&gateway.create(body).await), "Done.");
    assert_eq!(said(&gateway, &id).await, ["Call it.", "function_call", "function_call_output", "Done."]);
    // A call that is deleted leaves an output without one.
    let path = format!("/v1/conversations/{id}/items/{}", first["output"][0]["id"].as_str().unwrap());
    gateway.delete(&path).await;
    let error = gateway.refuse(ask(&id, "More."), 400, "tool_call_not_found").await;
    assert_eq!(error["param"], "conversation");
}

#[tokio::test]
async fn calls_that_the_gateway_makes_are_items_of_the_conversation() {
    let upstream = Upstream::spawn().await;
    let (builder, _log) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    let id = conversation(&gateway, json!([])).await;
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "x"}))])).text("Done.").text("Again.");
    let mut body = ask(&id, "Call it.");
    body["tools"] = json!([{"type": "mcp", "server_label": "antwort"}]);
    let first = gateway.create(body).await;
    assert_eq!(said(&gateway, &id).await.len(), 1 + first["output"].as_array().unwrap().len());
    gateway.create(ask(&id, "More.")).await;
    let chained =
        json!({"model": "test-model", "input": "More.", "previous_response_id": first["id"], "store": false});
    let in_conversation = upstream.last()["messages"].clone();
    gateway.create(chained).await;
    assert_eq!(upstream.last()["messages"], in_conversation, "as a continuation shows it");
}

#[tokio::test]
async fn what_was_not_finished_is_appended_and_what_has_failed_is_not() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let id = conversation(&gateway, json!([])).await;
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"content": "par"})),
        Step::Wait(Duration::from_millis(100)),
        Step::Cut,
    ]));
    assert_eq!(gateway.stream(ask(&id, "fails")).await.response["status"], "failed");
    upstream.reply(Reply::Status(400, Vec::new(), r#"{"error": {"message": "no"}}"#.into()));
    let refused = gateway.post("/v1/responses", &ask(&id, "is refused")).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    gateway
        .refuse(
            ask(&id, json!([{"type": "function_call_output", "call_id": "c", "output": "x"}])),
            400,
            "tool_call_not_found",
        )
        .await;
    assert_eq!(said(&gateway, &id).await, Vec::<String>::new());
    let cut = vec![chunk(json!({"content": "half"})), finish("length"), done()];
    upstream.reply(Reply::Stream(cut));
    assert_eq!(gateway.stream(ask(&id, "is cut")).await.response["status"], "incomplete");
    assert_eq!(said(&gateway, &id).await, ["is cut", "half"]);
}

#[tokio::test]
async fn a_response_of_a_conversation_is_continued_by_its_id_until_the_conversation_is_gone() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let id = conversation(&gateway, json!([{"role": "user", "content": "0"}])).await;
    upstream.text("One.").text("Two.").text("Other.");
    let first = gateway.create(ask(&id, "1")).await;
    gateway.create(ask(&id, "2")).await;
    let chained = json!({"model": "test-model", "input": "other", "previous_response_id": first["id"]});
    let other = gateway.create(chained).await;
    assert_eq!(asked(&upstream), ["0", "1", "One.", "other"]);
    assert_eq!(other["conversation"], Value::Null);
    assert_eq!(said(&gateway, &id).await, ["0", "1", "One.", "2", "Two."]);
    gateway.delete(&format!("/v1/conversations/{id}")).await;
    let chained = json!({"model": "test-model", "input": "x", "previous_response_id": other["id"]});
    let error = gateway.refuse(chained, 400, "previous_response_not_found").await;
    assert!(error["message"].as_str().unwrap().contains(&id), "{error}");
}

#[tokio::test]
async fn what_cannot_be_done_in_a_conversation_is_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let id = conversation(&gateway, json!([])).await;
    let error = gateway.refuse(ask("conv_none", "x"), 404, "not_found").await;
    assert_eq!(error["param"], "conversation");
    let mut body = ask(&id, "x");
    body["store"] = false.into();
    assert_eq!(gateway.refuse(body, 400, "unsupported_parameter").await["param"], "conversation");
    let mut body = ask(&id, "x");
    body["previous_response_id"] = "resp_1".into();
    gateway.refuse(body, 400, "mutually_exclusive_parameters").await;
    let compact = gateway.post("/v1/responses/compact", &ask(&id, "x")).await;
    assert_eq!(compact.body["error"]["param"], "conversation");
    assert!(upstream.requests().is_empty());
    assert_eq!(said(&gateway, &id).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_tokens_of_a_conversation_are_counted_and_nothing_is_changed() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let items = json!([{"role": "user", "content": "What is the capital of Norway?"}]);
    let id = conversation(&gateway, items.clone()).await;
    let count = async |body: Value| {
        gateway.post("/v1/responses/input_tokens", &body).await.body["input_tokens"].as_u64().unwrap()
    };
    let mut sent = items.as_array().unwrap().clone();
    sent.push(json!({"role": "user", "content": "And of Sweden?"}));
    let expected = count(json!({"model": "test-model", "input": sent})).await;
    assert_eq!(count(ask(&id, "And of Sweden?")).await, expected);
    assert_eq!(said(&gateway, &id).await.len(), 1);
}

#[tokio::test]
async fn a_compaction_hides_what_is_before_it_from_the_model_and_not_from_the_list() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let items = json!([{"role": "developer", "content": "Be a boat builder."},
        {"role": "user", "content": "Build a boat."}, {"role": "assistant", "content": "planks ".repeat(1000)}]);
    let id = conversation(&gateway, items).await;
    upstream.text("The summary.").text("A mast.").text("A sail.");
    let mut body = ask(&id, "Now the mast.");
    body["context_management"] = json!([{"type": "compaction", "compact_threshold": 1000}]);
    assert_eq!(gateway.create(body).await["output"][0]["type"], "compaction");
    let listed = said(&gateway, &id).await;
    assert_eq!((listed.len(), &*listed[4], &*listed[5]), (6, "compaction", "A mast."));
    gateway.create(ask(&id, "And the sail?")).await;
    let asked = asked(&upstream);
    assert_eq!(asked[..3], ["Be a boat builder.", "Build a boat.", "Now the mast."]);
    assert!(asked[3].contains("The summary.") && asked[4..] == ["A mast.", "And the sail?"], "{asked:?}");
    // By a trigger, too.
    upstream.text("Another summary.").text("A flag.");
    gateway.create(ask(&id, json!([{"type": "compaction_trigger"}]))).await;
    gateway.create(ask(&id, "And a flag?")).await;
    let asked = super::asked(&upstream);
    assert!(asked.iter().any(|text| text.contains("Another summary.")), "{asked:?}");
    assert!(!asked.iter().any(|text| text.contains("The summary.") || text == "A mast."), "{asked:?}");
    assert!(said(&gateway, &id).await.len() > 9);
}

#[tokio::test]
async fn a_conversation_larger_than_the_limit_is_refused_and_named() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.engine.max_conversation_bytes = 100_000)
        .spawn()
        .await;
    let id = conversation(&gateway, json!([])).await;
    let items = json!({"items": [{"role": "user", "content": "x".repeat(60_000)}]});
    for _ in 0..2 {
        let path = format!("/v1/conversations/{id}/items");
        assert_eq!(gateway.post(&path, &items).await.status, 200);
    }
    let error = gateway.refuse(ask(&id, "Hi"), 400, "context_length_exceeded").await;
    assert_eq!(error["param"], "conversation");
}

#[tokio::test]
async fn a_conversation_that_is_deleted_during_a_run_leaves_the_response() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let id = conversation(&gateway, json!([])).await;
    let steps = vec![
        chunk(json!({"content": "slow"})),
        Step::Wait(Duration::from_millis(300)),
        finish("stop"),
        done(),
    ];
    upstream.reply(Reply::Stream(steps));
    let mut stream = gateway.open_stream(ask(&id, "Hi")).await;
    stream.chunk().await.unwrap().unwrap();
    assert_eq!(gateway.delete(&format!("/v1/conversations/{id}")).await.status, 200);
    let mut text = String::new();
    while let Some(piece) = stream.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    assert!(text.contains("response.completed"), "{text}");
    let listed = gateway.get("/v1/responses").await.body;
    assert_eq!(listed["data"][0]["status"], "completed");
}
