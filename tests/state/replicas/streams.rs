//! Streams of background responses that one replica makes, read at the other, cut, and resumed at either.

use futures_util::future::join_all;
use serde_json::json;

use super::{Fleet, becomes, id_of, in_background, queue, slow_answer, words};
use antwort_test_support::gateway::{Gateway, frames, frames_so_far, text_of};
use antwort_test_support::stream_validator::assert_valid_stream;

async fn open(gateway: &Gateway, id: &str, query: &str) -> reqwest::Response {
    let stream =
        reqwest::get(format!("{}/v1/responses/{id}?stream=true{query}", gateway.base)).await.unwrap();
    assert_eq!(stream.status(), 200);
    stream
}

async fn whole(gateway: &Gateway, id: &str) -> String {
    open(gateway, id, "").await.text().await.unwrap()
}

/// Reads so many events, and breaks the connection. What a client has of the next one it forgets.
async fn cut(mut stream: reqwest::Response, events: usize) -> String {
    let mut seen = String::new();
    while seen.matches("\n\n").count() < events {
        seen.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    seen.truncate(ends(&seen)[events - 1]);
    seen
}

async fn resumed(gateway: &Gateway, id: &str, seen: &str) -> String {
    let last = frames_so_far(seen).last().unwrap()["sequence_number"].clone();
    open(gateway, id, &format!("&starting_after={last}")).await.text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_was_cut_at_either_is_resumed_at_either_byte_for_byte() {
    let fleet = Fleet::new().await;
    let replicas = fleet.front_and_back().await;
    let [front, back] = &replicas;
    fleet.upstream.reply(slow_answer(20, 60));
    let id = queue(front).await;
    let pairs = [(front, front), (front, back), (back, front), (back, back)];
    let followed = pairs.iter().enumerate().map(|(number, (first, other))| {
        let id = &id;
        async move {
            let seen = cut(open(first, id, "").await, 4 + number).await;
            // Cut a second time, further on.
            let last = frames_so_far(&seen).len() - 1;
            let more = cut(open(other, id, &format!("&starting_after={last}")).await, 5).await;
            let seen = seen + &more;
            let rest = resumed(first, id, &seen).await;
            seen + &rest
        }
    });
    let (here, there, followed) = tokio::join!(whole(front, &id), whole(back, &id), join_all(followed));
    assert_eq!(here, there);
    let response = assert_valid_stream(&frames(&here)).response;
    assert_eq!((&response["status"], text_of(&response)), (&json!("completed"), words(20)));
    for (pair, text) in followed.iter().enumerate() {
        assert_eq!(text, &here, "pair {pair}");
    }
    assert_eq!(super::read(front, &id).await, response);
    for last in 0..frames(&here).len() {
        let rest = resumed(front, &id, &here[..ends(&here)[last]]).await;
        assert_eq!(rest, here[ends(&here)[last]..], "behind event {last}");
    }
    assert_eq!(fleet.upstream.requests().len(), 1);
}

/// Where the events of a stream end.
fn ends(text: &str) -> Vec<usize> {
    text.match_indices("\n\n").map(|(at, end)| at + end.len()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_of_a_create_is_resumed_at_the_replica_that_makes_it() {
    let fleet = Fleet::new().await;
    let [front, back] = fleet.front_and_back().await;
    fleet.upstream.reply(slow_answer(10, 60));
    let seen = cut(front.open_stream(in_background()).await, 5).await;
    let events = frames_so_far(&seen);
    let kinds: Vec<_> = events.iter().take(3).map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["response.created", "response.queued", "response.in_progress"]);
    let id = id_of(&events[0]["response"]);
    let text = seen.clone() + &resumed(&back, &id, &seen).await;
    assert_eq!(text_of(&assert_valid_stream(&frames(&text)).response), words(10));
    assert_eq!((whole(&front, &id).await, whole(&back, &id).await), (text.clone(), text));
}

/// With tools there are many commits, and the worker has more to write than the text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_background_response_with_tools_is_followed_at_both() {
    use antwort_test_support::upstream::Reply;
    let fleet = Fleet::new().await;
    let front = fleet.builder().probe().0.set(|settings| settings.role = antwort::config::Role::Gateway);
    let (back, made) = fleet.builder().probe();
    let (front, back) = (front.spawn().await, back.spawn().await);
    let calls = || vec![("slow", json!({})), ("echo", json!({"text": "x"}))];
    fleet.upstream.reply(Reply::Calls(calls())).reply(Reply::Calls(calls())).reply(slow_answer(5, 20));
    let mut body = in_background();
    body["tools"] = json!([{"type": "mcp", "server_label": "antwort"}]);
    let id = id_of(&front.create(body).await);
    let (here, there) = tokio::join!(whole(&front, &id), whole(&back, &id));
    assert_eq!(here, there);
    let response = assert_valid_stream(&frames(&here)).response;
    assert_eq!(becomes(&front, &id, "completed").await, response);
    assert_eq!([made.count("slow"), made.count("echo")], [2, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_which_nobody_keeps_events_is_refused_at_both() {
    let fleet = Fleet::new().await;
    let [one, two] = fleet.two().await;
    let id = id_of(&one.create(super::ask("Hi")).await);
    for replica in [&one, &two] {
        let refused = replica.get(&format!("/v1/responses/{id}?stream=true")).await;
        assert_eq!((refused.status, &refused.body["error"]["code"]), (400, &json!("unsupported_parameter")));
    }
}
