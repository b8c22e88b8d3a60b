//! Requests that fail and leave no row.

use super::{Bed, ask, fail, listed, models, on_both, send};

on_both! {
    those_that_are_not_to_be_stored_leave_none,
    with_a_limit_of_zero_none_are_left,
}

/// What is stored, once a later request is: rows are written in their order.
async fn stored_after_another(bed: &Bed, gateway: &super::Gateway, key: &str) -> String {
    bed.upstream.text("Hello.");
    assert_eq!(send(gateway, key, "POST", "/v1/responses", Some(&ask("later"))).await.status, 200);
    let rows = listed(gateway, key, "").await;
    models(&rows).join(" ")
}

async fn those_that_are_not_to_be_stored_leave_none(bed: Bed) {
    let gateway = bed.gateway(|_| ()).await;
    for stream in [false, true] {
        let mut body = ask("unstored");
        body["store"] = false.into();
        body["stream"] = stream.into();
        fail(&bed, &gateway, "key-alice", &body).await;
        let mut body = ask("never");
        body["stream"] = stream.into();
        fail(&bed, &gateway, "key-private", &body).await;
    }
    // Refused before the model was to be asked.
    let mut body = ask("wrong");
    body["previous_response_id"] = "resp_none".into();
    assert_eq!(send(&gateway, "key-alice", "POST", "/v1/responses", Some(&body)).await.status, 400);
    assert_eq!(stored_after_another(&bed, &gateway, "key-alice").await, "later");
    assert_eq!(listed(&gateway, "key-private", "").await.len(), 0);
}

async fn with_a_limit_of_zero_none_are_left(bed: Bed) {
    let gateway = bed.gateway(|settings| settings.store.failed_requests = 0).await;
    fail(&bed, &gateway, "key-alice", &ask("failed")).await;
    assert_eq!(stored_after_another(&bed, &gateway, "key-alice").await, "later");
}
