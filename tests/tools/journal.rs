//! The journal: what is dispatched is committed first, and nothing is run twice over a crash.

use serde_json::{Value, json};

use super::{ask, call, gateway_with};
use antwort_test_support::gateway::Builder;
use antwort_test_support::upstream::Upstream;

/// Turn, place in it, tool, output and error.
/// Turn, place, tool, output and error.
type Row = (i64, i64, String, Option<String>, Option<String>);

fn rows(path: &std::path::Path) -> Vec<Row> {
    let database = rusqlite::Connection::open(path).unwrap();
    let mut statement = database
        .prepare("SELECT turn, position, tool, output, error FROM tool_calls ORDER BY turn, position")
        .unwrap();
    let rows =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn calls_are_in_the_journal_with_what_came_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("antwort.db");
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway_with(&upstream, |builder: Builder| builder.database(path.clone())).await;
    upstream.reply(super::calls(&["noop", "fails"])).reply(call("echo")).text("Done.");
    let response = gateway.stream(ask(json!({}))).await.response;
    assert_eq!(response["status"], "completed");
    upstream.reply(call("noop")).text("Done.");
    gateway.create(ask(json!({"store": false}))).await;
    gateway.stop().await;
    let found: Vec<_> = rows(&path)
        .into_iter()
        .map(|(turn, at, tool, output, error)| (turn, at, tool, output.unwrap(), error))
        .collect();
    let row = |turn, at, tool: &str, output: &str, error: Option<&str>| {
        (turn, at, tool.to_owned(), output.to_owned(), error.map(str::to_owned))
    };
    assert_eq!(
        found,
        [
            row(0, 0, "noop", "ok", None),
            row(0, 1, "fails", "it does not work", Some("tool_execution_failed")),
            row(1, 0, "echo", "{}", None),
        ],
        "runs that are not stored have no journal"
    );
}

#[tokio::test]
async fn a_continued_run_shows_the_model_its_earlier_calls() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway_with(&upstream, |builder| builder).await;
    upstream.reply(call("noop")).text("Done.");
    let first = gateway.create(ask(json!({}))).await;
    upstream.text("Again.");
    let again = json!({"model": "test-model", "previous_response_id": first["id"], "input": "And?"});
    gateway.create(again).await;
    let messages: Vec<Value> = upstream.last()["messages"].as_array().unwrap().clone();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
    assert_eq!(seen.count("noop"), 1);
}
