//! When a provider is asked again, and when it must not be.

use std::time::{Duration, Instant};

use antwort::config::ProviderSettings;
use serde_json::{Value, json};

use super::{ask, outcome};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, JsonBody, text_of};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

fn busy() -> Reply {
    Reply::Status(503, vec![], "busy".into())
}

fn wait(status: u16, seconds: &'static str) -> Reply {
    Reply::Status(status, vec![("retry-after", seconds)], "wait".into())
}

fn streamed() -> Value {
    json!({"model": "test-model", "input": "Hi", "stream": true})
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_and_the_client_sees_nothing_of_it() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let cut = || Reply::Stream(vec![chunk(json!({"role": "assistant"})), Step::Cut]);
    for first in [busy(), Reply::Status(502, vec![], String::new()), wait(429, "0"), cut()] {
        upstream.reply(first).text("Hello");
        assert_eq!(outcome(&gateway, ask()).await, ("completed".into(), String::new(), "Hello".into()));
    }
    upstream.reply(busy()).reply(busy()).text("Hello");
    assert_eq!(text_of(&gateway.create(ask()).await), "Hello");
    let asked = upstream.requests();
    assert_eq!(asked.len(), 11);
    assert_eq!(asked[0].raw, asked[1].raw, "the same is asked again");
}

#[tokio::test]
async fn tries_are_counted_and_mistakes_are_not_repeated() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(busy()).reply(busy()).reply(busy());
    gateway.refuse(streamed(), 503, "upstream_unavailable").await;
    assert_eq!(upstream.requests().len(), 3, "one try and two more");
    for (status, code) in [(400, 400), (401, 502), (404, 404), (422, 422), (500, 502)] {
        let before = upstream.requests().len();
        upstream.reply(Reply::Status(status, vec![], "no".into()));
        assert_eq!(gateway.post("/v1/responses", &streamed()).await.status, code);
        assert_eq!(upstream.requests().len(), before + 1, "{status}");
    }
}

/// SDKs try three times. Where each of their tries was three of ours, a provider in trouble got nine requests.
#[tokio::test]
async fn what_the_gateway_has_tried_again_the_client_is_told_not_to() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let cut = || Reply::Stream(vec![chunk(json!({"role": "assistant"})), Step::Cut]);
    let fails: [(fn() -> Reply, u16); 3] = [(busy, 503), (|| wait(429, "0"), 429), (cut, 502)];
    for (fails, status) in fails {
        for body in [ask(), streamed()] {
            upstream.reply(fails()).reply(fails()).reply(fails());
            let answer = gateway.post("/v1/responses", &body).await;
            assert_eq!(
                (answer.status, &answer.headers["x-should-retry"]),
                (status, &"false".parse().unwrap())
            );
            assert_eq!(answer.headers.contains_key("retry-after"), status == 429);
        }
    }
    // What another failure ended is over as well.
    upstream.reply(busy()).reply(Reply::Status(500, vec![], "no".into()));
    let answer = gateway.post("/v1/responses", &ask()).await;
    assert_eq!((answer.status, &answer.headers["x-should-retry"]), (502, &"false".parse().unwrap()));
}

#[tokio::test]
async fn what_the_gateway_has_not_tried_again_is_left_to_the_client() {
    let upstream = Upstream::spawn().await;
    let never = |provider: &mut ProviderSettings| provider.retries.max = 0;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let once = Gateway::with_upstream(&upstream).provider(never).spawn().await;
    // A wait that is too long for the gateway, a failure that it does not repeat, and a gateway that repeats none.
    for (gateway, reply, status) in [
        (&gateway, wait(429, "223920"), 429),
        (&gateway, Reply::Status(500, vec![], "no".into()), 502),
        (&once, busy(), 503),
        (&once, wait(429, "7"), 429),
    ] {
        upstream.reply(reply);
        let answer = gateway.post("/v1/responses", &streamed()).await;
        assert_eq!((answer.status, answer.headers.get("x-should-retry")), (status, None));
    }
}

#[tokio::test]
async fn what_a_client_has_heard_is_never_asked_for_again() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"content": "H"})),
        Step::Wait(Duration::from_millis(50)),
        Step::Cut,
    ]));
    let expected = ("failed".into(), "upstream_disconnected".into(), "H".into());
    assert_eq!(outcome(&gateway, ask()).await, expected);
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn retry_after_is_waited_for_unless_it_is_long() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(wait(429, "1")).text("Hello");
    let asked = Instant::now();
    assert_eq!(text_of(&gateway.create(ask()).await), "Hello");
    assert!(asked.elapsed() >= Duration::from_millis(950), "{:?}", asked.elapsed());
    upstream.reply(wait(429, "223920"));
    let answer = gateway.post("/v1/responses", &ask()).await;
    assert_eq!((answer.status, &answer.headers["retry-after"]), (429, &"223920".parse().unwrap()));
    assert_eq!(upstream.requests().len(), 3);
}

#[tokio::test]
async fn a_provider_is_asked_again_after_status_200_as_long_as_it_has_said_nothing() {
    let upstream = Upstream::spawn().await;
    let early =
        |settings: &mut antwort::config::Settings| settings.sse.commit_after = Duration::from_millis(50);
    let gateway = Gateway::with_upstream(&upstream).set(early).spawn().await;
    upstream.reply(wait(503, "1")).text("Hello");
    let mut response = gateway.open_stream(ask()).await;
    let first = response.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"event: response.created"), "committed while the provider is waited for");
    assert_eq!(upstream.requests().len(), 1);
    let mut rest = Vec::new();
    while let Some(piece) = response.chunk().await.unwrap() {
        rest.extend(piece);
    }
    assert!(String::from_utf8(rest).unwrap().contains("response.completed"));
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn nobody_is_asked_again_for_a_client_that_has_gone() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for body in [ask(), streamed()] {
        let before = upstream.requests().len();
        upstream.reply(wait(503, "2"));
        let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&body).send();
        tokio::select! {
            answer = request => panic!("the provider is still waited for: {answer:?}"),
            asked = eventually(async || upstream.requests().len() == before + 1) => assert!(asked),
        }
        let idle = async || gateway.get("/metrics").await.body.to_string().contains("antwort_runs_active 0");
        assert!(eventually(idle).await, "the run ends with its client");
        assert_eq!(upstream.requests().len(), before + 1);
    }
}

#[tokio::test]
async fn a_provider_that_refuses_stream_options_is_asked_without_from_then_on() {
    let upstream = Upstream::spawn().await;
    let none = |provider: &mut ProviderSettings| provider.retries.max = 0;
    let gateway = Gateway::with_upstream(&upstream).provider(none).spawn().await;
    let words = r#"{"error":{"message":"Unrecognized request argument supplied: stream_options"}}"#;
    upstream
        .reply(Reply::Status(400, vec![("content-type", "application/json")], words.into()))
        .text("Hello");
    assert_eq!(outcome(&gateway, ask()).await, ("completed".into(), String::new(), "Hello".into()));
    gateway.stream(ask()).await;
    let asked: Vec<bool> =
        upstream.requests().iter().map(|request| request.body.get("stream_options").is_some()).collect();
    assert_eq!(asked, [true, false, false]);
}
