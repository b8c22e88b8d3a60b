//! Creates with one `Idempotency-Key` at both replicas.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{Fleet, id_of, slow_answer, words};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, JsonBody, frames, text_of};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::Reply;

/// An answer, byte for byte.
#[derive(Debug)]
struct Raw {
    status: u16,
    is_replayed: bool,
    text: String,
}

async fn send(gateway: &Gateway, key: &str, body: &Value) -> Raw {
    let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(body);
    let answer = request.header("idempotency-key", key).send().await.unwrap();
    let (status, is_replayed) =
        (answer.status().as_u16(), answer.headers().contains_key("idempotent-replayed"));
    Raw { status, is_replayed, text: answer.text().await.unwrap() }
}

fn body(kind: &str) -> Value {
    let mut body = json!({"model": "test-model", "input": "Hi"});
    if kind != "json" {
        body[kind] = json!(true);
    }
    body
}

async fn listed(gateway: &Gateway) -> usize {
    gateway.get("/v1/responses").await.body["data"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_at_both_at_once_with_one_key_are_one_run() {
    for kind in ["json", "stream"] {
        let fleet = Fleet::new().await;
        let replicas = fleet.two().await;
        fleet.upstream.reply(slow_answer(4, 60));
        let body = body(kind);
        let answers = join_all((0..10).map(|n| send(&replicas[n % 2], "k", &body))).await;
        for answer in &answers {
            assert_eq!((answer.status, &answer.text), (200, &answers[0].text), "{kind}");
        }
        assert_eq!(answers.iter().filter(|answer| !answer.is_replayed).count(), 1, "{kind}: {answers:?}");
        assert_eq!((fleet.upstream.requests().len(), listed(&replicas[1]).await), (1, 1), "{kind}");
        for replica in &replicas {
            let later = send(replica, "k", &body).await;
            assert_eq!(
                (later.is_replayed, &later.text),
                (true, &answers[0].text),
                "{kind}: the same bytes later"
            );
        }
        assert_eq!(fleet.upstream.requests().len(), 1, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_background_response_is_queued_once_for_a_key() {
    let fleet = Fleet::new().await;
    let replicas = fleet.two().await;
    fleet.upstream.reply(slow_answer(4, 60));
    let body = body("background");
    let answers = join_all((0..6).map(|n| send(&replicas[n % 2], "k", &body))).await;
    let of = |answer: &Raw| id_of(&serde_json::from_str(&answer.text).unwrap());
    let id = of(&answers[0]);
    assert!(answers.iter().all(|answer| answer.status == 200 && of(answer) == id), "{answers:?}");
    let response = super::becomes(&replicas[1], &id, "completed").await;
    assert_eq!(text_of(&response), words(4));
    assert_eq!((fleet.upstream.requests().len(), listed(&replicas[0]).await), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_whose_client_gave_up_is_repeated_at_the_other_and_followed_there() {
    let fleet = Fleet::new().await;
    let [one, two] = fleet.two().await;
    fleet.upstream.reply(slow_answer(8, 80));
    let request = one.http.post(format!("{}/v1/responses", one.base)).json_body(&body("stream"));
    let mut first = request.header("idempotency-key", "k").send().await.unwrap();
    let seen = String::from_utf8(first.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    drop(first);
    let whole = send(&two, "k", &body("stream")).await;
    assert!(whole.is_replayed && whole.text.starts_with(&seen), "{whole:?}");
    assert_eq!(text_of(&assert_valid_stream(&frames(&whole.text)).response), words(8));
    assert_eq!(fleet.upstream.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_was_used_at_one_for_another_request_is_refused_at_the_other() {
    let fleet = Fleet::new().await;
    let [one, two] = fleet.two().await;
    assert_eq!(send(&one, "k", &body("json")).await.status, 200);
    let other = json!({"model": "test-model", "input": "Something else"});
    let refused = send(&two, "k", &other).await;
    assert!(refused.status == 409 && refused.text.contains("idempotency_key_reused"), "{refused:?}");
    // Nothing came of a request that the provider refused: its key is free, at both.
    fleet.upstream.reply(Reply::Status(400, vec![], r#"{"error":{"message":"no"}}"#.into()));
    assert_eq!(send(&one, "l", &body("json")).await.status, 400);
    fleet.upstream.text("now");
    let again = send(&two, "l", &body("json")).await;
    assert_eq!((again.status, again.is_replayed), (200, false), "{again:?}");
}

/// It is deleted at one, while it is waited for at the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_at_one_for_what_the_other_deletes_are_told_so() {
    let fleet = Fleet::new().await;
    let [one, two] = fleet.two().await;
    fleet.upstream.reply(Reply::After(Duration::from_secs(20), Box::new(slow_answer(1, 1))));
    let body = body("json");
    let waits = send(&two, "k", &body);
    let delete = async {
        let mut id = String::new();
        let is_listed = async || {
            let found = one.get("/v1/responses").await.body["data"][0]["id"].clone();
            id = found.as_str().unwrap_or_default().to_owned();
            !id.is_empty()
        };
        assert!(eventually(is_listed).await, "it is listed while it runs");
        let deletes = async { one.delete(&format!("/v1/responses/{id}")).await.status };
        let again = send(&one, "k", &body);
        tokio::join!(deletes, again)
    };
    let (waited, (deleted, again)) = tokio::join!(waits, delete);
    assert_eq!(deleted, 200);
    assert!(waited.status != 200 || waited.text.contains("cancelled"), "{waited:?}");
    assert!([200, 410].contains(&again.status), "{again:?}");
}

/// It was told that the response had been deleted, and not to try again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_at_one_for_what_is_refused_at_the_other_may_try_again() {
    let fleet = Fleet::new().await;
    let [one, two] = fleet.two().await;
    let no = Reply::Status(400, vec![], r#"{"error":{"message":"no"}}"#.into());
    fleet.upstream.reply(Reply::After(Duration::from_secs(3), Box::new(no)));
    let body = body("json");
    let first = send(&one, "k", &body);
    let second = async {
        assert!(eventually(async || !fleet.upstream.requests().is_empty()).await);
        send(&two, "k", &body).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.status, 400, "{first:?}");
    assert!(second.status == 409 && second.text.contains("idempotency_key_released"), "{second:?}");
    fleet.upstream.text("now");
    let again = send(&two, "k", &body).await;
    assert_eq!((again.status, again.is_replayed), (200, false), "{again:?}");
}
