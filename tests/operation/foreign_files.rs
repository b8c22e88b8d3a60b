//! Files of strangers, given to `antwort prompt` and `antwort config import`: what they name is not read unless that is said.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use antwort_test_support::upstream::Upstream;

const SECRET: &str = "s3cret-of-the-machine";

/// Runs the binary with a secret in a variable.
async fn antwort(folder: &Path, words: &[&str], variable: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antwort"));
    command.args(words).current_dir(folder).env_clear().env(variable, SECRET).stdin(Stdio::null());
    // The server that it asks lives in this runtime.
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn write(folder: &Path, name: &str, content: impl ToString) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// An agent file whose server is this one.
fn agent(upstream: &Upstream) -> Value {
    json!({"name": "a", "transport": {"provider": {
        "name": "ollama", "base_url": upstream.url, "model": {"name": "m", "options": {}}, "options": {}}}})
}

fn set(mut file: Value, pointer: &str, value: impl Into<Value>) -> Value {
    let (section, key) = pointer.rsplit_once('/').unwrap();
    file.pointer_mut(section).unwrap()[key] = value.into();
    file
}

#[tokio::test]
async fn an_agent_file_of_a_stranger_sends_no_file_and_no_variable_to_its_server() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let secret = write(folder.path(), "secret", SECRET);
    let of_file = format!("file:{secret}");
    let provider = "/transport/provider";
    for (pointer, value, key) in [
        ("/system_prompt".to_owned(), of_file.clone(), "system_prompt"),
        (format!("{provider}/model/name"), of_file.clone(), "transport.provider.model.name"),
        (format!("{provider}/model/name"), "${STOLEN}".to_owned(), "transport.provider.model.name"),
        (format!("{provider}/options/token"), of_file.clone(), "transport.provider.options.token"),
        (format!("{provider}/options/token"), "x${STOLEN:-y}".to_owned(), "transport.provider.options.token"),
        (
            format!("{provider}/base_url"),
            format!("{}/${{STOLEN}}", upstream.url),
            "transport.provider.base_url",
        ),
    ] {
        let file = write(folder.path(), "agent.json", set(agent(&upstream), &pointer, value.clone()));
        let words = ["prompt", "--config", &file, "--prompt", "hi"];
        let refused = antwort(folder.path(), &words, "STOLEN").await;
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{value}: {said}");
        assert!(said.contains(key) && said.contains("--allow-files"), "{value}: {said}");
        assert!(!said.contains(SECRET), "{said}");
        assert_eq!(upstream.requests().len(), 0, "{value}");
    }
    let file = write(folder.path(), "agent.json", set(agent(&upstream), "/system_prompt", of_file));
    upstream.text("Done.");
    let allowed =
        antwort(folder.path(), &["prompt", "-config", &file, "-prompt", "hi", "-allow-files"], "STOLEN")
            .await;
    assert!(allowed.status.success(), "{}", text(&allowed.stderr));
    assert_eq!(upstream.last()["messages"][0]["content"], SECRET);
}

#[tokio::test]
async fn an_agent_file_of_a_stranger_gets_no_key_by_naming_its_provider_like_ours() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let file = set(agent(&upstream), "/transport/provider/name", "default");
    let file = write(folder.path(), "agent.json", file);
    let words = ["prompt", "--config", &file, "--prompt", "hi"];
    for name in ["ANTWORT_UPSTREAM_API_KEY", "ANTWORT__PROVIDERS__DEFAULT__API_KEY"] {
        let refused = antwort(folder.path(), &words, name).await;
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains(name), "{}", text(&refused.stderr));
    }
    assert_eq!(upstream.requests().len(), 0);
    upstream.text("Done.");
    let url = [&words[..], &["--base-url", &upstream.url]].concat();
    let own_server = antwort(folder.path(), &url, "ANTWORT_UPSTREAM_API_KEY").await;
    assert!(own_server.status.success(), "{}", text(&own_server.stderr));
}

#[tokio::test]
async fn a_model_of_a_stranger_reads_no_files_with_the_tools_of_its_file() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let secret = write(folder.path(), "secret", SECRET);
    let policy = json!({"allow_file_access": true, "allowed_paths": [folder.path()]});
    let tools = json!({"execution_enabled": true, "security_policy": policy});
    let file = write(folder.path(), "agent.json", set(agent(&upstream), "/tools", tools));
    let definition = json!({"name": "file_read", "description": "", "parameters": {"type": "object"}});
    let own = write(folder.path(), "tools.json", json!([{"type": "function", "function": definition}]));
    for (flags, is_sent) in [(&[][..], false), (&["--allow-files"], true)] {
        upstream.reply(antwort_test_support::upstream::Reply::Calls(vec![(
            "file_read",
            json!({"path": secret}),
        )]));
        upstream.text("Done.");
        let words =
            ["prompt", "--config", &file, "--prompt", "hi", "--protocol", "tools", "--tools-file", &own];
        let words = [&words[..], &["--execute-tools"], flags].concat();
        let output = antwort(folder.path(), &words, "STOLEN").await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(upstream.last().to_string().contains(SECRET), is_sent, "{}", upstream.last());
        let is_said = text(&output.stderr).contains("tools.security_policy.allow_file_access");
        assert_eq!(is_said, !is_sent, "{}", text(&output.stderr));
    }
}

#[tokio::test]
async fn what_an_import_leaves_out_is_said_and_kept_only_on_demand() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let agent =
        write(folder.path(), "agent.json", set(agent(&upstream), "/system_prompt", "file:/etc/hostname"));
    let servers = json!({"mcpServers": {
        "docs": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer ${env:KEY}", "X": "file:/etc/hostname"}},
        "gone": {"command": "x", "args": ["${KEY}"]}}});
    let servers = write(folder.path(), "servers.json", servers);
    for (file, left_out) in [
        (&agent, &["system_prompt names the file /etc/hostname"][..]),
        (
            &servers,
            &[
                "mcpServers.docs.headers.Authorization names the variable KEY",
                "mcpServers.docs.headers.X names the file /etc/hostname",
                "mcpServers.gone.args.0 names the variable KEY",
            ],
        ),
    ] {
        let output = antwort(folder.path(), &["config", "import", file], "KEY").await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        let (yaml, said) = (text(&output.stdout), text(&output.stderr));
        for part in left_out {
            assert!(said.contains(part) && said.contains("--allow-files"), "{said}");
            assert!(yaml.contains(&format!("# Not imported: {part}")), "{yaml}");
        }
        let settings: String = yaml.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(
            !settings.contains("file:") && !settings.contains("${") && !settings.contains("gone"),
            "{yaml}"
        );
        let output = antwort(folder.path(), &["config", "import", file, "--allow-files"], "KEY").await;
        let yaml = text(&output.stdout);
        assert!(yaml.contains("file:/etc/hostname") && text(&output.stderr).is_empty(), "{yaml}");
    }
}

#[tokio::test]
async fn a_configuration_is_not_used_because_the_folder_has_one_of_a_known_name() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let providers = json!({"a": {"url": upstream.url, "api_key": "${STOLEN}"}});
    let file = write(folder.path(), "config.ollama.json", json!({"providers": providers}));
    let refused = antwort(folder.path(), &["prompt", "--prompt", "hi", "--model", "m"], "STOLEN").await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("is not an agent file"), "{}", text(&refused.stderr));
    assert_eq!(upstream.requests().len(), 0);
    upstream.text("Done.");
    let words = ["prompt", "--config", &file, "--prompt", "hi", "--model", "m"];
    let own = antwort(folder.path(), &words, "STOLEN").await;
    assert!(own.status.success(), "{}", text(&own.stderr));
    assert_eq!(upstream.requests()[0].headers["authorization"], format!("Bearer {SECRET}").as_str());
}
