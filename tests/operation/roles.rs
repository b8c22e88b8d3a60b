//! What a process does by its role.

use std::sync::Arc;

use antwort::config::{Role, Settings};
use antwort::store::Store;
use antwort_store_sqlite::{Location, SqliteOptions, SqliteStore};
use secrecy::SecretBox;
use serde_json::json;

use antwort_test_support::eventually;
use antwort_test_support::gateway::{Builder, Gateway, text_of};
use antwort_test_support::upstream::Upstream;

/// A process of this role. All of a test have one store and one key.
fn process(upstream: &Upstream, store: &Arc<dyn Store>, role: Role) -> Builder {
    let set = move |settings: &mut Settings| {
        settings.role = role;
        settings.seal.keys = vec![Arc::new(SecretBox::new(Box::new([7; 32])))];
    };
    Gateway::with_upstream(upstream).set(set).store(Arc::clone(store))
}

fn store() -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(SqliteOptions::new(Location::Memory, "test")).unwrap())
}

#[tokio::test]
async fn a_worker_makes_the_background_runs_of_a_gateway_which_makes_none() {
    let (upstream, workers_upstream) = (Upstream::spawn().await, Upstream::spawn().await);
    let store = store();
    let gateway = process(&upstream, &store, Role::Gateway).spawn().await;
    let _worker = process(&workers_upstream, &store, Role::Worker).spawn().await;
    upstream.text("Made at once.");
    let now = gateway.create(json!({"model": "test-model", "input": "Hi"})).await;
    assert_eq!(text_of(&now), "Made at once.");
    let mut ids = Vec::new();
    for _ in 0..4 {
        workers_upstream.text("Made by the worker.");
        let queued = gateway.create(json!({"model": "test-model", "input": "Hi", "background": true})).await;
        ids.push(queued["id"].as_str().unwrap().to_owned());
    }
    for id in &ids {
        let read = async || gateway.get(&format!("/v1/responses/{id}")).await.body;
        assert!(eventually(async || read().await["status"] == "completed").await, "{:#}", read().await);
        assert_eq!(text_of(&read().await), "Made by the worker.");
    }
    assert_eq!((upstream.requests().len(), workers_upstream.requests().len()), (1, 4));
}

#[tokio::test]
async fn a_worker_serves_probes_and_metrics_and_nothing_else() {
    let upstream = Upstream::spawn().await;
    let worker = process(&upstream, &store(), Role::Worker).spawn().await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(worker.get(path).await.status, 200, "{path}");
    }
    for path in
        ["/v1/models", "/v1/responses", "/v1/responses/resp_1", "/v1/conversations/conv_1", "/openapi.yaml"]
    {
        assert_eq!(worker.get(path).await.status, 404, "{path}");
    }
    for path in ["/v1/responses", "/v1/responses/input_tokens", "/v1/chat/completions", "/v1/conversations"] {
        let refused = worker.post(path, &json!({"model": "test-model", "input": "Hi"})).await;
        assert_eq!(refused.status, 404, "{path}: {refused:?}");
    }
    assert_eq!(upstream.requests().len(), 0);
}
