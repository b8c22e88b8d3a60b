//! Creates with `background: true`: queued at once, made by a worker, read or followed by whoever asks.

mod cancelled;
mod crash;
mod polled;
mod queue;
mod refused;
mod shares;

use std::time::Duration;

use serde_json::{Value, json};

use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, JsonBody, frames, text_of};
use antwort_test_support::openapi;
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

fn ask() -> Value {
    json!({"model": "test-model", "input": "Hi", "background": true})
}

/// A few words, with a pause between them.
fn slow_answer(pause: u64) -> Reply {
    let mut steps = vec![chunk(json!({"role": "assistant", "content": ""}))];
    for n in 0..6 {
        steps.extend([
            chunk(json!({"content": format!("word {n} ")})),
            Step::Wait(Duration::from_millis(pause)),
        ]);
    }
    steps.extend([finish("stop"), usage(5, 6), done()]);
    Reply::Stream(steps)
}

/// The response as it is stored.
async fn read(gateway: &Gateway, id: &str) -> Value {
    gateway.get(&format!("/v1/responses/{id}")).await.body
}

fn is_over(response: &Value) -> bool {
    !["queued", "in_progress"].contains(&response["status"].as_str().unwrap_or("queued"))
}

/// The response once it has ended.
async fn ended(gateway: &Gateway, id: &str) -> Value {
    assert!(eventually(async || is_over(&read(gateway, id).await)).await, "{}", read(gateway, id).await);
    read(gateway, id).await
}

fn id_of(response: &Value) -> String {
    response["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_background_response_is_queued_at_once_and_read_when_it_has_ended() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(slow_answer(50));
    let queued = gateway.create(ask()).await;
    openapi::assert_response(&queued);
    assert_eq!((&queued["status"], &queued["background"]), (&json!("queued"), &json!(true)));
    assert_eq!(queued["output"], json!([]));
    let id = id_of(&queued);
    assert!(eventually(async || read(&gateway, &id).await["status"] == "in_progress").await);
    openapi::assert_response(&read(&gateway, &id).await);
    let response = ended(&gateway, &id).await;
    openapi::assert_response(&response);
    assert_eq!((&response["status"], &response["background"]), (&json!("completed"), &json!(true)));
    assert_eq!(text_of(&response), "word 0 word 1 word 2 word 3 word 4 word 5 ");
    assert_eq!(response["created_at"], queued["created_at"]);
    assert_eq!(upstream.last()["stream"], true, "what the model has said is there at once");
    upstream.text("more");
    let next = json!({"model": "test-model", "input": "More", "previous_response_id": id});
    assert_eq!(text_of(&gateway.create(next).await), "more");
}

#[tokio::test]
async fn a_background_response_with_tools_makes_its_calls() {
    let upstream = Upstream::spawn().await;
    let (builder, seen) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "one"})), ("slow", json!({}))]));
    upstream.reply(Reply::Calls(vec![("noop", json!({}))]));
    upstream.text("Done.");
    let tools = json!([{"type": "mcp", "server_label": "antwort"}]);
    let mut body = ask();
    body["tools"] = tools;
    let response = ended(&gateway, &id_of(&gateway.create(body).await)).await;
    assert_eq!((&response["status"], text_of(&response).as_str()), (&json!("completed"), "Done."));
    assert_eq!([seen.count("echo"), seen.count("slow"), seen.count("noop")], [1, 1, 1]);
    let calls = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "mcp_call");
    assert!(calls.clone().all(|call| call["status"] == "completed"), "{response:#}");
    assert_eq!(calls.count(), 3);
}

#[tokio::test]
async fn the_stream_of_a_background_response_begins_with_its_queue_and_is_read_again() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(slow_answer(30));
    let mut body = ask();
    body["stream"] = json!(true);
    let http = reqwest::Client::new();
    let create = http.post(format!("{}/v1/responses", gateway.base)).json_body(&body).send().await.unwrap();
    assert_eq!(create.status(), 200);
    let text = create.text().await.unwrap();
    let events = frames(&text);
    let response = assert_valid_stream(&events).response;
    let kinds: Vec<_> = events.iter().take(3).map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["response.created", "response.queued", "response.in_progress"]);
    assert_eq!(
        (&events[0]["response"]["status"], &response["status"]),
        (&json!("queued"), &json!("completed"))
    );
    let id = id_of(&response);
    assert_eq!(read(&gateway, &id).await, response);
    let url = format!("{}/v1/responses/{id}?stream=true", gateway.base);
    assert_eq!(reqwest::get(url).await.unwrap().text().await.unwrap(), text);
}

#[tokio::test]
async fn a_client_that_goes_does_not_end_its_background_response() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(slow_answer(60));
    let mut body = ask();
    body["stream"] = json!(true);
    let mut stream = gateway.open_stream(body).await;
    let first = stream.chunk().await.unwrap().unwrap();
    let first = antwort_test_support::gateway::frames_so_far(std::str::from_utf8(&first).unwrap());
    drop(stream);
    assert_eq!(ended(&gateway, &id_of(&first[0]["response"])).await["status"], "completed");
}

#[tokio::test]
async fn a_background_response_that_the_provider_refuses_fails() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Status(400, vec![], r#"{"error":{"message":"no"}}"#.into()));
    let response = ended(&gateway, &id_of(&gateway.create(ask()).await)).await;
    openapi::assert_response(&response);
    assert_eq!(response["status"], "failed");
    let again = gateway.get(&format!("/v1/responses/{}", id_of(&response))).await;
    assert_eq!(again.status, 200);
}
