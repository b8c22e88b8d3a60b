//! The configuration that doctor writes: it loads, and makes the gateway work with the server that was examined.

use std::path::Path;
use std::process::Stdio;

use antwort::config::{LoadOptions, MaxTokensField, ReasoningField, Settings, StoreUrl, ThinkTags, load};
use serde_json::{Value, json};

use super::server::Server;
use super::{doctor, examined};
use antwort_test_support::gateway::{Gateway, text_of};

async fn config_check(folder: &Path, file: &str) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_antwort"));
    command.args(["config", "check", "--config", file]).current_dir(folder).env_clear().stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn loaded(report: &Value) -> Settings {
    let yaml = report["config"].as_str().unwrap();
    let options = LoadOptions {
        file: Some("doctor.yaml".into()),
        text: Some(yaml.to_owned()),
        ..LoadOptions::default()
    };
    let mut settings = load(&options).unwrap_or_else(|errors| panic!("{errors}\n{yaml}")).settings;
    settings.store.url = StoreUrl::Memory;
    settings
}

#[tokio::test(flavor = "multi_thread")]
async fn every_difference_is_a_key_that_loads() {
    let server = Server::spawn(&[
        "is vllm",
        "refuses max_completion_tokens",
        "refuses stream_options",
        "refuses strict",
        "refuses parallel_tool_calls",
        "refuses schemas",
        "refuses named tool_choice",
        "refuses images",
        "stop is ignored",
        "reasons in tags",
    ])
    .await;
    let (code, report) = examined(&server.url, &[]).await;
    assert_eq!(code, 1);
    let settings = loaded(&report);
    let provider = &settings.providers["default"];
    assert_eq!(provider.url, server.url);
    assert_eq!(provider.context_window.for_model("scripted"), Some(3000));
    assert_eq!(provider.max_tokens_field, MaxTokensField::MaxTokens);
    assert_eq!(provider.think_tags, ThinkTags::Tagged);
    let supports = provider.supports;
    assert!(!supports.stream_options && !supports.strict && !supports.parallel_tool_calls);
    assert!(!supports.response_format && !supports.named_tool_choice && !supports.images);
    assert!(!provider.passthrough.iter().any(|field| field == "stop"));
    assert!(provider.passthrough.iter().any(|field| field == "seed"));
    let yaml = report["config"].as_str().unwrap();
    assert!(yaml.contains("#   supports.images: image_data is no: status 400"), "{yaml}");
    assert!(yaml.starts_with("# Written by `antwort doctor` on 20"), "{yaml}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_its_kind_has_no_difference() {
    let server = Server::spawn(&["is vllm", "reads reasoning"]).await;
    let (_, report) = examined(&server.url, &[]).await;
    let yaml = report["config"].as_str().unwrap();
    let (_, keys) = yaml.split_once("providers:").unwrap();
    let expected =
        format!("\n  default:\n    preset: vllm\n    url: {}\n    context_window: 3000\n", server.url);
    assert_eq!(keys, expected);
    let server = Server::spawn(&["reads reasoning"]).await;
    let (_, report) = examined(&server.url, &[]).await;
    assert_eq!(loaded(&report).providers["default"].reasoning_field, ReasoningField::Reasoning);
}

/// A server that refuses `max_completion_tokens`, which the preset of its kind sends, and one that leaves reasoning in the
/// text: both work with what doctor found, and not without.
#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_works_with_what_was_found() {
    let server = Server::spawn(&["is vllm", "refuses max_completion_tokens", "reasons in tags"]).await;
    let (_, report) = examined(&server.url, &[]).await;
    let request = json!({"model": "scripted", "input": "A bat and a ball", "max_output_tokens": 50});
    let gateway = Gateway::with(loaded(&report)).spawn().await;
    let response = gateway.create(request.clone()).await;
    assert!(text_of(&response).starts_with("Answer"), "{response}");
    assert_eq!(response["output"][0]["type"], "reasoning");
    let without = Gateway::with_upstream_url(&server.url)
        .provider(|provider| provider.max_tokens_field = MaxTokensField::MaxCompletionTokens)
        .spawn()
        .await;
    assert_eq!(without.post("/v1/responses", &request).await.status, 400);
}

/// Templates that raise, and a server that only streams: requests work with what doctor found, and not without.
#[tokio::test(flavor = "multi_thread")]
async fn orders_of_messages_and_streams_alone_are_settings() {
    let server = Server::spawn(&["roles must alternate", "no user after tool", "only streams"]).await;
    let (code, report) = examined(&server.url, &[]).await;
    assert_eq!(code, 0, "{report:#}");
    let settings = loaded(&report);
    let provider = &settings.providers["default"];
    assert!(
        provider.roles.all.alternate && provider.roles.all.assistant_after_tool && !provider.supports.json
    );
    let input = json!([{"role": "user", "content": "What is it?"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "5"},
        {"role": "user", "content": "Well?"}, {"role": "user", "content": "Answer!"}]);
    let request = json!({"model": "scripted", "input": input});
    let gateway = Gateway::with(settings).spawn().await;
    for response in gateway.both(request.clone()).await {
        assert!(text_of(&response).starts_with("Answer"), "{response}");
        assert!(response["usage"]["total_tokens"].as_u64() > Some(0), "{response}");
    }
    let without = Gateway::with_upstream_url(&server.url).spawn().await;
    assert_eq!(without.post("/v1/responses", &request).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_is_written_and_no_other_is_replaced() {
    let (server, folder) = (Server::spawn(&["refuses images"]).await, tempfile::tempdir().unwrap());
    let file = folder.path().join("antwort.yaml");
    for _ in 0..2 {
        let output = doctor(folder.path(), &[&server.url, "--write", "antwort.yaml"], &[]).await;
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(config_check(folder.path(), "antwort.yaml").await, (Some(0), String::new()));
    }
    std::fs::write(&file, "listen: 127.0.0.1:8080\n").unwrap();
    let asked = server.requests().len();
    let output = doctor(folder.path(), &[&server.url, "--write", "antwort.yaml"], &[]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("was not written by doctor"));
    assert_eq!(server.requests().len(), asked, "nothing is asked in vain");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "listen: 127.0.0.1:8080\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_not_replaced_if_it_was_changed_or_is_none() {
    let (server, folder) = (Server::spawn(&[]).await, tempfile::tempdir().unwrap());
    let file = folder.path().join("antwort.yaml");
    let write = async |name: &str| {
        let output = doctor(folder.path(), &[&server.url, "--write", name], &[]).await;
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(write("antwort.yaml").await.0, Some(0));
    let extended = std::fs::read_to_string(&file).unwrap() + "auth: {keys: {me: {key: mine}}}\n";
    std::fs::write(&file, &extended).unwrap();
    std::os::unix::fs::symlink(folder.path().join("target"), folder.path().join("link")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    let asked = server.requests().len();
    for (name, words) in [
        ("antwort.yaml", "was changed since"),
        ("link", "is not a regular file"),
        ("pipe", "is not a regular file"),
        ("/dev/null", "is not a regular file"),
        (".", "is not a regular file"),
        ("nowhere/antwort.yaml", "there is no such folder"),
    ] {
        let (code, error) = write(name).await;
        assert!(code == Some(2) && error.contains(words), "{name}: {code:?} {error}");
    }
    assert_eq!(server.requests().len(), asked, "nothing is asked in vain");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), extended);
    assert!(!folder.path().join("target").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_for_a_server_that_does_not_work() {
    let (server, folder) = (Server::spawn(&["no completions"]).await, tempfile::tempdir().unwrap());
    let output = doctor(folder.path(), &[&server.url, "--write", "new.yaml"], &[]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("new.yaml was not written"));
    assert!(!folder.path().join("new.yaml").exists());
}
