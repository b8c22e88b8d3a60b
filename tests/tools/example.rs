//! The workflow of seed 002: weather, a tip and the time in one request, over HTTP and by the command line.

use antwort::config::Settings;
use serde_json::{Value, json};

use super::kinds;
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::upstream::{Reply, Upstream};
use antwort_test_support::weather::Weather;

const PROMPT: &str = "Get the weather in San Francisco, calculate a 20% tip on $85.50, and tell me the current \
    time in Pacific timezone";

fn configure(settings: &mut Settings, weather: &Weather) {
    settings.tools.builtin.get_weather.api_key = Some("weather-key".to_owned().into());
    settings.tools.builtin.get_weather.base_url.clone_from(&weather.url);
    settings.egress.allow = vec!["127.0.0.1".into()];
}

fn script(upstream: &Upstream) {
    upstream
        .reply(Reply::Calls(vec![
            ("get_weather", json!({"location": "San Francisco"})),
            ("calculate", json!({"expression": "85.50 * 20%"})),
            ("datetime", json!({"timezone": "America/Los_Angeles"})),
        ]))
        .text("Light fog, 14.5 degrees. The tip is $17.10.");
}

/// What the model was told, as values.
fn told(upstream: &Upstream) -> Vec<Value> {
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    let tools = messages.iter().filter(|message| message["role"] == "tool");
    tools.map(|message| serde_json::from_str(message["content"].as_str().unwrap()).unwrap()).collect()
}

#[tokio::test]
async fn three_tools_in_one_turn_and_one_answer() {
    let (upstream, weather) = (Upstream::spawn().await, Weather::spawn().await);
    let gateway =
        Gateway::with_upstream(&upstream).set(|settings| configure(settings, &weather)).spawn().await;
    let tools = json!([{"type": "mcp", "server_label": "antwort",
        "allowed_tools": ["get_weather", "calculate", "datetime"]}]);
    for streamed in [false, true] {
        script(&upstream);
        let body = json!({"model": "test-model", "input": PROMPT, "tools": tools});
        let response = match streamed {
            false => gateway.create(body).await,
            true => gateway.stream(body).await.response,
        };
        assert_eq!(response["status"], "completed");
        assert_eq!(kinds(&response), ["mcp_call", "mcp_call", "mcp_call", "message"]);
        assert_eq!(text_of(&response), "Light fog, 14.5 degrees. The tip is $17.10.");
        let told = told(&upstream);
        assert_eq!(
            told[0],
            json!({"location": "San Francisco", "temperature": 14.5, "feels_like": 13.9, "humidity": 71,
                "description": "light fog", "wind_speed": 4.1})
        );
        assert_eq!(told[1]["result"], 17.1);
        assert_eq!(told[2]["timezone"], "America/Los_Angeles");
        assert_eq!(upstream.requests().last().unwrap().body["tools"].as_array().unwrap().len(), 3);
    }
    assert_eq!(weather.asked(), 1, "the second answer came from the cache");
    assert!(!gateway.get("/v1/tools").await.body.to_string().contains("weather-key"));
}

#[tokio::test]
async fn the_same_by_the_command_line() {
    let (upstream, weather) = (Upstream::spawn().await, Weather::spawn().await);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    let function = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
    write(
        "tools.json",
        json!([function("get_weather"), function("calculate"), function("datetime")]).to_string(),
    );
    write(
        "agent.yaml",
        format!(
            "providers: {{default: {{url: \"{}\"}}}}\ntools: {{builtin: {{get_weather: {{api_key: weather-key, \
             base_url: \"{}\"}}}}}}\negress: {{allow: [127.0.0.1]}}\n",
            upstream.url, weather.url
        ),
    );
    for stream in [&[][..], &["--stream"]] {
        script(&upstream);
        let words = [
            &["prompt", "--config", "agent.yaml", "--model", "test-model", "--protocol", "tools"][..],
            &["--tools-file", "tools.json", "--execute-tools", "--prompt", PROMPT],
            stream,
        ]
        .concat();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_antwort"));
        command.args(words).current_dir(folder.path()).env_clear().stdin(std::process::Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{out}\n{err}");
        assert!(out.contains("Light fog, 14.5 degrees. The tip is $17.10."), "{out}\n{err}");
        assert!(!stream.is_empty() || out.contains("Final response: "), "{out}");
        assert!(stream.is_empty() || out.contains("Streaming response with tool execution:"), "{out}");
        assert_eq!(told(&upstream)[1]["result"], 17.1);
    }
    assert_eq!(weather.asked(), 2);
}
