//! Runs that come to nothing leave their key free; failed ones that have done something do not.

use std::time::Duration;

use serde_json::json;

use super::{Raw, ask, keyed, listed, send};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, frames};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

fn overloaded() -> Reply {
    Reply::Status(400, vec![], json!({"error": {"message": "no"}}).to_string())
}

#[tokio::test]
async fn a_refused_run_leaves_no_key_and_no_row_but_that_of_its_failure() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for stream in [false, true] {
        let key = format!("key-{stream}");
        upstream.reply(overloaded());
        let refused = send(&gateway, &key, &ask(stream)).await;
        assert!((400..600).contains(&refused.status), "{refused:?}");
        // Of each before it a failed one and a completed one.
        let rows = 2 * usize::from(stream) + 1;
        assert!(eventually(async || listed(&gateway).await.len() == rows).await);
        let running = gateway.get("/v1/responses?status=in_progress").await.body;
        assert_eq!(running["data"], json!([]));
        let again = send(&gateway, &key, &ask(stream)).await;
        assert_eq!((again.status, again.is_replayed()), (200, false), "a new attempt: {again:?}");
        assert_eq!(send(&gateway, &key, &ask(stream)).await.text, again.text);
    }
    assert_eq!(upstream.requests().len(), 4);
}

#[tokio::test]
async fn those_who_wait_for_a_run_that_is_refused_get_its_error() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for stream in [false, true] {
        let key = format!("key-{stream}");
        let asked = upstream.requests().len();
        upstream.reply(Reply::After(Duration::from_millis(400), Box::new(overloaded())));
        let body = ask(stream);
        let first = keyed(&gateway.base, &key, &body).send();
        let second = async {
            assert!(eventually(async || upstream.requests().len() == asked + 1).await);
            send(&gateway, &key, &body).await
        };
        let (first, second) = tokio::join!(first, second);
        let first = Raw::of(first.unwrap()).await;
        assert_eq!((second.status, &second.json()), (first.status, &first.json()), "stream: {stream}");
        assert_eq!(upstream.requests().len(), asked + 1, "the provider is not asked again for it");
    }
}

#[tokio::test]
async fn a_bad_request_can_be_corrected_under_its_key() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut wrong = ask(false);
    wrong["previous_response_id"] = "resp_unknown".into();
    assert_eq!(send(&gateway, "k", &wrong).await.status, 400);
    assert_eq!(send(&gateway, "k", &ask(false)).await.status, 200);
}

#[tokio::test]
async fn a_run_that_failed_after_a_call_keeps_its_key_and_its_failed_response() {
    let upstream = Upstream::spawn().await;
    let (builder, seen) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    for (n, stream) in [(1, false), (2, true)] {
        let key = format!("key-{stream}");
        upstream.reply(Reply::Calls(vec![("noop", json!({}))])).reply(overloaded());
        let mut body = ask(stream);
        body["tools"] = json!([{"type": "mcp", "server_label": "antwort"}]);
        let first = send(&gateway, &key, &body).await;
        let again = send(&gateway, &key, &body).await;
        assert!(again.is_replayed());
        assert_eq!((first.status, &first.text), (again.status, &again.text));
        let response = if stream { assert_valid_stream(&frames(&again.text)).response } else { again.json() };
        assert_eq!(response["status"], "failed");
        assert_eq!((seen.count("noop"), upstream.requests().len()), (n, 2 * n), "nothing is done twice");
    }
}

#[tokio::test]
async fn a_stream_that_failed_once_it_was_shown_is_sent_again_as_it_was() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"content": "Hel"})),
        Step::Wait(Duration::from_millis(200)),
        Step::Cut,
    ]));
    let first = send(&gateway, "k", &ask(true)).await;
    assert_eq!(assert_valid_stream(&frames(&first.text)).response["status"], "failed");
    assert_eq!(send(&gateway, "k", &ask(true)).await.text, first.text);
}
