//! Where a response asks its client: as the request or its agent says, if it can wait.

use serde_json::{Value, json};

use super::{Stream, answer, ask, calls_weather, output};
use antwort::config::AgentSettings;
use antwort_test_support::gateway::{Gateway, frames, text_of};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Upstream};

#[tokio::test]
async fn a_request_that_cannot_wait_is_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (field, value) in [
        ("store", json!(false)),
        ("stream", json!(false)),
        ("antwort", json!({"client_tools": "inline", "execute_tools": false})),
    ] {
        let mut body = ask();
        body[field] = value;
        let refused = gateway.refuse(body, 400, "unsupported_value").await;
        assert_eq!(refused["param"], "antwort.client_tools", "{field}");
    }
    let mut body = ask();
    body["antwort"]["client_tools"] = json!("later");
    let refused = gateway.post("/v1/responses", &body).await;
    assert_eq!((refused.status, &refused.body["error"]["param"]), (400, &json!("antwort.client_tools")));
    let mut body = ask();
    body["antwort"]["on_disconnect"] = json!("cancel");
    let refused = gateway.refuse(body, 400, "unsupported_value").await;
    assert_eq!(refused["param"], "antwort.on_disconnect");
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_background_response_asks_and_its_stream_shows_the_question() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    calls_weather(&upstream);
    let mut body = ask();
    body["background"] = json!(true);
    body["stream"] = json!(false);
    let queued = gateway.create(body).await;
    let id = queued["id"].as_str().unwrap();
    let url = format!("{}/v1/responses/{id}?stream=true", gateway.base);
    let mut stream = Stream::of(reqwest::Client::new().get(url)).await;
    let question = stream.question().await;
    assert_eq!(answer(&gateway, id, &output(&question, "x")).await.status, 202);
    let response = assert_valid_stream(&frames(&stream.rest().await)).response;
    assert_eq!((&response["status"], text_of(&response).as_str()), (&json!("completed"), "Sunny."));
}

#[tokio::test]
async fn an_agent_asks_where_that_is_possible_and_pauses_where_it_is_not() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| {
            let inline = json!({"client_tools": "inline", "client_tool_timeout": "5m"});
            let agent: AgentSettings = serde_json::from_value(inline).unwrap();
            settings.agents.insert("helper".to_owned(), agent);
        })
        .spawn()
        .await;
    let mut body = ask();
    body["agent"] = json!("helper");
    body["antwort"] = Value::Null;
    calls_weather(&upstream);
    let mut stream = Stream::open(&gateway, &body).await;
    let question = stream.question().await;
    let waits = question["expires_at"].as_i64().unwrap() - jiff::Timestamp::now().as_second();
    assert!((290..=300).contains(&waits), "{waits}");
    answer(&gateway, &stream.id(), &output(&question, "x")).await;
    let response = assert_valid_stream(&frames(&stream.rest().await)).response;
    assert_eq!(text_of(&response), "Sunny.");

    for change in
        [json!({"stream": false}), json!({"store": false}), json!({"antwort": {"client_tools": "pause"}})]
    {
        upstream.reply(Reply::Calls(vec![("weather", json!({}))]));
        let mut paused = body.clone();
        paused.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let response = match paused["stream"].as_bool() {
            Some(true) => gateway.stream(paused).await.response,
            _ => gateway.create(paused).await,
        };
        assert_eq!(response["status"], "requires_action", "{change}");
    }
}

/// A run that waits must not keep what it counts: time, and the limits of its turns.
#[tokio::test]
async fn the_limits_of_a_run_hold_across_its_waits() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut body = ask();
    body["antwort"]["limits"] = json!({"max_turns": 2});
    for _ in 0..2 {
        upstream.reply(Reply::Calls(vec![("weather", json!({}))]));
    }
    let mut stream = Stream::open(&gateway, &body).await;
    let id_of = |stream: &Stream| stream.id();
    for count in 1..=2 {
        let question = stream.until("antwort:input_required", count).await.remove(count - 1);
        assert_eq!(answer(&gateway, &id_of(&stream), &output(&question, "x")).await.status, 202);
    }
    let response = assert_valid_stream(&frames(&stream.rest().await)).response;
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["incomplete_details"]["reason"], "max_turns");
    assert_eq!(upstream.requests().len(), 2);

    let mut body = ask();
    body["antwort"]["limits"] = json!({"max_seconds": 1.5});
    calls_weather(&upstream);
    let mut stream = Stream::open(&gateway, &body).await;
    let question = stream.question().await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(answer(&gateway, &stream.id(), &output(&question, "x")).await.status, 202);
    let response = assert_valid_stream(&frames(&stream.rest().await)).response;
    assert_eq!(response["status"], "completed", "waiting does not count: {response:#}");
}
