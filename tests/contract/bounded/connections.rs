//! Connections: those on which nothing is asked go, and keep nobody out.

use std::time::Duration;

use antwort::config::Settings;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use antwort_test_support::eventually;
use antwort_test_support::gateway::{Builder, Gateway, JsonBody};
use antwort_test_support::raw::connect;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// SETTINGS without a setting.
const SETTINGS_FRAME: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

fn impatient(settings: &mut Settings) {
    settings.server.first_byte_timeout = Duration::from_millis(300);
    settings.server.header_timeout = Duration::from_millis(300);
    settings.server.keep_alive_timeout = Duration::from_millis(300);
}

/// What comes until the gateway closes the connection, which it must.
async fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut all)).await;
    // A reset is an end, too.
    _ = end.expect("the connection is still open");
    all
}

async fn metric(gateway: &Gateway, line: &str) -> bool {
    let metrics = gateway.get("/metrics").await.body;
    metrics.as_str().unwrap().lines().any(|found| found == line)
}

async fn healthy(gateway: &Gateway) {
    let alone = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let asked = alone.get(format!("{}/healthz", gateway.base)).send();
    let answer = tokio::time::timeout(Duration::from_secs(30), asked).await.expect("an answer");
    assert_eq!(answer.unwrap().status(), 200);
}

#[tokio::test]
async fn connections_that_send_nothing_or_half_of_something_are_closed() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(impatient).spawn().await;
    let finished = [PREFACE, SETTINGS_FRAME].concat();
    let beginnings: [&[u8]; 8] = [
        b"",
        b"P",
        b"PRI * HTTP/2.0\r\n",
        &PREFACE[..23],
        PREFACE,
        &finished,
        b"GET /healthz HT",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n",
    ];
    let mut open = Vec::new();
    for beginning in beginnings {
        let mut stream = connect(&gateway).await;
        stream.write_all(beginning).await.unwrap();
        open.push(stream);
    }
    for (stream, beginning) in open.into_iter().zip(beginnings) {
        let answer = until_closed(stream).await;
        assert!(!answer.starts_with(b"HTTP/1.1 2"), "{:?}", String::from_utf8_lossy(beginning));
    }
    for line in [
        "antwort_connections_closed_total{reason=\"first_byte_timeout\"} 1",
        "antwort_connections_closed_total{reason=\"header_timeout\"} 7",
    ] {
        assert!(eventually(async || metric(&gateway, line).await).await, "{line}");
    }
}

/// The version is decided by what has arrived, and the rest may come later.
#[tokio::test]
async fn a_first_request_that_comes_in_pieces_is_served_in_both_versions() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let http2 = [PREFACE, SETTINGS_FRAME].concat();
    let request = |method| format!("{method} /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes();
    for (first, sent) in [(1, request("GET")), (1, request("PUT")), (1, http2.clone()), (20, http2)] {
        let mut stream = connect(&gateway).await;
        let (first, rest) = sent.split_at(first);
        stream.write_all(first).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.write_all(rest).await.unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.expect("an answer");
        match &sent[..3] {
            b"GET" => assert_eq!(&start, b"HTTP/1.1 200"),
            b"PUT" => assert_eq!(&start, b"HTTP/1.1 405"),
            _ => assert_eq!(start[3], 4, "a frame SETTINGS: {start:?}"),
        }
    }
}

/// One that sends a byte now and then is not silent, but its headers never end.
#[tokio::test]
async fn headers_that_drip_are_cut() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(impatient).spawn().await;
    let mut stream = connect(&gateway).await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ").await.unwrap();
    let cut = eventually(async || stream.write_all(b"x").await.is_err()).await;
    assert!(cut, "the headers go on for ever");
}

#[tokio::test]
async fn a_connection_that_is_idle_after_a_request_is_closed_in_both_versions() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(impatient).spawn().await;
    let mut stream = connect(&gateway).await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(until_closed(stream).await.starts_with(b"HTTP/1.1 200"));
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let ask = async || http2.get(format!("{}/healthz", gateway.base)).send().await.unwrap().status();
    assert_eq!(ask().await, 200);
    // All but the one that asks for metrics.
    assert!(eventually(async || metric(&gateway, "antwort_connections 1").await).await);
    assert_eq!(ask().await, 200, "a client that was told connects anew");
}

#[tokio::test]
async fn a_connection_is_used_again_as_long_as_it_is_asked() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(impatient).spawn().await;
    let mut stream = connect(&gateway).await;
    let mut piece = [0; 4096];
    // For longer than any of the times, and never silent for as long.
    for _ in 0..12 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let read = stream.read(&mut piece).await.unwrap();
        assert!(piece[..read].starts_with(b"HTTP/1.1 200"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_response_that_takes_its_time_is_not_cut_in_either_version() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(impatient).spawn().await;
    let http1 = reqwest::Client::new();
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    for client in [http1, http2] {
        for stream in [false, true] {
            let pause = || Step::Wait(Duration::from_millis(900));
            upstream.reply(Reply::Stream(vec![
                pause(),
                chunk(json!({"content": "Slow"})),
                pause(),
                finish("stop"),
                done(),
            ]));
            let body = json!({"model": "test-model", "input": "Hi", "stream": stream});
            let request = client.post(format!("{}/v1/responses", gateway.base)).json_body(&body);
            let text = request.send().await.unwrap().text().await.unwrap();
            assert!(text.contains("Slow") && text.contains("completed"), "{text}");
        }
    }
}

fn at_most(upstream: &Upstream, connections: usize) -> Builder {
    Gateway::with_upstream(upstream).set(|settings| settings.server.max_connections = Some(connections))
}

#[tokio::test]
async fn silent_connections_keep_nobody_out() {
    let upstream = Upstream::spawn().await;
    let gateway = at_most(&upstream, 50).spawn().await;
    let mut silent = Vec::new();
    for n in 0..600 {
        let mut stream = connect(&gateway).await;
        if n % 2 == 0 {
            stream.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
        }
        silent.push(stream);
        if n % 100 == 99 {
            healthy(&gateway).await;
        }
    }
    let metrics = gateway.get("/metrics").await.body.as_str().unwrap().to_owned();
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.trim().parse::<usize>().unwrap()
    };
    assert!(value("antwort_connections ") <= 50);
    assert!(value("antwort_connections_closed_total{reason=\"max_connections\"}") >= 500);
}

#[tokio::test]
async fn connections_that_are_worked_on_stay_and_one_more_waits_until_one_of_them_ends() {
    let upstream = Upstream::spawn().await;
    let gateway = at_most(&upstream, 2).spawn().await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hi"})), Step::Hang]));
        streams.push(gateway.open_stream(json!({"model": "test-model", "input": "Hi"})).await);
    }
    let mut waiting = connect(&gateway).await;
    waiting
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut piece = [0; 15];
    let early = tokio::time::timeout(Duration::from_millis(500), waiting.read_exact(&mut piece)).await;
    assert!(early.is_err(), "there is no third place");
    assert_eq!(upstream.open_streams(), 2, "nobody was cut for it");
    streams.pop();
    let answer = tokio::time::timeout(Duration::from_secs(30), waiting.read_exact(&mut piece)).await;
    answer.expect("there is room now").unwrap();
    assert!(piece.starts_with(b"HTTP/1.1 200"));
    assert!(eventually(async || upstream.open_streams() == 1).await, "the other one goes on");
}
