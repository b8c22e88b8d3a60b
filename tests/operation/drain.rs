//! The end of a gateway: what runs may end, nothing new begins, and no stream is cut without its terminal event.

use std::time::Duration;

use antwort::config::Settings;
use serde_json::{Value, json};

use super::{ask, read_until, text};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, JsonBody, frames, text_of};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::stream_validator;
use antwort_test_support::upstream::{Reply, Step, Upstream, done, finish};

/// The rest of a stream, behind what was read of it.
async fn rest_of(mut response: reqwest::Response, mut seen: String) -> Vec<Value> {
    while let Some(piece) = response.chunk().await.expect("not cut") {
        seen.push_str(std::str::from_utf8(&piece).unwrap());
    }
    frames(&seen)
}

fn hasty(settings: &mut Settings) {
    settings.server.drain_timeout = Duration::from_millis(300);
}

#[tokio::test]
async fn a_running_stream_ends_in_peace_while_new_requests_are_turned_away() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let steps = vec![text("Hel"), Step::Wait(Duration::from_secs(2)), text("lo"), finish("stop"), done()];
    upstream.reply(Reply::Stream(steps));
    let mut running = gateway.open_stream(ask()).await;
    let seen = read_until(&mut running, "delta").await;
    gateway.begin_stop();

    assert!(eventually(async || gateway.get("/readyz").await.status == 503).await, "no longer ready");
    let ready = gateway.get("/readyz").await;
    assert_eq!((ready.status, &ready.body["status"]), (503, &json!("draining")));
    assert_eq!(gateway.get("/healthz").await.status, 200, "still alive");
    for stream in [false, true] {
        let answer =
            gateway.post("/v1/responses", &json!({"model": "m", "input": "x", "stream": stream})).await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (503, &json!("server_shutting_down")));
        assert!(answer.headers.contains_key("retry-after"));
    }
    let events = rest_of(running, seen).await;
    let verdict = stream_validator::assert_valid_stream(&events);
    assert_eq!(verdict.response["status"], "completed");
    tokio::time::timeout(Duration::from_secs(10), gateway.stop()).await.expect("it ends when its runs have");
}

#[tokio::test]
async fn a_stream_that_outlasts_the_deadline_fails_with_a_reason_and_its_end_mark() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("test.db");
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(hasty).database(database.clone()).spawn().await;
    upstream.reply(Reply::Stream(vec![text("Hel"), text("lo"), Step::Hang]));
    let mut running = gateway.open_stream(ask()).await;
    let seen = read_until(&mut running, "\"delta\":\"lo\"").await;
    let (events, ()) = tokio::join!(rest_of(running, seen), gateway.stop());
    let response = stream_validator::assert_valid_stream(&events).response;
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("server_shutting_down"))
    );
    assert_eq!(response["output"][0]["content"][0]["text"], "Hello", "what was received is kept");

    let gateway = Gateway::with_upstream(&upstream).database(database).spawn().await;
    let stored = gateway.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).await;
    assert_eq!(stored.body, response, "the row says what the client saw");
}

#[tokio::test]
async fn a_run_in_a_call_of_a_tool_fails_at_the_deadline_with_the_same_reason() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(hasty).probe().0.spawn().await;
    upstream.reply(Reply::Calls(vec![("hang", json!({}))]));
    let mut body = ask();
    body["tools"] = json!([{"type": "mcp", "server_label": "antwort"}]);
    let mut running = gateway.open_stream(body).await;
    let seen = read_until(&mut running, "response.mcp_call.in_progress").await;
    let (events, ()) = tokio::join!(rest_of(running, seen), gateway.stop());
    let response = stream_validator::assert_valid_stream(&events).response;
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("server_shutting_down"))
    );
}

#[tokio::test]
async fn requests_that_have_nothing_yet_get_a_status_to_retry_on() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(hasty).spawn().await;
    upstream.reply(Reply::Silence).reply(Reply::Silence);
    let send = |stream: bool| {
        let mut body = ask();
        body["stream"] = stream.into();
        gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&body).send()
    };
    let stop = async {
        assert!(eventually(async || upstream.requests().len() == 2).await);
        gateway.begin_stop();
    };
    let (whole, streamed, ()) = tokio::join!(send(false), send(true), stop);
    for answer in [whole.unwrap(), streamed.unwrap()] {
        assert_eq!(answer.status(), 503);
        assert!(answer.headers().contains_key("retry-after"));
        let body: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(body["error"]["code"], "server_shutting_down");
    }
    gateway.stop().await;
}

/// A request that needs the tools of this server before it can begin.
fn ask_with_tools_of(server: &McpServer, stream: bool) -> Value {
    let tool = json!({"type": "mcp", "server_label": "s", "server_url": server.url()});
    json!({"model": "test-model", "input": "Hi", "tools": [tool], "stream": stream})
}

/// The drain did not know it, ended, and its stream was cut with its row in progress.
#[tokio::test]
async fn a_run_that_is_being_prepared_when_the_gateway_stops_is_drained_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| {
            settings.egress.allow = vec!["127.0.0.1".into()];
            settings.mcp.list_timeout = Duration::from_secs(1);
            settings.server.drain_timeout = Duration::from_secs(4);
        })
        .database(database.clone())
        .spawn()
        .await;
    server.hang("tools/list");
    let mut steps = vec![text("Hello"); 36];
    steps.push(Step::Hang);
    upstream.reply(Reply::Stream(steps));
    let stop = async {
        assert!(eventually(async || server.count("tools/list") == 1).await);
        gateway.begin_stop();
    };
    let (running, ()) = tokio::join!(gateway.open_stream(ask_with_tools_of(&server, true)), stop);
    assert_eq!(running.status(), 200);
    let (events, ()) = tokio::join!(rest_of(running, String::new()), gateway.stop());
    let response = stream_validator::assert_valid_stream(&events).response;
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("server_shutting_down"))
    );
    assert_eq!(text_of(&response), "Hello".repeat(36), "what was received is kept");

    let gateway = Gateway::with_upstream(&upstream).database(database).spawn().await;
    let stored = gateway.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).await;
    assert_eq!(stored.body, response, "the row says what the client saw");
}

#[tokio::test]
async fn what_is_still_prepared_or_called_at_the_deadline_gets_a_status_to_retry_on() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let (builder, seen) = Gateway::with_upstream(&upstream)
        .set(|settings| {
            hasty(settings);
            settings.egress.allow = vec!["127.0.0.1".into()];
            settings.mcp.list_timeout = Duration::from_secs(3600);
        })
        .probe();
    let gateway = builder.spawn().await;
    server.hang("tools/list");
    let send = |path: &str, body: Value| {
        gateway.http.post(format!("{}{path}", gateway.base)).json_body(&body).send()
    };
    let stop = async {
        let begun = || server.count("tools/list") == 1 && seen.count("hang") == 1;
        assert!(eventually(async || begun()).await);
        gateway.begin_stop();
    };
    let (whole, streamed, called, ()) = tokio::join!(
        send("/v1/responses", ask_with_tools_of(&server, false)),
        send("/v1/responses", ask_with_tools_of(&server, true)),
        send("/v1/tools/hang/execute", json!({})),
        stop
    );
    for answer in [whole, streamed, called] {
        let answer = answer.expect("not cut");
        assert_eq!(answer.status(), 503);
        assert!(answer.headers().contains_key("retry-after"));
        let body: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(body["error"]["code"], "server_shutting_down");
    }
    gateway.stop().await;
    assert_eq!(seen.cancelled(), 1, "the tool was given up");
    assert!(upstream.requests().is_empty(), "no model was asked");
}

#[tokio::test]
async fn a_stream_that_is_passed_through_has_until_the_deadline_as_well() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let steps = vec![text("Hel"), Step::Wait(Duration::from_secs(7)), text("lo"), finish("stop"), done()];
    upstream.reply(Reply::Stream(steps));
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]});
    let request = gateway.http.post(format!("{}/v1/chat/completions", gateway.base)).json_body(&body);
    let mut running = request.send().await.unwrap();
    read_until(&mut running, "Hel").await;
    // Which fails if the stream is cut before.
    let (end, ()) = tokio::join!(read_until(&mut running, "[DONE]"), gateway.stop());
    assert!(end.contains("lo"));
}
