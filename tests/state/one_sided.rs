//! Servers that only stream, and servers that say everything twice.

use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::upstream::{Reply, Upstream, chunk, done, finish, usage};

fn only_streams(body: &Value) -> Result<(), &'static str> {
    if body["stream"] == true { Ok(()) } else { Err("stream must be true") }
}

#[tokio::test]
async fn a_provider_that_only_streams_serves_json_requests() {
    let upstream = Upstream::spawn().await;
    upstream.refuse(only_streams);
    let (builder, probe) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.provider(|provider| provider.supports.json = false).spawn().await;
    let body = json!({"model": "test-model", "input": "Hi", "tools": [{"type": "antwort:echo"}]});
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "x"}))])).text("Done.");
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "x"}))])).text("Done.");
    let [whole, streamed] = gateway.both(body).await;
    assert_eq!((text_of(&whole).as_str(), &whole["usage"]), ("Done.", &streamed["usage"]));
    assert_eq!(whole["usage"]["total_tokens"], 16);
    assert_eq!(probe.count("echo"), 2);
    let accepted = upstream.requests().iter().all(|request| request.headers["accept"] == "text/event-stream");
    assert!(accepted, "it is asked for what it gives");
    // Errors, and an answer that breaks off, are what they are in a stream.
    upstream.always(Reply::Stream(vec![chunk(json!({"content": "Ha"}))]));
    let broken = gateway.post("/v1/responses", &json!({"model": "test-model", "input": "Hi"})).await.body;
    let found = (&broken["status"], &broken["error"]["code"]);
    assert_eq!(found, (&json!("failed"), &json!("upstream_disconnected")), "{broken:#}");
}

fn kinds(response: &Value) -> Vec<&str> {
    response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn text_mirrored_into_a_field_of_reasoning_is_one_message() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mirrored = |text: &str| chunk(json!({"content": text, "reasoning_content": text}));
    let words = ["The ", "sea ", "is ", "blue."];
    let mut steps: Vec<_> = words.iter().map(|word| mirrored(word)).collect();
    steps.extend([finish("stop"), usage(5, 4), done()]);
    upstream.reply(Reply::Stream(steps));
    let response = gateway.stream(json!({"model": "test-model", "input": "Hi"})).await.response;
    assert_eq!((kinds(&response), text_of(&response).as_str()), (vec!["message"], "The sea is blue."));
    // A whole answer, too.
    let message = json!({"role": "assistant", "content": "Blue.", "reasoning_content": "Blue."});
    upstream
        .reply(Reply::Whole(json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})));
    let response = gateway.create(json!({"model": "test-model", "input": "Hi"})).await;
    assert_eq!(kinds(&response), ["message"]);
}

#[tokio::test]
async fn a_piece_of_reasoning_and_of_text_in_every_chunk_are_no_two_items_a_chunk() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let both = |text: &str, thought: &str| chunk(json!({"content": text, "reasoning_content": thought}));
    let mut steps = vec![chunk(json!({"reasoning_content": "Hm. "}))];
    steps.extend((0..5).map(|number| both(&format!("{number} "), &format!("[{number}]"))));
    steps.extend([finish("stop"), usage(5, 4), done()]);
    upstream.reply(Reply::Stream(steps));
    let response = gateway.stream(json!({"model": "test-model", "input": "Hi"})).await.response;
    assert_eq!(kinds(&response), ["reasoning", "message", "reasoning"], "{response:#}");
    assert_eq!(text_of(&response), "0 1 2 3 4 ");
    assert_eq!(response["output"][0]["content"][0]["text"], "Hm. [0]");
    assert_eq!(response["output"][2]["content"][0]["text"], "[1][2][3][4]");
}
