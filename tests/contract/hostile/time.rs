//! Providers that take their time: each limit has a code of its own, and what was heard is kept.

use std::time::Duration;

use antwort::config::ProviderSettings;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{ask, outcome};
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

const SHORT: Duration = Duration::from_millis(250);

fn text(text: &str) -> Step {
    chunk(json!({"content": text}))
}

fn streamed() -> Value {
    json!({"model": "test-model", "input": "Hi", "stream": true})
}

async fn gateway(upstream: &Upstream, change: impl FnOnce(&mut ProviderSettings)) -> Gateway {
    Gateway::with_upstream(upstream).provider(change).spawn().await
}

#[tokio::test]
async fn a_stalled_stream_fails_with_its_text_kept_and_stored() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |provider| provider.timeouts.idle = SHORT).await;
    upstream.reply(Reply::Stream(vec![text("Hel"), text("lo"), Step::Hang]));
    let response = gateway.stream(ask()).await.response;
    assert_eq!((&response["status"], text_of(&response)), (&json!("failed"), "Hello".into()));
    assert_eq!(response["error"]["code"], "upstream_idle_timeout");
    assert_eq!(response["output"][0]["status"], "incomplete");
    let stored = gateway.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).await;
    assert_eq!(stored.body, response);
    upstream.reply(Reply::Typed("application/json", vec![Step::Raw(b"{\"choices\":".to_vec()), Step::Hang]));
    gateway.refuse(ask(), 504, "upstream_idle_timeout").await;
}

#[tokio::test]
async fn a_slow_stream_that_never_stalls_is_let_go_on() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |provider| provider.timeouts.idle = Duration::from_secs(2)).await;
    let mut steps = Vec::new();
    for word in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        steps.extend([text(word), Step::Wait(SHORT)]);
    }
    steps.push(Step::Raw(b"data: [DONE]\n\n".to_vec()));
    upstream.reply(Reply::Stream(steps));
    assert_eq!(outcome(&gateway, ask()).await, ("completed".into(), String::new(), "abcdefghij".into()));
}

#[tokio::test]
async fn a_provider_that_says_nothing_is_given_up_once_and_not_asked_again() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |provider| provider.timeouts.first_byte = SHORT).await;
    for reply in [Reply::Silence, Reply::Stream(vec![Step::Hang])] {
        for body in [ask(), streamed()] {
            upstream.reply(reply.clone());
            gateway.refuse(body, 504, "upstream_first_byte_timeout").await;
        }
    }
    assert_eq!(upstream.requests().len(), 4, "what may still be generated is not asked for twice");
}

#[tokio::test]
async fn a_provider_that_never_ends_is_cut_by_the_total_limit() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |provider| provider.timeouts.total = Duration::from_secs(2)).await;
    let mut steps = vec![text("Hel"), text("lo")];
    // Signs of life without end: no gap is ever too long.
    steps.extend(
        (0..2000).flat_map(|_| [Step::Raw(b": ping\n\n".to_vec()), Step::Wait(Duration::from_millis(20))]),
    );
    upstream.reply(Reply::Stream(steps));
    let expected = ("failed".into(), "upstream_total_timeout".into(), "Hello".into());
    assert_eq!(outcome(&gateway, ask()).await, expected);
    upstream.reply(Reply::Silence);
    gateway.refuse(ask(), 504, "upstream_total_timeout").await;
}

#[tokio::test]
async fn the_gateways_own_limit_makes_an_incomplete_response() {
    let upstream = Upstream::spawn().await;
    let short =
        |settings: &mut antwort::config::Settings| settings.engine.run_timeout = Duration::from_secs(2);
    let gateway = Gateway::with_upstream(&upstream).set(short).spawn().await;
    upstream.reply(Reply::Stream(vec![text("Hel"), text("lo"), Step::Hang]));
    let response = gateway.stream(ask()).await.response;
    assert_eq!((&response["status"], text_of(&response)), (&json!("incomplete"), "Hello".into()));
    assert_eq!(response["incomplete_details"]["reason"], "run_timeout");
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_unreachable() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", nobody.local_addr().unwrap());
    drop(nobody);
    let gateway = Gateway::with_upstream_url(&url).spawn().await;
    for body in [ask(), streamed()] {
        let error = gateway.refuse(body, 502, "upstream_unreachable").await;
        assert!(
            !error.to_string().contains("127.0.0.1"),
            "the provider's address is nobody's business: {error}"
        );
    }
    let gateway = Gateway::with_upstream_url("http://nowhere.invalid/v1").spawn().await;
    gateway.refuse(ask(), 502, "upstream_unreachable").await;
}

#[tokio::test]
async fn a_provider_that_accepts_nobody_is_a_timeout() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Nobody accepts: once the queue is full, the system lets further connections wait.
    let mut queue = Vec::new();
    while let Ok(connected) = tokio::time::timeout(SHORT, TcpStream::connect(address)).await {
        queue.push(connected.unwrap());
        assert!(queue.len() < 100, "the queue never fills");
    }
    let impatient = |provider: &mut ProviderSettings| {
        provider.timeouts.connect = SHORT;
        provider.retries.max = 1;
    };
    let gateway =
        Gateway::with_upstream_url(&format!("http://{address}/v1")).provider(impatient).spawn().await;
    gateway.refuse(ask(), 504, "upstream_connect_timeout").await;
    drop(listener);
}
