//! What the model is told of results: as text or in an envelope, and what clients see all the same.

use std::time::Duration;

use antwort::config::{MockTool, OnError, ResultFormat, Settings};
use serde_json::{Value, json};

use super::{call, calls};
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::Upstream;

/// Tools with fixed answers, one of which has none.
fn mocks(settings: &mut Settings) {
    let mock = |output: Option<Value>, error: Option<&str>| MockTool {
        output,
        error: error.map(str::to_owned),
        ..MockTool::default()
    };
    settings.tools.mock_delay = Duration::ZERO;
    settings.tools.mock.insert("lookup".into(), mock(Some(json!({"found": [1, 2.50]})), None));
    settings.tools.mock.insert("say".into(), mock(Some("plain".into()), None));
    settings.tools.mock.insert("fail".into(), mock(None, Some("it broke")));
    settings.tools.mock.insert("bare".into(), mock(None, None));
}

fn ask() -> Value {
    let names = ["lookup", "say", "fail", "bare"];
    let tools = json!([{"type": "mcp", "server_label": "antwort", "allowed_tools": names}]);
    json!({"model": "test-model", "input": "Go.", "tools": tools})
}

/// What the provider was told of each call, with the call's id.
fn told(upstream: &Upstream) -> Vec<(String, String)> {
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    let text = |message: &Value, field: &str| message[field].as_str().unwrap().to_owned();
    let tools = messages.iter().filter(|message| message["role"] == "tool");
    tools.map(|message| (text(message, "tool_call_id"), text(message, "content"))).collect()
}

#[tokio::test]
async fn the_envelope_is_for_the_model_and_clients_see_results_as_ever() {
    let mut seen = Vec::new();
    for format in [ResultFormat::Text, ResultFormat::JsonEnvelope] {
        let upstream = Upstream::spawn().await;
        let gateway = Gateway::with_upstream(&upstream)
            .set(|settings| {
                mocks(settings);
                settings.tools.result_format = format;
            })
            .spawn()
            .await;
        upstream.reply(calls(&["lookup", "say", "fail", "bare"])).text("Done.");
        let response = gateway.create(ask()).await;
        let output = response["output"].as_array().unwrap().iter();
        seen.push(
            output.map(|item| (item["output"].clone(), item["error"].clone())).take(4).collect::<Vec<_>>(),
        );
        let (ids, texts): (Vec<_>, Vec<_>) = told(&upstream).into_iter().unzip();
        if format == ResultFormat::Text {
            let found = r#"{"found":[1,2.5]}"#;
            assert_eq!(texts, [found, "plain", "Error: it broke", "Error: No mock for: bare"]);
            continue;
        }
        let told: Vec<Value> = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        let expected = [
            json!({"id": ids[0], "success": true, "data": {"found": [1, 2.5]}}),
            json!({"id": ids[1], "success": true, "data": "plain"}),
            json!({"id": ids[2], "success": false, "error": "it broke"}),
            json!({"id": ids[3], "success": false, "error": "No mock for: bare"}),
        ];
        assert_eq!(told, expected);
        // The next response tells the same of what is stored.
        let before = texts;
        upstream.text("Still.");
        let previous =
            json!({"model": "test-model", "input": "And?", "previous_response_id": response["id"]});
        gateway.create(previous).await;
        assert_eq!(
            super::told::told(&upstream).into_iter().map(|(_, text)| text).collect::<Vec<_>>(),
            before
        );
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0][0].0, r#"{"found":[1,2.5]}"#);
}

/// The envelope of a result that was left out said `success: true`.
#[tokio::test]
async fn a_skipped_failure_is_no_success() {
    for (format, expected) in [
        (ResultFormat::Text, "The result of this tool is unavailable. Answer without it."),
        (
            ResultFormat::JsonEnvelope,
            r#"{"id":"ID","success":false,"error":"The result of this tool is unavailable. Answer without it."}"#,
        ),
    ] {
        let upstream = Upstream::spawn().await;
        let gateway = Gateway::with_upstream(&upstream)
            .set(|settings| {
                mocks(settings);
                settings.tools.result_format = format;
                settings.tools.on_error = OnError::Skip;
            })
            .spawn()
            .await;
        upstream.reply(calls(&["fail"])).text("Done.");
        let response = gateway.create(ask()).await;
        assert_eq!(response["output"][0]["status"], "incomplete");
        for _ in 0..2 {
            let (id, text) = told(&upstream).remove(0);
            assert_eq!(text, expected.replace("ID", &id));
            // The next response tells the same of what is stored.
            upstream.text("Still.");
            let body =
                json!({"model": "test-model", "input": "And?", "previous_response_id": response["id"]});
            gateway.create(body).await;
        }
    }
}

#[tokio::test]
async fn mocks_wait_as_long_as_is_configured() {
    let upstream = Upstream::spawn().await;
    let change = |settings: &mut Settings| {
        mocks(settings);
        settings.tools.mock_delay = Duration::from_mins(1);
        settings.tools.timeout = Duration::from_millis(50);
        if let Some(say) = settings.tools.mock.get_mut("say") {
            say.delay = Some(Duration::ZERO);
        }
    };
    let gateway = Gateway::with_upstream(&upstream).set(change).spawn().await;
    upstream.reply(call("lookup")).text("Done.");
    gateway.create(ask()).await;
    assert!(told(&upstream)[0].1.contains("timed out after 50ms"), "{:?}", told(&upstream));
    upstream.reply(call("say")).text("Done.");
    gateway.create(ask()).await;
    assert_eq!(told(&upstream)[0].1, "plain", "a tool's own delay counts");
}
