//! Between the signal and the drain: not ready any more, but at work, so that load balancers have time to notice.

use std::time::Duration;

use antwort::config::DrainListener;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{ask, read_until, text};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, JsonBody, frames};
use antwort_test_support::process::Process;
use antwort_test_support::raw::connect;
use antwort_test_support::stream_validator;
use antwort_test_support::upstream::{Reply, Step, Upstream, done, finish};

const GET: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A gateway that was told to stop, is not ready any more, and stays so for the rest of the test.
async fn stopping(gateway: &Gateway) {
    gateway.begin_stop();
    assert!(eventually(async || gateway.get("/readyz").await.status == 503).await, "no longer ready");
}

async fn before(upstream: &Upstream) -> Gateway {
    let delay = Some(Duration::from_secs(3600));
    Gateway::with_upstream(upstream).set(|settings| settings.server.shutdown_delay = delay).spawn().await
}

/// What comes until the gateway closes the connection.
async fn until_closed(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut all)).await;
    end.expect("the connection is still open").expect("no reset");
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn in_the_shutdown_delay_work_is_accepted_and_each_answer_closes_its_connection() {
    let upstream = Upstream::spawn().await;
    let gateway = before(&upstream).await;
    let mut kept = connect(&gateway).await;
    kept.write_all(GET).await.unwrap();
    let mut first = [0; 4096];
    let read = kept.read(&mut first).await.unwrap();
    let first = String::from_utf8_lossy(&first[..read]).into_owned();
    assert!(first.starts_with("HTTP/1.1 200") && !first.contains("connection: close"), "{first}");

    stopping(&gateway).await;
    let ready = gateway.get("/readyz").await;
    assert_eq!(
        (&ready.body["status"], &ready.headers["connection"]),
        (&json!("draining"), &"close".parse().unwrap())
    );
    let answer = gateway.post("/v1/responses", &ask()).await;
    assert_eq!((answer.status, &answer.body["status"]), (200, &json!("completed")));
    assert_eq!(answer.headers["connection"], "close");
    let streamed = gateway.open_stream(ask()).await;
    assert_eq!(streamed.headers()["connection"], "close");
    let verdict = stream_validator::assert_valid_stream(&frames(&streamed.text().await.unwrap()));
    assert_eq!(verdict.response["status"], "completed");

    // A connection from before the signal is not cut: it is told with its next answer.
    kept.write_all(GET).await.unwrap();
    let answer = until_closed(kept).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
}

/// The frames that a connection brings until one of GOAWAY.
async fn frames_until_goaway(stream: &mut TcpStream) -> Vec<(u8, Vec<u8>)> {
    const GOAWAY: u8 = 7;
    let mut frames = Vec::new();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.expect("a frame of GOAWAY");
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).await.unwrap();
        frames.push((head[3], payload));
        if head[3] == GOAWAY {
            return frames;
        }
    }
}

#[tokio::test]
async fn in_the_shutdown_delay_an_answer_over_http2_brings_goaway_and_streams_go_on() {
    const HEADERS: u8 = 1;
    /// In HPACK's static table.
    const STATUS_200: u8 = 0x88;
    let upstream = Upstream::spawn().await;
    let gateway = before(&upstream).await;
    let mut raw = connect(&gateway).await;
    stopping(&gateway).await;
    let authority = gateway.base.strip_prefix("http://").unwrap();
    let mut block = b"\x82\x86\x04\x08/healthz\x01".to_vec();
    block.push(u8::try_from(authority.len()).unwrap());
    block.extend(authority.bytes());
    let mut asked = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00".to_vec();
    asked.push(u8::try_from(block.len()).unwrap());
    asked.extend([HEADERS, 5, 0, 0, 0, 1]);
    asked.extend(block);
    raw.write_all(&asked).await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(30), frames_until_goaway(&mut raw)).await;
    let answered = |(kind, payload): &(u8, Vec<u8>)| *kind == HEADERS && payload[0] == STATUS_200;
    assert!(told.expect("GOAWAY").iter().any(answered), "the request is answered all the same");

    let steps = vec![text("Hel"), Step::Wait(Duration::from_secs(1)), text("lo"), finish("stop"), done()];
    upstream.reply(Reply::Stream(steps));
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let mut body = ask();
    body["stream"] = true.into();
    let request = http2.post(format!("{}/v1/responses", gateway.base)).json_body(&body);
    let text = request.send().await.unwrap().text().await.unwrap();
    assert_eq!(stream_validator::assert_valid_stream(&frames(&text)).response["status"], "completed");
}

/// Connections were once accepted to the end and their requests refused, so a balancer without health checks passed 503s on.
#[tokio::test]
async fn after_the_shutdown_delay_nobody_listens_and_idle_connections_are_closed_while_runs_end() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.server.drain_listener = DrainListener::Close)
        .spawn()
        .await;
    let steps = vec![text("Hel"), Step::Wait(Duration::from_secs(2)), text("lo"), finish("stop"), done()];
    upstream.reply(Reply::Stream(steps));
    let mut idle = connect(&gateway).await;
    idle.write_all(GET).await.unwrap();
    let mut running = gateway.open_stream(ask()).await;
    let mut seen = read_until(&mut running, "delta").await;
    gateway.begin_stop();
    assert!(until_closed(idle).await.starts_with("HTTP/1.1 200"));
    let address = gateway.base.strip_prefix("http://").unwrap();
    let is_closed = async || match TcpStream::connect(address).await {
        Ok(_) => false,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
    };
    assert!(eventually(is_closed).await, "somebody listens");
    while let Some(piece) = running.chunk().await.expect("not cut") {
        seen.push_str(std::str::from_utf8(&piece).unwrap());
    }
    let verdict = stream_validator::assert_valid_stream(&frames(&seen));
    assert_eq!(verdict.response["status"], "completed");
    gateway.stop().await;
}

/// Whoever has connected is served, however late the listener closes behind.
#[tokio::test]
async fn connections_that_were_made_before_the_listener_closes_are_served() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.server.drain_listener = DrainListener::Close)
        .spawn()
        .await;
    let mut waiting = Vec::new();
    for _ in 0..200 {
        let mut stream = connect(&gateway).await;
        stream.write_all(GET).await.unwrap();
        waiting.push(stream);
    }
    gateway.begin_stop();
    for stream in waiting {
        let answer = until_closed(stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn what_was_accepted_in_the_shutdown_delay_is_drained_like_the_rest() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| {
            settings.server.shutdown_delay = Some(Duration::from_secs(3));
            settings.server.drain_timeout = Duration::from_millis(300);
        })
        .spawn()
        .await;
    stopping(&gateway).await;
    upstream.reply(Reply::Stream(vec![text("Hel"), text("lo"), Step::Hang]));
    let mut running = gateway.open_stream(ask()).await;
    let mut seen = read_until(&mut running, "\"delta\":\"lo\"").await;
    let end = async { seen.push_str(&running.text().await.expect("not cut")) };
    tokio::join!(end, gateway.stop());
    let response = stream_validator::assert_valid_stream(&frames(&seen)).response;
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("server_shutting_down"))
    );
}

#[tokio::test]
async fn a_second_signal_of_either_kind_ends_the_process_at_once() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let delay = [("ANTWORT__SERVER__SHUTDOWN_DELAY", "1h")];
    let mut process = Process::start_with_environment(folder.path(), &upstream, &delay).await;
    process.terminate();
    let unready = async || {
        reqwest::get(format!("{}/readyz", process.base)).await.is_ok_and(|answer| answer.status() == 503)
    };
    assert!(eventually(unready).await);
    assert_eq!(process.exit_code(), None, "one signal leaves it its time");
    process.interrupt();
    assert!(eventually(async || process.exit_code().is_some()).await);
    assert_eq!(process.exit_code(), Some(130));
}
