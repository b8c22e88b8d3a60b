//! `GET /v1/responses/{id}?stream=true`: the stream of a response, again or from an event on.

mod elsewhere;
mod refused;

use std::time::Duration;

use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, JsonBody, frames};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

/// A create whose events are kept.
async fn create(gateway: &Gateway) -> reqwest::Response {
    let body = json!({"model": "test-model", "input": "Hi", "stream": true});
    let http = reqwest::Client::new();
    let create = http.post(format!("{}/v1/responses", gateway.base)).json_body(&body);
    create.header("idempotency-key", "k").send().await.unwrap()
}

async fn open(gateway: &Gateway, id: &str, query: &str) -> reqwest::Response {
    reqwest::get(format!("{}/v1/responses/{id}?{query}", gateway.base)).await.unwrap()
}

/// The whole of a stream.
async fn read(gateway: &Gateway, id: &str, query: &str) -> String {
    let response = open(gateway, id, query).await;
    assert_eq!(response.status(), 200);
    response.text().await.unwrap()
}

/// The id of the response of a stream that has begun.
fn id_of(text: &str) -> String {
    let (_, begun) = text.split_once("data: ").unwrap();
    let first: Value = serde_json::from_str(begun.split_once("\n\n").unwrap().0).unwrap();
    first["response"]["id"].as_str().unwrap().to_owned()
}

/// What is behind the first `count` events.
fn behind(text: &str, count: usize) -> &str {
    let ends: Vec<_> = text.match_indices("\n\n").map(|(at, end)| at + end.len()).collect();
    if count == 0 { text } else { &text[ends[count - 1]..] }
}

/// A few words, with a pause between them.
fn slow_answer(pause: u64) -> Reply {
    let mut steps = vec![chunk(json!({"role": "assistant", "content": ""}))];
    for n in 0..6 {
        steps.extend([
            chunk(json!({"content": format!("word {n} ")})),
            Step::Wait(Duration::from_millis(pause)),
        ]);
    }
    steps.extend([finish("stop"), usage(5, 6), done()]);
    Reply::Stream(steps)
}

#[tokio::test]
async fn the_stream_of_an_ended_response_is_sent_again_from_any_event_on() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(slow_answer(60));
    let first = create(&gateway).await.text().await.unwrap();
    let (id, events) = (id_of(&first), frames(&first).len());
    let again = open(&gateway, &id, "stream=true").await;
    assert_eq!(again.headers()["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(again.headers()["cache-control"], "no-cache");
    let again = again.text().await.unwrap();
    assert_eq!(again, first);
    assert_eq!(assert_valid_stream(&frames(&again)).response["status"], "completed");
    for last in 0..events {
        let rest = read(&gateway, &id, &format!("stream=true&starting_after={last}")).await;
        assert_eq!(rest, behind(&first, last + 1), "behind event {last}");
    }
    for beyond in [events, events + 1000] {
        let rest = read(&gateway, &id, &format!("stream=true&starting_after={beyond}")).await;
        assert_eq!(rest, "data: [DONE]\n\n", "there is nothing behind the end");
    }
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_running_response_is_followed_to_its_end() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(slow_answer(120));
    let mut first = create(&gateway).await;
    let mut seen = String::from_utf8(first.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    let id = id_of(&seen);
    let (whole, rest, ahead) = tokio::join!(
        read(&gateway, &id, "stream=true"),
        read(&gateway, &id, "stream=true&starting_after=1"),
        // An event that has not happened yet is waited for.
        read(&gateway, &id, "stream=true&starting_after=7"),
    );
    while let Some(more) = first.chunk().await.unwrap() {
        seen.push_str(std::str::from_utf8(&more).unwrap());
    }
    assert_eq!(whole, seen);
    assert_eq!((&rest[..], &ahead[..]), (behind(&seen, 2), behind(&seen, 8)));
}

#[tokio::test]
async fn a_stream_whose_client_has_gone_is_resumed_where_it_broke() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(slow_answer(120));
    let mut first = create(&gateway).await;
    let mut seen = String::new();
    while seen.matches("\n\n").count() < 5 {
        seen.push_str(std::str::from_utf8(&first.chunk().await.unwrap().unwrap()).unwrap());
    }
    drop(first);
    let whole = &seen[..seen.rfind("\n\n").unwrap() + 2];
    let (id, events) = (id_of(whole), whole.matches("\n\n").count());
    let rest = read(&gateway, &id, &format!("stream=true&starting_after={}", events - 1)).await;
    let response = assert_valid_stream(&frames(&format!("{whole}{rest}"))).response;
    assert_eq!(response["status"], "completed");
    assert_eq!(response["output"][0]["content"][0]["text"], "word 0 word 1 word 2 word 3 word 4 word 5 ");
}

#[tokio::test]
async fn an_idle_stream_that_is_followed_is_kept_alive() {
    let upstream = Upstream::spawn().await;
    let often = |settings: &mut antwort::config::Settings| {
        settings.sse.keepalive = Duration::from_millis(50);
    };
    let gateway = Gateway::with_upstream(&upstream).set(often).spawn().await;
    upstream.reply(slow_answer(200));
    let mut first = create(&gateway).await;
    let seen = String::from_utf8(first.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    let followed = read(&gateway, &id_of(&seen), "stream=true&starting_after=10").await;
    assert!(followed.starts_with(": keepalive\n\n"), "{followed}");
}
