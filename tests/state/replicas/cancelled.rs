//! Responses that run at one replica and are cancelled at the other.

use serde_json::{Value, json};

use super::{Fleet, becomes, endless, id_of, in_background, queue, read};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, HttpAnswer, frames, text_of};
use antwort_test_support::stream_validator::assert_valid_stream;

async fn cancel(gateway: &Gateway, id: &str) -> HttpAnswer {
    gateway.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await
}

/// A stream that has said `Hello`, with what was read of it.
async fn open(gateway: &Gateway, body: Value) -> (reqwest::Response, String, String) {
    let mut stream = gateway.open_stream(body).await;
    let mut seen = String::new();
    while !seen.contains("\"lo\"") {
        seen.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    let created = seen.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let created: Value = serde_json::from_str(created).unwrap();
    (stream, seen, id_of(&created["response"]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_stream_is_cancelled_at_the_other_with_what_it_has() {
    for background in [false, true] {
        let fleet = Fleet::new().await;
        let [front, back] = fleet.front_and_back().await;
        fleet.upstream.reply(endless());
        let mut body = in_background();
        body["background"] = json!(background);
        let (stream, seen, id) = open(&front, body).await;
        becomes(&back, &id, "in_progress").await;
        let cancelled = cancel(if background { &front } else { &back }, &id).await;
        assert_eq!((cancelled.status, &cancelled.body["status"]), (200, &json!("cancelled")), "{background}");
        assert_eq!(text_of(&cancelled.body), "Hello", "what it has is kept");
        let streamed = assert_valid_stream(&frames(&(seen + &stream.text().await.unwrap()))).response;
        assert_eq!(streamed, cancelled.body, "{background}");
        for replica in [&front, &back] {
            assert_eq!(read(replica, &id).await, cancelled.body, "{background}");
            let late = cancel(replica, &id).await;
            match background {
                true => assert_eq!((late.status, &late.body), (200, &cancelled.body)),
                false => assert_eq!(late.body["error"]["code"], "response_not_cancellable"),
            }
        }
        assert!(eventually(async || fleet.upstream.open_streams() == 0).await, "the provider is left alone");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_may_cancel_at_once() {
    let fleet = Fleet::new().await;
    let [one, two] = fleet.two().await;
    for _ in 0..3 {
        fleet.upstream.reply(endless());
        let id = queue(&one).await;
        becomes(&two, &id, "in_progress").await;
        let (first, second) = tokio::join!(cancel(&one, &id), cancel(&two, &id));
        assert_eq!([first.status, second.status], [200, 200], "{first:?} {second:?}");
        assert_eq!(first.body["status"], "cancelled");
        assert_eq!(first.body, second.body);
    }
}

/// A response that waits for a worker is ended by whoever cancels it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_response_is_cancelled_and_never_made() {
    let fleet = Fleet::new().await;
    let front = || fleet.builder().set(|settings| settings.role = antwort::config::Role::Gateway).spawn();
    let (one, two) = (front().await, front().await);
    let id = queue(&one).await;
    let (first, second) = tokio::join!(cancel(&one, &id), cancel(&two, &id));
    for answer in [&first, &second] {
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!("cancelled")), "{answer:?}");
    }
    let back = fleet.replica().await;
    fleet.upstream.text("another");
    let other = queue(&two).await;
    assert_eq!(text_of(&becomes(&back, &other, "completed").await), "another");
    assert_eq!((read(&back, &id).await, fleet.upstream.requests().len()), (first.body, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_at_one_ends_what_runs_at_the_other() {
    let fleet = Fleet::new().await;
    let [front, back] = fleet.front_and_back().await;
    fleet.upstream.reply(endless());
    let id = queue(&front).await;
    becomes(&front, &id, "in_progress").await;
    assert!(eventually(async || fleet.upstream.open_streams() == 1).await);
    assert_eq!(front.delete(&format!("/v1/responses/{id}")).await.status, 200);
    assert!(eventually(async || fleet.upstream.open_streams() == 0).await, "the provider is left alone");
    assert_eq!(back.get(&format!("/v1/responses/{id}")).await.status, 404);
}
