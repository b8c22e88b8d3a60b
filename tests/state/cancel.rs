//! `POST /v1/responses/{id}/cancel`, and what a deletion does to a response that runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use antwort::store::{CancelRequest, Owner, Store};
use antwort_store_sqlite::{Location, SqliteOptions, SqliteStore};
use serde_json::{Value, json};

use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, HttpAnswer, JsonBody, frames};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

/// Says something, and never ends.
fn endless() -> Reply {
    Reply::Stream(vec![chunk(json!({"content": "Hel"})), chunk(json!({"content": "lo"})), Step::Hang])
}

/// A stream of which the client has seen the first text.
async fn open(gateway: &Gateway) -> (reqwest::Response, String, String) {
    let mut stream = gateway.open_stream(json!({"model": "test-model", "input": "Hi"})).await;
    let mut seen = String::new();
    while !seen.contains("\"lo\"") {
        seen.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    let created = seen.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let created: Value = serde_json::from_str(created).unwrap();
    let id = created["response"]["id"].as_str().unwrap().to_owned();
    (stream, seen, id)
}

async fn end(stream: reqwest::Response, seen: String) -> Value {
    let text = seen + &stream.text().await.unwrap();
    assert_valid_stream(&frames(&text)).response
}

async fn cancel(gateway: &Gateway, id: &str) -> HttpAnswer {
    gateway.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await
}

#[tokio::test]
async fn a_running_response_ends_with_what_it_has_and_is_stored_before_the_answer() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(endless());
    let (stream, seen, id) = open(&gateway).await;
    // It may have no row yet.
    let cancelled = cancel(&gateway, &id).await;
    assert_eq!((cancelled.status, &cancelled.body["status"]), (200, &json!("cancelled")));
    assert_eq!(cancelled.body["output"][0]["content"][0]["text"], "Hello");
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.body, cancelled.body);
    let streamed = end(stream, seen).await;
    assert_eq!((&streamed["status"], &streamed["output"]), (&json!("cancelled"), &cancelled.body["output"]));
    assert!(eventually(async || upstream.open_streams() == 0).await, "the provider is left alone");
}

#[tokio::test]
async fn of_two_who_cancel_at_once_none_sees_a_response_that_runs_and_those_who_come_later_get_an_error() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(endless());
    let (_stream, _, id) = open(&gateway).await;
    let path = format!("/v1/responses/{id}");
    assert!(eventually(async || gateway.get(&path).await.body["status"] == "in_progress").await);
    let (first, second) = tokio::join!(cancel(&gateway, &id), cancel(&gateway, &id));
    let stored = gateway.get(&path).await.body;
    assert_eq!(stored["status"], "cancelled");
    let late = cancel(&gateway, &id).await;
    let error = &late.body["error"];
    assert_eq!((late.status, &error["code"]), (400, &json!("response_not_cancellable")));
    assert_eq!(error["type"], "invalid_request_error");
    // One of them may have come when the other had ended it.
    assert!(first.status == 200 || second.status == 200);
    for answer in [first, second] {
        let expected = if answer.status == 200 { &stored } else { &late.body };
        assert_eq!(&answer.body, expected);
    }
}

/// Clients cancel responses of the background without knowing whether they have ended.
#[tokio::test]
async fn an_ended_response_of_the_background_comes_back_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).database(database.clone()).spawn().await;
    let done = gateway.post("/v1/responses", &json!({"model": "test-model", "input": "Hi"})).await.body;
    let sql = rusqlite::Connection::open(&database).unwrap();
    sql.execute("UPDATE responses SET body = json_set(body, '$.background', json('true'))", []).unwrap();
    let answer = cancel(&gateway, done["id"].as_str().unwrap()).await;
    assert_eq!((answer.status, &answer.body["status"]), (200, &json!("completed")));
    assert_eq!(answer.body["output"], done["output"]);
}

#[tokio::test]
async fn what_does_not_exist_cannot_be_cancelled() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    assert_eq!(cancel(&gateway, "resp_1").await.status, 404);
    let done = gateway.post("/v1/responses", &json!({"model": "test-model", "input": "Hi"})).await.body;
    let id = done["id"].as_str().unwrap();
    assert_eq!(gateway.delete(&format!("/v1/responses/{id}")).await.status, 200);
    assert_eq!(cancel(&gateway, id).await.status, 404);
}

#[tokio::test]
async fn only_its_owner_cancels_a_response() {
    let keys = "
auth:
  keys:
    alice: {key: key-alice}
    bob: {key: key-bob}
    reader: {key: key-reader, owner: alice, scopes: [\"responses:read\", \"responses:delete\"]}
";
    let upstream = Upstream::spawn().await;
    let gateway =
        Gateway::with(antwort_test_support::configured::settings(&upstream, &[], keys)).spawn().await;
    let send = async |key: &str, path: &str, body: Value| {
        let request = gateway.http.post(format!("{}{path}", gateway.base)).json_body(&body);
        request.header("authorization", format!("Bearer {key}")).send().await.unwrap()
    };
    upstream.reply(endless());
    let ask = json!({"model": "test-model", "input": "Hi", "stream": true});
    let mut stream = send("key-alice", "/v1/responses", ask).await;
    let first = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    let data = first.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let created: Value = serde_json::from_str(data).unwrap();
    let path = format!("/v1/responses/{}/cancel", created["response"]["id"].as_str().unwrap());
    assert_eq!(send("key-bob", &path, json!({})).await.status(), 404);
    assert_eq!(send("key-reader", &path, json!({})).await.status(), 403);
    assert_eq!(upstream.open_streams(), 1);
    assert_eq!(send("key-alice", &path, json!({})).await.status(), 200);
}

#[tokio::test]
async fn a_run_that_waits_for_a_tool_is_cancelled_with_it() {
    let upstream = Upstream::spawn().await;
    let (builder, tools) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    upstream.reply(Reply::Calls(vec![("hang", json!({}))]));
    let ask =
        json!({"model": "test-model", "input": "Go.", "tools": [{"type": "mcp", "server_label": "antwort"}]});
    let mut stream = gateway.open_stream(ask).await;
    let first = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    let data = first.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let created: Value = serde_json::from_str(data).unwrap();
    assert!(eventually(async || tools.count("hang") == 1).await);
    let cancelled = cancel(&gateway, created["response"]["id"].as_str().unwrap()).await;
    assert_eq!(
        (cancelled.status, &cancelled.body["status"]),
        (200, &json!("cancelled")),
        "{:#}",
        cancelled.body
    );
}

fn other_process(database: &Path) -> Arc<dyn Store> {
    let options = SqliteOptions::new(Location::File(database.into()), "other");
    Arc::new(SqliteStore::open(options).unwrap())
}

/// A gateway with an endless run that has a row, its id, and the store of another process.
async fn run_elsewhere(
    folder: &Path,
    upstream: &Upstream,
) -> (Gateway, (reqwest::Response, String), String, Arc<dyn Store>) {
    let database = folder.join("test.db");
    let gateway = Gateway::with_upstream(upstream).database(database.clone()).spawn().await;
    upstream.reply(endless());
    let (stream, seen, id) = open(&gateway).await;
    let path = format!("/v1/responses/{id}");
    assert!(eventually(async || gateway.get(&path).await.body["status"] == "in_progress").await);
    (gateway, (stream, seen), id, other_process(&database))
}

fn anonymous() -> Owner {
    Owner { tenant: "default".into(), principal: "anonymous".into() }
}

#[tokio::test]
async fn a_run_ends_that_another_process_cancels() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::spawn().await);
    let (gateway, (stream, seen), id, other) = run_elsewhere(folder.path(), &upstream).await;
    let wished = other.request_cancel(&anonymous(), &id.as_str().into()).await.unwrap();
    assert_eq!(wished, CancelRequest::Requested);
    assert_eq!(end(stream, seen).await["status"], "cancelled");
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.body["status"], "cancelled");
    let late = other.request_cancel(&anonymous(), &id.as_str().into()).await.unwrap();
    assert_eq!(late, CancelRequest::Ended);
}

#[tokio::test]
async fn a_run_ends_whose_response_another_process_deletes() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::spawn().await);
    let (gateway, (stream, seen), id, other) = run_elsewhere(folder.path(), &upstream).await;
    assert!(other.delete(&anonymous(), &id).await.unwrap());
    assert_eq!(end(stream, seen).await["status"], "cancelled");
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.status, 404);
}

/// Its process is gone before it could end the run.
#[tokio::test]
async fn a_run_whose_process_is_gone_ends_as_its_owner_wished() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    upstream.reply(endless());
    let mut gateway = antwort_test_support::process::Process::start(folder.path(), &upstream).await;
    let http = reqwest::Client::new();
    let ask = json!({"model": "test-model", "input": "Hi", "stream": true});
    let mut stream =
        http.post(format!("{}/v1/responses", gateway.base)).json_body(&ask).send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains("\n\n") {
        seen.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    let created: Value =
        serde_json::from_str(seen.lines().find_map(|line| line.strip_prefix("data: ")).unwrap()).unwrap();
    let path = format!("/v1/responses/{}", created["response"]["id"].as_str().unwrap());
    let status = async |gateway: &antwort_test_support::process::Process| -> Value {
        let found = http.get(format!("{}{path}", gateway.base)).send().await.unwrap();
        serde_json::from_str::<Value>(&found.text().await.unwrap()).unwrap()["status"].clone()
    };
    assert!(eventually(async || status(&gateway).await == "in_progress").await);
    gateway.kill();
    let sql = rusqlite::Connection::open(folder.path().join("test.db")).unwrap();
    assert_eq!(sql.execute("UPDATE runs SET cancel_requested = 1", []).unwrap(), 1);
    drop(sql);
    gateway.restart().await;
    assert!(eventually(async || status(&gateway).await == "cancelled").await);
}

#[tokio::test]
async fn a_run_whose_client_has_gone_is_cancelled_by_its_id() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(endless());
    let ask = json!({"model": "test-model", "input": "Hi", "antwort": {"on_disconnect": "continue"}});
    let mut stream = gateway.open_stream(ask).await;
    let first = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    drop(stream);
    let data = first.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let created: Value = serde_json::from_str(data).unwrap();
    let id = created["response"]["id"].as_str().unwrap();
    let followed = reqwest::get(format!("{}/v1/responses/{id}?stream=true", gateway.base)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(cancel(&gateway, id).await.body["status"], "cancelled");
    let followed = assert_valid_stream(&frames(&followed.text().await.unwrap())).response;
    assert_eq!(followed["status"], "cancelled");
}
