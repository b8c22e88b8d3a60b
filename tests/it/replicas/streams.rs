//! Streams and cancellations at a gateway other than that which executes the run, over each bus.

use serde_json::{Value, json};

use super::pair::{Over, Pair, WORDS, ask, becomes, endless, id_of, in_background, words};
use crate::support::eventually;
use crate::support::gateway::{Gateway, frames, text_of};
use crate::support::stream_validator::assert_valid_stream;

async fn open(gateway: &Gateway, id: &str, query: &str) -> reqwest::Response {
    let stream =
        reqwest::get(format!("{}/v1/responses/{id}?stream=true{query}", gateway.base)).await.unwrap();
    assert_eq!(stream.status(), 200);
    stream
}

/// The whole of a stream.
async fn read(gateway: &Gateway, id: &str, query: &str) -> String {
    open(gateway, id, query).await.text().await.unwrap()
}

/// So many events of a stream at least, which is cut then. Whole events.
async fn read_and_cut(gateway: &Gateway, id: &str, count: usize) -> String {
    let mut stream = open(gateway, id, "").await;
    let mut seen = String::new();
    while seen.matches("\n\n").count() < count {
        seen.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    seen.truncate(seen.rfind("\n\n").unwrap() + 2);
    seen
}

/// A stream is followed at the other gateway, cut, and resumed at each.
async fn follows(pair: &Pair) {
    pair.upstream.reply(words(150));
    let id = id_of(&pair.first.create(in_background("Hi")).await);
    let begun = read_and_cut(&pair.first, &id, 5).await;
    let rest = format!("&starting_after={}", begun.matches("\n\n").count() - 1);
    let (whole, here, there) = tokio::join!(
        read(&pair.first, &id, ""),
        read(&pair.first, &id, &rest),
        read(&pair.second, &id, &rest)
    );
    assert_eq!((format!("{begun}{here}"), format!("{begun}{there}")), (whole.clone(), whole.clone()));
    let response = assert_valid_stream(&frames(&whole)).response;
    assert_eq!((&response["status"], text_of(&response).as_str()), (&json!("completed"), WORDS));
    for gateway in [&pair.first, &pair.second] {
        assert_eq!(read(gateway, &id, "").await, whole, "again, when it has ended");
        assert_eq!(read(gateway, &id, "&starting_after=1000").await, "data: [DONE]\n\n");
    }
    let stored = pair.first.get(&format!("/v1/responses/{id}")).await.body;
    assert_eq!(stored, response, "the stored response is that of the stream");
}

/// A response that runs at the second gateway is cancelled at the first.
async fn cancels(pair: &Pair, id: &str) {
    assert!(eventually(async || pair.upstream.open_streams() == 1).await);
    let cancelled = pair.first.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
    assert_eq!((cancelled.status, &cancelled.body["status"]), (200, &json!("cancelled")), "{cancelled:?}");
    assert!(eventually(async || pair.upstream.open_streams() == 0).await, "the provider is left alone");
    assert_eq!(pair.second.get(&format!("/v1/responses/{id}")).await.body, cancelled.body);
}

async fn cancels_in_background(pair: &Pair) {
    pair.upstream.reply(endless());
    let id = id_of(&pair.first.create(in_background("Hi")).await);
    becomes(&pair.first, &id, "in_progress").await;
    cancels(pair, &id).await;
    let again = pair.second.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
    assert_eq!((again.status, &again.body["status"]), (200, &json!("cancelled")), "it stays so");
}

/// A stored stream, whose client stays.
async fn cancels_in_foreground(pair: &Pair) {
    pair.upstream.reply(endless());
    let mut stream = pair.second.open_stream(ask("Hi")).await;
    let begun = stream.chunk().await.unwrap().unwrap();
    let data = std::str::from_utf8(&begun).unwrap().split_once("data: ").unwrap().1;
    let created: Value = serde_json::from_str(data.split_once("\n\n").unwrap().0).unwrap();
    let id = id_of(&created["response"]);
    // Other gateways know it when it has a row.
    becomes(&pair.first, &id, "in_progress").await;
    cancels(pair, &id).await;
    let again = pair.first.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
    assert_eq!((again.status, &again.body["error"]["code"]), (400, &json!("response_not_cancellable")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_followed_cut_and_resumed_at_any_gateway() {
    for bus in Over::ALL {
        follows(&Pair::over(bus).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_is_cancelled_at_a_gateway_that_does_not_execute_it() {
    for bus in Over::ALL {
        let pair = Pair::over(bus).await;
        cancels_in_background(&pair).await;
        cancels_in_foreground(&pair).await;
    }
}

/// The database is the truth, and signals only save time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_nats_is_away_and_afterwards_runs_are_begun_followed_and_cancelled() {
    let mut pair = Pair::over(Over::Nats).await;
    follows(&pair).await;
    pair.nats.as_mut().unwrap().kill();
    follows(&pair).await;
    cancels_in_background(&pair).await;
    pair.connected(false).await;
    follows(&pair).await;
    cancels_in_background(&pair).await;
    cancels_in_foreground(&pair).await;
    pair.nats.as_mut().unwrap().restart();
    pair.connected(true).await;
    follows(&pair).await;
    cancels_in_background(&pair).await;
}

/// The connection of the create itself is cut, and resumed elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_background_stream_whose_create_was_cut_goes_on_at_the_other_gateway() {
    let pair = Pair::start().await;
    pair.upstream.reply(words(150));
    let mut created = pair.first.open_stream(in_background("Hi")).await;
    let mut seen = String::new();
    while seen.matches("\n\n").count() < 4 {
        seen.push_str(std::str::from_utf8(&created.chunk().await.unwrap().unwrap()).unwrap());
    }
    drop(created);
    seen.truncate(seen.rfind("\n\n").unwrap() + 2);
    let data = seen.split_once("data: ").unwrap().1.split_once("\n\n").unwrap().0;
    let id = id_of(&serde_json::from_str::<Value>(data).unwrap()["response"]);
    let last = seen.matches("\n\n").count() - 1;
    let rest = read(&pair.second, &id, &format!("&starting_after={last}")).await;
    let whole = read(&pair.first, &id, "").await;
    assert_eq!(format!("{seen}{rest}"), whole);
    assert_eq!(text_of(&assert_valid_stream(&frames(&whole)).response), WORDS);
}
