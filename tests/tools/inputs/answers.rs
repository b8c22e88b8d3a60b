//! Questions and answers, good and bad.

use serde_json::json;

use super::{Stream, answer, ask, calls_weather, function, output, outputs};
use antwort_test_support::gateway::{Gateway, frames, text_of};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Upstream};
use antwort_test_support::{eventually, openapi};

#[tokio::test]
async fn a_stream_asks_for_an_output_and_goes_on_with_it() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    calls_weather(&upstream);
    let mut stream = Stream::open(&gateway, &ask()).await;
    let question = stream.question().await;
    let id = stream.id();
    let keys: Vec<_> = question.as_object().unwrap().keys().cloned().collect();
    let expected =
        ["type", "sequence_number", "item_id", "output_index", "call_id", "name", "arguments", "expires_at"];
    assert!(expected.iter().all(|key| keys.iter().any(|there| there == key)), "{question}");
    assert_eq!(
        (&question["name"], &question["arguments"]),
        (&json!("weather"), &json!(r#"{"city":"Berlin"}"#))
    );
    let waits = question["expires_at"].as_i64().unwrap() - jiff::Timestamp::now().as_second();
    assert!((25..=30).contains(&waits), "{waits}");
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.body["status"], "in_progress");

    let accepted = answer(&gateway, &id, &output(&question, "22 degrees")).await;
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    let text = stream.rest().await;
    let events = frames(&text);
    let response = assert_valid_stream(&events).response;
    openapi::assert_response(&response);
    assert_eq!((&response["status"], text_of(&response).as_str()), (&json!("completed"), "Sunny."));
    let kinds: Vec<_> = response["output"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["function_call", "function_call_output", "message"]);
    assert_eq!(response["output"][1]["call_id"], question["call_id"]);
    assert_eq!(response["output"][1]["output"], "22 degrees");
    let seen = upstream.last()["messages"].clone();
    let last = seen.as_array().unwrap().last().unwrap();
    assert_eq!((&last["role"], &last["content"]), (&json!("tool"), &json!("22 degrees")));
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.body, response);
    upstream.text("More.");
    let more = json!({"model": "test-model", "input": "More?", "previous_response_id": id});
    assert_eq!(text_of(&gateway.create(more).await), "More.");
}

#[tokio::test]
async fn parallel_calls_are_asked_together_and_answered_in_any_order() {
    let upstream = Upstream::spawn().await;
    let (builder, seen) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    upstream.reply(Reply::Calls(vec![
        ("weather", json!({"city": "Berlin"})),
        ("echo", json!({"text": "x"})),
        ("time", json!({})),
    ]));
    upstream.text("Done.");
    let mut body = ask();
    body["tools"] =
        json!([function("weather"), function("time"), {"type": "mcp", "server_label": "antwort"}]);
    let mut stream = Stream::open(&gateway, &body).await;
    let questions = stream.until("antwort:input_required", 2).await;
    assert_eq!(seen.count("echo"), 1, "the gateway has made its own call before");
    let id = stream.id();
    for (question, text) in [(&questions[1], "noon"), (&questions[0], "sunny")] {
        assert_eq!(answer(&gateway, &id, &output(question, text)).await.status, 202);
    }
    let events = frames(&stream.rest().await);
    let response = assert_valid_stream(&events).response;
    assert_eq!(outputs(&response), ["sunny", "noon"], "in the order of the calls");
    let roles: Vec<_> = upstream.last()["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "tool"]);
    assert_eq!(text_of(&response), "Done.");
}

/// They were bounded by the body alone: responses became several times as large as allowed.
#[tokio::test]
async fn answers_count_as_the_items_of_their_response() {
    let upstream = Upstream::spawn().await;
    let small = |settings: &mut antwort::config::Settings| {
        settings.engine.max_item_bytes = 64 << 10;
        settings.engine.max_response_bytes = 128 << 10;
    };
    let gateway = Gateway::with_upstream(&upstream).set(small).spawn().await;
    upstream.reply(Reply::Calls(vec![
        ("weather", json!({})),
        ("weather", json!({})),
        ("weather", json!({})),
    ]));
    upstream.text("Done.");
    let mut stream = Stream::open(&gateway, &ask()).await;
    let questions = stream.until("antwort:input_required", 3).await;
    let id = stream.id();
    let give = async |number: usize, bytes| {
        let answer = answer(&gateway, &id, &output(&questions[number], &"x".repeat(bytes))).await;
        (answer.status, answer.body["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let refused = (413, "output_too_large".to_owned());
    assert_eq!(give(0, 65 << 10).await, refused, "larger than an item");
    assert_eq!(give(0, 50 << 10).await.0, 202);
    assert_eq!(give(1, 50 << 10).await.0, 202);
    assert_eq!(give(2, 50 << 10).await, refused, "all are larger than a response");
    assert_eq!(give(2, 100).await.0, 202, "the call can still be answered");
    let response = assert_valid_stream(&frames(&stream.rest().await)).response;
    assert_eq!((&response["status"], &*text_of(&response)), (&json!("completed"), "Done."));
    assert_eq!(outputs(&response).iter().map(|output| output.len()).sum::<usize>(), (100 << 10) + 100);
}

#[tokio::test]
async fn a_call_that_is_not_answered_times_out_and_the_model_goes_on() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.engine.client_tool_timeout = std::time::Duration::from_millis(300))
        .spawn()
        .await;
    calls_weather(&upstream);
    let mut stream = Stream::open(&gateway, &ask()).await;
    let (question, id) = (stream.question().await, stream.id());
    let events = frames(&stream.rest().await);
    let response = assert_valid_stream(&events).response;
    assert_eq!(response["output"][1]["output"], "Client tool call timed out");
    assert_eq!(text_of(&response), "Sunny.");
    let late = answer(&gateway, &id, &output(&question, "late")).await;
    assert_eq!((late.status, &late.body["error"]["code"]), (410, &json!("input_expired")));
}

#[tokio::test]
async fn answers_that_are_not_waited_for_are_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    calls_weather(&upstream);
    let mut stream = Stream::open(&gateway, &ask()).await;
    let (question, id) = (stream.question().await, stream.id());
    let good = output(&question, "sunny");
    let code = |answer: &antwort_test_support::gateway::HttpAnswer| answer.body["error"]["code"].clone();
    for (path, body, status, expected) in [
        (id.as_str(), json!({"call_id": "call_other", "output": "x"}), 409, "input_not_pending"),
        ("resp_nonsense", good.clone(), 404, "response_not_found"),
        (&id, json!({"call_id": question["call_id"]}), 400, "missing_required_parameter"),
        (&id, json!({"output": "x"}), 400, "missing_required_parameter"),
        (&id, json!({"call_id": question["call_id"], "output": 5}), 400, "invalid_type"),
        (
            &id,
            json!({"call_id": question["call_id"], "output": "", "error": ""}),
            400,
            "mutually_exclusive_parameters",
        ),
    ] {
        let refused = answer(&gateway, path, &body).await;
        assert_eq!((refused.status, code(&refused)), (status, json!(expected)), "{body}");
    }
    assert_eq!(answer(&gateway, &id, &good).await.status, 202);
    assert_eq!(answer(&gateway, &id, &good).await.status, 202, "the same again");
    let other = answer(&gateway, &id, &output(&question, "rain")).await;
    assert_eq!((other.status, code(&other)), (409, json!("input_not_pending")));
    let events = frames(&stream.rest().await);
    assert_eq!(text_of(&assert_valid_stream(&events).response), "Sunny.");
    assert_eq!(answer(&gateway, &id, &good).await.status, 202, "the same again behind the end");
    assert_eq!(upstream.requests().len(), 2, "nothing was made twice");
}

#[tokio::test]
async fn an_a2a_client_answers_with_a_result_or_an_error() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (answered, told) in [
        (json!({"success": true, "result": {"degrees": 22}}), r#"{"degrees":22}"#),
        (json!({"success": false, "error": "Tool not found: weather"}), "Tool not found: weather"),
    ] {
        calls_weather(&upstream);
        let mut stream = Stream::open(&gateway, &ask()).await;
        let question = stream.question().await;
        let mut body = answered;
        body["taskId"] = json!(stream.id());
        body["inputId"] = question["call_id"].clone();
        let accepted = gateway.post("/api/a2a/input", &body).await;
        assert_eq!(accepted.status, 202, "{}", accepted.body);
        let events = frames(&stream.rest().await);
        let response = assert_valid_stream(&events).response;
        assert_eq!(response["output"][1]["output"], told);
        assert_eq!(text_of(&response), "Sunny.");
    }
}

#[tokio::test]
async fn a_response_that_waits_is_cancelled_and_its_conversation_can_be_continued() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    calls_weather(&upstream);
    let mut stream = Stream::open(&gateway, &ask()).await;
    let (question, id) = (stream.question().await, stream.id());
    let cancelled = gateway.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
    assert_eq!(
        (cancelled.status, &cancelled.body["status"]),
        (200, &json!("cancelled")),
        "{}",
        cancelled.body
    );
    let events = frames(&stream.rest().await);
    let response = assert_valid_stream(&events).response;
    assert_eq!(response["status"], "cancelled");
    let late = answer(&gateway, &id, &output(&question, "x")).await;
    assert_eq!((late.status, &late.body["error"]["code"]), (409, &json!("input_not_pending")));
    upstream.text("Still here.");
    let more = json!({"model": "test-model", "input": "More?", "previous_response_id": id});
    let more = gateway.create(more).await;
    assert!(text_of(&more).contains('.'), "{more:#}");
}

#[tokio::test]
async fn a_waiting_run_shows_in_the_metrics_until_it_is_answered() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let shows = async |line: &str| {
        let text = reqwest::get(format!("{}/metrics", gateway.base)).await.unwrap().text().await.unwrap();
        text.lines().any(|found| found == line)
    };
    calls_weather(&upstream);
    let mut stream = Stream::open(&gateway, &ask()).await;
    let question = stream.question().await;
    assert!(
        eventually(async || shows("antwort_runs_waiting 1").await && shows("antwort_runs_active 0").await)
            .await
    );
    answer(&gateway, &stream.id(), &output(&question, "x")).await;
    assert!(eventually(async || shows("antwort_runs_waiting 0").await).await);
}

/// The error of a call that was rejected was lost at the wait, and the model made it again and again.
#[tokio::test]
async fn a_rejected_call_of_the_same_turn_is_told_to_the_model_behind_the_wait() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Calls(vec![("weather", json!({})), ("nosuch", json!({}))]));
    upstream.text("Sunny.");
    let mut stream = Stream::open(&gateway, &ask()).await;
    let (question, id) = (stream.question().await, stream.id());
    assert_eq!(answer(&gateway, &id, &output(&question, "22")).await.status, 202);
    let response = assert_valid_stream(&frames(&stream.rest().await)).response;
    assert_eq!(text_of(&response), "Sunny.");
    let messages = upstream.last()["messages"].to_string();
    assert!(messages.contains("nosuch") && messages.contains("Error"), "{messages}");
}

/// Answers that were given are part of a response that ends without having gone on.
#[tokio::test]
async fn an_answer_is_kept_if_the_response_is_cancelled_before_it_goes_on() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Calls(vec![("weather", json!({})), ("time", json!({}))]));
    let mut body = ask();
    body["tools"] = json!([function("weather"), function("time")]);
    let mut stream = Stream::open(&gateway, &body).await;
    let questions = stream.until("antwort:input_required", 2).await;
    let id = stream.id();
    assert_eq!(answer(&gateway, &id, &output(&questions[1], "noon")).await.status, 202);
    gateway.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
    let response = assert_valid_stream(&frames(&stream.rest().await)).response;
    let outputs: Vec<_> =
        response["output"].as_array().unwrap().iter().filter_map(|item| item["output"].as_str()).collect();
    assert_eq!(outputs.len(), 2, "{response:#}");
    assert_eq!(outputs[0], "noon");
    upstream.text("Go on.");
    let more = json!({"model": "test-model", "input": "More?", "previous_response_id": id});
    assert_eq!(text_of(&gateway.create(more).await), "Go on.");
}

/// A cancellation in the moment in which a run was put to wait was seen by nobody until its deadline.
#[tokio::test]
async fn a_cancellation_at_any_moment_ends_the_response_soon() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for pause in [0, 1, 2, 4, 8, 16] {
        upstream.reply(Reply::Calls(vec![("weather", json!({}))]));
        let mut stream = Stream::open(&gateway, &ask()).await;
        stream.until("response.output_item.done", 1).await;
        tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
        let began = std::time::Instant::now();
        let cancelled = gateway.post(&format!("/v1/responses/{}/cancel", stream.id()), &json!({})).await;
        assert_eq!(cancelled.body["status"], "cancelled", "{:#}", cancelled.body);
        assert!(began.elapsed() < std::time::Duration::from_secs(10));
        stream.rest().await;
    }
}
