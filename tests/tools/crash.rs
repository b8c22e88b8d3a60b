//! `kill -9` between a call and its result, with the real binary.

use serde_json::json;

use antwort_test_support::eventually;
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::{Reply, Upstream};
use antwort_test_support::weather::Weather;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_dispatched_before_a_crash_is_known_and_never_made_again() {
    let (upstream, weather) = (Upstream::spawn().await, Weather::spawn().await);
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "tools: {{builtin: {{get_weather: {{api_key: weather-key, base_url: \"{}\"}}}}}}\n\
         egress: {{allow: [127.0.0.1]}}\n",
        weather.url
    );
    std::fs::write(folder.path().join("antwort.yaml"), config).unwrap();
    let mut gateway = Process::start(folder.path(), &upstream).await;
    let http = reqwest::Client::new();
    // One turn whose call is over, then one that is in the midst of its calls when the process dies.
    upstream.reply(Reply::Calls(vec![("calculate", json!({"expression": "1+2*3"}))]));
    upstream.reply(Reply::Calls(vec![
        ("calculate", json!({"expression": "2*2"})),
        ("get_weather", json!({"location": "Oslo"})),
    ]));
    weather.stop_answering();
    let tools = json!([{"type": "mcp", "server_label": "antwort"}]);
    let body = json!({"model": "test-model", "input": "Go.", "stream": true, "tools": tools});
    let mut stream =
        http.post(format!("{}/v1/responses", gateway.base)).json_body(&body).send().await.unwrap();
    let first = stream.chunk().await.unwrap().unwrap();
    let id = std::str::from_utf8(&first).unwrap().split("\"id\":\"").nth(1).unwrap();
    let id = id.split('"').next().unwrap().to_owned();
    assert!(eventually(async || weather.asked() == 1).await, "the tool was called");
    gateway.kill();
    weather.resume_answering();
    gateway.restart().await;
    let answer = http.get(format!("{}/v1/responses/{id}", gateway.base)).send().await.unwrap();
    let stored: serde_json::Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert_eq!((&stored["status"], &stored["error"]["code"]), (&json!("failed"), &json!("server_restarted")));
    antwort_test_support::openapi::assert_response(&stored);
    let output = stored["output"].as_array().unwrap();
    let calls: Vec<_> = output.iter().map(|item| (item["name"].as_str().unwrap(), &item["status"])).collect();
    assert_eq!(calls[0], ("calculate", &json!("completed")), "the turn before is kept: {stored:#}");
    assert_eq!(calls[2], ("get_weather", &json!("failed")));
    assert_eq!(output[2]["error"]["code"], "outcome_unknown");
    assert_eq!(output[2]["arguments"], "{\"location\":\"Oslo\"}");
    // The first call of that turn was over; whether that reached the journal before the crash is left open.
    assert_eq!(calls[1].0, "calculate");
    upstream.text("I do not know.");
    let again = json!({"model": "test-model", "previous_response_id": id, "input": "And?", "tools": tools});
    let answer = http.post(format!("{}/v1/responses", gateway.base)).json_body(&again).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    let told = messages.iter().rfind(|message| message["role"] == "tool").unwrap();
    assert!(told["content"].as_str().unwrap().contains("may have been executed"), "{messages:#?}");
    assert_eq!(weather.asked(), 1, "it was never called again");
}
