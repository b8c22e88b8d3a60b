//! Writes that fail while a run with a key goes on.

use std::time::Duration;

use serde_json::json;

use super::{ask, keyed, listed, send};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Builder, Gateway, frames};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::Upstream;

/// A gateway whose database obeys this trigger.
async fn gateway(builder: Builder, trigger: &str) -> (Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let often = |settings: &mut antwort::config::Settings| {
        settings.store.maintenance_interval = Duration::from_millis(100);
    };
    let gateway = builder.database(database.clone()).set(often).spawn().await;
    rusqlite::Connection::open(&database).unwrap().execute_batch(trigger).unwrap();
    (gateway, folder)
}

#[tokio::test]
async fn a_run_whose_end_cannot_be_stored_is_ended_later_and_its_stream_with_it() {
    let upstream = Upstream::spawn().await;
    let trigger = "CREATE TRIGGER no_end BEFORE UPDATE ON responses WHEN NEW.status = 'completed'
        BEGIN SELECT RAISE(ABORT, 'no'); END";
    let (gateway, _folder) = gateway(Gateway::with_upstream(&upstream), trigger).await;
    let first = send(&gateway, "k", &ask(true)).await;
    let response = assert_valid_stream(&frames(&first.text)).response;
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("storage_error"))
    );
    let again = send(&gateway, "k", &ask(true)).await;
    assert_eq!((again.status, again.is_replayed()), (200, true), "{again:?}");
    let stored = assert_valid_stream(&frames(&again.text)).response;
    assert_eq!((&stored["id"], &stored["error"]["code"]), (&response["id"], &json!("storage_error")));
    assert_eq!(upstream.requests().len(), 1);
}

/// It was 200 with a response that said `failed`, which clients took for one that the model had failed to give.
#[tokio::test]
async fn a_json_response_that_cannot_be_stored_is_an_error() {
    let upstream = Upstream::spawn().await;
    let trigger = "CREATE TRIGGER no_row BEFORE INSERT ON responses BEGIN SELECT RAISE(ABORT, 'no'); END";
    let (gateway, _folder) = gateway(Gateway::with_upstream(&upstream), trigger).await;
    gateway.refuse(ask(false), 500, "storage_error").await;
    assert_eq!((upstream.requests().len(), listed(&gateway).await.len()), (1, 0));
    let streamed = gateway.stream(ask(true)).await.response;
    assert_eq!(streamed["error"]["code"], "storage_error", "a stream has begun, and ends with its event");
    let mut unstored = ask(false);
    unstored["store"] = json!(false);
    assert_eq!(gateway.create(unstored).await["status"], "completed");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_costs_the_repetition_and_not_the_response() {
    let upstream = Upstream::spawn().await;
    let trigger = "CREATE TRIGGER no_log BEFORE INSERT ON event_log WHEN NEW.first > 1
        BEGIN SELECT RAISE(ABORT, 'no'); END";
    let (gateway, _folder) = gateway(Gateway::with_upstream(&upstream), trigger).await;
    let first = send(&gateway, "k", &ask(true)).await;
    assert_eq!(assert_valid_stream(&frames(&first.text)).response["status"], "completed");
    let refused = gateway.send(keyed(&gateway.base, "k", &ask(true))).await;
    assert_eq!(
        (refused.status, refused.body["error"]["code"].as_str()),
        (409, Some("event_log_unavailable"))
    );
    let [id] = &listed(&gateway).await[..] else { panic!("one") };
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.body["status"], "completed");
}

/// The provider is not asked for what could not be found again.
#[tokio::test]
async fn a_run_whose_key_cannot_be_stored_is_not_begun() {
    let upstream = Upstream::spawn().await;
    let trigger = "CREATE TRIGGER no_key BEFORE INSERT ON idempotency_keys
        BEGIN SELECT RAISE(ABORT, 'no'); END";
    let (gateway, _folder) = gateway(Gateway::with_upstream(&upstream), trigger).await;
    let refused = gateway.send(keyed(&gateway.base, "k", &ask(false))).await;
    assert_eq!((refused.status, refused.body["error"]["code"].as_str()), (500, Some("storage_error")));
    assert_eq!((upstream.requests().len(), listed(&gateway).await.len()), (0, 0));
    let idle = async || super::metric(&gateway, "antwort_runs_active").await.as_deref() == Some("0");
    assert!(eventually(idle).await);
}

#[tokio::test]
async fn a_refused_run_whose_row_cannot_be_deleted_becomes_a_failed_response() {
    let upstream = Upstream::spawn().await;
    let trigger = "CREATE TRIGGER no_delete BEFORE DELETE ON responses BEGIN SELECT RAISE(ABORT, 'no'); END";
    let (gateway, _folder) = gateway(Gateway::with_upstream(&upstream), trigger).await;
    let no = json!({"error": {"message": "no"}}).to_string();
    upstream.reply(antwort_test_support::upstream::Reply::Status(400, vec![], no));
    assert!(send(&gateway, "k", &ask(false)).await.status >= 400);
    let again = send(&gateway, "k", &ask(false)).await.json();
    assert_eq!((&again["status"], &again["error"]["code"]), (&json!("failed"), &json!("storage_error")));
    assert_eq!(upstream.requests().len(), 1);
}
