//! From one version to the next and back, as an operator does it: `antwort store`, `store.migrate`, and a server that
//! migrates at its start. With the real binary.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use antwort::internal::sqlite::Schema;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::exclusive::{get, second, settings};
use crate::support::eventually;
use crate::support::gateway::JsonBody;
use crate::support::process::Process;
use crate::support::upstream::Upstream;

/// A folder with a database as [`Process`] names it.
struct Folder(TempDir);

impl Folder {
    /// With the file of this schema.
    fn with(schema: i64) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        std::fs::copy(released(schema), folder.database()).unwrap();
        folder
    }

    fn database(&self) -> PathBuf {
        self.0.path().join("test.db")
    }

    fn schema(&self) -> i64 {
        number(&self.database(), "PRAGMA user_version")
    }

    /// Runs `antwort` with these words.
    fn run(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_antwort"))
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

/// The database file of a released schema.
pub fn released(schema: i64) -> PathBuf {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/stores"));
    folder.join(format!("schema-{schema}.sqlite"))
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
    let folder = Folder(tempfile::tempdir().unwrap());
    let check = |folder: &Folder| folder.run(&["store", "migrate", "--check"]);
    assert_eq!(
        (code(&check(&folder)), folder.database().exists()),
        (0, false),
        "no database is none to migrate"
    );
    let folder = Folder::with(3);
    let checked = check(&folder);
    assert_eq!((code(&checked), folder.schema()), (3, 3));
    assert!(out(&checked).contains("has schema 3"), "{}", out(&checked));
    assert_eq!(code(&folder.run(&["store", "migrate"])), 0);
    assert_eq!((code(&check(&folder)), folder.schema()), (0, Schema::CURRENT));
    rusqlite::Connection::open(folder.database()).unwrap().pragma_update(None, "user_version", 1000).unwrap();
    for words in [&["store", "migrate", "--check"][..], &["store", "migrate"], &["serve"]] {
        let refused = folder.run(words);
        assert_eq!((code(&refused), folder.schema()), (1, 1000), "{words:?}");
        let words = err(&refused);
        assert!(words.contains("has schema 1000") && words.contains("docs/upgrading.md"), "{words}");
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
    let folder = Folder::with(3);
    let done = folder.run(&["store", "migrate"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let said = out(&done);
    assert!(said.contains("from schema 3") && said.contains("test.db.schema-3.backup"), "{said}");
    assert!(said.contains("store test.db.seal-key with it"), "{said}");
    let backup = folder.0.path().join("test.db.schema-3.backup");
    assert_eq!(number(&backup, "PRAGMA user_version"), 3);
}

#[test]
fn a_server_that_must_not_migrate_refuses_an_older_file_and_names_the_command() {
    let folder = Folder::with(3);
    std::fs::write(folder.0.path().join("antwort.yaml"), "store: {migrate: off}").unwrap();
    let refused = folder.run(&["serve"]);
    assert_eq!((code(&refused), folder.schema()), (1, 3));
    assert!(err(&refused).contains("`antwort store migrate`"), "{}", err(&refused));
    assert!(!folder.0.path().join("test.db.schema-3.backup").exists());
    assert_eq!(code(&folder.run(&["store", "migrate"])), 0);
    assert_eq!(folder.schema(), Schema::CURRENT);
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
    let folder = Folder::with(3);
    // A lock that another program has for a moment holds the migration up.
    let sql = rusqlite::Connection::open(folder.database()).unwrap();
    sql.execute_batch("PRAGMA journal_mode = wal; BEGIN IMMEDIATE").unwrap();
    let upstream = Upstream::spawn().await;
    let starting = second(settings(&upstream, folder.database()), Duration::from_secs(60)).await;
    assert_eq!(get(&format!("{}/healthz", starting.base)).await.0, 200);
    let unready = json!({"status": "unavailable", "checks": {"store": "migrating"}});
    assert_eq!(get(&format!("{}/readyz", starting.base)).await, (503, unready));
    let refused = get(&format!("{}/v1/models", starting.base)).await;
    assert_eq!((refused.0, &refused.1["error"]["code"]), (503, &json!("server_starting")));
    assert_eq!(folder.schema(), 3);
    sql.execute_batch("ROLLBACK").unwrap();
    drop(sql);
    assert!(eventually(async || get(&format!("{}/readyz", starting.base)).await.0 == 200).await);
    assert_eq!(folder.schema(), Schema::CURRENT);
    starting.stop().await;
}

/// The key that opens what is sealed in the released files.
const SEAL_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A response as a file has it.
struct Stored {
    id: String,
    previous: Option<String>,
    body: Value,
    /// The ids of its input.
    input: Vec<String>,
}

/// The ids of the input items in an index of items.
fn input_ids(mut index: &[u8]) -> Vec<String> {
    fn number(index: &mut &[u8]) -> usize {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = usize::from(index[0]);
            *index = &index[1..];
            number |= (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return number;
            }
            shift += 7;
        }
    }
    fn text(index: &mut &[u8]) -> String {
        let length = number(index);
        let (text, rest) = index.split_at(length);
        *index = rest;
        String::from_utf8(text.to_vec()).unwrap()
    }
    let mut ids = Vec::new();
    while let Some((flags, rest)) = index.split_first() {
        index = rest;
        let (id, _wire) = (text(&mut index), number(&mut index));
        if flags & 2 != 0 {
            number(&mut index);
        }
        if flags & 8 != 0 {
            let _state = (text(&mut index), number(&mut index));
        }
        if flags & 1 == 0 {
            ids.push(id);
        }
    }
    ids
}

fn stored(database: &Path) -> Vec<Stored> {
    let sql = rusqlite::Connection::open(database).unwrap();
    let has_items = "SELECT count(*) FROM sqlite_schema WHERE name = 'items'";
    let has_items = sql.query_row(has_items, [], |row| row.get::<_, bool>(0)).unwrap();
    let mut rows = sql.prepare("SELECT key, id, previous_id, body FROM responses ORDER BY key").unwrap();
    let rows = rows.query_map([], |row| {
        let key = row.get::<_, i64>(0)?;
        // From schema 7 on, ids of items stand in an index before their texts.
        let input = if has_items {
            let ids = "SELECT item_id FROM items WHERE response = ?1 AND side = 0 ORDER BY position";
            sql.prepare(ids)?.query_map([key], |row| row.get(0))?.collect::<Result<_, _>>()?
        } else {
            let index = "SELECT item_index FROM responses WHERE key = ?1";
            input_ids(&sql.query_row(index, [key], |row| row.get::<_, Vec<u8>>(0))?)
        };
        Ok(Stored {
            id: row.get(1)?,
            previous: row.get(2)?,
            body: serde_json::from_str(&row.get::<_, String>(3)?).unwrap(),
            input,
        })
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
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

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_every_released_schema_is_retrieved_continued_and_deleted_by_this_version() {
    assert!(released(Schema::CURRENT).exists(), "the newest schema has its file, too");
    for schema in 1..=Schema::CURRENT {
        walk(schema).await;
    }
}

async fn walk(schema: i64) {
    let folder = Folder::with(schema);
    let before = stored(&folder.database());
    assert!(before.len() >= 5, "schema {schema}");
    let upstream = Upstream::spawn().await;
    let environment =
        [("ANTWORT_SEAL_KEYS", SEAL_KEY), ("ANTWORT__STORE__TTL", "off"), ("ANTWORT_LOG", "antwort=info")];
    let mut gateway = Process::start_with_environment(folder.0.path(), &upstream, &environment).await;
    assert_eq!(folder.schema(), Schema::CURRENT);
    let backup = folder.0.path().join(format!("test.db.schema-{schema}.backup"));
    assert_eq!(backup.exists(), schema < Schema::CURRENT, "schema {schema}");
    if backup.exists() {
        assert_eq!(number(&backup, "PRAGMA user_version"), schema);
        assert_eq!(stored(&backup).len(), before.len());
        let log = gateway.log();
        for words in ["backing the file up", &*backup.to_string_lossy(), "migrated the schema"] {
            assert!(log.contains(words), "schema {schema}: {log}");
        }
    }
    let http = reqwest::Client::new();
    let responses = format!("{}/v1/responses", gateway.base);
    for response in &before {
        let url = format!("{responses}/{}", response.id);
        assert_eq!(get(&url).await, (200, response.body.clone()), "schema {schema}: as it was");
        let (status, items) = get(&format!("{url}/input_items?order=asc")).await;
        let ids: Vec<_> = items["data"].as_array().unwrap().iter().map(|item| item["id"].clone()).collect();
        assert_eq!((status, json!(ids)), (200, json!(response.input)), "schema {schema}");
    }
    let mut made = Vec::new();
    for response in &before {
        let answer = http.post(&responses).json_body(&continuation(&response.body)).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert_eq!(status, 200, "schema {schema}: {text}");
        let continued: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(continued["status"], "completed", "schema {schema}: {continued}");
        let mut seen = Vec::new();
        texts(&upstream.last()["messages"], &mut seen);
        let previous = before.iter().find(|other| Some(&other.id) == response.previous.as_ref());
        for text in
            said(&response.body).into_iter().chain(previous.iter().flat_map(|other| said(&other.body)))
        {
            let was_seen = seen.iter().any(|seen| seen.contains(&text));
            assert!(was_seen, "schema {schema}: the model is not shown {text:?} in {seen:?}");
        }
        let signed = seen.iter().any(|seen| seen.starts_with("signature-of-"));
        let calls = response.body["output"].to_string().contains("look_up");
        assert_eq!(
            signed && calls,
            schema >= 4 && calls,
            "schema {schema}: what the provider wants back: {seen:?}"
        );
        made.push(continued["id"].as_str().unwrap().to_owned());
    }
    if schema >= 3 {
        assert_eq!(number(&folder.database(), "SELECT count(*) FROM approvals WHERE used_at IS NOT NULL"), 1);
    }
    for id in before.iter().map(|response| &response.id).chain(&made) {
        let url = format!("{responses}/{id}");
        assert_eq!(http.delete(&url).send().await.unwrap().status(), 200, "schema {schema}");
        assert_eq!(get(&url).await.0, 404, "schema {schema}");
    }
    gateway.terminate();
    assert!(eventually(async || gateway.exit_code() == Some(0)).await, "schema {schema}");
    for table in
        ["responses", "item_ids", "item_states", "turns", "runs", "tool_calls", "async_calls", "approvals"]
    {
        let rows = number(&folder.database(), &format!("SELECT count(*) FROM {table}"));
        assert_eq!(rows, 0, "schema {schema}: {table}");
    }
}
