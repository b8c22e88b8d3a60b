//! What polls of a background response show before its end.

use serde_json::{Value, json};

use super::{ask, ended, id_of, read};
use antwort_test_support::eventually;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::openapi;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

/// The items of a response, by their types and statuses.
fn kinds(response: &Value) -> Vec<(&str, &str)> {
    let items = response["output"].as_array().unwrap();
    items.iter().map(|item| (item["type"].as_str().unwrap(), item["status"].as_str().unwrap_or(""))).collect()
}

#[tokio::test]
async fn a_poll_shows_the_items_that_are_done_and_the_usage_of_the_turns_before() {
    let upstream = Upstream::spawn().await;
    let (builder, _) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "one"}))]));
    upstream.reply(Reply::Stream(vec![chunk(json!({"role": "assistant", "content": "half"})), Step::Hang]));
    let mut body = ask();
    body["tools"] = json!([{"type": "mcp", "server_label": "antwort"}]);
    let id = id_of(&gateway.create(body).await);
    let has_call = async || kinds(&read(&gateway, &id).await).contains(&("mcp_call", "completed"));
    assert!(eventually(has_call).await, "{}", read(&gateway, &id).await);
    let polled = read(&gateway, &id).await;
    openapi::assert_response(&polled);
    assert_eq!((&polled["status"], &polled["id"]), (&json!("in_progress"), &json!(id)));
    assert!(!kinds(&polled).iter().any(|(kind, _)| *kind == "message"), "the message is not done: {polled}");
    assert!(polled["usage"]["total_tokens"].as_u64().unwrap() > 0, "{polled}");
    let done = polled["output"].clone();
    gateway.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
    let cancelled = ended(&gateway, &id).await;
    let kept = &cancelled["output"].as_array().unwrap()[..done.as_array().unwrap().len()];
    assert_eq!(json!(kept), done, "what a poll has shown stays as it was");
}

#[tokio::test]
async fn a_background_response_without_storage_is_polled_and_nothing_else() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text("Hello");
    let mut body = ask();
    body["store"] = json!(false);
    let id = id_of(&gateway.create(body).await);
    assert_eq!(ended(&gateway, &id).await["status"], "completed");
    let listed = gateway.get("/v1/responses").await;
    assert_eq!(listed.body["data"], json!([]), "it is not listed");
    let next = json!({"model": "test-model", "input": "More", "previous_response_id": id});
    let refused = gateway.post("/v1/responses", &next).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert_eq!(refused.body["error"]["code"], "previous_response_not_found");
    let followed = gateway.get(&format!("/v1/responses/{id}?stream=true")).await;
    assert_eq!(followed.status, 200);
    let deleted = reqwest::Client::new().delete(format!("{}/v1/responses/{id}", gateway.base)).send().await;
    assert_eq!(deleted.unwrap().status(), 200);
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.status, 404);
}
