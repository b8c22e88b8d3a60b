//! What cannot be made in the background is refused at once, as it would be otherwise.

use antwort::config::StorePolicy;
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::json;

use super::ask;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::Upstream;

#[tokio::test]
async fn a_request_that_a_run_would_refuse_is_refused_and_not_queued() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let with = |field: &str, value| {
        let mut body = ask();
        body[field] = value;
        body
    };
    let body = with("previous_response_id", json!("resp_none"));
    gateway.refuse(body, 400, "previous_response_not_found").await;
    gateway.refuse(with("conversation", json!("conv_none")), 404, "not_found").await;
    let output = json!([{"type": "function_call_output", "call_id": "c", "output": "x"}]);
    gateway.refuse(with("input", output), 400, "tool_call_not_found").await;
    gateway.refuse(with("background", json!("yes")), 400, "invalid_type").await;
    assert_eq!(gateway.get("/v1/responses").await.body["data"], json!([]));
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_key_that_stores_nothing_has_no_background_responses() {
    let upstream = Upstream::spawn().await;
    for policy in [StorePolicy::Never, StorePolicy::Refuse] {
        let gateway = Gateway::with_upstream(&upstream).set(|settings| {
            let hash = digest(&SHA256, b"secret").as_ref().try_into().unwrap();
            let key = antwort::config::ApiKeySettings {
                hash,
                tenant: "acme".into(),
                owner: "ann".into(),
                scopes: vec![antwort::config::Scope::All],
                dialect: None,
                client_action_status: None,
                store: policy,
                max_runs: None,
            };
            settings.auth.keys.insert("key".to_owned(), key);
        });
        let gateway = gateway.spawn().await.with_header("authorization", "Bearer secret");
        let error = gateway.refuse(ask(), 400, "unsupported_parameter").await;
        assert_eq!(error["param"], "background");
    }
}
