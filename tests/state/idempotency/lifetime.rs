//! How long keys and logs are kept.

use std::time::Duration;

use super::{ask, keyed, listed, send, slow_answer};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, frames};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::Upstream;

#[tokio::test]
async fn an_expired_key_begins_a_new_run_and_its_log_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let upstream = Upstream::spawn().await;
    let short = |settings: &mut antwort::config::Settings| {
        settings.store.idempotency_ttl = Duration::from_millis(300);
        settings.store.event_ttl = Duration::from_millis(1);
        settings.store.maintenance_interval = Duration::from_millis(50);
    };
    let gateway = Gateway::with_upstream(&upstream).database(database.clone()).set(short).spawn().await;
    let sql = rusqlite::Connection::open(&database).unwrap();
    let rows = |table: &str| -> i64 {
        sql.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let first = send(&gateway, "k", &ask(true)).await;
    assert!(rows("event_log") > 0);
    assert!(eventually(async || rows("idempotency_keys") == 0 && rows("event_log") == 0).await);
    let second = send(&gateway, "k", &ask(true)).await;
    assert!(!second.is_replayed());
    assert_ne!(second.text, first.text);
    assert_eq!(listed(&gateway).await.len(), 2, "the responses are kept");
}

#[tokio::test]
async fn a_run_that_goes_on_keeps_its_key() {
    let upstream = Upstream::spawn().await;
    let short = |settings: &mut antwort::config::Settings| {
        settings.store.idempotency_ttl = Duration::from_millis(1);
        settings.store.maintenance_interval = Duration::from_millis(20);
    };
    let gateway = Gateway::with_upstream(&upstream).set(short).spawn().await;
    upstream.reply(slow_answer());
    let mut first = keyed(&gateway.base, "k", &ask(true)).send().await.unwrap();
    assert!(first.chunk().await.unwrap().is_some());
    tokio::time::sleep(Duration::from_millis(150)).await;
    let second = keyed(&gateway.base, "k", &ask(true)).send().await.unwrap();
    assert_eq!(second.headers()["idempotent-replayed"], "true");
    assert_eq!(upstream.requests().len(), 1);
}

/// A client that has deleted a response and sends its request again by mistake had its tools called twice.
#[tokio::test]
async fn a_request_whose_response_was_deleted_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).database(database.clone()).spawn().await;
    send(&gateway, "k", &ask(true)).await;
    let [id] = &listed(&gateway).await[..] else { panic!("one") };
    assert_eq!(gateway.delete(&format!("/v1/responses/{id}")).await.status, 200);
    let sql = rusqlite::Connection::open(&database).unwrap();
    let left: i64 = sql
        .query_row(
            "SELECT (SELECT count(*) FROM idempotency_keys) + (SELECT count(*) FROM event_log)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 0, "in the same transaction");
    let refused = gateway.send(keyed(&gateway.base, "k", &ask(true))).await;
    assert_eq!((refused.status, refused.body["error"]["code"].as_str()), (410, Some("response_deleted")));
    assert_eq!(refused.headers["x-should-retry"], "false");
    let other = gateway.send(keyed(&gateway.base, "k", &ask(false))).await;
    assert_eq!(other.body["error"]["code"], "idempotency_key_reused", "{:#}", other.body);
    assert_eq!(upstream.requests().len(), 1);
    assert!(!send(&gateway, "another", &ask(true)).await.is_replayed());
}

#[tokio::test]
async fn a_background_request_whose_response_was_deleted_is_not_made_again_until_its_key_expires() {
    let upstream = Upstream::spawn().await;
    let short = |settings: &mut antwort::config::Settings| {
        settings.store.idempotency_ttl = Duration::from_secs(2);
    };
    let gateway = Gateway::with_upstream(&upstream).set(short).spawn().await;
    let mut body = ask(false);
    body["background"] = true.into();
    let create = || gateway.send(keyed(&gateway.base, "k", &body));
    let first = create().await;
    let id = first.body["id"].as_str().unwrap().to_owned();
    assert_eq!(gateway.delete(&format!("/v1/responses/{id}")).await.status, 200);
    let refused = create().await;
    assert_eq!((refused.status, refused.body["error"]["code"].as_str()), (410, Some("response_deleted")));
    assert!(eventually(async || create().await.status == 200).await, "the key has expired");
}

#[tokio::test]
async fn a_stream_whose_log_is_gone_is_refused_with_the_id_of_its_response() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).database(database.clone()).spawn().await;
    send(&gateway, "k", &ask(true)).await;
    let [id] = &listed(&gateway).await[..] else { panic!("one") };
    let sql = rusqlite::Connection::open(&database).unwrap();
    sql.execute("DELETE FROM event_log", []).unwrap();
    let refused = gateway.send(keyed(&gateway.base, "k", &ask(true))).await;
    assert_eq!(
        (refused.status, refused.body["error"]["code"].as_str()),
        (409, Some("event_log_unavailable"))
    );
    assert!(refused.body["error"]["message"].as_str().unwrap().contains(id.as_str()));
    assert_eq!(refused.headers["x-should-retry"], "false");
}

/// Each word of two bytes is a frame of more than two hundred.
#[tokio::test]
async fn a_log_that_is_much_larger_than_a_response_may_be_is_dropped_and_the_response_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let upstream = Upstream::spawn().await;
    let small = |settings: &mut antwort::config::Settings| {
        settings.engine.max_response_bytes = 64 << 10;
        settings.engine.max_item_bytes = 64 << 10;
    };
    let gateway = Gateway::with_upstream(&upstream).database(database.clone()).set(small).spawn().await;
    upstream.text(&"x ".repeat(8_000));
    let first = send(&gateway, "k", &ask(true)).await;
    assert!(first.text.len() > 4 * (64 << 10), "{}", first.text.len());
    assert_eq!(assert_valid_stream(&frames(&first.text)).response["status"], "completed");
    let refused = gateway.send(keyed(&gateway.base, "k", &ask(true))).await;
    assert_eq!(
        (refused.status, refused.body["error"]["code"].as_str()),
        (409, Some("event_log_unavailable"))
    );
    let sql = rusqlite::Connection::open(&database).unwrap();
    let left: i64 = sql.query_row("SELECT count(*) FROM event_log", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0, "nothing of it is kept");
}
