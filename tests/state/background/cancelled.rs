//! Background responses that are cancelled or deleted, while they wait and while they run.

use std::time::Duration;

use serde_json::json;

use super::{ask, ended, id_of, read, slow_answer};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, frames, text_of};
use antwort_test_support::halting_store::{Fault, Halt, HaltingStore};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

async fn gateway(upstream: &Upstream) -> Gateway {
    let one = |settings: &mut antwort::config::Settings| settings.jobs.concurrency = 1;
    Gateway::with_upstream(upstream).set(one).spawn().await
}

#[tokio::test]
async fn a_running_one_keeps_what_it_has_and_one_that_waits_is_never_made() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    upstream.always(slow_answer(150));
    let running = id_of(&gateway.create(ask()).await);
    let waits = id_of(&gateway.create(ask()).await);
    assert!(eventually(async || upstream.open_streams() == 1).await);
    for id in [&waits, &running] {
        let cancelled = gateway.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
        assert_eq!((cancelled.status, &cancelled.body["status"]), (200, &json!("cancelled")));
        assert_eq!(read(&gateway, id).await, cancelled.body);
        let again = gateway.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
        assert_eq!((again.status, &again.body), (200, &cancelled.body), "it stays as it is");
        let url = format!("{}/v1/responses/{id}?stream=true", gateway.base);
        let text = reqwest::get(url).await.unwrap().text().await.unwrap();
        assert_eq!(assert_valid_stream(&frames(&text)).response, cancelled.body);
    }
    assert_eq!(upstream.requests().len(), 1);
    assert!(eventually(async || upstream.open_streams() == 0).await, "the provider is not kept busy");
}

#[tokio::test]
async fn what_is_deleted_is_gone_and_lets_the_next_one_run() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    upstream.always(slow_answer(150));
    let (running, waits) = (id_of(&gateway.create(ask()).await), id_of(&gateway.create(ask()).await));
    assert!(eventually(async || upstream.open_streams() == 1).await);
    let last = id_of(&gateway.create(ask()).await);
    for id in [&running, &waits] {
        assert_eq!(gateway.delete(&format!("/v1/responses/{id}")).await.status, 200);
        assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.status, 404);
    }
    assert_eq!(ended(&gateway, &last).await["status"], "completed");
    assert_eq!(upstream.requests().len(), 2, "the one that waited was not made");
}

/// A gateway that makes one run at a time, which hangs, and a response to go on from.
async fn busy_gateway(upstream: &Upstream, store: &HaltingStore) -> (Gateway, String) {
    let one = |settings: &mut antwort::config::Settings| settings.jobs.concurrency = 1;
    let gateway = Gateway::with_upstream(upstream).set(one).store(store.store()).spawn().await;
    upstream.text("Hi.");
    let earlier = id_of(&gateway.create(json!({"model": "test-model", "input": "Hi"})).await);
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "first"})), Step::Hang]));
    (gateway, earlier)
}

/// The run that it had claimed was then nobody's, and renewed for as long as the process lived.
#[tokio::test]
async fn a_run_that_waits_is_cancelled_though_the_client_that_wants_it_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let lease = Duration::from_secs(60);
    let store = HaltingStore::open_with(&folder.path().join("test.db"), Halt::AfterClaim, lease);
    let upstream = Upstream::spawn().await;
    let (gateway, _) = busy_gateway(&upstream, &store).await;
    gateway.create(ask()).await;
    assert!(eventually(async || upstream.open_streams() == 1).await);
    let waits = id_of(&gateway.create(ask()).await);
    let path = format!("/v1/responses/{waits}/cancel");
    let nothing = json!({});
    tokio::select! {
        answer = gateway.post(&path, &nothing) => panic!("{answer:?}"),
        () = store.reached() => {}
    }
    store.resume();
    assert_eq!(ended(&gateway, &waits).await["status"], "cancelled");
}

/// A cancellation was looked for only when the model was asked.
#[tokio::test]
async fn a_run_is_cancelled_while_it_is_prepared() {
    let folder = tempfile::tempdir().unwrap();
    let lease = Duration::from_secs(60);
    let store = HaltingStore::open_with(&folder.path().join("test.db"), Halt::Never, lease);
    let upstream = Upstream::spawn().await;
    let (gateway, earlier) = busy_gateway(&upstream, &store).await;
    let first = id_of(&gateway.create(ask()).await);
    assert!(eventually(async || upstream.open_streams() == 1).await);
    let mut next = ask();
    next["previous_response_id"] = json!(earlier);
    let next = id_of(&gateway.create(next).await);
    store.fail(&[Fault::Hang]);
    gateway.post(&format!("/v1/responses/{first}/cancel"), &json!({})).await;
    assert!(eventually(async || !store.has_faults_left()).await);
    let cancelled = gateway.post(&format!("/v1/responses/{next}/cancel"), &json!({})).await;
    assert_eq!((cancelled.status, &cancelled.body["status"]), (200, &json!("cancelled")));
    assert_eq!(read(&gateway, &next).await, cancelled.body);
}

/// A database that was away for a moment failed the run, and a panic left it to nobody.
#[tokio::test]
async fn a_run_that_cannot_be_prepared_for_now_is_made_later() {
    let folder = tempfile::tempdir().unwrap();
    let lease = Duration::from_secs(60);
    let store = HaltingStore::open_with(&folder.path().join("test.db"), Halt::Never, lease);
    let upstream = Upstream::spawn().await;
    let (gateway, earlier) = busy_gateway(&upstream, &store).await;
    let first = id_of(&gateway.create(ask()).await);
    assert!(eventually(async || upstream.open_streams() == 1).await);
    let mut body = ask();
    body["previous_response_id"] = json!(earlier);
    let waiting = [id_of(&gateway.create(body.clone()).await), id_of(&gateway.create(body).await)];
    store.fail(&[Fault::Away, Fault::Panic]);
    upstream.text("Done.").text("Done.");
    gateway.post(&format!("/v1/responses/{first}/cancel"), &json!({})).await;
    for id in &waiting {
        assert_eq!(text_of(&ended(&gateway, id).await), "Done.");
    }
    assert!(!store.has_faults_left());
}
