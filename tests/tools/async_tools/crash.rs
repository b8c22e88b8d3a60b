//! Results across restarts and replicas.

use serde_json::{Value, json};

use super::{ask, callback, follow_up, made, report, started};
use antwort_test_support::eventually;
use antwort_test_support::fleet::Fleet;
use antwort_test_support::gateway::{JsonBody, text_of};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

async fn send(request: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_finds_its_call_behind_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.returns("add", started());
    let url = server.url();
    let environment = [
        ("ANTWORT__MCP__SERVERS__SHOP__URL", &*url),
        ("ANTWORT__MCP__SERVERS__SHOP__TRUST", "trusted"),
        ("ANTWORT_PUBLIC_URL", "https://gateway.example.com"),
    ];
    let file = "tools: {overrides: {shop__add: {async: allow}}}\n";
    std::fs::write(folder.path().join("antwort.yaml"), file).unwrap();
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    let http = reqwest::Client::new();
    let create = |gateway: &Process| http.post(format!("{}/v1/responses", gateway.base));
    let (_, response) = send(create(&gateway).json_body(&ask(&upstream))).await;
    let id = response["id"].as_str().unwrap().to_owned();
    gateway.kill();
    gateway.restart().await;
    upstream.text("The sum is three.");
    let report = http.post(format!("{}{}", gateway.base, callback(&server)));
    assert_eq!(send(report.json_body(&json!({"output": "three"}))).await.0, 200);
    // Whatever was done of it until then.
    gateway.kill();
    gateway.restart().await;
    let follows = async || {
        let (_, list) = send(http.get(format!("{}/v1/responses", gateway.base))).await;
        let data = list["data"].as_array().unwrap().clone();
        let found: Vec<_> = data.into_iter().filter(|it| it["previous_response_id"] == *id).collect();
        found.len() == 1 && found[0]["status"] == "completed" && text_of(&found[0]) == "The sum is three."
    };
    assert!(eventually(follows).await);
    let is_done = async || {
        let (_, response) = send(http.get(format!("{}/v1/responses/{id}", gateway.base))).await;
        response["output"].to_string().contains(r#""output":"three""#)
    };
    assert!(eventually(is_done).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_reported_to_any_replica_and_followed_once() {
    let fleet = Fleet::new().await;
    let server = McpServer::spawn().await;
    server.returns("add", started());
    let replica =
        async || fleet.builder().set(|settings| super::allow(settings, &server, "follow_up")).spawn().await;
    let (first, second) = (replica().await, replica().await);
    let id = first.create(ask(&fleet.upstream)).await["id"].as_str().unwrap().to_owned();
    fleet.upstream.text("The sum is three.");
    let path = callback(&server);
    let three = json!({"output": "three"});
    let (here, there) = tokio::join!(report(&first, &path, &three), report(&second, &path, &three));
    assert_eq!((here.status, there.status), (200, 200));
    assert_eq!(text_of(&follow_up(&second, &id).await), "The sum is three.");
    assert!(eventually(async || made(&first, &id).await["output"] == "three").await);
    assert_eq!(fleet.upstream.requests().len(), 3, "followed once");
    let conversation = first.post("/v1/conversations", &json!({})).await.body["id"].clone();
    let mut body = ask(&fleet.upstream);
    body["conversation"] = conversation.clone();
    first.create(body).await;
    fleet.upstream.text("Three again.");
    assert_eq!(report(&second, &callback(&server), &json!({"output": "three"})).await.status, 200);
    let items = format!("/v1/conversations/{}/items?order=asc", conversation.as_str().unwrap());
    let is_done = async || {
        let list = first.get(&items).await.body;
        list["data"].as_array().unwrap().len() == 6 && list["data"][2]["output"] == "three"
    };
    assert!(eventually(is_done).await, "{:#}", first.get(&items).await.body);
}
