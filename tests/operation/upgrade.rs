//! From one version to the next and back, as an operator does it: `antwort store`, `store.migrate`, and a server that
//! migrates at its start. With the real binary, and with one that is a schema ahead.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use antwort_store_sqlite::{Location, Migrations, SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::exclusive::get;
use antwort_test_support::eventually;
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::next_version;
use antwort_test_support::process::{self, Process};
use antwort_test_support::upstream::{Reply, Upstream};

/// A folder with a database as [`Process`] names it.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With a file of this version.
    fn with_file() -> Self {
        let folder = Self::new();
        drop(SqliteStore::open(SqliteOptions::new(Location::File(folder.database()), "test")).unwrap());
        folder
    }

    fn database(&self) -> PathBuf {
        self.0.path().join("test.db")
    }

    /// What a migration of the file of this version leaves.
    fn backup(&self) -> PathBuf {
        self.0.path().join("test.db.schema-1.backup")
    }

    fn schema(&self) -> i64 {
        number(&self.database(), "PRAGMA user_version")
    }

    /// Runs `antwort` with these words.
    fn run(&self, words: &[&str]) -> Output {
        self.run_program(&process::gateway(), words)
    }

    /// Runs the next version with these words.
    fn run_next(&self, words: &[&str]) -> Output {
        self.run_program(&process::next_version(), words)
    }

    fn run_program(&self, program: &Path, words: &[&str]) -> Output {
        Command::new(program)
            .args(words)
            .current_dir(self.0.path())
            .env_clear()
            .env("ANTWORT_STORE_URL", "sqlite:test.db")
            .env("ANTWORT_UPSTREAM_URL", "http://127.0.0.1:9/v1")
            .env("ANTWORT_LISTEN", "127.0.0.1:0")
            .output()
            .unwrap()
    }
}

fn next_schema() -> i64 {
    next_version::sqlite().latest()
}

pub fn number(path: &Path, query: &str) -> i64 {
    rusqlite::Connection::open(path).unwrap().query_row(query, [], |row| row.get(0)).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_exit_code_of_migrate_check_says_whether_there_is_something_to_do() {
    let folder = Folder::new();
    let check = ["store", "migrate", "--check"];
    assert_eq!(
        (code(&folder.run(&check)), folder.database().exists()),
        (0, false),
        "no database is none to migrate"
    );
    let folder = Folder::with_file();
    assert_eq!((code(&folder.run(&check)), folder.schema()), (0, Migrations::RELEASED.latest()));
    let checked = folder.run_next(&check);
    assert_eq!((code(&checked), folder.schema()), (3, 1));
    assert!(out(&checked).contains("has schema 1"), "{}", out(&checked));
    assert_eq!(code(&folder.run_next(&["store", "migrate"])), 0);
    assert_eq!((code(&folder.run_next(&check)), folder.schema()), (0, next_schema()));
    for words in [&check[..], &["store", "migrate"], &["serve"]] {
        let refused = folder.run(words);
        assert_eq!((code(&refused), folder.schema()), (1, next_schema()), "{words:?}");
        let words = err(&refused);
        assert!(words.contains("has schema 2") && words.contains("docs/upgrading.md"), "{words}");
        assert!(words.contains("the migration, test.db.schema-1.backup, to test.db"), "{words}");
    }
    assert_eq!(code(&folder.run(&["--store", "memory:", "store", "migrate", "--check"])), 1);
    assert_eq!(code(&folder.run(&["--store", "mysql:", "store", "migrate", "--check"])), 2);
    let nobody = ["--store", "postgres://nobody@127.0.0.1:1/none", "store", "migrate", "--check"];
    let unreachable = folder.run(&nobody);
    assert_eq!(code(&unreachable), 1);
    assert!(!err(&unreachable).contains("seal"), "the schema is not sealed: {}", err(&unreachable));
}

#[test]
fn a_migration_by_command_names_its_backup_and_the_key_that_belongs_with_it() {
    let folder = Folder::with_file();
    let done = folder.run_next(&["store", "migrate"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let said = out(&done);
    assert!(said.contains("from schema 1") && said.contains("test.db.schema-1.backup"), "{said}");
    assert!(said.contains("store test.db.seal-key with it"), "{said}");
    assert_eq!(number(&folder.backup(), "PRAGMA user_version"), 1);
}

#[test]
fn a_server_that_must_not_migrate_refuses_an_older_file_and_names_the_command() {
    let folder = Folder::with_file();
    std::fs::write(folder.0.path().join("antwort.yaml"), "store: {migrate: off}").unwrap();
    let refused = folder.run_next(&["serve"]);
    assert_eq!((code(&refused), folder.schema()), (1, 1));
    assert!(err(&refused).contains("`antwort store migrate`"), "{}", err(&refused));
    assert!(!folder.backup().exists());
    assert_eq!(code(&folder.run_next(&["store", "migrate"])), 0);
    assert_eq!(folder.schema(), next_schema());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_made_while_a_server_runs_and_while_none_does() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let upstream = Upstream::spawn().await;
    let mut gateway = Process::start(folder.0.path(), &upstream).await;
    let http = reqwest::Client::new();
    let create = async |base: &str| -> Value {
        let body = json!({"model": "test-model", "input": "Hi"});
        let answer = http.post(format!("{base}/v1/responses")).json_body(&body).send().await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    };
    let first = create(&gateway.base).await;
    let made = folder.run(&["store", "backup", "one.db"]);
    assert_eq!(code(&made), 0, "{}", err(&made));
    assert!(out(&made).contains("store test.db.seal-key with it"), "{}", out(&made));
    let copy = folder.0.path().join("one.db");
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    create(&gateway.base).await;
    let again = folder.run(&["store", "backup", "one.db"]);
    assert_eq!(code(&again), 1);
    assert!(err(&again).contains("no file is overwritten"), "{}", err(&again));
    let refused = folder.run(&["store", "migrate"]);
    assert_eq!(code(&refused), 1, "a server has it");
    assert!(err(&refused).contains("in use by another server"), "{}", err(&refused));
    gateway.terminate();
    assert!(eventually(async || gateway.exit_code().is_some()).await);
    assert_eq!(code(&folder.run(&["store", "backup", "two.db"])), 0);
    let responses = |name: &str| number(&folder.0.path().join(name), "SELECT count(*) FROM responses");
    assert_eq!((responses("one.db"), responses("two.db")), (1, 2));
    // Back to the first one.
    std::fs::copy(copy, folder.database()).unwrap();
    gateway.restart().await;
    let url = format!("{}/v1/responses/{}", gateway.base, first["id"].as_str().unwrap());
    assert_eq!(http.get(url).send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_are_answered_while_a_database_is_migrated() {
    let folder = Folder::with_file();
    // A lock that another program has for a moment holds the migration up.
    let sql = rusqlite::Connection::open(folder.database()).unwrap();
    sql.execute_batch("PRAGMA journal_mode = wal; BEGIN IMMEDIATE").unwrap();
    let upstream = Upstream::spawn().await;
    let starting = Process::launch_program(process::next_version(), folder.0.path(), &upstream, &ENVIRONMENT);
    let alive = format!("{}/healthz", starting.base);
    assert!(eventually(async || reqwest::get(&alive).await.is_ok_and(|answer| answer.status() == 200)).await);
    let unready = json!({"status": "unavailable", "checks": {"store": "migrating"}});
    assert_eq!(get(&format!("{}/readyz", starting.base)).await, (503, unready));
    let refused = get(&format!("{}/v1/models", starting.base)).await;
    assert_eq!((refused.0, &refused.1["error"]["code"]), (503, &json!("server_starting")));
    assert_eq!(folder.schema(), 1);
    sql.execute_batch("ROLLBACK").unwrap();
    drop(sql);
    starting.until_ready().await;
    assert_eq!(folder.schema(), next_schema());
}

const ENVIRONMENT: [(&str, &str); 3] =
    [("ANTWORT__STORE__TTL", "off"), ("ANTWORT_LOG", "antwort=info"), ("ANTWORT_EGRESS_ALLOW", "127.0.0.1")];

async fn post(gateway: &Process, path: &str, body: &Value) -> Value {
    let url = format!("{}/v1/{path}", gateway.base);
    let answer = reqwest::Client::new().post(url).json_body(body).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

async fn read(gateway: &Process, id: &str) -> (u16, Value) {
    get(&format!("{}/v1/responses/{id}", gateway.base)).await
}

/// A message with a call, and what the provider wants back with it.
fn signed_call() -> Reply {
    let call = json!({"index": 0, "id": "call_0", "type": "function",
        "function": {"name": "look_up", "arguments": "{\"name\":\"Ada\"}"},
        "extra_content": {"google": {"thought_signature": "signature-of-a-call"}}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    Reply::Whole(json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}))
}

/// Responses of each kind that others can follow: a text, its continuation, a call of the client's function, a call that waits
/// for approval, one in a conversation, and a background run.
async fn made(gateway: &Process, upstream: &Upstream, server: &McpServer) -> Vec<Value> {
    let ask = |input: &str| json!({"model": "test-model", "input": input});
    let with = |input: &str, more: Value| {
        let mut body = ask(input);
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let mut made = vec![post(gateway, "responses", &ask("Who?")).await];
    let id = made[0]["id"].clone();
    made.push(post(gateway, "responses", &with("And now?", json!({"previous_response_id": id}))).await);
    upstream.reply(signed_call());
    let tool = json!({"type": "function", "name": "look_up", "parameters": {"type": "object"}});
    made.push(post(gateway, "responses", &with("Look.", json!({"tools": [tool]}))).await);
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "hi"}))]));
    let tool = json!({"type": "mcp", "server_label": "s", "server_url": server.url()});
    made.push(post(gateway, "responses", &with("Go.", json!({"tools": [tool]}))).await);
    let conversation = post(gateway, "conversations", &json!({})).await;
    let body = with("Talk.", json!({"conversation": conversation["id"]}));
    made.push(post(gateway, "responses", &body).await);
    let queued = post(gateway, "responses", &with("Later.", json!({"background": true}))).await;
    let id = queued["id"].as_str().unwrap().to_owned();
    assert!(eventually(async || read(gateway, &id).await.1["status"] == "completed").await);
    made.push(read(gateway, &id).await.1);
    made
}

/// What continues a response: what it waits for, or a question.
fn continuation(response: &Value) -> Value {
    let output = response["output"].as_array().unwrap();
    let waiting = output.iter().find_map(|item| match item["type"].as_str().unwrap() {
        "mcp_approval_request" => Some(json!({"type": "mcp_approval_response", "approve": false,
            "approval_request_id": item["id"]})),
        "function_call" if response["status"] == "requires_action" => {
            Some(json!({"type": "function_call_output",
            "call_id": item["call_id"], "output": "A mathematician."}))
        }
        _ => None,
    });
    let question = || json!({"type": "message", "role": "user", "content": "And now?"});
    json!({"model": "test-model", "previous_response_id": response["id"],
        "input": [waiting.unwrap_or_else(question)]})
}

/// The texts, arguments and outputs of what a response says, which its continuation has to bring to the model.
fn said(response: &Value) -> Vec<String> {
    let output = response["output"].as_array().unwrap();
    let of = |item: &Value| {
        let text = &item["content"][0]["text"];
        [text, &item["arguments"], &item["output"]].map(|text| text.as_str().map(str::to_owned))
    };
    output.iter().filter(|item| item["type"] != "mcp_list_tools").flat_map(of).flatten().collect()
}

/// Texts within a request to the provider, whatever they are in.
fn texts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| texts(value, into)),
        Value::Object(values) => values.values().for_each(|value| texts(value, into)),
        _ => {}
    }
}

/// As docs/upgrading.md says.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_version_stores_is_read_and_continued_by_the_next_one_and_again_after_the_way_back() {
    let (folder, upstream, server) = (Folder::new(), Upstream::spawn().await, McpServer::spawn().await);
    let mut gateway = Process::start_with_environment(folder.0.path(), &upstream, &ENVIRONMENT).await;
    let before = made(&gateway, &upstream, &server).await;
    stop(&mut gateway).await;

    gateway.restart_as(process::next_version()).await;
    assert_eq!(folder.schema(), next_schema());
    assert_eq!(number(&folder.backup(), "PRAGMA user_version"), 1);
    let log = gateway.log();
    for words in ["backing the file up", &*folder.backup().to_string_lossy(), "migrated the schema"] {
        assert!(log.contains(words), "{log}");
    }
    are_as_they_were(&gateway, &before).await;
    let continued = go_on(&gateway, &upstream, &before).await;
    stop(&mut gateway).await;

    let refused = folder.run(&["serve"]);
    assert_eq!(code(&refused), 1);
    assert!(
        err(&refused).contains("copy the backup that was made before the migration"),
        "{}",
        err(&refused)
    );
    for end in ["-wal", "-shm"] {
        _ = std::fs::remove_file(folder.0.path().join(format!("test.db{end}")));
    }
    std::fs::copy(folder.backup(), folder.database()).unwrap();
    gateway.restart_as(process::gateway()).await;
    are_as_they_were(&gateway, &before).await;
    for id in &continued {
        assert_eq!(read(&gateway, id).await.0, 404, "made since the backup");
    }
    let continued = go_on(&gateway, &upstream, &before).await;
    delete(
        &gateway,
        before
            .iter()
            .map(|response| response["id"].as_str().unwrap())
            .chain(continued.iter().map(String::as_str)),
    )
    .await;
    stop(&mut gateway).await;
    for table in
        ["responses", "item_ids", "item_states", "turns", "runs", "tool_calls", "pending_calls", "approvals"]
    {
        assert_eq!(number(&folder.database(), &format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
}

async fn stop(gateway: &mut Process) {
    gateway.terminate();
    assert!(eventually(async || gateway.exit_code() == Some(0)).await);
}

async fn are_as_they_were(gateway: &Process, before: &[Value]) {
    for response in before {
        let id = response["id"].as_str().unwrap();
        assert_eq!(read(gateway, id).await, (200, response.clone()));
        let (status, items) = read(gateway, &format!("{id}/input_items")).await;
        assert_eq!(status, 200, "{items}");
        assert!(!items["data"].as_array().unwrap().is_empty());
    }
}

/// Continues each; the model is shown what they have said, and gets back what it wants with it.
async fn go_on(gateway: &Process, upstream: &Upstream, before: &[Value]) -> Vec<String> {
    let mut made = Vec::new();
    for response in before {
        let continued = post(gateway, "responses", &continuation(response)).await;
        assert_eq!(continued["status"], "completed", "{continued}");
        let sent = upstream.last();
        let mut seen = Vec::new();
        texts(&sent["messages"], &mut seen);
        for text in said(response) {
            assert!(
                seen.iter().any(|seen| seen.contains(&text)),
                "the model is not shown {text:?}: {seen:?}"
            );
        }
        let is_call = response["output"].to_string().contains("look_up");
        assert_eq!(sent["messages"].to_string().contains("signature-of-a-call"), is_call, "{sent}");
        made.push(continued["id"].as_str().unwrap().to_owned());
    }
    made
}

async fn delete(gateway: &Process, ids: impl Iterator<Item = &str>) {
    for id in ids {
        let url = format!("{}/v1/responses/{id}", gateway.base);
        assert_eq!(reqwest::Client::new().delete(&url).send().await.unwrap().status(), 200);
        assert_eq!(read(gateway, id).await.0, 404);
    }
}
