//! Streams that cannot be sent again.

use std::time::Duration;

use serde_json::json;

use super::{create, id_of, open, read};
use antwort_test_support::eventually;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::Upstream;

#[tokio::test]
async fn a_response_without_a_log_cannot_be_streamed_again() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for stream in [false, true] {
        let body = json!({"model": "test-model", "input": "Hi", "stream": stream});
        gateway.post("/v1/responses", &body).await;
    }
    let list = gateway.get("/v1/responses").await.body;
    for response in list["data"].as_array().unwrap() {
        let id = response["id"].as_str().unwrap();
        let refused = gateway.get(&format!("/v1/responses/{id}?stream=true")).await;
        let error = &refused.body["error"];
        assert_eq!((refused.status, &error["code"]), (400, &json!("unsupported_parameter")));
        assert_eq!(error["param"], "stream");
    }
    assert_eq!(gateway.get("/v1/responses/resp_1?stream=true").await.status, 404);
}

#[tokio::test]
async fn a_parameter_that_has_no_meaning_is_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let id = id_of(&create(&gateway).await.text().await.unwrap());
    for (query, param) in [
        ("starting_after=x", "starting_after"),
        ("starting_after=-1", "starting_after"),
        ("starting_after=1.5", "starting_after"),
        ("include_obfuscation=true", "include_obfuscation"),
    ] {
        let refused = gateway.get(&format!("/v1/responses/{id}?stream=true&{query}")).await;
        assert_eq!((refused.status, &refused.body["error"]["param"]), (400, &json!(param)), "{query}");
    }
}

#[tokio::test]
async fn events_expire_before_their_response() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).database(database.clone()).spawn().await;
    let first = create(&gateway).await.text().await.unwrap();
    let id = id_of(&first);
    let sql = rusqlite::Connection::open(&database).unwrap();
    sql.execute("UPDATE event_logs SET expires_at = 1", []).unwrap();
    assert_eq!(read(&gateway, &id, "stream=true").await, first, "they are kept at least as long as the key");
    sql.execute("DELETE FROM idempotency_keys", []).unwrap();
    let refused = gateway.get(&format!("/v1/responses/{id}?stream=true")).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (410, &json!("stream_expired")));
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.status, 200);
}

#[tokio::test]
async fn the_time_for_which_events_are_kept_is_a_setting() {
    let upstream = Upstream::spawn().await;
    let short = |settings: &mut antwort::config::Settings| {
        settings.store.event_ttl = Duration::from_millis(1);
        settings.store.idempotency_ttl = Duration::from_millis(1);
        settings.store.maintenance_interval = Duration::from_millis(20);
    };
    let gateway = Gateway::with_upstream(&upstream).set(short).spawn().await;
    let id = id_of(&create(&gateway).await.text().await.unwrap());
    assert!(eventually(async || open(&gateway, &id, "stream=true").await.status() == 410).await);
}
