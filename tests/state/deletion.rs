//! Responses that are deleted while their streams go on.

use std::time::Duration;

use serde_json::{Value, json};

use antwort_test_support::configured::settings;
use antwort_test_support::gateway::{Gateway, JsonBody, frames};
use antwort_test_support::stream_validator;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};

/// A stream whose id the client has read: the id, and what was read.
async fn open(gateway: &Gateway, body: Value) -> (reqwest::Response, String, String) {
    let mut stream = gateway.open_stream(body).await;
    let mut seen = String::new();
    while !seen.contains("\n\n") {
        seen.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    let data = seen.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let created: Value = serde_json::from_str(data).unwrap();
    assert_eq!(created["type"], "response.created");
    let id = created["response"]["id"].as_str().unwrap().to_owned();
    (stream, seen, id)
}

/// The response of the stream's last event; the stream is legal.
async fn end(mut stream: reqwest::Response, mut seen: String) -> Value {
    while let Some(piece) = stream.chunk().await.unwrap() {
        seen.push_str(std::str::from_utf8(&piece).unwrap());
    }
    stream_validator::assert_valid_stream(&frames(&seen)).response
}

fn slow_answer() -> Reply {
    // Longer than the half second after which a stream is recorded.
    let wait = Step::Wait(Duration::from_millis(900));
    Reply::Stream(vec![
        chunk(json!({"content": "Hel"})),
        wait,
        chunk(json!({"content": "lo"})),
        finish("stop"),
        done(),
    ])
}

fn endless() -> Reply {
    Reply::Stream(vec![chunk(json!({"content": "Hel"})), Step::Hang])
}

async fn assert_gone(gateway: &Gateway, id: &str) {
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.status, 404);
    assert_eq!(gateway.get(&format!("/v1/responses/{id}/input_items")).await.status, 404);
    assert_eq!(gateway.delete(&format!("/v1/responses/{id}")).await.status, 404);
    assert_eq!(gateway.get("/v1/responses").await.body["data"], json!([]));
    let continued = json!({"model": "test-model", "input": "x", "previous_response_id": id});
    gateway.refuse(continued, 400, "previous_response_not_found").await;
}

#[tokio::test]
async fn a_response_that_is_deleted_right_after_it_was_created_is_not_stored_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).database(database.clone()).spawn().await;
    upstream.reply(endless());
    let (stream, seen, id) = open(&gateway, json!({"model": "test-model", "input": "Hi"})).await;
    let deleted = gateway.delete(&format!("/v1/responses/{id}")).await;
    assert_eq!((deleted.status, &deleted.body["deleted"]), (200, &json!(true)));
    assert_gone(&gateway, &id).await;
    let response = end(stream, seen).await;
    assert_eq!((response["status"].as_str(), response["id"].as_str()), (Some("cancelled"), Some(&*id)));
    assert_gone(&gateway, &id).await;
    gateway.stop().await;

    let gateway = Gateway::with_upstream(&upstream).database(database).spawn().await;
    assert_gone(&gateway, &id).await;
}

#[tokio::test]
async fn a_response_that_is_deleted_once_it_is_recorded_is_not_stored_at_its_end() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(endless());
    let (stream, seen, id) = open(&gateway, json!({"model": "test-model", "input": "Hi"})).await;
    let path = format!("/v1/responses/{id}");
    let is_recorded = async || gateway.get(&path).await.body["status"] == "in_progress";
    assert!(antwort_test_support::eventually(is_recorded).await);
    assert_eq!(gateway.delete(&path).await.status, 200);
    assert_gone(&gateway, &id).await;
    assert_eq!(end(stream, seen).await["status"], "cancelled");
    assert_gone(&gateway, &id).await;
}

#[tokio::test]
async fn a_run_that_is_deleted_before_its_first_call_ends_in_it_and_leaves_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let upstream = Upstream::spawn().await;
    let (builder, tools) = Gateway::with_upstream(&upstream).database(database.clone()).probe();
    let gateway = builder.spawn().await;
    let call = json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "hang", "arguments": "{}"}}]});
    let wait = Step::Wait(Duration::from_millis(200));
    let steps =
        vec![chunk(json!({"content": "Let me see."})), wait, chunk(call), finish("tool_calls"), done()];
    upstream.reply(Reply::Stream(steps));
    let body =
        json!({"model": "test-model", "input": "Go.", "tools": [{"type": "mcp", "server_label": "antwort"}]});
    let (stream, seen, id) = open(&gateway, body).await;
    assert_eq!(gateway.delete(&format!("/v1/responses/{id}")).await.status, 200);
    assert_eq!(end(stream, seen).await["status"], "cancelled");
    assert_eq!((tools.count("hang"), upstream.requests().len()), (1, 1), "nothing follows");
    assert_gone(&gateway, &id).await;
    gateway.stop().await;
    let sql = rusqlite::Connection::open(database).unwrap();
    for table in ["responses", "turns", "runs", "item_ids", "tool_calls"] {
        let rows: i64 =
            sql.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

#[tokio::test]
async fn a_running_response_of_somebody_else_cannot_be_deleted() {
    let keys = "
auth:
  keys:
    alice: {key: key-alice}
    bob: {key: key-bob}
    other-alice: {key: key-other, tenant: other, owner: alice}
";
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with(settings(&upstream, &[], keys)).spawn().await;
    let send = async |key: &str, method: &str, path: &str, body: Option<Value>| {
        let mut request = gateway.http.request(method.parse().unwrap(), format!("{}{path}", gateway.base));
        request = request.header("authorization", format!("Bearer {key}"));
        match body {
            Some(body) => request.json_body(&body).send().await.unwrap(),
            None => request.send().await.unwrap(),
        }
    };
    upstream.reply(slow_answer());
    let body = json!({"model": "test-model", "input": "Hi", "stream": true});
    let mut stream = send("key-alice", "POST", "/v1/responses", Some(body)).await;
    let first = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    let data = first.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let created: Value = serde_json::from_str(data).unwrap();
    let path = format!("/v1/responses/{}", created["response"]["id"].as_str().unwrap());
    for key in ["key-bob", "key-other"] {
        assert_eq!(send(key, "DELETE", &path, None).await.status(), 404);
    }
    assert_eq!(end(stream, first).await["status"], "completed");
    assert_eq!(send("key-alice", "GET", &path, None).await.status(), 200, "it is kept");
}
