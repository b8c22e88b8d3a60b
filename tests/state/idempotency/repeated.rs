//! The same key again, when the run has ended.

use std::io::Write;

use serde_json::json;

use super::{ask, keyed, listed, metric, send};
use antwort_test_support::configured::settings;
use antwort_test_support::gateway::{Gateway, frames};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Upstream};

#[tokio::test]
async fn the_same_create_again_gets_the_same_response_byte_for_byte() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for stream in [false, true] {
        let key = format!("key-{stream}");
        let first = send(&gateway, &key, &ask(stream)).await;
        assert_eq!((first.status, first.is_replayed()), (200, false), "{first:?}");
        for _ in 0..2 {
            let again = send(&gateway, &key, &ask(stream)).await;
            assert_eq!((again.status, again.is_replayed()), (200, true), "{again:?}");
            assert_eq!(again.text, first.text, "stream: {stream}");
            assert_eq!(again.headers["content-type"], first.headers["content-type"]);
        }
        if stream {
            assert_valid_stream(&frames(&first.text));
        }
    }
    assert_eq!((upstream.requests().len(), listed(&gateway).await.len()), (2, 2), "one run for each key");
    let counted = |outcome| metric(&gateway, outcome);
    assert_eq!(counted("antwort_idempotency_keys_total{outcome=\"new\"}").await.as_deref(), Some("2"));
    assert_eq!(counted("antwort_idempotency_keys_total{outcome=\"replayed\"}").await.as_deref(), Some("4"));
}

/// Each in a row of the log beyond the piece that is read at once.
#[tokio::test]
async fn a_stream_with_large_events_is_sent_again_byte_for_byte() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let words: String = (0..3_000).map(|n| format!("{n} {} ", "x".repeat(80))).collect();
    upstream.text(&words);
    let mut body = ask(true);
    body["instructions"] = "Be brief. ".repeat(20_000).into();
    let first = send(&gateway, "large", &body).await;
    let again = send(&gateway, "large", &body).await;
    assert!(first.text.len() > 1_000_000, "{}", first.text.len());
    assert!(again.is_replayed() && again.text == first.text);
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn the_events_of_calls_and_of_obfuscated_deltas_are_sent_again_as_they_were() {
    let upstream = Upstream::spawn().await;
    let (builder, seen) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    upstream
        .reply(Reply::Calls(vec![("echo", json!({"text": "one"})), ("slow", json!({}))]))
        .text("Done, all of it.");
    let mut body = ask(true);
    body["tools"] = json!([{"type": "mcp", "server_label": "antwort"}]);
    body["stream_options"] = json!({"include_obfuscation": true});
    let first = send(&gateway, "calls", &body).await;
    let again = send(&gateway, "calls", &body).await;
    assert!(first.text.contains("\"obfuscation\""));
    assert_eq!(again.text, first.text);
    assert_valid_stream(&frames(&again.text));
    assert_eq!((upstream.requests().len(), seen.count("slow")), (2, 1), "nothing is done twice");
}

#[tokio::test]
async fn the_key_with_another_body_or_dialect_is_a_conflict_that_is_not_retried() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let first = send(&gateway, "k", &ask(false)).await;
    let mut other = ask(false);
    other["input"] = "Bye".into();
    let http = |body| keyed(&gateway.base, "k", body);
    for request in
        [http(&other), http(&ask(true)), http(&ask(false)).header("antwort-dialect", "open_responses")]
    {
        let refused = gateway.send(request).await;
        assert_eq!(refused.status, 409);
        let error = &refused.body["error"];
        assert_eq!(
            (&error["code"], &error["type"], &error["param"]),
            (&json!("idempotency_key_reused"), &json!("conflict"), &json!("idempotency-key"))
        );
        assert_eq!(refused.headers["x-should-retry"], "false");
    }
    assert_eq!(send(&gateway, "k", &ask(false)).await.text, first.text, "the first one counts");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_key_is_its_owners() {
    let upstream = Upstream::spawn().await;
    let keys = "auth: {keys: {alice: {key: key-alice}, laptop: {key: key-laptop, owner: alice}, bob: {key: key-bob}}}";
    let gateway = Gateway::with(settings(&upstream, &[], keys)).spawn().await;
    let mut texts = Vec::new();
    for key in ["key-alice", "key-laptop", "key-bob"] {
        let request =
            keyed(&gateway.base, "shared", &ask(false)).header("authorization", format!("Bearer {key}"));
        let answer = gateway.send(request).await;
        assert_eq!(answer.status, 200);
        texts.push(answer.body["id"].clone());
    }
    assert_eq!(texts[0], texts[1], "another API key of the same owner");
    assert_ne!(texts[0], texts[2], "another owner");
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn a_key_that_cannot_be_kept_is_refused_with_what_to_do() {
    let upstream = Upstream::spawn().await;
    let keys = "auth: {keys: {any: {key: key-any}, never: {key: key-never, store: never}}}";
    let gateway = Gateway::with(settings(&upstream, &[], keys)).spawn().await;
    let mut unstored = ask(false);
    unstored["store"] = false.into();
    let long = "k".repeat(256);
    for (bearer, key, body, code) in [
        ("key-any", "", ask(false), "invalid_value"),
        ("key-any", "a b", ask(false), "invalid_value"),
        ("key-any", &*long, ask(false), "invalid_value"),
        ("key-any", "k", unstored, "unsupported_parameter"),
        ("key-never", "k", ask(false), "unsupported_parameter"),
    ] {
        let request = keyed(&gateway.base, key, &body).header("authorization", format!("Bearer {bearer}"));
        let refused = gateway.send(request).await;
        assert_eq!(refused.status, 400, "{key}");
        assert_eq!(
            (&refused.body["error"]["code"], &refused.body["error"]["param"]),
            (&json!(code), &json!("idempotency-key"))
        );
    }
    let twice = keyed(&gateway.base, "a", &ask(false)).header("idempotency-key", "b");
    let refused = gateway.send(twice.header("authorization", "Bearer key-any")).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (400, &json!("invalid_value")));
    assert_eq!(upstream.requests().len(), 0);
}

#[tokio::test]
async fn a_body_is_the_same_however_it_is_compressed() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let first = send(&gateway, "k", &ask(false)).await;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(ask(false).to_string().as_bytes()).unwrap();
    let headers = [("idempotency-key", "k"), ("content-encoding", "gzip")];
    let again = gateway.post_bytes("/v1/responses", encoder.finish().unwrap(), &headers).await;
    assert_eq!((again.status, &again.headers["idempotent-replayed"]), (200, &"true".parse().unwrap()));
    assert_eq!(again.body, first.json());
}
