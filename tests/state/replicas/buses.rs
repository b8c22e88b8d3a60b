//! What replicas tell each other, over each of the buses, and with one that is killed in between.

use std::time::Duration;

use antwort::config::{BusSettings, BusUrl};
use serde_json::json;

use super::{Fleet, becomes, endless, queue, slow_answer, words};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, frames, text_of};
use antwort_test_support::nats::NatsServer;
use antwort_test_support::stream_validator::assert_valid_stream;

/// Nobody looks by himself within the time of a test.
const NEVER: Duration = Duration::from_secs(600);
/// For those that are told nothing.
const OFTEN: Duration = Duration::from_millis(50);

/// The buses, and how often replicas look by themselves: where they are told, not at all.
fn buses(nats: &NatsServer) -> [(&'static str, BusUrl, Duration); 3] {
    [
        ("postgres:", BusUrl::Store, NEVER),
        ("nats:", BusUrl::Nats(nats.url().into()), NEVER),
        ("poll:", BusUrl::Poll, OFTEN),
    ]
}

async fn fleet(url: BusUrl, poll_interval: Duration) -> (Fleet, Gateway, Gateway) {
    let fleet = Fleet::with_bus(BusSettings { url, poll_interval, ..BusSettings::default() }).await;
    let [front, back] = fleet.front_and_back().await;
    (fleet, front, back)
}

async fn stream(gateway: &Gateway, id: &str) -> String {
    reqwest::get(format!("{}/v1/responses/{id}?stream=true", gateway.base))
        .await
        .unwrap()
        .text()
        .await
        .unwrap()
}

async fn is_connected(gateway: &Gateway) -> bool {
    let metrics = gateway.get("/metrics").await.body;
    metrics.as_str().unwrap().lines().any(|line| line == "antwort_bus_connected 1")
}

/// Until each hears the other. A subscription may be younger than its connection, so what is told before is tried again.
async fn until_they_hear(front: &Gateway, back: &Gateway) {
    assert!(eventually(async || is_connected(front).await && is_connected(back).await).await);
    let mut queued = Vec::new();
    let is_heard = async || {
        let id = queue(front).await;
        queued.push(id.clone());
        tokio::time::timeout(Duration::from_secs(2), stream(front, &id)).await.is_ok()
    };
    assert!(eventually(is_heard).await);
    // Those that were not heard of are made with it.
    for id in queued {
        becomes(front, &id, "completed").await;
    }
}

/// A queued response is made, followed, and cancelled, from the other replica each time.
async fn holds(fleet: &Fleet, front: &Gateway, back: &Gateway, bus: &str) {
    fleet.upstream.text("woken");
    let id = queue(front).await;
    assert_eq!(text_of(&becomes(front, &id, "completed").await), "woken", "{bus}");

    fleet.upstream.reply(slow_answer(6, 40));
    let id = queue(front).await;
    let (here, there) = tokio::join!(stream(front, &id), stream(back, &id));
    assert_eq!(here, there, "{bus}");
    assert_eq!(text_of(&assert_valid_stream(&frames(&here)).response), words(6), "{bus}");

    fleet.upstream.reply(endless());
    let id = queue(front).await;
    assert!(eventually(async || fleet.upstream.open_streams() == 1).await, "{bus}");
    let cancel = async { front.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await.body };
    let (followed, cancelled) = tokio::join!(stream(front, &id), cancel);
    assert_eq!(cancelled["status"], "cancelled", "{bus}: {cancelled:#}");
    assert_eq!(assert_valid_stream(&frames(&followed)).response, cancelled, "{bus}");
    assert!(eventually(async || fleet.upstream.open_streams() == 0).await, "{bus}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queued_responses_are_made_followed_and_cancelled_over_each_bus() {
    let nats = NatsServer::start();
    for (name, url, poll_interval) in buses(&nats) {
        let (fleet, front, back) = fleet(url, poll_interval).await;
        if poll_interval == NEVER {
            until_they_hear(&front, &back).await;
        }
        holds(&fleet, &front, &back, name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_that_is_killed_and_comes_back_costs_nothing_but_time() {
    let mut nats = NatsServer::start();
    let (fleet, front, back) = fleet(BusUrl::Nats(nats.url().into()), OFTEN).await;
    assert!(eventually(async || is_connected(&front).await && is_connected(&back).await).await);
    holds(&fleet, &front, &back, "before").await;

    // In the middle of a stream that is followed at both.
    fleet.upstream.reply(slow_answer(20, 60));
    let id = queue(&front).await;
    let mut begun = reqwest::get(format!("{}/v1/responses/{id}?stream=true", front.base)).await.unwrap();
    let mut seen = begun.chunk().await.unwrap().unwrap().to_vec();
    nats.kill();
    let there = stream(&back, &id).await;
    while let Some(more) = begun.chunk().await.unwrap() {
        seen.extend_from_slice(&more);
    }
    assert_eq!(String::from_utf8(seen).unwrap(), there);
    assert_eq!(text_of(&assert_valid_stream(&frames(&there)).response), words(20));
    assert!(eventually(async || !is_connected(&front).await && !is_connected(&back).await).await);
    holds(&fleet, &front, &back, "while it is away").await;

    // It comes back in the middle of another one.
    fleet.upstream.reply(slow_answer(20, 60));
    let id = queue(&front).await;
    let (here, there, ()) = tokio::join!(stream(&front, &id), stream(&back, &id), async {
        becomes(&front, &id, "in_progress").await;
        nats.restart();
    });
    assert_eq!(here, there);
    assert!(eventually(async || is_connected(&front).await && is_connected(&back).await).await);
    holds(&fleet, &front, &back, "when it is back").await;
}

/// Replicas without their bus find each other in the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_that_was_never_there_is_done_without() {
    let mut nats = NatsServer::start();
    nats.kill();
    let (fleet, front, back) = fleet(BusUrl::Nats(nats.url().into()), OFTEN).await;
    holds(&fleet, &front, &back, "without").await;
    assert!(!is_connected(&front).await);
}
