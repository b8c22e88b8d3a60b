//! Background responses that are cancelled or deleted, while they wait and while they run.

use serde_json::json;

use super::{ask, ended, id_of, read, slow_answer};
use crate::support::eventually;
use crate::support::gateway::{Gateway, frames};
use crate::support::stream_validator::assert_valid_stream;
use crate::support::upstream::Upstream;

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
