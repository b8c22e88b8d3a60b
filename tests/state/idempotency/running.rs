//! The same key while the run goes on, and runs whose client has gone.

use std::time::Duration;

use tokio::task::JoinSet;

use super::{Raw, ask, keyed, listed, metric, send, slow_answer};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, frames};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Upstream};

#[tokio::test]
async fn a_second_create_waits_for_the_response_of_the_first() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::After(Duration::from_millis(400), Box::new(Reply::Text("Hello.".into()))));
    let body = ask(false);
    let first = keyed(&gateway.base, "k", &body).send();
    let second = async {
        assert!(eventually(async || upstream.requests().len() == 1).await);
        send(&gateway, "k", &body).await
    };
    let (first, second) = tokio::join!(first, second);
    let first = Raw::of(first.unwrap()).await;
    assert_eq!((second.status, &second.text), (200, &first.text));
    assert!(second.is_replayed() && !first.is_replayed());
    assert_eq!((upstream.requests().len(), listed(&gateway).await.len()), (1, 1));
}

#[tokio::test]
async fn a_second_stream_follows_the_first_while_it_goes_on() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(slow_answer());
    let mut first = keyed(&gateway.base, "k", &ask(true)).send().await.unwrap();
    let mut seen = first.chunk().await.unwrap().unwrap().to_vec();
    let mut second = keyed(&gateway.base, "k", &ask(true)).send().await.unwrap();
    assert_eq!(second.headers()["idempotent-replayed"], "true");
    let mut followed = second.chunk().await.unwrap().unwrap().to_vec();
    assert_eq!(upstream.open_streams(), 1, "it is followed before its end");
    while let Some(more) = first.chunk().await.unwrap() {
        seen.extend_from_slice(&more);
    }
    while let Some(more) = second.chunk().await.unwrap() {
        followed.extend_from_slice(&more);
    }
    assert_eq!(String::from_utf8(followed).unwrap(), String::from_utf8(seen).unwrap());
    assert_eq!(upstream.requests().len(), 1);
    let counted = metric(&gateway, "antwort_idempotency_keys_total{outcome=\"followed\"}").await;
    assert_eq!(counted.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_run_goes_on_when_its_client_goes_and_the_retry_gets_all_of_it() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for stream in [true, false] {
        upstream.reply(slow_answer());
        let key = format!("key-{stream}");
        if stream {
            let mut first = keyed(&gateway.base, &key, &ask(true)).send().await.unwrap();
            assert!(first.chunk().await.unwrap().is_some());
        } else {
            let first = keyed(&gateway.base, &key, &ask(false)).timeout(Duration::from_millis(200)).send();
            assert!(first.await.is_err(), "the client gave up");
        }
        let again = send(&gateway, &key, &ask(stream)).await;
        assert_eq!((again.status, again.is_replayed()), (200, true), "{again:?}");
        let response = if stream { assert_valid_stream(&frames(&again.text)).response } else { again.json() };
        assert_eq!(response["status"], "completed");
        assert_eq!(response["output"][0]["content"][0]["text"], "word 0 word 1 word 2 word 3 word 4 word 5 ");
    }
    assert_eq!((upstream.requests().len(), listed(&gateway).await.len()), (2, 2));
}

#[tokio::test]
async fn without_a_key_a_run_still_ends_with_its_client() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(slow_answer());
    let mut stream = gateway.open_stream(ask(true)).await;
    assert!(stream.chunk().await.unwrap().is_some());
    drop(stream);
    let idle = async || metric(&gateway, "antwort_runs_active").await.as_deref() == Some("0");
    assert!(eventually(idle).await);
    let cancelled = metric(&gateway, "antwort_responses_total{status=\"cancelled\",mode=\"stream\"}").await;
    assert_eq!(cancelled.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_creates_at_once_with_one_key_are_one_run() {
    for stream in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let upstream = Upstream::spawn().await;
        let database = folder.path().join("test.db");
        let gateway = Gateway::with_upstream(&upstream).database(database).spawn().await;
        upstream.reply(slow_answer());
        let mut clients = JoinSet::new();
        for _ in 0..100 {
            let request = keyed(&gateway.base, "k", &ask(stream));
            clients.spawn(async move { Raw::of(request.send().await.unwrap()).await });
        }
        let answers = clients.join_all().await;
        let first = &answers[0];
        for answer in &answers {
            assert_eq!((answer.status, &answer.text), (200, &first.text), "stream: {stream}");
        }
        assert_eq!(answers.iter().filter(|answer| !answer.is_replayed()).count(), 1);
        assert_eq!((upstream.requests().len(), listed(&gateway).await.len()), (1, 1), "one bill, one row");
        let keys: i64 = rusqlite::Connection::open(folder.path().join("test.db"))
            .unwrap()
            .query_row("SELECT count(*) FROM idempotency_keys", [], |row| row.get(0))
            .unwrap();
        assert_eq!(keys, 1);
        gateway.stop().await;
    }
}

/// It once could have held the run as a first reader does.
#[tokio::test]
async fn a_follower_that_reads_nothing_disturbs_nobody() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text(&"word ".repeat(50_000));
    let first = keyed(&gateway.base, "k", &ask(true)).send().await.unwrap();
    let stalled = keyed(&gateway.base, "k", &ask(true)).send().await.unwrap();
    assert_eq!(stalled.headers()["idempotent-replayed"], "true");
    let first = Raw::of(first).await;
    let last = send(&gateway, "k", &ask(true)).await;
    assert_eq!(last.text, first.text);
    assert_eq!(Raw::of(stalled).await.text, first.text, "it gets all of it when it reads on");
}

/// It needs none: it makes no run.
#[tokio::test]
async fn a_create_that_waits_for_another_has_no_run_slot() {
    let upstream = Upstream::spawn().await;
    let one = |settings: &mut antwort::config::Settings| {
        settings.server.max_runs = 1;
        settings.server.queue_timeout = Duration::from_millis(50);
    };
    let gateway = Gateway::with_upstream(&upstream).set(one).spawn().await;
    for stream in [false, true] {
        upstream.reply(slow_answer());
        let (key, body) = (format!("key-{stream}"), ask(stream));
        let asked = upstream.requests().len();
        let first = async { Raw::of(keyed(&gateway.base, &key, &body).send().await.unwrap()).await };
        let second = async {
            assert!(eventually(async || upstream.requests().len() == asked + 1).await);
            let other = gateway.post("/v1/responses", &ask(false)).await;
            assert_eq!(other.status, 503, "there is no slot: {:#}", other.body);
            send(&gateway, &key, &body).await
        };
        let (first, second) = tokio::join!(first, second);
        assert_eq!((second.status, second.text), (200, first.text), "stream: {stream}");
    }
}

#[tokio::test]
async fn a_stop_waits_for_a_run_whose_client_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).database(database.clone()).spawn().await;
    upstream.reply(slow_answer());
    let mut first = keyed(&gateway.base, "k", &ask(true)).send().await.unwrap();
    assert!(first.chunk().await.unwrap().is_some());
    drop(first);
    gateway.stop().await;
    let gateway = Gateway::with_upstream(&upstream).database(database).spawn().await;
    let again = send(&gateway, "k", &ask(true)).await;
    assert_eq!(assert_valid_stream(&frames(&again.text)).response["status"], "completed");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_first_client_that_reads_nothing_holds_the_run_up_and_does_not_end_it() {
    let upstream = Upstream::spawn().await;
    // Far longer than a reader that does read stands still on a busy machine: it must not be cut off, too.
    let short = |settings: &mut antwort::config::Settings| {
        settings.server.write_timeout = Duration::from_secs(5);
    };
    let gateway = Gateway::with_upstream(&upstream).set(short).spawn().await;
    upstream.text(&"word ".repeat(60_000));
    let stalled = keyed(&gateway.base, "k", &ask(true)).send().await.unwrap();
    let again = send(&gateway, "k", &ask(true)).await;
    assert_eq!((again.status, again.is_replayed()), (200, true));
    assert_eq!(assert_valid_stream(&frames(&again.text)).response["status"], "completed");
    assert!(stalled.text().await.is_err(), "what the first was sent does not look whole");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn those_who_wait_for_a_response_that_is_deleted_are_told_so() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(slow_answer());
    let body = ask(false);
    let first = keyed(&gateway.base, "k", &body).send();
    let second = gateway.send(keyed(&gateway.base, "k", &body));
    let delete = async {
        assert!(eventually(async || !listed(&gateway).await.is_empty()).await, "it is listed while it runs");
        let followed = "antwort_idempotency_keys_total{outcome=\"followed\"}";
        assert!(eventually(async || metric(&gateway, followed).await.as_deref() == Some("1")).await);
        let [id] = &listed(&gateway).await[..] else { panic!("one") };
        assert_eq!(gateway.delete(&format!("/v1/responses/{id}")).await.status, 200);
    };
    let (first, second, ()) = tokio::join!(first, second, delete);
    // Of the two, the one that made the run has its response all the same.
    let mut statuses = [first.unwrap().status().as_u16(), second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 410]);
    assert_eq!(listed(&gateway).await.len(), 0);
    let again = gateway.send(keyed(&gateway.base, "k", &body)).await;
    assert_eq!(again.body["error"]["code"], "response_deleted", "{:#}", again.body);
}
