//! When status 200 is sent, and what keeps a silent stream alive.

use std::time::Duration;

use antwort::config::Settings;
use serde_json::json;

use super::{ask, id_in, read_until, text};
use antwort_test_support::gateway::{Gateway, frames};
use antwort_test_support::stream_validator;
use antwort_test_support::upstream::{Reply, Step, Upstream, done, finish};

fn quick(settings: &mut Settings) {
    settings.sse.commit_after = Duration::from_millis(100);
    settings.sse.keepalive = Duration::from_millis(100);
}

fn keepalives(stream: &str) -> usize {
    stream.matches(": keepalive\n\n").count()
}

#[tokio::test]
async fn a_slow_provider_is_waited_for_in_an_open_stream_that_is_kept_alive() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(quick).spawn().await;
    let answer = Reply::Stream(vec![text("Hi"), finish("stop"), done()]);
    upstream.reply(Reply::After(Duration::from_millis(1500), Box::new(answer)));
    let mut response = gateway.open_stream(ask()).await;
    assert_eq!(response.status(), 200);
    let before = read_until(&mut response, "output_item.added").await;
    assert!(before.starts_with("event: response.created\n"), "{before}");
    let (created, waiting) = before.split_once(": keepalive").expect("kept alive");
    assert!(created.contains("response.in_progress") && keepalives(waiting) >= 3, "{before}");
    let mut all = before;
    while let Some(piece) = response.chunk().await.unwrap() {
        all.push_str(std::str::from_utf8(&piece).unwrap());
    }
    assert_eq!(stream_validator::assert_valid_stream(&frames(&all)).response["status"], "completed");
}

#[tokio::test]
async fn a_failure_before_status_200_is_a_status_and_after_it_an_event() {
    let upstream = Upstream::spawn().await;
    let late = || {
        let refusal = Reply::Status(422, vec![], "no such thing".into());
        Reply::After(Duration::from_millis(1500), Box::new(refusal))
    };
    let patience = |settings: &mut Settings| settings.sse.commit_after = Duration::from_secs(30);
    let patient = Gateway::with_upstream(&upstream).set(patience).spawn().await;
    upstream.reply(late());
    let mut body = ask();
    body["stream"] = true.into();
    patient.refuse(body, 422, "upstream_rejected_request").await;

    // As by default: an interface has an id to show, and to cancel, after a second.
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(late());
    let streamed = gateway.stream(ask()).await;
    let types: Vec<_> = streamed.events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["response.created", "response.in_progress", "error", "response.failed"]);
    assert_eq!(streamed.response["error"]["code"], "upstream_rejected_request");
    let stored = gateway.get(&format!("/v1/responses/{}", streamed.response["id"].as_str().unwrap())).await;
    assert_eq!(stored.body, streamed.response);

    // Without a stream nobody sees a status before the answer: it is always a real one.
    upstream.reply(late());
    gateway.refuse(ask(), 422, "upstream_rejected_request").await;
}

#[tokio::test]
async fn silence_between_words_is_filled_with_comments() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(quick).spawn().await;
    let slow = || vec![text("Hel"), Step::Wait(Duration::from_secs(1)), text("lo"), finish("stop"), done()];
    upstream.reply(Reply::Stream(slow()));
    let all = gateway.open_stream(ask()).await.text().await.unwrap();
    assert!((3..=12).contains(&keepalives(&all)), "{all}");
    let (before, after) = all.split_once("\"delta\":\"lo\"").unwrap();
    assert!(
        keepalives(before) >= 3 && keepalives(after) <= 1,
        "comments come while nothing else does: {all}"
    );
    assert_eq!(stream_validator::assert_valid_stream(&frames(&all)).response["status"], "completed");

    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Stream(slow()));
    assert_eq!(keepalives(&gateway.open_stream(ask()).await.text().await.unwrap()), 0, "15 s by default");
}

#[tokio::test]
async fn what_arrives_is_sent_at_once_and_unbuffered() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Stream(vec![text("Hel"), Step::Hang]));
    let mut response = gateway.open_stream(ask()).await;
    for (name, value) in [
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("x-accel-buffering", "no"),
    ] {
        assert_eq!(response.headers()[name], value, "{name}");
    }
    assert!(response.headers().get("content-encoding").is_none());
    let seen = read_until(&mut response, "\"delta\":\"Hel\"").await;
    assert!(!seen.lines().any(|line| line.starts_with("id:")), "no ids: nothing could be resumed by them");
    let running = gateway.get(&format!("/v1/responses/{}", id_in(&seen))).await;
    assert!(matches!(running.status, 200 | 404), "{}", running.status);
}

#[tokio::test]
async fn a_stream_that_goes_on_is_known_by_its_id_while_it_runs() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Stream(vec![text("Hel"), Step::Hang]));
    let mut response = gateway.open_stream(ask()).await;
    let id = id_in(&read_until(&mut response, "delta").await);
    let path = format!("/v1/responses/{id}");
    let running = async || gateway.get(&path).await.body["status"] == "in_progress";
    assert!(antwort_test_support::eventually(running).await, "recorded after half a second");
    let body = json!({"model": "test-model", "input": "More", "previous_response_id": id});
    gateway.refuse(body, 400, "previous_response_in_progress").await;
    // Deleted while it runs, it stays deleted.
    assert_eq!(gateway.delete(&path).await.status, 200);
    drop(response);
    assert!(antwort_test_support::eventually(async || upstream.open_streams() == 0).await);
    let idle = async || gateway.get("/metrics").await.body.to_string().contains("antwort_runs_active 0");
    assert!(antwort_test_support::eventually(idle).await);
    assert_eq!(gateway.get(&path).await.status, 404);
}
