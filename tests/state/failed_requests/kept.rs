//! How many are kept, and which; idempotency keys and clients that have gone.

use std::time::Duration;

use serde_json::json;

use super::{Bed, ask, fail, listed, models, on_both, refusal, send, until_listed};
use antwort_test_support::eventually;
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::upstream::Reply;

on_both! {
    the_oldest_of_a_tenant_go_first,
    the_same_request_with_its_key_is_a_new_attempt,
    one_whose_client_has_gone_leaves_a_row_if_its_run_went_on,
}

async fn the_oldest_of_a_tenant_go_first(bed: Bed) {
    let gateway = bed.gateway(|settings| settings.store.failed_requests = 3).await;
    bed.upstream.text("Kept.");
    assert_eq!(send(&gateway, "key-alice", "POST", "/v1/responses", Some(&ask("m0"))).await.status, 200);
    fail(&bed, &gateway, "key-other", &ask("of-another-tenant")).await;
    for (n, key) in (1..).zip(["key-alice", "key-bob", "key-alice", "key-bob", "key-alice"]) {
        fail(&bed, &gateway, key, &ask(&format!("m{n}"))).await;
    }
    let shown = async |key: &str| {
        let rows = listed(&gateway, key, "").await;
        models(&rows).join(" ")
    };
    let are_left = async || shown("key-alice").await == "m5 m3 m0" && shown("key-bob").await == "m4";
    assert!(eventually(are_left).await, "{} / {}", shown("key-alice").await, shown("key-bob").await);
    assert_eq!(shown("key-other").await, "of-another-tenant", "each tenant has its own");
}

async fn the_same_request_with_its_key_is_a_new_attempt(bed: Bed) {
    let gateway = bed.gateway(|_| ()).await;
    for stream in [false, true] {
        let key = format!("key-{stream}");
        let mut body = ask(&format!("model-{stream}"));
        body["stream"] = stream.into();
        let create = async || {
            let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&body);
            let request = request.header("authorization", "Bearer key-alice").header("idempotency-key", &key);
            let answer = gateway.send(request).await;
            (answer.status, answer.headers.get("idempotent-replayed").is_some())
        };
        bed.upstream.reply(refusal());
        assert_eq!(create().await, (400, false));
        bed.upstream.text("Hello.");
        assert_eq!((create().await, create().await), ((200, false), (200, true)), "stream: {stream}");
        let query = format!("&model=model-{stream}");
        let are_there = async || listed(&gateway, "key-alice", &query).await.len() == 2;
        assert!(eventually(are_there).await, "{:#?}", listed(&gateway, "key-alice", &query).await);
        let rows = listed(&gateway, "key-alice", &query).await;
        assert_eq!((&rows[0]["status"], &rows[1]["status"]), (&json!("completed"), &json!("failed")));
    }
}

async fn one_whose_client_has_gone_leaves_a_row_if_its_run_went_on(bed: Bed) {
    let gateway = bed.gateway(|_| ()).await;
    bed.upstream.reply(Reply::After(Duration::from_millis(500), Box::new(refusal())));
    let mut body = ask("test-model");
    body["antwort"] = json!({"on_disconnect": "continue"});
    let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&body);
    let create = request.header("authorization", "Bearer key-alice").send();
    let is_asked = eventually(async || bed.upstream.requests().len() == 1);
    tokio::select! {
        biased;
        asked = is_asked => assert!(asked),
        answer = create => panic!("{answer:?}"),
    }
    let ended = async || listed(&gateway, "key-alice", "&status=failed").await.len() == 1;
    assert!(eventually(ended).await, "{:#?}", listed(&gateway, "key-alice", "").await);
    let rows = until_listed(&gateway, "key-alice", 1).await;
    assert!(!rows[0].to_string().contains("words of"), "what was begun of it is withdrawn: {:#}", rows[0]);
}
