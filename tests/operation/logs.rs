//! What the log says: when it serves, and of failures all that is needed to find them.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use antwort_test_support::eventually;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::{Reply, Upstream};

fn lines(log: &str) -> Vec<Value> {
    log.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[tokio::test]
async fn serving_is_logged_when_it_serves_and_with_its_address() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let process = Process::start_with_environment(folder.path(), &upstream, &[("ANTWORT_LOG", "info")]).await;
    let lines = lines(&process.log());
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

    let text = process.log();
    let lines = lines(&text);
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

/// What `antwort serve` does that cannot start: its exit code and its log.
async fn refused(folder: &Path, file: &str, environment: &[(&str, &str)]) -> (Option<i32>, Vec<Value>) {
    std::fs::write(folder.join("antwort.yaml"), file).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_antwort"));
    command.arg("serve").current_dir(folder).env_clear().stdin(Stdio::null());
    command.env("ANTWORT_LISTEN", "127.0.0.1:0").envs(environment.iter().copied());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.code(), lines(&String::from_utf8(output.stderr).unwrap()))
}

#[tokio::test]
async fn what_ends_a_server_is_a_line_of_its_log_with_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let provider = ("ANTWORT_UPSTREAM_URL", "http://127.0.0.1:9/v1");
    let broken = ("ANTWORT_STORE_URL", "sqlite:/dev/null/antwort.db");
    let wrong = "server: {max_runs: 0, nonsense: 1}";
    for (file, environment, code, errors) in [
        (wrong, vec![provider], 2, vec!["server.max_runs", "server.nonsense"]),
        ("providers: [", vec![], 2, vec!["antwort.yaml"]),
        ("", vec![], 2, vec!["no model server is configured"]),
        ("", vec![provider, broken], 1, vec!["opening the store"]),
    ] {
        let (ended, lines) = refused(folder.path(), file, &environment).await;
        assert_eq!(ended, Some(code), "{lines:#?}");
        let fatal: Vec<_> = lines.iter().filter(|line| line["message"] == "fatal").collect();
        assert_eq!(fatal.len(), errors.len(), "{lines:#?}");
        for error in errors {
            let said = |line: &&&Value| line["error"].as_str().is_some_and(|said| said.contains(error));
            let line = fatal.iter().find(said).unwrap_or_else(|| panic!("{error}: {lines:#?}"));
            assert_eq!((&line["level"], &line["exit_code"]), (&json!("ERROR"), &json!(code)));
        }
    }
}

#[tokio::test]
async fn a_start_says_what_runs_by_which_settings_and_when_it_is_ready() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("antwort.yaml"), "listen: 127.0.0.1:1\nserver: {max_runs: 5}\n")
        .unwrap();
    let environment = [("ANTWORT_LOG", "info"), ("ANTWORT__SERVER__DRAIN_TIMEOUT", "20s")];
    let process = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    let all = async || {
        let lines = lines(&process.log());
        lines.iter().any(|line| line["message"] == "ready").then_some(lines)
    };
    assert!(eventually(async || all().await.is_some()).await);
    let lines = all().await.unwrap();
    let messages = |of: &str| lines.iter().filter(|line| line["message"] == of).collect::<Vec<_>>();
    let [start] = messages("starting")[..] else { panic!("{lines:#?}") };
    assert_eq!(start["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(start["commit"], env!("ANTWORT_COMMIT"));
    assert!(!env!("ANTWORT_COMMIT").is_empty());
    assert_eq!(start["config"], "./antwort.yaml, environment");
    assert_eq!(format!("http://{}", start["address"].as_str().unwrap()), process.base);
    let store = start["store"].as_str().unwrap();
    assert!(store.starts_with("sqlite:") && store.ends_with("test.db"), "{start}");
    assert!(start["schema"].as_i64().is_some_and(|schema| schema > 0), "{start}");
    assert_eq!(start["providers"], format!("default={}", upstream.url));
    let overrides = messages("an environment variable overrides a key of the file");
    let named: Vec<_> = overrides.iter().map(|line| (&line["key"], &line["variable"])).collect();
    assert_eq!(named, [(&json!("listen"), &json!("ANTWORT_LISTEN"))]);
    assert_eq!(messages("ready").len(), 1);
}

#[tokio::test]
async fn few_file_descriptors_are_warned_of_with_the_limit() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let environment = [("ANTWORT_LOG", "warn")];
    let process = Process::start_with_few_files(folder.path(), &upstream, 300, &environment).await;
    let lines = lines(&process.log());
    let few = lines.iter().find(|line| line["nofile_limit"].is_u64()).unwrap_or_else(|| panic!("{lines:#?}"));
    assert_eq!(
        (&few["level"], &few["nofile_limit"], &few["max_connections"]),
        (&json!("WARN"), &json!(300), &json!(22))
    );
    assert!(few["message"].as_str().unwrap().contains("LimitNOFILE"), "{few}");

    // Where there are as many as runs, nothing is.
    let (other, environment) =
        (tempfile::tempdir().unwrap(), [("ANTWORT_LOG", "warn"), ("ANTWORT__SERVER__MAX_RUNS", "20")]);
    let process = Process::start_with_few_files(other.path(), &upstream, 300, &environment).await;
    assert!(!process.log().contains("nofile_limit"), "{}", process.log());
}
