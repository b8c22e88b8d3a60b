//! Places of background runs: those of one tenant leave some to others.

use std::time::Duration;

use antwort::config::Settings;
use serde_json::{Value, json};

use super::{ask, id_of, is_over, slow_answer};
use antwort_test_support::configured;
use antwort_test_support::eventually;
use antwort_test_support::fleet::Fleet;
use antwort_test_support::gateway::{Builder, Gateway, JsonBody};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

const KEYS: &str = "
auth:
  keys:
    ann: {key: key-ann, tenant: acme}
    zoe: {key: key-zoe, tenant: zoo}
";

async fn send(gateway: &Gateway, key: &str, body: Option<Value>, path: &str) -> Value {
    let url = format!("{}{path}", gateway.base);
    let request = match body {
        Some(body) => gateway.http.post(url).json_body(&body),
        None => gateway.http.get(url),
    };
    gateway.send(request.header("authorization", format!("Bearer {key}"))).await.body
}

async fn status(gateway: &Gateway, key: &str, id: &str) -> Value {
    send(gateway, key, None, &format!("/v1/responses/{id}")).await["status"].clone()
}

/// Runs that never end, of the tenant that comes first, then one of another.
async fn leave_slots(upstream: &Upstream, builder: Builder) {
    let keys = configured::settings(upstream, &[], KEYS).auth;
    let set = |settings: &mut Settings| {
        settings.auth = keys;
        settings.jobs.concurrency = 4;
        settings.server.drain_timeout = Duration::from_millis(20);
    };
    let gateway = builder.set(set).spawn().await;
    upstream.always(Reply::Stream(vec![chunk(json!({"content": "Hel"})), Step::Hang]));
    let mut slow = Vec::new();
    for _ in 0..8 {
        slow.push(id_of(&send(&gateway, "key-ann", Some(ask()), "/v1/responses").await));
    }
    assert!(eventually(async || upstream.open_streams() == 2).await, "{}", upstream.open_streams());
    upstream.always(slow_answer(1));
    for _ in 0..3 {
        let id = id_of(&send(&gateway, "key-zoe", Some(ask()), "/v1/responses").await);
        let has_ended = async || is_over(&json!({"status": status(&gateway, "key-zoe", &id).await}));
        assert!(eventually(has_ended).await, "it waits behind those of another tenant");
        assert_eq!(status(&gateway, "key-zoe", &id).await, "completed");
    }
    let mut queued = 0;
    for id in &slow {
        queued += usize::from(status(&gateway, "key-ann", id).await == "queued");
    }
    assert_eq!((queued, upstream.open_streams()), (6, 2), "half of the places are for others");
    gateway.stop().await;
}

#[tokio::test]
async fn slow_runs_of_one_tenant_leave_slots_to_others() {
    let upstream = Upstream::spawn().await;
    let folder = tempfile::tempdir().unwrap();
    let builder = Gateway::with_upstream(&upstream).database(folder.path().join("test.db"));
    leave_slots(&upstream, builder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_runs_of_one_tenant_leave_slots_to_others_on_postgresql() {
    let fleet = Fleet::new().await;
    leave_slots(&fleet.upstream, fleet.builder()).await;
}
