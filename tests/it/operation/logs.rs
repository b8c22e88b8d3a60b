//! What the log says: when it serves, and of failures all that is needed to find them.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::process::Process;
use crate::support::upstream::{Reply, Upstream};

fn lines(folder: &Path) -> Vec<Value> {
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    log.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[tokio::test]
async fn serving_is_logged_when_it_serves_and_with_its_address() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let process = Process::start_with_environment(folder.path(), &upstream, &[("ANTWORT_LOG", "info")]).await;
    let lines = lines(folder.path());
    let serving: Vec<_> = lines.iter().filter(|line| line["message"] == "serving").collect();
    assert_eq!(serving.len(), 1);
    assert_eq!(format!("http://{}", serving[0]["address"].as_str().unwrap()), process.base);

    // What does not come up never says that it serves.
    let mut command = Command::new(env!("CARGO_BIN_EXE_antwort"));
    command.arg("serve").current_dir(folder.path()).env_clear().stdin(Stdio::null());
    command.env("ANTWORT_LISTEN", "127.0.0.1:0").env("ANTWORT_UPSTREAM_URL", &upstream.url);
    command.env("ANTWORT_STORE_URL", "sqlite:/dev/null/antwort.db");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("opening the store"), "{said}");
    assert!(!said.contains("\"serving\""), "{said}");
}

#[tokio::test]
async fn failures_are_logged_with_all_that_finds_them_and_no_span_object() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let process = Process::start_with_environment(folder.path(), &upstream, &[("ANTWORT_LOG", "info")]).await;
    let http = reqwest::Client::new();
    let ask = async |id: &str, body: Value| {
        let request = http
            .post(format!("{}/v1/responses", process.base))
            .header("x-request-id", id)
            .header("content-type", "application/json")
            .body(body.to_string());
        request.send().await.unwrap().text().await.unwrap()
    };
    let refused = r#"{"error": {"message": "secret words", "code": "bad_thing", "param": "messages[0]"}}"#;
    for (id, stream) in [("req_json", false), ("req_stream", true)] {
        upstream.reply(Reply::Status(400, vec![], refused.into()));
        ask(id, json!({"model": "test-model", "input": "Hi", "stream": stream})).await;
    }
    ask("req_field", json!({"model": "test-model", "input": "Hi", "temperature": 3})).await;

    let lines = lines(folder.path());
    let text = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(lines.iter().all(|line| line.get("span").is_none() && line.get("spans").is_none()), "{text}");
    assert!(!text.contains("secret words"), "{text}");
    for id in ["req_json", "req_stream"] {
        let failed =
            lines.iter().find(|line| line["message"] == "a response failed" && line["request_id"] == id);
        let failed = failed.unwrap_or_else(|| panic!("{id}: {text}"));
        assert!(failed["response_id"].as_str().is_some_and(|id| id.starts_with("resp_")), "{failed}");
        assert_eq!((&failed["provider"], &failed["model"]), (&json!("default"), &json!("test-model")));
        assert!(failed["code"].as_str().is_some_and(|code| !code.is_empty()), "{failed}");
    }
    let request = lines.iter().find(|line| line["message"] == "request" && line["request_id"] == "req_field");
    let request = request.unwrap_or_else(|| panic!("{text}"));
    assert_eq!((&request["status"], &request["param"]), (&json!(400), &json!("temperature")));
    assert_eq!(request["code"], "decimal_above_max_value");
}
