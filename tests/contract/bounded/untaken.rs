//! Answers that clients ask for and do not take: what the gateway holds of them is bounded by bytes, and shared out.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use antwort::config::Settings;
use reqwest::Response;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::bodies::waiting;
use super::shares::{key, metric};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, JsonBody};
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

const MIB: usize = 1 << 20;
/// More than sockets take of an answer that nobody reads.
const LARGE: usize = 5 * MIB;
const LONG: Duration = Duration::from_hours(1);

/// A gateway with room for 14 MiB of answers, two large ones.
async fn gateway(upstream: &Upstream, keys: &[(&str, &str)], queue_timeout: Duration) -> Gateway {
    gateway_with(upstream, keys, queue_timeout, LONG).await
}

async fn gateway_with(
    upstream: &Upstream,
    keys: &[(&str, &str)],
    queue_timeout: Duration,
    write_timeout: Duration,
) -> Gateway {
    let set = |settings: &mut Settings| {
        settings.server.request_body_limit = 8 * MIB;
        settings.server.max_buffered_body_bytes = 14 * MIB;
        settings.server.queue_timeout = queue_timeout;
        settings.server.write_timeout = write_timeout;
        settings.engine.run_timeout = LONG;
        settings.auth.keys = keys.iter().map(|(name, tenant)| key(name, tenant)).collect();
    };
    Gateway::with_upstream(upstream).set(set).spawn().await
}

/// A connection that asks and reads nothing.
pub(super) async fn ask_and_take_nothing(base: &str, key: &str, request: &str) -> TcpStream {
    send_and_take_nothing(base, key, request, "").await
}

async fn send_and_take_nothing(base: &str, key: &str, request: &str, body: &str) -> TcpStream {
    let address: SocketAddr = base.trim_start_matches("http://").parse().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

/// A stored response whose text is so long.
pub(super) async fn store(upstream: &Upstream, gateway: &Gateway, key: &str, bytes: usize) -> String {
    upstream.text(&"x".repeat(bytes));
    let answer = create(gateway, key).await;
    assert_eq!(answer.status(), 200);
    let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    format!("/v1/responses/{}", answer["id"].as_str().unwrap())
}

async fn create(gateway: &Gateway, key: &str) -> Response {
    let body = json!({"model": "test-model", "input": "Hi"});
    let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).bearer_auth(key);
    request.json_body(&body).send().await.unwrap()
}

/// Takes all of the answer, and says its status: large answers are not held against the document.
async fn get(gateway: &Gateway, key: &str, path: &str) -> u16 {
    let response = gateway.http.get(format!("{}{path}", gateway.base)).bearer_auth(key).send().await.unwrap();
    let status = response.status().as_u16();
    response.bytes().await.unwrap();
    status
}

async fn assert_overloaded(response: Response) {
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!(body["error"]["code"], "server_is_overloaded");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("server.max_buffered_body_bytes for response bodies"), "{message}");
}

#[tokio::test]
async fn who_reads_no_answers_holds_a_share_and_leaves_others_theirs() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &[("greedy", "red"), ("modest", "blue")], LONG).await;
    let mut greedy = Vec::new();
    for _ in 0..6 {
        greedy.push(store(&upstream, &gateway, "greedy", LARGE).await);
    }
    let modest = store(&upstream, &gateway, "modest", LARGE).await;
    let small = store(&upstream, &gateway, "greedy", 100).await;
    let mut open = Vec::new();
    for path in &greedy {
        open.push(ask_and_take_nothing(&gateway.base, "greedy", &format!("GET {path}")).await);
    }
    // Half of 14 MiB is room for one.
    assert!(eventually(async || waiting(&gateway, "modest", "response_bodies").await == 5).await);
    assert_eq!(get(&gateway, "modest", &modest).await, 200);
    assert_eq!(get(&gateway, "greedy", &small).await, 200, "small answers do not wait");
    // A list of it waits as well.
    open.push(ask_and_take_nothing(&gateway.base, "greedy", "GET /v1/responses?order=asc").await);
    assert!(eventually(async || waiting(&gateway, "modest", "response_bodies").await == 6).await);
    // Those who leave free their places, and those of their answers that were not sent.
    drop(open);
    assert!(eventually(async || waiting(&gateway, "modest", "response_bodies").await == 0).await);
    for path in &greedy[..4] {
        assert_eq!(get(&gateway, "greedy", path).await, 200);
    }
}

#[tokio::test]
async fn an_answer_that_there_is_no_room_for_is_refused_and_given_once_there_is() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &[("only", "acme")], Duration::from_millis(200)).await;
    let large = store(&upstream, &gateway, "only", LARGE).await;
    let items = format!("{large}/input_items");
    let mut open = Vec::new();
    for _ in 0..2 {
        let other = store(&upstream, &gateway, "only", LARGE).await;
        open.push(ask_and_take_nothing(&gateway.base, "only", &format!("GET {other}")).await);
    }
    // The answers of both have begun to arrive, so both are reserved.
    for stream in &open {
        stream.readable().await.unwrap();
    }
    let ask = async |path: &str| {
        gateway.http.get(format!("{}{path}", gateway.base)).bearer_auth("only").send().await.unwrap()
    };
    assert_overloaded(ask(&large).await).await;
    assert_overloaded(ask("/v1/responses").await).await;
    upstream.text(&"x".repeat(LARGE));
    assert_overloaded(create(&gateway, "only").await).await;
    assert_eq!(get(&gateway, "only", &items).await, 200, "a small page is read at once");
    drop(open);
    assert!(eventually(async || get(&gateway, "only", &large).await == 200).await);
    // What was refused was made, and stored: a client that asks for it does not have it made again.
    let list: Value =
        serde_json::from_str(&ask("/v1/responses?limit=1").await.text().await.unwrap()).unwrap();
    assert_ne!(list["data"][0]["id"], large.trim_start_matches("/v1/responses/"));
    assert_eq!(list["data"][0]["output"][0]["content"][0]["text"].as_str().unwrap().len(), LARGE);
    assert_eq!(upstream.requests().len(), 4);
}

/// How sixty readers that take nothing are answered, by their number, and by how much the gateway grows.
async fn sixty_readers(path: impl Fn(&str) -> String, input: &str, output: &str) -> (usize, usize) {
    let upstream = Upstream::spawn().await;
    let folder = tempfile::tempdir().unwrap();
    let environment =
        [("ANTWORT__SERVER__MAX_BUFFERED_BODY_BYTES", "48MiB"), ("ANTWORT__SERVER__QUEUE_TIMEOUT", "1s")];
    let gateway = Process::start_with_environment(Path::new(folder.path()), &upstream, &environment).await;
    upstream.text(output);
    let http = reqwest::Client::new();
    let create = http.post(format!("{}/v1/responses", gateway.base));
    let create = create.json_body(&json!({"model": "test-model", "input": input}));
    let stored = create.send().await.unwrap().text().await.unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    let request = format!("GET {}", path(stored["id"].as_str().unwrap()));
    let before = gateway.peak_memory();
    let mut readers = JoinSet::new();
    for _ in 0..60 {
        let (base, request) = (gateway.base.clone(), request.clone());
        readers.spawn(async move {
            let stream = ask_and_take_nothing(&base, "none", &request).await;
            let mut status = [0; 12];
            while stream.peek(&mut status).await.unwrap() < status.len() {}
            (stream, status)
        });
    }
    let all = readers.join_all().await;
    assert!(all.iter().all(|(_, status)| status == b"HTTP/1.1 200" || status == b"HTTP/1.1 503"));
    let answered = all.iter().filter(|(_, status)| status == b"HTTP/1.1 200").count();
    (answered, gateway.peak_memory() - before)
}

#[tokio::test]
async fn sixty_readers_that_take_nothing_take_no_more_memory_than_their_budget() {
    let path = |id: &str| format!("/v1/responses/{id}/input_items");
    let (answered, growth) = sixty_readers(path, &"x".repeat(8 * MIB), "Hello").await;
    assert_eq!(answered, 5, "a page is a little larger than its text");
    assert!(growth <= (48 + 64) * MIB, "it grew by {} MiB", growth / MIB);
}

/// Each had a copy of its own: only as many were answered as there was room for.
#[tokio::test]
async fn sixty_readers_of_one_response_take_the_memory_of_one() {
    let path = |id: &str| format!("/v1/responses/{id}");
    let (answered, growth) = sixty_readers(path, "Hi", &"x".repeat(8 * MIB)).await;
    assert_eq!(answered, 60);
    assert!(growth <= 64 * MIB, "it grew by {} MiB", growth / MIB);
}

/// The windows of HTTP/2 are small, and open as what comes is read.
async fn get_over_http2(gateway: &Gateway, path: &str) -> Response {
    let http2 = reqwest::Client::builder().http2_prior_knowledge().http2_initial_stream_window_size(65_535);
    let url = format!("{}{path}", gateway.base);
    let response = http2.build().unwrap().get(url).bearer_auth("only").send().await.unwrap();
    assert_eq!(response.status(), 200);
    response
}

/// A stream whose own window is shut waited for ever: its connection went on, so that no time at the socket ended it.
#[tokio::test]
async fn over_http2_a_reader_that_takes_nothing_gives_back_what_it_holds() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway_with(&upstream, &[("only", "acme")], LONG, Duration::from_millis(500)).await;
    let large = store(&upstream, &gateway, "only", LARGE).await;
    let one = store(&upstream, &gateway, "only", LARGE).await;
    let other = store(&upstream, &gateway, "only", LARGE).await;
    let open = [get_over_http2(&gateway, &one).await, get_over_http2(&gateway, &other).await];
    let third = tokio::time::timeout(Duration::from_secs(60), get(&gateway, "only", &large));
    assert_eq!(third.await.expect("room is made for it"), 200);
    let closed = "antwort_connections_closed_total{reason=\"write_timeout\"}";
    assert!(eventually(async || metric(&gateway, "only", closed).await == Some(2)).await);
    for reader in open {
        assert!(reader.bytes().await.is_err(), "what was cut does not look whole");
    }
}

#[tokio::test]
async fn over_http2_a_reader_that_takes_a_little_at_a_time_gets_all_of_it() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway_with(&upstream, &[("only", "acme")], LONG, Duration::from_secs(2)).await;
    let large = store(&upstream, &gateway, "only", LARGE).await;
    let mut response = get_over_http2(&gateway, &large).await;
    let (begun, mut read) = (Instant::now(), 0);
    while let Some(piece) = response.chunk().await.unwrap() {
        read += piece.len();
        if begun.elapsed() < Duration::from_secs(4) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    assert!(read > LARGE && begun.elapsed() > Duration::from_secs(4), "{read} bytes");
}

/// Each of its snapshots says again what the request said; nobody counted them once the run had ended.
#[tokio::test]
async fn of_streams_that_nobody_reads_large_events_are_reserved_too() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &[("only", "acme")], LONG).await;
    let tools: Vec<Value> = (0..100)
        .map(|n| json!({"type": "function", "name": format!("f{n}"), "description": "d".repeat(30_000)}))
        .collect();
    let body = json!({"model": "test-model", "input": "x", "stream": true, "tools": tools}).to_string();
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(send_and_take_nothing(&gateway.base, "only", "POST /v1/responses", &body).await);
    }
    // The first events of each are 6 MiB, for two of which there is room.
    assert!(eventually(async || waiting(&gateway, "only", "response_bodies").await == 2).await);
    drop(open);
    assert!(eventually(async || waiting(&gateway, "only", "response_bodies").await == 0).await);
    let whole = gateway.http.post(format!("{}/v1/responses", gateway.base)).bearer_auth("only");
    let whole = whole.header("content-type", "application/json").body(body).send().await.unwrap();
    let text = whole.text().await.unwrap();
    assert!(text.contains("event: response.completed") && text.ends_with("data: [DONE]\n\n"));
}
