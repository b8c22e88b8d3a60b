//! Bodies in the making: their bytes are reserved before they are read, shared out, and come at a minimum rate.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use antwort::config::Settings;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::shares::{key, metric};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, HttpAnswer, JsonBody};
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

const MIB: usize = 1 << 20;
const LIMIT: usize = 2 * MIB;
const LONG: Duration = Duration::from_secs(60);

/// A gateway with room for 8 MiB of bodies of 2 MiB at most: 7 MiB for large ones.
async fn gateway(upstream: &Upstream, keys: &[(&str, &str)], change: impl FnOnce(&mut Settings)) -> Gateway {
    let set = |settings: &mut Settings| {
        settings.server.request_body_limit = LIMIT;
        settings.server.max_buffered_body_bytes = 8 * MIB;
        settings.server.queue_timeout = LONG;
        settings.auth.keys = keys.iter().map(|(name, tenant)| key(name, tenant)).collect();
        change(settings);
    };
    Gateway::with_upstream(upstream).set(set).spawn().await
}

/// A connection that has sent the head of a request and the beginning of its body.
async fn unfinished(base: &str, key: &str, length: &str, begin: &[u8]) -> TcpStream {
    let address: SocketAddr = base.trim_start_matches("http://").parse().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\n{length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // As much as the other end takes, or all: it may have answered already.
    _ = tokio::time::timeout(Duration::from_millis(200), stream.write_all(begin)).await;
    stream
}

fn with_length(length: usize) -> String {
    format!("content-length: {length}")
}

/// A piece of a body without a length.
fn chunk(bytes: usize) -> Vec<u8> {
    format!("{bytes:x}\r\n{}\r\n", " ".repeat(bytes)).into_bytes()
}

/// Status line and body of what comes.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // A connection that is reset has said what it had to say before.
    _ = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut text))
        .await
        .expect("an answer");
    String::from_utf8_lossy(&text).into_owned()
}

/// A request whose body is so long, at least.
async fn ask(gateway: &Gateway, key: &str, bytes: usize) -> HttpAnswer {
    let body = json!({"model": "test-model", "input": "x".repeat(bytes)});
    let request =
        gateway.http.post(format!("{}/v1/responses", gateway.base)).bearer_auth(key).json_body(&body);
    gateway.send(request).await
}

pub(super) async fn waiting(gateway: &Gateway, key: &str, resource: &str) -> u64 {
    let name = format!("antwort_queue_waiting{{resource=\"{resource}\"}}");
    metric(gateway, key, &name).await.unwrap_or_default()
}

#[tokio::test]
async fn bodies_that_never_end_leave_others_their_share() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &[("greedy", "red"), ("modest", "blue")], |_| {}).await;
    let mut open = Vec::new();
    for _ in 0..12 {
        open.push(unfinished(&gateway.base, "greedy", &with_length(LIMIT), &vec![b' '; LIMIT - 1]).await);
    }
    // Half of 7 MiB is room for one.
    assert!(eventually(async || waiting(&gateway, "modest", "large_bodies").await == 11).await);
    assert_eq!(ask(&gateway, "modest", MIB).await.status, 200);
    assert_eq!(ask(&gateway, "greedy", 1000).await.status, 200, "small bodies do not wait for large ones");
    // Those who leave free their places.
    drop(open);
    assert!(eventually(async || waiting(&gateway, "modest", "large_bodies").await == 0).await);
    assert_eq!(ask(&gateway, "greedy", MIB).await.status, 200);
}

#[tokio::test]
async fn a_single_user_has_all_the_room_and_what_is_beyond_it_is_told_to_come_back() {
    let upstream = Upstream::spawn().await;
    let soon = |settings: &mut Settings| settings.server.queue_timeout = Duration::from_millis(200);
    let gateway = gateway(&upstream, &[("only", "acme")], soon).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(unfinished(&gateway.base, "only", &with_length(LIMIT), &vec![b' '; LIMIT - 1]).await);
    }
    let mut late = unfinished(&gateway.base, "only", &with_length(LIMIT), b"{").await;
    let refused = answer(&mut late).await;
    assert!(
        refused.starts_with("HTTP/1.1 503 ") && refused.contains("server.max_buffered_body_bytes"),
        "{refused}"
    );
    assert!(refused.contains("server_is_overloaded") && refused.contains("retry-after: 1"), "{refused}");
    for mut stream in open {
        stream.write_all(b" ").await.unwrap();
        let read = answer(&mut stream).await;
        assert!(read.starts_with("HTTP/1.1 400 "), "what was read to its end is looked at: {read}");
    }
    assert_eq!(ask(&gateway, "only", MIB).await.status, 200);
}

#[tokio::test]
async fn a_body_that_pauses_or_drips_is_given_up() {
    let upstream = Upstream::spawn().await;
    let short = |settings: &mut Settings| settings.server.body_idle_timeout = Duration::from_millis(300);
    let gateway = gateway(&upstream, &[("only", "acme")], short).await;
    let mut silent = unfinished(&gateway.base, "only", &with_length(1000), b"{").await;
    let silent = answer(&mut silent).await;
    assert!(silent.starts_with("HTTP/1.1 408 ") && silent.contains("request_timeout"), "{silent}");

    let mut dripping = unfinished(&gateway.base, "only", &with_length(1000), b"{").await;
    let (mut reading, mut writing) = dripping.split();
    let mut text = String::new();
    let drip = async {
        // Never as long a pause as is allowed, and never enough.
        while writing.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        _ = reading.read_to_string(&mut text) => {}
        () = drip => {}
        () = tokio::time::sleep(Duration::from_secs(30)) => panic!("it is read for ever"),
    }
    let given_up = metric(
        &gateway,
        "only",
        "antwort_http_requests_total{route=\"/v1/responses\",method=\"POST\",status=\"408\"}",
    );
    assert_eq!(given_up.await, Some(2));
}

#[tokio::test]
async fn bodies_without_a_length_never_wait_for_each_other() {
    let upstream = Upstream::spawn().await;
    let short = |settings: &mut Settings| {
        settings.server.queue_timeout = Duration::from_secs(20);
        settings.server.body_idle_timeout = Duration::from_secs(1);
    };
    let gateway = gateway(&upstream, &[("only", "acme")], short).await;
    // Each has more than a small body and wants still more: three have room, the others wait for it.
    let mut stuck = JoinSet::new();
    for _ in 0..12 {
        let base = gateway.base.clone();
        stuck.spawn(async move {
            let mut stream = unfinished(&base, "only", "transfer-encoding: chunked", &chunk(100 << 10)).await;
            answer(&mut stream).await
        });
    }
    assert!(eventually(async || waiting(&gateway, "only", "large_bodies").await > 0).await);
    let body = json!({"model": "test-model", "input": "x".repeat(MIB)}).to_string();
    let pieces: Vec<Result<Vec<u8>, std::io::Error>> =
        body.as_bytes().chunks(100_000).map(|piece| Ok(piece.to_vec())).collect();
    let whole = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).bearer_auth("only");
    let answer = gateway.send(request.header("content-type", "application/json").body(whole)).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    for outcome in stuck.join_all().await {
        assert!(outcome.starts_with("HTTP/1.1 408 "), "{outcome}");
    }
    assert_eq!(waiting(&gateway, "only", "large_bodies").await, 0);
}

#[tokio::test]
async fn a_compressed_body_is_counted_by_what_it_becomes() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &[("only", "acme")], |_| {}).await;
    let _open = [
        unfinished(&gateway.base, "only", &with_length(LIMIT), b"{").await,
        unfinished(&gateway.base, "only", &with_length(LIMIT), b"{").await,
        unfinished(&gateway.base, "only", &with_length(LIMIT), b"{").await,
    ];
    let body = json!({"model": "test-model", "input": "x".repeat(MIB)}).to_string();
    let packed = zstd::encode_all(body.as_bytes(), 1).unwrap();
    assert!(packed.len() < 1000);
    let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).bearer_auth("only");
    let request = request.header("content-type", "application/json").header("content-encoding", "zstd");
    tokio::select! {
        answer = request.body(packed).send() => panic!("there is no room for it: {answer:?}"),
        waits = eventually(async || waiting(&gateway, "only", "large_bodies").await == 1) => assert!(waits),
    }
}

#[tokio::test]
async fn sixty_bodies_that_lack_a_byte_take_no_more_memory_than_their_budget() {
    const BUDGET: usize = 48 * MIB;
    const BODY: usize = 30 * MIB;
    let upstream = Upstream::spawn().await;
    let folder = tempfile::tempdir().unwrap();
    let environment =
        [("ANTWORT__SERVER__MAX_BUFFERED_BODY_BYTES", "48MiB"), ("ANTWORT__SERVER__QUEUE_TIMEOUT", "1s")];
    let gateway = Process::start_with_environment(Path::new(folder.path()), &upstream, &environment).await;
    let before = gateway.peak_memory();
    let mut senders = JoinSet::new();
    for _ in 0..60 {
        let base = gateway.base.clone();
        senders.spawn(async move {
            let mut stream = unfinished(&base, "none", &with_length(BODY), b"{").await;
            let piece = vec![b' '; 256 << 10];
            let (mut reading, mut writing) = stream.split();
            let send = async {
                for _ in 0..(BODY - 2) / piece.len() {
                    if writing.write_all(&piece).await.is_err() {
                        return;
                    }
                }
                std::future::pending::<()>().await;
            };
            // Answered, or closed while it was still sending.
            let ended = tokio::select! {
                () = send => true,
                _ = reading.read_u8() => true,
                () = tokio::time::sleep(Duration::from_secs(8)) => false,
            };
            (stream, ended)
        });
    }
    let http = reqwest::Client::new();
    let small = http.post(format!("{}/v1/responses", gateway.base));
    let small = small.json_body(&json!({"model": "test-model", "input": "Hi"})).send().await.unwrap();
    assert_eq!(small.status(), 200, "others are served meanwhile");
    let all = senders.join_all().await;
    let turned_away = all.iter().filter(|(_, ended)| *ended).count();
    let growth = gateway.peak_memory() - before;
    assert!(growth <= BUDGET + 64 * MIB, "it grew by {} MiB", growth / MIB);
    assert!((50..60).contains(&turned_away), "{turned_away} were turned away");
}

#[tokio::test]
async fn a_large_request_whose_client_leaves_is_not_read_to_its_end() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let items: Vec<Value> =
        (0..8000).map(|n| json!({"role": "user", "content": format!("{n}{}", "x".repeat(2000))})).collect();
    let body = json!({"model": "test-model", "input": items}).to_string();
    let outcome = async |outcome: &str| {
        let name = format!("antwort_blocking_tasks_total{{outcome=\"{outcome}\"}}");
        metric(&gateway, "none", &name).await.unwrap_or_default()
    };
    // A client that leaves too early ends the reading of its body instead: the next one stays a little longer.
    let leaves_while_it_is_read = async |stay: u64| {
        let mut stream = unfinished(&gateway.base, "none", &with_length(body.len()), b"").await;
        stream.write_all(body.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(stay)).await;
        drop(stream);
        tokio::time::sleep(Duration::from_millis(500)).await;
        outcome("abandoned").await > 0
    };
    let mut abandoned = false;
    for attempt in 1..=30 {
        abandoned = abandoned || leaves_while_it_is_read(20 * attempt).await;
    }
    assert!(abandoned, "it is read to its end for nobody");
    let finished = outcome("finished").await;
    assert!(upstream.requests().len() as u64 <= finished, "none goes on that was abandoned");
    // One that stays gets its answer.
    assert_eq!(ask(&gateway, "none", MIB / 2).await.status, 200);
    assert_eq!(outcome("finished").await, finished + 1);
}

#[tokio::test]
async fn what_a_provider_is_sent_of_a_large_conversation_is_written_off_the_workers() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut known = 0;
    for (bytes, tasks) in [(100, 0), (MIB / 2, 1), (2 * MIB, 2)] {
        assert_eq!(ask(&gateway, "none", bytes).await.status, 200);
        let name = "antwort_blocking_tasks_total{outcome=\"finished\"}";
        let finished = metric(&gateway, "none", name).await.unwrap_or_default();
        assert_eq!(finished - known, tasks, "tasks for {bytes} bytes");
        known = finished;
        let said = upstream.last()["messages"][0]["content"].as_str().map(str::len);
        assert_eq!(said, Some(bytes));
    }
}
