//! `antwort mcp`: servers looked at and called without a gateway.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use antwort_test_support::mcp_server::{Auth, McpServer, tools};

/// A server that is a program: one tool, which says hello.
const PROGRAM: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case "$line" in
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"script","version":"7"}}';;
    *'"tools/list"'*) answer '{"tools":[{"name":"hello","description":"Says hello.","inputSchema":{"type":"object"}}]}';;
    *'"tools/call"'*) answer '{"content":[{"type":"text","text":"hello"}]}';;
  esac
done"#;

fn configure(folder: &Path, servers: Value) {
    std::fs::write(folder.join("antwort.yaml"), json!({"mcp": {"servers": servers}}).to_string()).unwrap();
}

/// Runs the binary with nothing of the test's environment.
async fn antwort(folder: &Path, environment: &[(&str, &str)], words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antwort"));
    command.arg("mcp").args(words).current_dir(folder).env_clear().stdin(Stdio::null());
    command.envs(environment.iter().copied());
    // The server that it asks lives in this runtime.
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{} {}", out(output), err(output)))
}

#[tokio::test]
async fn configured_servers_are_listed_with_their_tools_and_with_what_is_wrong() {
    let (folder, server) = (tempfile::tempdir().unwrap(), McpServer::spawn().await);
    server.set_tools([tools::base(), tools::odd_schemas()].concat());
    let program = json!({"command": "/bin/sh", "args": ["-c", PROGRAM]});
    let web = json!({"url": server.url(), "rules": {"echo": "ask"}, "blocked_tools": ["fail"]});
    configure(folder.path(), json!({"prog": program.clone(), "web": web.clone()}));
    let output = antwort(folder.path(), &[], &["list"]).await;
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    assert!(text.contains("prog: script 7, stdio, 2025-06-18, 1 tools\n- `hello` - Says hello.\n"), "{text}");
    assert!(text.contains("- `echo` (needs approval) - ") && !text.contains("`fail`"), "{text}");
    assert!(text.contains("- `schema_string` is not available: "), "{text}");

    let gone = json!({"url": "http://127.0.0.1:1/mcp"});
    configure(folder.path(), json!({"gone": gone, "prog": program, "web": web}));
    let output = antwort(folder.path(), &[], &["list", "--json"]).await;
    assert_eq!(output.status.code(), Some(1), "one cannot be reached");
    let all = parsed(&output);
    let labels: Vec<_> =
        all.as_array().unwrap().iter().map(|one| one["server_label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["gone", "prog", "web"]);
    assert!(all[0]["error"].as_str().unwrap().contains("no connection to 127.0.0.1"), "{:#}", all[0]);
    assert_eq!((&all[1]["transport"], &all[1]["error"]), (&json!("stdio"), &json!(null)));
    assert_eq!(all[1]["tools"][0]["name"], "hello");
    let output = antwort(folder.path(), &[], &["list", "prog", "--json"]).await;
    assert!(output.status.success());
    assert_eq!(parsed(&output).as_array().unwrap().len(), 1);
    let dies = json!({"command": "/bin/sh", "args": ["-c", "read request; echo 'no package' >&2; exit 3"]});
    configure(folder.path(), json!({"dies": dies}));
    let output = antwort(folder.path(), &[], &["list"]).await;
    let why = "the program has exited: /bin/sh: exit status: 3; the end of its stderr: no package";
    assert!(out(&output).contains(why), "{}", out(&output));
    let output = antwort(folder.path(), &[], &["list", "nobody"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        out(&output).contains("nobody: failed: no MCP server with the label 'nobody'"),
        "{}",
        out(&output)
    );
}

/// Beside a running demo, it said that this tenant had none.
#[tokio::test]
async fn a_list_without_servers_says_what_was_read_and_for_whom() {
    let folder = tempfile::tempdir().unwrap();
    let output = antwort(folder.path(), &[], &["list"]).await;
    assert!(output.status.success());
    let said = err(&output);
    assert!(said.contains("reads the configuration") && said.contains("not a running gateway"), "{said}");
    assert!(!said.contains("tenant"), "{said}");
    configure(folder.path(), json!({"web": {"url": "http://127.0.0.1:1/mcp", "tenants": ["a"]}}));
    for (words, tenant) in [(&["list"][..], "`default`"), (&["list", "--tenant", "b"], "`b`")] {
        let output = antwort(folder.path(), &[], words).await;
        let said = err(&output);
        assert!(said.contains("is open to the tenant") && said.contains(tenant), "{said}");
    }
}

#[tokio::test]
async fn a_tool_of_a_server_is_called_without_a_model() {
    let (folder, server) = (tempfile::tempdir().unwrap(), McpServer::spawn().await);
    configure(
        folder.path(),
        json!({"prog": {"command": "/bin/sh", "args": ["-c", PROGRAM]}, "web": {"url": server.url()}}),
    );
    let call = async |words: &[&str]| antwort(folder.path(), &[], &[&["call"], words].concat()).await;
    let output = call(&["prog", "hello"]).await;
    assert!(output.status.success(), "{}", err(&output));
    let result = parsed(&output);
    assert_eq!((&result["output"], &result["meta"]["executor"]), (&json!("hello"), &json!("mcp:prog")));
    let output = call(&["web", "echo", r#"{"text": "hi"}"#]).await;
    assert_eq!((output.status.code(), &parsed(&output)["output"]), (Some(0), &json!("hi")));
    for (words, code) in [
        (["web", "fail", "{}"], "tool_execution_failed"),
        (["web", "echo", "[]"], "invalid_arguments"),
        (["web", "echo", "{}"], "invalid_arguments"),
    ] {
        let output = call(&words).await;
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        let result = parsed(&output);
        assert_eq!((&result["is_error"], &result["code"]), (&json!(true), &json!(code)), "{words:?}");
    }
    for (words, why) in [
        (vec!["web", "nothing"], "there is no tool `nothing`; there are echo"),
        (vec!["nobody", "echo"], "no MCP server with the label 'nobody'"),
        (vec!["web"], "LABEL TOOL"),
    ] {
        let output = call(&words).await;
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(err(&output).contains(why), "{}", err(&output));
    }
}

#[tokio::test]
async fn a_server_that_is_not_configured_is_given_by_its_url_and_its_token_by_a_variable() {
    let (folder, server) = (tempfile::tempdir().unwrap(), McpServer::spawn().await);
    server.auth(Auth::Tokens(vec!["the-token"]));
    let url = server.url();
    let run = async |environment: &[(&str, &str)], words: &[&str]| {
        antwort(folder.path(), environment, &[words, &["--url", &url]].concat()).await
    };
    let output = run(&[], &["list"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains("refused the credentials"), "{}", out(&output));
    let output = run(&[], &["list", "--bearer-env", "TOKEN"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("TOKEN is not set"), "{}", err(&output));
    let token = [("TOKEN", "the-token")];
    let output = run(&token, &["list", "--bearer-env", "TOKEN"]).await;
    assert!(output.status.success() && out(&output).contains("- `echo` - "), "{}", out(&output));
    let words = ["call", "echo", r#"{"text": "hi"}"#, "--bearer-env", "TOKEN"];
    let output = run(&token, &words).await;
    assert_eq!((output.status.code(), &parsed(&output)["output"]), (Some(0), &json!("hi")));
    let all = format!("{}{}", out(&output), err(&output));
    assert!(!all.contains("the-token"), "{all}");
    let words = ["list", "--bearer-env", "TOKEN", "--url", "http://mcp.example.com/mcp"];
    let output = antwort(folder.path(), &token, &words).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("https only"), "{}", err(&output));
}
