//! Clients that go away, take nothing, or are too many.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{ask, id_in, read_until, text};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, JsonBody};
use antwort_test_support::upstream::{Reply, Step, Upstream, done, finish};

#[tokio::test]
async fn a_client_that_goes_ends_the_upstream_stream_and_its_row_says_cancelled() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Stream(vec![text("Hel"), text("lo"), Step::Hang]));
    let mut response = gateway.open_stream(ask()).await;
    let seen = read_until(&mut response, "\"delta\":\"lo\"").await;
    assert_eq!(upstream.open_streams(), 1);
    drop(response);
    assert!(eventually(async || upstream.open_streams() == 0).await, "the provider generates for nobody");
    let path = format!("/v1/responses/{}", id_in(&seen));
    assert!(eventually(async || gateway.get(&path).await.body["status"] == "cancelled").await);
    let stored = gateway.get(&path).await.body;
    assert_eq!(stored["output"][0]["content"][0]["text"], "Hello", "what was received is kept");
    assert_eq!(stored["output"][0]["status"], "incomplete");
}

#[tokio::test]
async fn a_client_that_goes_while_it_waits_for_a_whole_answer_ends_it_as_well() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for begun in [vec![], vec![Step::Raw(b"{\"choices\":".to_vec())]] {
        let steps = begun.into_iter().chain([Step::Hang]).collect();
        upstream.reply(Reply::Typed("application/json", steps));
        let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&ask());
        tokio::select! {
            answer = request.send() => panic!("the provider is still waited for: {answer:?}"),
            asked = eventually(async || upstream.open_streams() == 1) => assert!(asked),
        }
        assert!(eventually(async || upstream.open_streams() == 0).await);
    }
    let listed = async || gateway.get("/v1/responses").await.body["data"].clone();
    assert!(eventually(async || listed().await.as_array().unwrap().len() == 2).await, "every end is stored");
    assert!(listed().await.as_array().unwrap().iter().all(|response| response["status"] == "cancelled"));
}

/// A client that has asked for a stream and reads nothing of it.
async fn stalled(gateway: &Gateway) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut client =
        socket.connect(gateway.base.trim_start_matches("http://").parse().unwrap()).await.unwrap();
    let body = json!({"model": "test-model", "input": "Hi", "stream": true}).to_string();
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    client
}

/// Much more than sockets hold between provider and client.
fn flood() -> Reply {
    let piece = text(&"x".repeat(64 * 1024));
    let mut steps = vec![piece; 400];
    steps.extend([finish("stop"), done()]);
    Reply::Stream(steps)
}

#[tokio::test]
async fn a_reader_that_stalls_is_cut_and_its_upstream_with_it() {
    let upstream = Upstream::spawn().await;
    let short =
        |settings: &mut antwort::config::Settings| settings.server.write_timeout = Duration::from_millis(500);
    let gateway = Gateway::with_upstream(&upstream).set(short).spawn().await;
    upstream.reply(flood());
    let mut client = stalled(&gateway).await;
    assert!(eventually(async || upstream.open_streams() == 1).await);
    assert!(eventually(async || upstream.open_streams() == 0).await, "the provider generates for nobody");
    let listed = async || gateway.get("/v1/responses").await.body["data"][0]["status"].clone();
    assert!(eventually(async || listed().await == "cancelled").await, "{}", listed().await);

    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(10), client.read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "the connection is closed");
    let rest = String::from_utf8_lossy(&rest);
    assert!(!rest.contains("[DONE]") && !rest.ends_with("0\r\n\r\n"), "what was cut must not look whole");
}

#[tokio::test]
async fn a_reader_that_stalls_does_not_hold_up_a_stop() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("test.db");
    let upstream = Upstream::spawn().await;
    let hasty =
        |settings: &mut antwort::config::Settings| settings.server.drain_timeout = Duration::from_millis(200);
    let gateway = Gateway::with_upstream(&upstream).set(hasty).database(database.clone()).spawn().await;
    upstream.reply(flood());
    let _client = stalled(&gateway).await;
    assert!(eventually(async || upstream.open_streams() == 1).await);
    // Until sockets and buffers are full.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let stopped = tokio::time::timeout(Duration::from_secs(20), gateway.stop()).await;
    assert!(stopped.is_ok(), "long before the write timeout of 30 s");
    let gateway = Gateway::with_upstream(&upstream).database(database).spawn().await;
    let stored = gateway.get("/v1/responses").await.body["data"][0].clone();
    assert_eq!(
        (&stored["status"], &stored["error"]["code"]),
        (&json!("failed"), &json!("server_shutting_down")),
        "{stored:#}"
    );
}

#[tokio::test]
async fn a_reader_that_is_only_slow_gets_everything() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut steps: Vec<Step> = (0..200).map(|n| text(&format!("{n:01000}"))).collect();
    steps.extend([finish("stop"), done()]);
    upstream.reply(Reply::Stream(steps));
    let mut client = stalled(&gateway).await;
    let mut all = Vec::new();
    let mut piece = vec![0; 16 * 1024];
    while !all.ends_with(b"0\r\n\r\n") {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let read = client.read(&mut piece).await.unwrap();
        assert!(read > 0, "the stream ends before its end");
        all.extend_from_slice(&piece[..read]);
    }
    let all = String::from_utf8(all).unwrap();
    assert!(all.contains("event: response.completed") && all.contains("data: [DONE]"));
}

#[tokio::test]
async fn one_run_too_many_is_told_when_to_come_back() {
    let upstream = Upstream::spawn().await;
    let one = |settings: &mut antwort::config::Settings| {
        settings.server.max_runs = 1;
        settings.server.queue_timeout = Duration::from_millis(50);
    };
    let gateway = Gateway::with_upstream(&upstream).set(one).spawn().await;
    upstream.reply(Reply::Stream(vec![text("Hi"), Step::Hang]));
    let mut first = gateway.open_stream(ask()).await;
    read_until(&mut first, "delta").await;
    for stream in [false, true] {
        let body = json!({"model": "test-model", "input": "Hi", "stream": stream});
        let answer = gateway.post("/v1/responses", &body).await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (503, &json!("server_is_overloaded")));
        assert_eq!(answer.headers["retry-after"], "1");
    }
    assert_eq!(upstream.requests().len(), 1);
    let metrics = gateway.get("/metrics").await.body;
    assert!(metrics.as_str().unwrap().contains("antwort_rejected_total{reason=\"max_runs\"} 2"), "{metrics}");
    drop(first);
    assert!(
        eventually(async || gateway.post("/v1/responses", &ask()).await.status == 200).await,
        "room again"
    );
}

#[tokio::test]
async fn refused_requests_do_not_keep_their_place() {
    let upstream = Upstream::spawn().await;
    let gateway =
        Gateway::with_upstream(&upstream).set(|settings| settings.server.max_runs = 1).spawn().await;
    for body in
        [json!({"model": "test-model", "input": [{"type": "item_reference", "id": "nowhere"}]}), Value::Null]
    {
        assert_eq!(gateway.post("/v1/responses", &body).await.status, 400);
    }
    upstream.reply(Reply::Status(400, vec![], "no".into()));
    assert_eq!(gateway.post("/v1/responses", &ask()).await.status, 400);
    let free = async || gateway.post("/v1/responses", &ask()).await.status == 200;
    assert!(eventually(free).await);
}

/// A client that speaks HTTP/2 and takes little at a time.
fn http2() -> reqwest::Client {
    reqwest::Client::builder()
        .http2_prior_knowledge()
        .http2_initial_stream_window_size(65_535)
        .build()
        .unwrap()
}

#[tokio::test]
async fn over_http_2_clients_are_served_and_let_go_alike() {
    let upstream = Upstream::spawn().await;
    let mut gateway = Gateway::with_upstream(&upstream).spawn().await;
    gateway.http = http2();
    for response in gateway.both(ask()).await {
        assert_eq!(response["status"], "completed");
    }
    upstream.reply(Reply::Stream(vec![text("Hel"), Step::Hang]));
    let mut response = gateway.open_stream(ask()).await;
    assert_eq!(response.version(), reqwest::Version::HTTP_2);
    read_until(&mut response, "delta").await;
    // The connection stays, only its stream ends.
    drop(response);
    assert!(eventually(async || upstream.open_streams() == 0).await, "the provider generates for nobody");
    assert_eq!(gateway.create(ask()).await["status"], "completed");
}

#[tokio::test]
async fn a_reader_that_stalls_is_cut_over_http_2_as_well() {
    let upstream = Upstream::spawn().await;
    let short =
        |settings: &mut antwort::config::Settings| settings.server.write_timeout = Duration::from_millis(500);
    let mut gateway = Gateway::with_upstream(&upstream).set(short).spawn().await;
    gateway.http = http2();
    upstream.reply(flood());
    let stalled = gateway.open_stream(ask()).await;
    assert!(eventually(async || upstream.open_streams() == 1).await);
    assert!(eventually(async || upstream.open_streams() == 0).await, "the provider generates for nobody");
    let rest =
        tokio::time::timeout(Duration::from_secs(10), stalled.text()).await.expect("the stream is closed");
    assert!(rest.is_err(), "what was cut must not look whole");
    assert_eq!(gateway.create(ask()).await["status"], "completed", "the connection serves others");
}
